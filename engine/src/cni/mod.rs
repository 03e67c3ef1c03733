//! The room where a call comes in and an answer goes out: environment and stdin into types that cannot be invalid,
//! and the one JSON document on stdout.

mod attachment;
mod conf;
mod error;
mod invocation;
mod member;
mod parallel;
mod reply;
mod selection;
pub mod stdin;

pub use attachment::AttachmentSpec;
pub use conf::{Conf, Level, LogConf, PipelineRef, Role, ValidSet};
pub use error::{CniError, Problems, escape};
pub use invocation::{Invocation, Request, Target};
pub use reply::{Reply, about};

pub use crate::delegate::Command;
