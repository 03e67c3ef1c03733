//! The members of an outcome beside the result.

use std::collections::BTreeSet;

use catena_cni::json;

use crate::{Grant, Refusal};

/// Tags of one outcome.
pub const TAGS: usize = 32;
/// Bytes of a tag.
pub const TAG: usize = 64;
/// Bytes of all publications of one outcome: what the Kubernetes API takes as annotations of one object.
pub const PUBLICATIONS: usize = 256 << 10;
/// Bytes of a document that a stage returns, unless the node says otherwise: real results have some KB.
pub const DOCUMENT: usize = 1 << 20;
/// Characters of a key that a message shows: what the Kubernetes API takes as the name of a domain.
const KEY: usize = 253;

/// Whether all tags have the form of one, and there are not too many.
///
/// # Errors
/// [`Refusal::Bad`] or [`Refusal::Limit`].
pub fn tags(tags: &[String]) -> Result<(), Refusal> {
    if tags.len() > TAGS {
        return Err(Refusal::Limit { what: "tags", most: TAGS });
    }
    let first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let rest = |byte: u8| first(byte) || matches!(byte, b'-' | b'_' | b'.');
    let is_tag =
        |tag: &str| tag.bytes().next().is_some_and(first) && tag.len() <= TAG && tag.bytes().all(rest);
    match tags.iter().find(|tag| !is_tag(tag)) {
        Some(tag) => Err(Refusal::Bad(format!(
            "the tag {:?} is not 1 to {TAG} of a-z, 0-9, '.', '_', '-', a letter or digit first",
            tag.chars().take(TAG).collect::<String>()
        ))),
        None => Ok(()),
    }
}

/// Whether each publication (key and text) is granted, is there once, and is JSON.
///
/// # Errors
/// Any [`Refusal`].
pub fn publications(
    publications: &[(String, String)],
    granted: impl Fn(&str) -> bool,
) -> Result<(), Refusal> {
    let mut keys = BTreeSet::new();
    let mut bytes = 0usize;
    for (key, text) in publications {
        if !granted(key) {
            let key: String = key.chars().take(KEY).collect();
            let what = format!("it publishes {key:?}");
            return Err(Refusal::Ungranted { what, grant: Some(Grant::Publish(key)) });
        }
        if !keys.insert(key) {
            return Err(Refusal::Bad(format!("it publishes {key:?} twice")));
        }
        if let Err(error) = json::parse(text.as_bytes()) {
            return Err(Refusal::Bad(format!("what it publishes as {key:?} is not JSON: {error}")));
        }
        bytes = bytes.saturating_add(key.len()).saturating_add(text.len());
    }
    if bytes > PUBLICATIONS {
        return Err(Refusal::Limit { what: "bytes of publications", most: PUBLICATIONS });
    }
    Ok(())
}

/// Whether what is tolerated (call and reason) did fail, and there is a reason.
///
/// # Errors
/// [`Refusal::Bad`].
pub fn tolerations(tolerated: &[(u32, String)], failed: impl Fn(u32) -> bool) -> Result<(), Refusal> {
    for (call, reason) in tolerated {
        if !failed(*call) {
            return Err(Refusal::Bad(format!("it tolerates call {call}, which did not fail")));
        }
        if reason.trim().is_empty() {
            return Err(Refusal::Bad(format!("it tolerates call {call} without a reason")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_tags() {
        let check = |list: &[&str]| tags(&list.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>());
        assert_eq!(check(&["empty", "a.b_c-1", &"a".repeat(TAG)]), Ok(()));
        for bad in ["", "-a", "A", "a b", "a\n", "ü", &"a".repeat(TAG + 1)] {
            assert!(matches!(check(&[bad]), Err(Refusal::Bad(_))), "{bad}");
        }
        assert_eq!(check(&["a"; TAGS]), Ok(()));
        assert!(matches!(check(&["a"; TAGS + 1]), Err(Refusal::Limit { most: TAGS, .. })));
    }

    #[test]
    fn each_publication_is_granted_once_and_json() {
        let check = |list: &[(&str, &str)]| {
            let list: Vec<_> = list.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect();
            publications(&list, |key| key.starts_with('a'))
        };
        assert_eq!(check(&[("a", "[]"), ("ab", "1")]), Ok(()));
        let ungranted = check(&[("b", "1")]).unwrap_err();
        assert!(
            matches!(ungranted, Refusal::Ungranted { grant: Some(Grant::Publish(key)), .. } if key == "b")
        );
        assert!(check(&[("a", "[]"), ("a", "[]")]).unwrap_err().to_string().contains("twice"));
        assert!(check(&[("a", "[")]).unwrap_err().to_string().contains("not JSON"));
        let large = format!("\"{}\"", "x".repeat(PUBLICATIONS));
        assert!(matches!(check(&[("a", &large)]), Err(Refusal::Limit { .. })));
    }

    #[test]
    fn only_what_failed_is_tolerated_and_for_a_reason() {
        let check = |call, reason: &str| tolerations(&[(call, reason.to_owned())], |call| call == 3);
        assert_eq!(check(3, "not ours"), Ok(()));
        assert!(check(3, " ").unwrap_err().to_string().contains("without a reason"));
        assert!(check(2, "x").unwrap_err().to_string().contains("call 2, which did not fail"));
    }
}
