//! What `check` finds.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::output::line;

/// A problem, where it is, and what makes it go away.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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

    /// Whether it is at that place of that file, or inside it.
    pub(crate) fn is_within(&self, file: &Path, place: &str) -> bool {
        let rest = self.path.strip_prefix(place);
        self.file == file && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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

#[cfg(test)]
mod tests {
    use super::*;

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
