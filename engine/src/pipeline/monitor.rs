//! What a stage in monitor mode would have done, one line for each thing, for log and ledger: as many lines, and as much
//! of each value, as a person reads.

use catena_cni::json;
use serde_json::Value;

use crate::pipeline::error::PipelineError;
use crate::pipeline::intent::Intent;
use crate::pipeline::run::Subject;
use crate::wasm::{Document, Outcome, StageError, differences, is_within, plain};

/// Lines of one stage.
const LINES: usize = 64;
/// Bytes of a value in a line.
const VALUE: usize = 256;

/// The first lines, and how many there are beside them.
#[derive(Default)]
struct Lines {
    kept: Vec<String>,
    more: usize,
}

impl Lines {
    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.kept.len() < LINES {
            self.kept.push(line());
        } else {
            self.more += 1;
        }
    }

    fn end(mut self) -> Vec<String> {
        if self.more > 0 {
            self.kept.push(format!("and {} more", self.more));
        }
        self.kept
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), |value| plain(&value.to_string(), VALUE))
}

/// Of an error: a denial, or any other.
pub fn error(error: &PipelineError) -> Vec<String> {
    match error {
        PipelineError::Stage { source: StageError::Denied(reason), .. } => vec![format!("deny: {reason}")],
        other => vec![format!("fail: {other}")],
    }
}

/// Of an arrangement: the intents that are others than those before.
pub fn arrangement(subjects: &[&mut Subject], intents: &[Intent]) -> Vec<String> {
    let mut lines = Lines::default();
    for (subject, intent) in subjects.iter().zip(intents) {
        if subject.context.intent != *intent {
            let intent = intent.to_value();
            lines.add(|| format!("arrange {}/{}: {}", subject.network, subject.ifname, shown(Some(&intent))));
        }
    }
    lines.end()
}

/// Of a config that `admit` rewrote: each place once, with all that is in it.
pub fn rewrite(before: &str, after: &str) -> Vec<String> {
    let [before, after] = match [before, after].map(|text| json::parse(text.as_bytes())) {
        [Ok(before), Ok(after)] => [before, after],
        [Err(error), _] => return vec![format!("rewrite the config, which is unreadable: {error}")],
        [_, Err(error)] => return vec![format!("rewrite the config to what is no JSON: {error}")],
    };
    let mut lines = Lines::default();
    let mut top: Option<String> = None;
    differences(&before, &after, &mut |place| {
        if !top.as_ref().is_some_and(|top| is_within(place, top)) {
            top = Some(place.to_owned());
            let at = plain(place, VALUE);
            lines.add(|| format!("rewrite {at} of the config: {}", shown(after.pointer(place))));
        }
    });
    lines.end()
}

/// Of an outcome. `changes` are the routes.
pub fn outcome(before: &Document, outcome: &Outcome, changes: &[String]) -> Vec<String> {
    let mut lines = Lines::default();
    for change in changes {
        lines.add(|| format!("change routes: {}", plain(change, VALUE)));
    }
    if let Some(after) = &outcome.result {
        members(before, after, &mut lines);
    }
    for tag in &outcome.tags {
        lines.add(|| format!("tag: {tag}"));
    }
    for (key, text) in &outcome.publications {
        lines.add(|| format!("publish {key}: {}", plain(text, VALUE)));
    }
    lines.end()
}

/// The members of a result that would be others.
fn members(before: &Document, after: &Document, lines: &mut Lines) {
    let read = |document: &Document| match json::parse(document.text.as_bytes()) {
        Ok(Value::Object(map)) => Some(map),
        _ => None,
    };
    let (Some(old), Some(new)) = (read(before), read(after)) else {
        // One of them is no object, so there are no members to compare.
        if before.text != after.text {
            lines.add(|| format!("change the result: {}", plain(&after.text, VALUE)));
        }
        return;
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key, None));
    let there = new.iter().map(|(key, value)| (key, Some(value)));
    for (key, value) in there.chain(gone).filter(|(key, value)| old.get(*key) != *value) {
        lines.add(|| format!("change {} of the result: {}", plain(key, VALUE), shown(value)));
    }
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

    #[test]
    fn what_is_inside_of_a_place_is_not_told_again() {
        assert_eq!(
            rewrite(r#"{"a":1,"ab":2}"#, r#"{"a":{"b":{"c":[1,2]}},"ab":3,"d":{"e":{"f":1}}}"#),
            [
                r#"rewrite /a of the config: {"b":{"c":[1,2]}}"#,
                "rewrite /ab of the config: 3",
                r#"rewrite /d of the config: {"e":{"f":1}}"#
            ]
        );
        assert_eq!(rewrite(r#"{"a":{"b":1}}"#, "[1]"), ["rewrite  of the config: [1]"]);
    }

    #[test]
    fn what_is_told_is_bounded() {
        let mut deep = "1".to_owned();
        for _ in 0..90 {
            deep = format!(r#"{{"{}":{deep}}}"#, "k".repeat(10_000));
        }
        let lines = rewrite("{}", &deep);
        assert!(lines.len() == 1 && lines[0].len() < 600, "{}", lines[0].len());

        let wide: Vec<String> = (0..50_000).map(|i| format!(r#""m{i}":[{i}]"#)).collect();
        let lines = rewrite("{}", &format!("{{{}}}", wide.join(",")));
        assert_eq!((lines.len(), lines[64].as_str()), (65, "and 49936 more"));

        let document = |text: String| Document { format: "cni/1.1.0".into(), text };
        let answered = Outcome {
            result: Some(document(format!("{{{}}}", wide.join(",")))),
            publications: vec![("k".into(), "x".repeat(1 << 18))],
            ..Outcome::default()
        };
        let changes: Vec<String> = (0..4096).map(|i| format!("+ 10.{}.{}.0/24", i / 256, i % 256)).collect();
        let lines = outcome(&document("{}".into()), &answered, &changes);
        assert_eq!((lines.len(), lines[64].as_str()), (65, "and 54033 more"));
        let lines = outcome(&document("{}".into()), &Outcome { result: None, ..answered }, &[]);
        assert!(lines.len() == 1 && lines[0].len() < 300, "{}", lines[0].len());
    }
}
