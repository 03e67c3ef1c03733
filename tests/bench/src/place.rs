//! Where a bench happens: mount and network namespaces of its own, a folder, and a pod.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process::Runner;

const INSIDE: &str = "CATENA_BENCH_INSIDE";

/// The folder and what is in it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    /// CNI_NETNS.
    pub(crate) pod: String,
    pub(crate) runner: Runner,
}

/// Starts this program again in namespaces of its own; returns only there.
pub(crate) fn enter() -> Result<(), String> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let works = |extra: &[&str]| {
        let mut probe = Command::new("unshare");
        probe.args(extra).args(["--mount", "--net", "true"]).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    let user: &[&str] = if works(&[]) { &[] } else { &["--user", "--map-root-user"] };
    let own = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let error = Command::new("unshare")
        .args(user)
        .args(["--mount", "--net", "--propagation", "private"])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    Err(format!("unshare(1): {error}; run: make setup"))
}

impl Place {
    /// Makes the folder anew, with a pod in it. It has to be on a real disk, or syncing would cost nothing.
    pub(crate) fn new(folder: &Path) -> Result<Place, String> {
        let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| at(folder, error))?;
        }
        for name in ["bin", "ipam"] {
            let sub = folder.join(name);
            fs::create_dir_all(&sub).map_err(|error| at(&sub, error))?;
        }
        let folder = folder.canonicalize().map_err(|error| at(folder, error))?;
        let pod = folder.join("pod");
        fs::write(&pod, "").map_err(|error| at(&pod, error))?;
        let place = Place { pod: pod.display().to_string(), runner: Runner::new(&folder), folder };
        shell("ip link set lo up")?;
        shell(&format!("unshare --net={} true", place.pod))?;
        // Duplicate address detection takes seconds, and is nobody's cost here.
        place.in_pod("echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad; ip link set lo up")?;
        Ok(place)
    }

    /// Runs a shell script in the pod's network namespace.
    pub(crate) fn in_pod(&self, script: &str) -> Result<(), String> {
        shell(&format!("nsenter --net={} sh -euc '{}'", self.pod, script.replace('\'', r"'\''")))
    }

    /// A root of one meta-plugin.
    pub(crate) fn root(&self, name: &str, meta: &str) -> PathBuf {
        self.folder.join(name).join(meta)
    }

    /// Removes what a life has left that failed halfway: links in the pod, and addresses that were given to it.
    pub(crate) fn clear<'a>(&self, ifnames: impl Iterator<Item = &'a str>) -> Result<(), String> {
        for ifname in ifnames {
            self.in_pod(&format!("ip link show {ifname} >/dev/null 2>&1 || exit 0; ip link del {ifname}"))?;
        }
        let ipam = self.folder.join("ipam");
        fs::remove_dir_all(&ipam)
            .and_then(|()| fs::create_dir(&ipam))
            .map_err(|error| format!("{}: {error}", ipam.display()))
    }

    /// Puts a program into the folder of plugins under a name.
    pub(crate) fn install(&self, program: &Path, name: &str) -> Result<PathBuf, String> {
        let target = self.folder.join("bin").join(name);
        fs::copy(program, &target).map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(target)
    }
}

fn shell(script: &str) -> Result<(), String> {
    let output = Command::new("sh")
        .args(["-euc", script])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("sh: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{script}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
