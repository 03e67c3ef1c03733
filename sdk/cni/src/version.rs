//! Versions of the CNI specification.

use std::fmt;
use std::str::FromStr;

use serde_json::json;

use crate::json::{JsonError, TypeError, Value, parse};
use crate::members::{Members, Place};
use crate::text::quoted;

/// A released version of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types, reason = "the digits need a separator")]
pub enum SpecVersion {
    V0_1_0,
    V0_2_0,
    V0_3_0,
    V0_3_1,
    V0_4_0,
    V1_0_0,
    V1_1_0,
}

/// A text that is exactly none of the released versions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown CNI version {0}: known are 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0 and 1.1.0")]
pub struct UnknownVersion(String);

impl SpecVersion {
    /// All, oldest first.
    pub const ALL: [Self; 7] =
        [Self::V0_1_0, Self::V0_2_0, Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];
    pub const NEWEST: Self = Self::V1_1_0;

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// The exact text only: `1.1` is not 1.1.0 to any plugin. The empty text is 0.1.0.
    pub fn from_text(text: &str) -> Option<Self> {
        let text = if text.is_empty() { "0.1.0" } else { text };
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }
}

impl fmt::Display for SpecVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SpecVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::from_text(text).ok_or_else(|| UnknownVersion(quoted(text)))
    }
}

/// A version text as numbers, for comparing. libcni is lax here: one to three decimal parts, signs allowed, missing
/// parts 0, no suffix; the empty text is 0.1.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VersionNumber {
    pub major: i64,
    pub minor: i64,
    pub micro: i64,
}

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a version: expected up to three decimal numbers, as in 1.1.0")]
pub struct VersionError(String);

impl FromStr for VersionNumber {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError(quoted(text));
        let mut numbers = [0; 3];
        let mut places = numbers.iter_mut();
        for part in if text.is_empty() { "0.1.0" } else { text }.split('.') {
            let place = places.next().ok_or_else(error)?;
            *place = part.parse().map_err(|_| error())?;
        }
        let [major, minor, micro] = numbers;
        Ok(Self { major, minor, micro })
    }
}

impl From<SpecVersion> for VersionNumber {
    fn from(version: SpecVersion) -> Self {
        let (major, minor, micro) = match version {
            SpecVersion::V0_1_0 => (0, 1, 0),
            SpecVersion::V0_2_0 => (0, 2, 0),
            SpecVersion::V0_3_0 => (0, 3, 0),
            SpecVersion::V0_3_1 => (0, 3, 1),
            SpecVersion::V0_4_0 => (0, 4, 0),
            SpecVersion::V1_0_0 => (1, 0, 0),
            SpecVersion::V1_1_0 => (1, 1, 0),
        };
        Self { major, minor, micro }
    }
}

/// A plugin's answer to VERSION.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionReply {
    /// As the plugin wrote it; not empty.
    pub cni_version: String,
    /// As the plugin wrote them, in its order; not empty. Support is exact equality of texts.
    pub supported: Vec<String>,
}

/// Why a reply to VERSION cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    #[error("cannot read the reply to VERSION: {0}")]
    Json(#[from] JsonError),
    #[error("cannot read the reply to VERSION: {0}")]
    Type(#[from] TypeError),
    #[error("the reply to VERSION has no {0}")]
    Incomplete(&'static str),
}

impl VersionReply {
    /// Reads stdout as libcni does: a reply of 0.2.0 without a list means 0.1.0 and 0.2.0.
    pub fn parse(stdout: &[u8]) -> Result<Self, ReplyError> {
        let document = parse(stdout)?;
        let reply = Members::of(&document, Place::Top)?;
        let cni_version = reply.filled_text("cniVersion")?;
        let mut supported = reply.texts("supportedVersions")?;
        let cni_version = cni_version.ok_or(ReplyError::Incomplete("cniVersion"))?;
        if supported.is_empty() && cni_version == "0.2.0" {
            supported = vec!["0.1.0".into(), "0.2.0".into()];
        }
        if supported.is_empty() {
            return Err(ReplyError::Incomplete("supportedVersions"));
        }
        Ok(Self { cni_version, supported })
    }

    /// Whether the plugin lists this version.
    pub fn supports(&self, version: SpecVersion) -> bool {
        self.supported.iter().any(|text| text == version.as_str())
    }
}

/// Our own answer to VERSION.
pub fn reply_document() -> Value {
    json!({
        "cniVersion": SpecVersion::NEWEST.as_str(),
        "supportedVersions": SpecVersion::ALL.map(SpecVersion::as_str),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_texts_are_versions() {
        assert_eq!(SpecVersion::from_text(""), Some(SpecVersion::V0_1_0));
        assert_eq!(SpecVersion::from_text("1.1"), None);
        assert!(SpecVersion::ALL.is_sorted());
        assert!(SpecVersion::ALL.map(VersionNumber::from).is_sorted());
        for version in SpecVersion::ALL {
            assert_eq!(version.to_string().parse(), Ok(VersionNumber::from(version)));
            assert_eq!(version.to_string().parse(), Ok(version));
        }
    }

    #[test]
    fn our_own_reply_can_be_read() {
        let reply = VersionReply::parse(reply_document().to_string().as_bytes()).expect("valid");
        assert_eq!(reply.cni_version, "1.1.0");
        assert!(SpecVersion::ALL.into_iter().all(|version| reply.supports(version)));
        let old = VersionReply::parse(br#"{"cniVersion":"0.2.0"}"#).expect("valid");
        assert!(old.supports(SpecVersion::V0_1_0) && !old.supports(SpecVersion::V0_3_0));
    }
}
