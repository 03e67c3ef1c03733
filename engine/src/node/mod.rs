//! What the node owns: where catena's files are, what modules may do, how long things may take.
//!
//! Nothing here comes from stdin. Every file is read only if its owner and mode say that nobody else could
//! have written it.

mod config;
mod digest;
mod dir;
mod entry;
mod error;
mod grants;
mod limits;
mod lock;
mod name;
mod object;
mod pipelines;
mod place;
mod problem;
mod regular;
mod repeated;
mod root;
mod temporary;

pub use config::{Deadlines, ModuleRule, NodeConfig, Paths, RecordRule, SecondaryDefaults};
pub use digest::Digest;
pub use dir::OwnedDir;
pub use entry::{Entry, EntryMode, OnError};
pub use error::NodeError;
pub use grants::{DirAccess, Grants, LinkGrant, Member, RouteGrant, RouteOp};
pub use limits::Limits;
pub use lock::{ArtifactRecord, Installed, LockEntry, ModuleLock};
pub use name::ModuleName;
pub use pipelines::{Baseline, Pipelines, StdinPipelines};
pub use place::At;
pub use problem::{Problem, Refused};
pub use regular::regular;
pub use repeated::{Repeated, repeated};
pub use root::Root;
pub use temporary::temporary;
