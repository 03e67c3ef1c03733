//! The changed result.

use catena_cni::json;
use catena_cni::result::{CniResult, IpConfig};
use catena_cni::version::SpecVersion;

use crate::{Grant, Refusal};

/// A document with its format (wit: `types.document`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document<'a> {
    /// `cni/VERSION`, or `raw`.
    pub format: &'a str,
    /// JSON.
    pub text: &'a str,
}

/// A member of a CNI result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    /// `routes`, and the gateways that `ips` carries.
    Routes,
    /// `dns`.
    Dns,
    /// `ips`.
    Ips,
    /// `interfaces`.
    Interfaces,
}

impl Member {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Routes, Self::Dns, Self::Ips, Self::Interfaces];

    /// The spelling in a grant.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Dns => "dns",
            Self::Ips => "ips",
            Self::Interfaces => "interfaces",
        }
    }
}

/// Whether a result may take the place of the one before: it is what its format says, and only granted members differ.
///
/// # Errors
/// [`Refusal::Bad`] or [`Refusal::Ungranted`].
pub fn result(
    before: Document<'_>,
    after: Document<'_>,
    granted: impl Fn(Member) -> bool,
) -> Result<(), Refusal> {
    if after == before {
        return Ok(());
    }
    let bad = Refusal::Bad;
    let value = json::parse(after.text.as_bytes())
        .map_err(|error| bad(format!("its result is not JSON: {error}")))?;
    let Some(version) = after.format.strip_prefix("cni/") else {
        let unchanged = before.format == after.format
            && json::parse(before.text.as_bytes()).is_ok_and(|old| old == value);
        return if unchanged {
            Ok(())
        } else {
            Err(bad(format!(
                "its result has the format {:?}; a changed result is cni/VERSION",
                plain_format(after.format)
            )))
        };
    };
    let Some(version) = SpecVersion::from_text(version) else {
        return Err(bad(format!(
            "its result has the format {:?}, of no known CNI version",
            plain_format(after.format)
        )));
    };
    let (new, found) = CniResult::read(&value).map_err(|error| bad(format!("its result: {error}")))?;
    if found != version {
        return Err(bad(format!(
            "its result says cniVersion {}, but its format {}",
            found.as_str(),
            after.format
        )));
    }
    let old = json::parse(before.text.as_bytes()).ok().and_then(|value| CniResult::read(&value).ok());
    let old = old.map(|(result, _)| result).unwrap_or_default();
    match ungranted_change(&old, &new, granted) {
        None => Ok(()),
        Some((what, member)) => Err(Refusal::Ungranted {
            what: format!("it changes {what} of the result"),
            grant: member.map(Grant::Result),
        }),
    }
}

fn plain_format(format: &str) -> String {
    format.chars().take(32).collect()
}

/// The first member that changed without a grant, and the grant that would allow it.
fn ungranted_change(
    old: &CniResult,
    new: &CniResult,
    granted: impl Fn(Member) -> bool,
) -> Option<(&'static str, Option<Member>)> {
    let addresses = |result: &CniResult| {
        let without_gateway = |ip: &IpConfig| (ip.address, ip.interface, ip.extra.clone());
        result.ips.iter().map(without_gateway).collect::<Vec<_>>()
    };
    // A gateway is where a route leads, so it goes with the routes; an address is not.
    let gateways = |result: &CniResult| result.ips.iter().map(|ip| ip.gateway).collect::<Vec<_>>();
    let changed = [
        (
            old.interfaces != new.interfaces && !granted(Member::Interfaces),
            "interfaces",
            Some(Member::Interfaces),
        ),
        (addresses(old) != addresses(new) && !granted(Member::Ips), "ips", Some(Member::Ips)),
        (
            gateways(old) != gateways(new) && !granted(Member::Ips) && !granted(Member::Routes),
            "a gateway in ips",
            Some(Member::Routes),
        ),
        (old.routes != new.routes && !granted(Member::Routes), "routes", Some(Member::Routes)),
        (old.dns != new.dns && !granted(Member::Dns), "dns", Some(Member::Dns)),
        (old.extra != new.extra, "a member that the CNI specification does not know", None),
    ];
    changed.into_iter().find(|(changed, ..)| *changed).map(|(_, what, member)| (what, member))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const BEFORE: &str = r#"{"cniVersion":"1.1.0","dns":{"domain":"a"},"vendor":1}"#;

    fn check(format: &str, text: &str, granted: bool) -> Result<(), Refusal> {
        let before = Document { format: "cni/1.1.0", text: BEFORE };
        result(before, Document { format, text }, |_| granted)
    }

    #[test]
    fn a_changed_member_is_named() {
        assert_eq!(check("cni/1.1.0", BEFORE, false), Ok(()));
        let mut changed: Value = serde_json::from_str(BEFORE).unwrap();
        changed["dns"]["domain"] = json!("b");
        assert_eq!(check("cni/1.1.0", &changed.to_string(), true), Ok(()));
        let refusal = check("cni/1.1.0", &changed.to_string(), false).unwrap_err();
        let grant = Some(Grant::Result(Member::Dns));
        assert_eq!(refusal, Refusal::Ungranted { what: "it changes dns of the result".into(), grant });
        changed["vendor"] = json!(2);
        let refusal = check("cni/1.1.0", &changed.to_string(), true).unwrap_err();
        assert!(matches!(refusal, Refusal::Ungranted { grant: None, .. }), "{refusal}");
    }

    #[test]
    fn a_result_is_what_its_format_says() {
        for (format, text, part) in [
            ("cni/1.1.0", "{", "not JSON"),
            ("cni/1.1.0", "null", "result"),
            ("cni/9.0.0", r#"{"cniVersion":"9.0.0"}"#, "no known CNI version"),
            ("cni/1.1.0", r#"{"cniVersion":"1.0.0"}"#, "cniVersion 1.0.0"),
            ("raw", r#"{"cniVersion":"1.1.0"}"#, "format \"raw\""),
        ] {
            let refusal = check(format, text, true).unwrap_err();
            assert!(matches!(&refusal, Refusal::Bad(text) if text.contains(part)), "{part}: {refusal}");
        }
        let raw = Document { format: "raw", text: r#"{"x": 1}"# };
        assert_eq!(result(raw, Document { text: r#"{"x":1}"#, ..raw }, |_| false), Ok(()));
    }
}
