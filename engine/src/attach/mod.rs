//! The use cases: what each CNI command does, and the ledger that they share.

pub mod add;
mod along;
pub mod attachment;
pub mod check;
pub mod children;
pub mod del;
pub mod delete;
pub mod document;
pub mod entry;
pub mod gc;
pub mod key;
pub mod ledger;
pub mod lock;
pub mod recorder;
pub mod recording;
pub mod rehearse;
pub mod replay;
pub mod retry;
pub mod sandbox;
pub mod session;
pub mod status;
