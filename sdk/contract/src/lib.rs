//! What the contract catena:stage says about a stage's answer, as functions of values: the engine asks them before it
//! takes an answer, the SDK's test host asks the same ones. Pure.

#![warn(missing_docs)]

mod outcome;
mod refusal;
mod result;

pub use outcome::{DOCUMENT, PUBLICATIONS, TAG, TAGS, publications, tags, tolerations};
pub use refusal::{Grant, Refusal};
pub use result::{Document, Member, result};
