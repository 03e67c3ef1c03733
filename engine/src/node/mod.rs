//! What the node owns: where catena's files are, what modules may do, how long things may take.
//!
//! Nothing here comes from stdin. Every file is read only if its owner and mode say that nobody else could
//! have written it.

mod config;
mod digest;
mod dir;
mod error;
mod grants;
mod lock;
mod name;
mod object;
mod root;

pub use config::{Deadlines, ModuleRule, NodeConfig, Paths, SecondaryDefaults};
pub use digest::Digest;
pub use dir::OwnedDir;
pub use error::NodeError;
pub use grants::{DirAccess, Grants, LinkGrant, Member, RouteGrant, RouteOp};
pub use lock::{ArtifactRecord, Installed, LockEntry, ModuleLock};
pub use name::ModuleName;
pub use root::Root;
