//! What a component says about itself, in the types of the node's files.

use catena::node::{At, Digest, Grants};

use crate::stages::component::{self, WANTS};

/// Bytes of a module file. A Python stage has 18 MB.
pub(crate) const LIMIT: u64 = 64 << 20;

/// A component's own words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Description {
    pub(crate) digest: Digest,
    /// Bytes.
    pub(crate) size: u64,
    /// The interfaces of catena:stage that it exports, by their short names, sorted.
    pub(crate) exports: Vec<String>,
    /// Everything that it imports, with versions, in the component's order.
    pub(crate) imports: Vec<String>,
    /// The version of catena:stage that its exports are of.
    pub(crate) contract: String,
    pub(crate) wants: Grants,
    /// The module's own version.
    pub(crate) version: Option<String>,
}

/// Reads names and custom sections. The text of an error says what to do.
pub(crate) fn describe(bytes: &[u8]) -> Result<Description, String> {
    let component::Description { digest: _, exports, imports, contract, wants, version } =
        component::describe(bytes)?;
    let wants = Grants::parse(At::Document.member(WANTS), &wants).map_err(|refused| refused.to_string())?;
    let size = bytes.len() as u64;
    Ok(Description { digest: Digest::of(bytes), size, exports, imports, contract, wants, version })
}
