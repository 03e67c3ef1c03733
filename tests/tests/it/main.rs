//! Integration tests: the real `catena` binary, a real kernel, Debian's CNI plugins.

mod harness;
