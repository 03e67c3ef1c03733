//! Who is measured.

use std::path::{Path, PathBuf};

use crate::place::Place;

/// Who carries a case out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// The delegates, one after the other.
    Alone,
    /// A meta-plugin.
    Meta(&'a Meta),
}

/// A meta-plugin in the place's folder of plugins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Meta {
    /// What it is called in tables, whatever its file is called: an older catena has the same file name.
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
}

impl Subject<'_> {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Subject::Alone => "alone",
            Subject::Meta(meta) => meta.name,
        }
    }

    /// Whether it is not the program under test, so that what it cannot do is for the reader to know, and no mistake.
    pub(crate) fn is_other(&self) -> bool {
        matches!(self, Subject::Meta(Meta { name: Meta::OTHER, .. }))
    }
}

impl Meta {
    /// The program under test.
    pub(crate) const CATENA: &str = "catena";
    /// The one beside it.
    pub(crate) const OTHER: &str = "other";

    /// The program under test, put into the folder of plugins.
    pub(crate) fn catena(place: &Place, program: &Path) -> Result<Meta, String> {
        Ok(Meta { name: Self::CATENA, program: place.install(program, Self::CATENA)? })
    }

    /// Another meta-plugin, put there under a name that no other plugin has.
    pub(crate) fn other(place: &Place, program: &Path) -> Result<Meta, String> {
        let file = program.file_name().unwrap_or_default().to_string_lossy();
        Ok(Meta { name: Self::OTHER, program: place.install(program, &format!("other-{file}"))? })
    }

    /// The `type` of a config for it: its file name in the folder of plugins.
    pub(crate) fn kind(&self) -> String {
        self.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}
