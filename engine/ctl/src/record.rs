//! What stages did, as lines for a person.

use serde_json::Value;

use crate::output::{bytes, line};

/// One line for each call of a stage, one for each of its route changes, log lines and failures that it accepted.
/// `records` are [`StageRecord`](catena::report::record::StageRecord)s as JSON.
pub(crate) fn write_stages(text: &mut String, records: &Value) {
    for stage in records.as_array().into_iter().flatten() {
        let word = |key: &str| stage[key].as_str().unwrap_or_default();
        let mut what = format!(
            "{} {}: {}, {} µs, {} fuel",
            word("stage"),
            word("export"),
            word("outcome"),
            stage["durationUs"],
            stage["fuel"]
        );
        if let Some(memory) = stage["memory"].as_u64() {
            what.push_str(&format!(", {}", bytes(memory)));
        }
        if let Some(error) = stage["error"].as_str() {
            what.push_str(&format!(": {error}"));
        }
        line(text, "  stage", &what);
        for (key, label) in [
            ("routeChanges", "route"),
            ("undone", "undone"),
            ("tags", "tag"),
            ("would", "would"),
            ("tolerated", "tolerated"),
            ("log", "log"),
        ] {
            for one in stage[key].as_array().into_iter().flatten().filter_map(Value::as_str) {
                line(text, &format!("    {label}"), one);
            }
        }
    }
}

/// A route change of a stage, by the route's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Added(&'a str),
    Removed(&'a str),
}

/// The route changes of a stage's record that are there, in order: what it made before it failed was undone.
pub(crate) fn changes(stage: &Value) -> impl Iterator<Item = Change<'_>> {
    let lines = stage["routeChanges"].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.flat_map(|line| line.split(", ")).filter_map(|change| {
        let added = change.strip_prefix("+ ").map(Change::Added);
        added.or_else(|| change.strip_prefix("- ").map(Change::Removed))
    })
}

/// The routes that there were before the stages of a report, where these are there after them.
pub(crate) fn routes_before(report: &Value, after: &[String]) -> Vec<String> {
    let mut routes = after.to_vec();
    let stages = report["stages"].as_array().into_iter().flatten();
    let done: Vec<Change<'_>> = stages.flat_map(changes).collect();
    for change in done.into_iter().rev() {
        match change {
            Change::Added(route) => routes.retain(|other| other != route),
            Change::Removed(route) => routes.push(route.to_owned()),
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn routes_are_taken_back() {
        let report = json!({"stages": [
            {"routeChanges": ["- default via a dev x, + default via b dev x", "sysctl: 1 -> 0"]},
            {"routeChanges": ["+ c dev x", "- default via b dev x"]},
            {"routeChanges": [], "undone": ["- d dev x"], "outcome": "passed over"},
        ]});
        let after = ["d dev x", "c dev x"].map(str::to_owned);
        assert_eq!(routes_before(&report, &after), ["d dev x", "default via a dev x"]);
        assert_eq!(routes_before(&json!({}), &after), after);
    }
}
