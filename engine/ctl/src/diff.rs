//! The difference between two JSON documents, as lines for a person.

use serde_json::Value;

/// `- PATH VALUE` for what is gone and `+ PATH VALUE` for what is new, with JSON pointers (RFC 6901). Members of
/// objects are compared by name, elements of arrays by value: one that only moved is no difference.
pub(crate) fn diff(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", before, after, &mut lines);
    lines
}

fn compare(path: &str, before: &Value, after: &Value, lines: &mut Vec<String>) {
    match (before, after) {
        _ if before == after => {}
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                let path = format!("{path}/{}", escaped(key));
                match new.get(key) {
                    Some(other) => compare(&path, value, other, lines),
                    None => lines.push(format!("- {path} {value}")),
                }
            }
            let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
            lines.extend(added.map(|(key, value)| format!("+ {path}/{} {value}", escaped(key))));
        }
        (Value::Array(old), Value::Array(new)) => {
            lines.extend(missing(old, new).map(|value| format!("- {} {value}", shown(path))));
            lines.extend(missing(new, old).map(|value| format!("+ {} {value}", shown(path))));
        }
        _ => {
            let at = shown(path);
            lines.push(format!("- {at} {before}"));
            lines.push(format!("+ {at} {after}"));
        }
    }
}

/// The pointer to the whole document is empty.
fn shown(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// The elements of `list` that `other` does not have, each as often as it lacks it.
fn missing<'a>(list: &'a [Value], other: &[Value]) -> impl Iterator<Item = &'a Value> {
    let mut rest: Vec<&Value> = other.iter().collect();
    let mut found = Vec::new();
    for value in list {
        match rest.iter().position(|candidate| *candidate == value) {
            Some(at) => drop(rest.swap_remove(at)),
            None => found.push(value),
        }
    }
    found.into_iter()
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs() {
        let before =
            json!({"a": 1, "routes": [{"dst": "x"}, {"dst": "y"}], "gone": {"k/ey": null}, "same": [1, 2]});
        let after = json!({"a": 2, "routes": [{"dst": "y"}, {"dst": "z"}], "same": [2, 1], "new": true});
        assert_eq!(
            diff(&before, &after),
            [
                "- /a 1",
                "+ /a 2",
                r#"- /routes {"dst":"x"}"#,
                r#"+ /routes {"dst":"z"}"#,
                r#"- /gone {"k/ey":null}"#,
                "+ /new true",
            ]
        );
        assert!(diff(&before, &before).is_empty());
        assert_eq!(diff(&json!([1, 1]), &json!([1])), ["- / 1"]);
        assert_eq!(diff(&json!({"a/b": {"c": 1}}), &json!({"a/b": {}})), ["- /a~1b/c 1"]);
        assert_eq!(diff(&json!(1), &json!([])), ["- / 1", "+ / []"]);
    }
}
