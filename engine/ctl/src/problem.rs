//! What `check` finds.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

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

/// The JSON pointer to the first key that a text names as our messages do: `pipeline[2].config`, `modules.x.digest`.
/// Empty where it names none.
pub(crate) fn pointer(text: &str) -> String {
    // `network NAME: delegates[0]…`
    let start = match text.strip_prefix("network ") {
        Some(rest) => rest.split_once(": ").map_or(rest, |(_, rest)| rest),
        None => text,
    };
    let unknown = start.strip_prefix("unknown key ");
    let start = unknown.unwrap_or(start);
    let end = start.find([' ', ':', ';', ',']).unwrap_or(start.len());
    let place = start.get(..end).unwrap_or_default();
    let is_place = place.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-[]/".contains(&byte));
    let names_key = unknown.is_some() || place.contains(['.', '[']) || KEYS.contains(&place);
    if place.is_empty() || !is_place || !names_key {
        return String::new();
    }
    let mut pointer = String::new();
    for part in place.split(['.', '[']) {
        pointer.push('/');
        pointer.push_str(part.trim_end_matches(']'));
    }
    pointer
}

/// Keys of the first level, which alone look like any other word.
const KEYS: [&str; 34] = [
    "cniVersion",
    "name",
    "type",
    "delegates",
    "pipeline",
    "parallel",
    "binDir",
    "cniDir",
    "logFile",
    "logLevel",
    "logToStderr",
    "capabilities",
    "runtimeConfig",
    "args",
    "prevResult",
    "clusterNetwork",
    "defaultNetworks",
    "kubeconfig",
    "namespaceIsolation",
    "globalNamespaces",
    "systemNamespaces",
    "multusNamespace",
    "auxiliaryCNIChainName",
    "readinessindicatorfile",
    "retryDeleteOnError",
    "logOptions",
    "modules",
    "pipelines",
    "defaultPipeline",
    "baseline",
    "stdinPipelines",
    "secondaryDefaults",
    "deadlines",
    "paths",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_in_the_text() {
        for (text, expected) in [
            ("unknown key pipeline[0].conf = {}; known are stage", "/pipeline/0/conf"),
            ("modules.gw.digest must be sha256: and 64 digits, not \"x\"", "/modules/gw/digest"),
            ("delegates must be a list, not 1", "/delegates"),
            ("network outer: delegates[1].ips must be a list", "/delegates/1/ips"),
            ("unknown key speed = 1; known are modules", "/speed"),
            ("unknown key kubeconfig with value \"x\"; catena knows", "/kubeconfig"),
            ("there are neither delegates nor a prevResult", ""),
            ("the request on stdin: not JSON", ""),
        ] {
            assert_eq!(pointer(text), expected, "{text}");
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
