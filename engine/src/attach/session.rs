//! What every command of one invocation shares.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use catena_cni::error::code;

use crate::attach::ledger::{Ledger, LedgerError, Slot};
use crate::attach::lock::{Lock, LockError};
use crate::cni::{CniError, Conf, Invocation, Problems, Request};
use crate::delegate::{Exec, Search, Versions};
use crate::node::{At, NodeConfig, Problem, Root};
use crate::report::delegates::DelegateLog;
use crate::report::record::Record;
use crate::report::status::StatusFile;
use crate::routes::kernel::UndoTime;
use crate::wasm::{ModuleError, Modules};

/// Bytes that a delegate may write to stdout: far more than any result.
const OUTPUT_LIMIT: usize = 4 << 20;

/// One invocation.
#[derive(Debug)]
pub struct Session<'a> {
    /// Where catena's files are.
    pub root: &'a Root,
    /// What the node says.
    pub node: &'a NodeConfig,
    /// Why that is only the defaults: the node's file cannot be used. Then no module can be either, since what it may
    /// do is not known.
    pub node_problem: Option<CniError>,
    /// What is wrong with the request of an ADD so far, to be named with all else that is.
    pub problems: Problems,
    /// The environment.
    pub invocation: &'a Invocation,
    /// The ledger.
    pub ledger: Ledger,
    /// What plugins answered to VERSION.
    versions: Arc<Versions>,
    /// When the call has to be over.
    pub until: Instant,
    /// What happened, for log and ledger.
    pub record: Record,
}

impl From<LedgerError> for CniError {
    fn from(error: LedgerError) -> CniError {
        let busy = matches!(error, LedgerError::Lock(LockError::Held { .. }));
        CniError::new(if busy { code::TRY_LATER } else { code::IO }, error.to_string())
    }
}

impl From<ModuleError> for CniError {
    fn from(error: ModuleError) -> CniError {
        CniError::new(error.code(), error.to_string())
    }
}

impl<'a> Session<'a> {
    /// Opens the ledger. The call has to be over at `until`.
    pub fn start(
        root: &'a Root,
        node: &'a NodeConfig,
        invocation: &'a Invocation,
        until: Instant,
    ) -> Result<Session<'a>, CniError> {
        let is_del = matches!(invocation.request, Request::Del { .. });
        let open = if is_del { Ledger::open_to_delete } else { Ledger::open };
        let ledger = open(&root.state())?;
        Ok(Session {
            root,
            node,
            node_problem: None,
            problems: Problems::default(),
            invocation,
            ledger,
            versions: Arc::new(Versions::at(&root.run().join("versions.json"))),
            until,
            record: Record::default(),
        })
    }

    /// How long undoing may take.
    pub fn undo_time(&self) -> UndoTime {
        let within = self.node.deadlines.rollback;
        UndoTime { within, by: self.until + within }
    }

    /// How long undoing of routes may take: a kernel that does not answer leaves the delegates time for their DEL.
    pub fn route_undo_time(&self) -> UndoTime {
        let within = self.node.deadlines.rollback / 2;
        UndoTime { within, by: self.until + within }
    }

    /// The modules of this node.
    pub fn modules(&self) -> Result<Modules, CniError> {
        match &self.node_problem {
            Some(problem) => Err(problem.clone()),
            None => Ok(Modules::open(self.root, self.node)?),
        }
    }

    /// How delegates are run. `network` is catena's own, for a nested catena's messages.
    pub fn exec<'l>(
        &self,
        network: &str,
        bin_dir: Option<&Path>,
        inherit: Option<&'l OwnedFd>,
        until: Instant,
    ) -> Exec<'l> {
        Exec {
            env: Arc::clone(&self.invocation.env),
            search: Search::new(bin_dir.map(Path::to_owned), &self.invocation.path),
            versions: Arc::clone(&self.versions),
            network: network.to_owned(),
            deadline: self.node.deadlines.delegate,
            until: Some(until),
            output_limit: OUTPUT_LIMIT,
            inherit: inherit.map(AsFd::as_fd),
            observer: Some(Arc::<DelegateLog>::clone(&self.record.delegates)),
        }
    }

    /// Takes the lock of what is to be taken away, or goes on without where none can be had.
    pub fn lock_to_delete(&mut self, stem: String, until: Instant) -> Result<Slot, LedgerError> {
        let (slot, without) = self.ledger.lock_to_delete(stem, until)?;
        self.record.notes.extend(without.map(|error| format!("{error}; going on without")));
        Ok(slot)
    }

    /// The lock that delegates and their children hold.
    pub fn children(&self, slot: &mut Slot) -> Result<OwnedFd, CniError> {
        inheritable(slot.children_lock(self.until)?)
    }

    /// The same for those of a CHECK.
    pub fn children_of_check(&self, slot: &mut Slot) -> Result<OwnedFd, CniError> {
        inheritable(slot.check_lock(self.until)?)
    }

    /// The folder of the delegates' libcni cache, as recorded or for a new attachment.
    pub fn cache_dir(&self, conf: &Conf) -> Result<PathBuf, CniError> {
        let folder = match &conf.cni_dir {
            None => Path::new("/var/lib/cni/catena"),
            Some(folder) if self.node.paths.allows_cache(folder) => folder,
            Some(folder) => return Err(not_allowed(&At::Document.member("cniDir"), folder, "cache")),
        };
        Ok(self.root.join(folder))
    }

    /// `binDir`, if the node allows it.
    pub fn bin_dir(&self, conf: &Conf) -> Result<Option<PathBuf>, CniError> {
        match &conf.bin_dir {
            Some(folder) if !self.node.paths.allows_bin(folder) => {
                Err(not_allowed(&At::Document.member("binDir"), folder, "bin"))
            }
            other => Ok(other.clone()),
        }
    }

    /// The status file of a sandbox.
    pub fn status_file(&self, network: &str, container_id: &str, ifname: &str) -> StatusFile {
        StatusFile::new(&self.root.run().join("status"), network, container_id, ifname)
    }
}

fn inheritable(lock: &Lock) -> Result<OwnedFd, CniError> {
    lock.as_fd().try_clone_to_owned().map_err(|error| {
        CniError::new(code::IO, format!("ledger: duplicate the lock for delegates: {error}"))
    })
}

/// A path in stdin that the node does not list.
pub fn not_allowed(at: &At<'_>, path: &Path, list: &str) -> CniError {
    let problem = Problem::value(
        at,
        format!(
            "{at} {} is not among the paths that this node allows; \
             leave the key out, or add the path to paths.{list} in /etc/catena/node.json",
            path.display()
        ),
    );
    problem.into()
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The kernel's boot id; empty where it cannot be read, and then device and inode alone tell namespaces apart.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}
