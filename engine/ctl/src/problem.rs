//! What `check` finds.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::output::line;

/// A problem, where it is, and what makes it go away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    file: PathBuf,
    /// JSON pointer into the file (RFC 6901); empty for the whole.
    path: String,
    message: String,
    /// What to do; empty where the message says it all.
    remedy: String,
}

impl Problem {
    /// Our texts say what is wrong, then, after a semicolon, what to do.
    pub(crate) fn new(file: &Path, path: &str, text: &str) -> Problem {
        let (message, remedy) = text.split_once("; ").unwrap_or((text, ""));
        Problem {
            file: file.to_owned(),
            path: path.to_owned(),
            message: message.to_owned(),
            remedy: remedy.to_owned(),
        }
    }

    /// Message and remedy, as they came.
    pub(crate) fn whole(&self) -> String {
        if self.remedy.is_empty() {
            self.message.clone()
        } else {
            format!("{}; {}", self.message, self.remedy)
        }
    }

    pub(crate) fn write(&self, text: &mut String) {
        let at = if self.path.is_empty() { "/" } else { &self.path };
        line(text, "problem", &format!("{} {at}", self.file.display()));
        line(text, "", &self.message);
        if !self.remedy.is_empty() {
            line(text, "  remedy", &self.remedy);
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        json!({ "file": self.file, "path": self.path, "message": self.message, "remedy": self.remedy })
    }
}

/// The JSON pointer (RFC 6901) to what a text names first, as our messages do: `pipeline[2].config`,
/// `modules.x.digest`. The document says which of the words are keys; empty where it has none of them.
pub(crate) fn pointer(text: &str, document: &Value) -> String {
    // `network NAME: delegates[0]…`
    let start = match text.strip_prefix("network ") {
        Some(rest) => rest.split_once(": ").map_or(rest, |(_, rest)| rest),
        None => text,
    };
    let mut rest = start.strip_prefix("unknown key ").unwrap_or(start);
    let (mut pointer, mut at) = (String::new(), document);
    loop {
        let after_dot = rest.strip_prefix('.').unwrap_or(rest);
        let step = match at {
            Value::Object(map) => member(map, after_dot),
            Value::Array(items) => element(items, after_dot),
            _ => None,
        };
        let Some((key, value, left)) = step else { break };
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        (at, rest) = (value, left);
    }
    // A member that is missing is named at its place all the same.
    if let (Value::Object(_), Some(missing)) = (at, rest.strip_prefix('.')) {
        let end = missing.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(missing.len());
        if let Some(name) = missing.get(..end).filter(|name| !name.is_empty()) {
            pointer.push('/');
            pointer.push_str(name);
        }
    }
    pointer
}

/// The member that a text begins with, whatever its case, and the rest of the text. Of several the longest: names may
/// have periods.
fn member<'v, 't>(map: &'v Map<String, Value>, text: &'t str) -> Option<(&'v str, &'v Value, &'t str)> {
    let fits = |key: &&String| {
        let ends = |rest: &str| rest.is_empty() || rest.starts_with([' ', ':', ';', ',', '.', '[']);
        !key.is_empty()
            && text.get(..key.len()).is_some_and(|start| start.eq_ignore_ascii_case(key))
            && text.get(key.len()..).is_some_and(ends)
    };
    let key = map.keys().filter(fits).max_by_key(|key| key.len())?;
    Some((key, map.get(key)?, text.get(key.len()..)?))
}

/// The same for an element: `[1]`, or `1` as in a pointer.
fn element<'v, 't>(items: &'v [Value], text: &'t str) -> Option<(&'t str, &'v Value, &'t str)> {
    let (number, rest) = match text.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())),
    };
    Some((number, items.get(number.parse::<usize>().ok()?)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_in_the_text() {
        let document = json!({
            "pipeline": [{"conf": {}}], "modules": {"gw": {"digest": "x"}, "gw.v2": {"limits": {"fuel": 0}}},
            "delegates": [1, {"ips": 1, "catena.dev/default-route": 1, "config": "{}"}], "speed": 1, "KubeConfig": "x",
            "binDir": "/tmp",
        });
        for (text, expected) in [
            ("unknown key pipeline[0].conf = {}; known are stage", "/pipeline/0/conf"),
            ("pipeline[0].stage must be a name", "/pipeline/0/stage"),
            ("modules.gw.digest must be sha256: and 64 digits, not \"x\"", "/modules/gw/digest"),
            ("modules.gw.v2.limits.fuel must be a whole number", "/modules/gw.v2/limits/fuel"),
            ("delegates must be a list, not 1", "/delegates"),
            ("network outer: delegates[1].ips must be a list", "/delegates/1/ips"),
            (
                "delegates[1].catena.dev/default-route must be \"none\"",
                "/delegates/1/catena.dev~1default-route",
            ),
            ("delegates[1].config: it has neither type", "/delegates/1/config"),
            ("delegates[7] is not there", "/delegates"),
            ("unknown key speed = 1; known are modules", "/speed"),
            ("unknown key kubeconfig with value \"x\"; catena knows", "/KubeConfig"),
            ("binDir /tmp is not among the paths", "/binDir"),
            ("there are neither delegates nor a prevResult", ""),
            ("the request on stdin: not JSON", ""),
        ] {
            assert_eq!(pointer(text, &document), expected, "{text}");
        }
    }

    #[test]
    fn the_remedy_is_behind_the_semicolon() {
        let problem = Problem::new(Path::new("/x"), "/a", "a is wrong; make it right; or not");
        assert_eq!(
            (problem.message.as_str(), problem.remedy.as_str()),
            ("a is wrong", "make it right; or not")
        );
        assert_eq!(problem.whole(), "a is wrong; make it right; or not");
    }
}
