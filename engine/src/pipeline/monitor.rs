//! What a stage in monitor mode would have done, one line for each thing, for log and ledger.

use catena_cni::json;
use serde_json::Value;

use crate::pipeline::error::PipelineError;
use crate::pipeline::intent::Intent;
use crate::pipeline::run::Subject;
use crate::wasm::{Document, Outcome, StageError, differences};

/// Of an error: a denial, or any other.
pub fn error(error: &PipelineError) -> Vec<String> {
    match error {
        PipelineError::Stage { source: StageError::Denied(reason), .. } => vec![format!("deny: {reason}")],
        other => vec![format!("fail: {other}")],
    }
}

/// Of an arrangement: the intents that are others than those before.
pub fn arrangement(subjects: &[Subject], intents: &[Intent]) -> Vec<String> {
    let others = subjects.iter().zip(intents).filter(|(subject, intent)| subject.context.intent != **intent);
    others
        .map(|(subject, intent)| {
            format!("arrange {}/{}: {}", subject.network, subject.ifname, intent.to_value())
        })
        .collect()
}

/// Of a config that `admit` rewrote.
pub fn rewrite(before: &str, after: &str) -> Vec<String> {
    let [before, after] = match [before, after].map(|text| json::parse(text.as_bytes())) {
        [Ok(before), Ok(after)] => [before, after],
        [Err(error), _] => return vec![format!("rewrite the config, which is unreadable: {error}")],
        [_, Err(error)] => return vec![format!("rewrite the config to what is no JSON: {error}")],
    };
    let mut lines = Vec::new();
    differences(&before, &after, &mut |place| {
        let new = after.pointer(place).map_or_else(|| "absent".to_owned(), Value::to_string);
        lines.push(format!("rewrite {place} of the config: {new}"));
    });
    lines
}

/// Of an outcome. `changes` are the routes.
pub fn outcome(before: &Document, outcome: &Outcome, changes: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = changes.iter().map(|change| format!("change routes: {change}")).collect();
    if let Some(after) = &outcome.result {
        lines.extend(members(before, after));
    }
    lines.extend(outcome.tags.iter().map(|tag| format!("tag: {tag}")));
    lines.extend(outcome.publications.iter().map(|(key, text)| format!("publish {key}: {text}")));
    lines
}

/// The members of a result that would be others.
fn members(before: &Document, after: &Document) -> Vec<String> {
    let read = |document: &Document| match json::parse(document.text.as_bytes()) {
        Ok(Value::Object(map)) => Some(map),
        _ => None,
    };
    let (Some(old), Some(new)) = (read(before), read(after)) else {
        // One of them is no object, so there are no members to compare.
        let same = before.text == after.text;
        return if same { Vec::new() } else { vec![format!("change the result: {}", after.text)] };
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key, None));
    let there = new.iter().map(|(key, value)| (key, Some(value)));
    there
        .chain(gone)
        .filter(|(key, value)| old.get(*key) != *value)
        .map(|(key, value)| {
            let value = value.map_or_else(|| "absent".to_owned(), Value::to_string);
            format!("change {key} of the result: {value}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_told_by_what_it_changes() {
        let document = |text: &str| Document { format: "cni/1.1.0".into(), text: text.into() };
        let answered = Outcome {
            result: Some(document(r#"{"cniVersion":"1.1.0","routes":[],"dns":{}}"#)),
            tags: vec!["empty".into()],
            publications: vec![("k".into(), "[]".into())],
            tolerated: Vec::new(),
        };
        let before = document(r#"{"cniVersion":"1.1.0","routes":[{"dst":"0.0.0.0/0"}],"ips":[]}"#);
        let lines = outcome(&before, &answered, &["delete default via 10.0.0.1 dev eth0".to_owned()]);
        assert_eq!(
            lines,
            [
                "change routes: delete default via 10.0.0.1 dev eth0",
                "change routes of the result: []",
                "change dns of the result: {}",
                "change ips of the result: absent",
                "tag: empty",
                "publish k: []",
            ]
        );
        assert_eq!(outcome(&before, &Outcome::default(), &[]), [""; 0]);
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_null() {
        let lines = rewrite(r#"{"mtu":1500}"#, "{");
        assert!(
            lines.len() == 1 && lines[0].starts_with("rewrite the config to what is no JSON"),
            "{lines:?}"
        );
        let lines = rewrite("{", "null");
        assert!(lines.len() == 1 && lines[0].contains("unreadable"), "{lines:?}");
        let document = |text: &str| Document { format: "raw".into(), text: text.into() };
        let answered = |text: &str| Outcome { result: Some(document(text)), ..Outcome::default() };
        assert_eq!(outcome(&document("[1]"), &answered("[]"), &[]), ["change the result: []"]);
        assert_eq!(outcome(&document("[1]"), &answered("[1]"), &[]), [""; 0]);
    }

    #[test]
    fn a_rewrite_is_told_by_its_places() {
        assert_eq!(
            rewrite(r#"{"mtu":1500,"type":"bridge"}"#, r#"{"mtu":9000,"x":1}"#),
            [
                "rewrite /mtu of the config: 9000",
                "rewrite /type of the config: absent",
                "rewrite /x of the config: 1"
            ]
        );
    }
}
