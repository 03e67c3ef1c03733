//! The real binary under real container runtimes. Needs root, control groups, and Debian's containerd, runc, podman
//! and busybox-static; `make runtimes` installs them.

mod containerd;
mod podman;
