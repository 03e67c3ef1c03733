//! The room of the delegates: find them, run them, run a chain of them across a list, and libcni's cache.

mod atomic;
pub mod cache;
mod chain;
mod command;
mod device_info;
mod error;
mod exec;
mod process;
mod search;
mod spawn;
mod version;

pub use chain::Chain;
pub use command::Command;
pub use device_info::{CAPABILITY as DEVICE_INFO, DeviceInfoError, DeviceInfoFile};
pub use error::{DelegateError, Fault};
pub use exec::{Attachment, Exec, NESTED, Observer, Run, unrecorded};
pub use process::{Escort, Exit, Spawned, own_share, start_time};
pub use search::Search;
pub use version::Versions;
