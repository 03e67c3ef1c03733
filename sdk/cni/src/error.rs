//! The CNI error object, and the codes in it.

use crate::json::{Map, Value};
use crate::members::{Members, Place};

/// Error codes: 0 to 99 are the specification's and libcni's, 100 to 199 catena's own, from 200 a stage's.
pub mod code {
    pub const INCOMPATIBLE_VERSION: u32 = 1;
    pub const UNSUPPORTED_FIELD: u32 = 2;
    pub const UNKNOWN_CONTAINER: u32 = 3;
    pub const INVALID_ENVIRONMENT: u32 = 4;
    pub const IO: u32 = 5;
    pub const DECODE: u32 = 6;
    pub const INVALID_CONFIG: u32 = 7;
    /// libcni's; the specification does not have it.
    pub const INVALID_NETNS: u32 = 8;
    pub const TRY_LATER: u32 = 11;
    pub const NOT_AVAILABLE: u32 = 50;
    pub const LIMITED_CONNECTIVITY: u32 = 51;
    pub const TRAP: u32 = 101;
    pub const FUEL: u32 = 102;
    /// Memory or another limit.
    pub const LIMIT: u32 = 103;
    /// Digest, owner or engine of a module's artifact.
    pub const INTEGRITY: u32 = 104;
    /// By a stage, or for lack of a grant.
    pub const DENIED: u32 = 105;
    pub const BAD_OUTCOME: u32 = 106;
    /// A requested ownership of the default route was not carried out.
    pub const OWNERSHIP: u32 = 107;
    pub const ROUTE: u32 = 108;
    /// An undo was not exact.
    pub const UNDO: u32 = 109;
    pub const DELEGATE_OUTPUT: u32 = 110;
    pub const DELEGATE_DEADLINE: u32 = 111;
    pub const DELEGATE_KILLED: u32 = 112;
    pub const INTERNAL: u32 = 999;
}

/// `{"cniVersion", "code", "msg", "details"}`: what a failed plugin prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorObject {
    /// The specification wants it, Go plugins leave it out.
    pub cni_version: Option<String>,
    /// 0 if the object has none.
    pub code: u32,
    /// Empty if the object has none.
    pub msg: String,
    pub details: Option<String>,
}

impl ErrorObject {
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        if let Some(version) = &self.cni_version {
            map.insert("cniVersion".into(), version.as_str().into());
        }
        map.insert("code".into(), self.code.into());
        map.insert("msg".into(), self.msg.as_str().into());
        if let Some(details) = &self.details {
            map.insert("details".into(), details.as_str().into());
        }
        Value::Object(map)
    }

    /// Reads a failed plugin's stdout as libcni does: absent members are code 0 and an empty message, `null` is `{}`.
    /// `None` if it is no object, or a member is of the wrong kind (a code must be an unsigned integer).
    pub fn from_value(value: &Value) -> Option<Self> {
        let members = Members::of(value, Place::Top).ok()?;
        let code = members.integer("code").ok()?.unwrap_or(0);
        Some(Self {
            // No member of libcni's error type, so nothing in it makes the object unreadable.
            cni_version: members.filled_text("cniVersion").ok().flatten(),
            code: u32::try_from(code).ok()?,
            msg: members.filled_text("msg").ok()?.unwrap_or_default(),
            details: members.filled_text("details").ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn error_objects_are_read_as_libcni_reads_them() {
        let read = |value| ErrorObject::from_value(&value);
        let full = json!({ "cniVersion": "1.0.0", "code": 11, "msg": "m", "details": "d" });
        assert_eq!(read(full.clone()).map(|error| error.to_value()), Some(full));
        let spelled = read(json!({ "CODE": 7, "Msg": "m", "cniVersion": 5 })).expect("readable");
        assert_eq!((spelled.code, spelled.msg.as_str(), spelled.cni_version), (7, "m", None));
        for empty in [json!({}), json!(null), json!({ "ips": [] })] {
            let error = read(empty).expect("readable");
            assert_eq!((error.code, error.msg.as_str()), (0, ""));
            assert_eq!(error.to_value(), json!({ "code": 0, "msg": "" }));
        }
        for other in
            [json!([]), json!("m"), json!({ "code": "7" }), json!({ "code": -1 }), json!({ "msg": 1 })]
        {
            assert_eq!(read(other.clone()), None, "{other}");
        }
    }
}
