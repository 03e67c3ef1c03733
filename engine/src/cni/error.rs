//! The error that a caller gets: the only place where one becomes a CNI error object.

use std::any::Any;
use std::fmt::Write;

use catena_cni::error::{ErrorObject, code};
use catena_cni::version::SpecVersion;

use crate::delegate::DelegateError;
use crate::node::{At, Problem};
use crate::panic;

/// A failure of the whole call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CniError {
    /// A code of formats.md, a delegate's or a stage's own.
    pub code: u32,
    /// What went wrong, with subject and cause; most runtimes show little else.
    pub msg: String,
    /// Everything else that a person needs, one fact or further failure each.
    pub details: Vec<String>,
    /// The JSON pointer (RFC 6901) to what is wrong, where that is one place in the request.
    pub pointer: Option<String>,
}

impl CniError {
    /// An error without details.
    pub fn new(code: u32, msg: impl Into<String>) -> Self {
        Self { code, msg: msg.into(), details: Vec::new(), pointer: None }
    }

    /// Of one place in the request.
    #[must_use]
    pub fn at(mut self, place: &At<'_>) -> Self {
        self.pointer = Some(place.pointer());
        self
    }

    /// With one more fact.
    #[must_use]
    pub fn detail(mut self, fact: impl Into<String>) -> Self {
        self.details.push(fact.into());
        self
    }

    /// The first of `errors` with the others in its details, since a caller sees one code and has to act on the first
    /// cause; `None` if there is no error.
    pub fn first_of(errors: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut errors = errors.into_iter();
        let mut first = errors.next()?;
        for other in errors {
            first.add(other);
        }
        Some(first)
    }

    /// The same error, said of one of several networks.
    #[must_use]
    pub fn of_network(mut self, network: &str) -> Self {
        self.msg = format!("network {network}: {}", self.msg);
        self
    }

    /// Adds another failure to the details.
    pub fn add(&mut self, other: Self) {
        self.details.push(format!("{} (code {})", other.msg, other.code));
        self.details.extend(other.details);
    }

    /// What a caught panic says.
    pub fn from_panic(payload: &(dyn Any + Send)) -> Self {
        let text = panic::text(payload);
        Self::new(code::INTERNAL, format!("internal error in catena (a panic): {text}"))
    }

    /// The same error without the words by which go-cni takes a failed DEL for a successful one, whoever wrote them.
    #[must_use]
    pub fn for_del(mut self) -> Self {
        self.msg = reword(&self.msg);
        for detail in &mut self.details {
            *detail = reword(detail);
        }
        self
    }

    /// The document for stdout. `version` is the request's, if it is known.
    pub fn to_object(&self, version: Option<SpecVersion>) -> ErrorObject {
        ErrorObject {
            cni_version: Some(version.unwrap_or(SpecVersion::NEWEST).as_str().to_owned()),
            code: self.code,
            msg: cut(escape(&self.msg)),
            details: (!self.details.is_empty()).then(|| cut(escape(&self.details.join("; ")))),
        }
    }
}

/// Problems of one document, collected so that a person learns of all of them at once; of very many, of the first.
#[derive(Debug)]
pub struct Problems {
    found: Vec<CniError>,
    more: usize,
    most: usize,
}

impl Default for Problems {
    /// An error is not to be larger than the document.
    fn default() -> Self {
        Self::at_most(20)
    }
}

impl Problems {
    /// Of so many each is kept, of the others the count.
    pub fn at_most(most: usize) -> Self {
        Self { found: Vec::new(), more: 0, most }
    }

    /// One more.
    pub fn add(&mut self, error: impl Into<CniError>) {
        if self.found.len() < self.most {
            self.found.push(error.into());
        } else {
            self.more += 1;
        }
    }

    /// The value, or nothing and one more problem.
    pub fn take<T, E: Into<CniError>>(&mut self, read: Result<T, E>) -> Option<T> {
        read.map_err(|error| self.add(error)).ok()
    }

    /// Says of what was found since there were `earlier` problems that it is of this network.
    pub(super) fn of_network(&mut self, earlier: usize, network: &str) {
        for error in self.found.iter_mut().skip(earlier) {
            error.msg = format!("network {network}: {}", error.msg);
        }
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there is any, of those that are not kept too.
    pub(super) fn count(&self) -> usize {
        self.found.len() + self.more
    }

    /// Each, the last of them telling of those that are not kept.
    pub fn into_vec(mut self) -> Vec<CniError> {
        if let (Some(last), 1..) = (self.found.last_mut(), self.more) {
            last.details.push(format!("and {} more problems", self.more));
        }
        self.found
    }

    /// `value` where there was no problem. It may be absent only where there was one.
    pub fn or<T>(self, value: Option<T>) -> Result<T, CniError> {
        match (CniError::first_of(self.into_vec()), value) {
            (Some(error), _) => Err(error),
            (None, Some(value)) => Ok(value),
            (None, None) => Err(CniError::new(code::INTERNAL, "a document without a problem gave no value")),
        }
    }
}

impl From<Problem> for CniError {
    fn from(problem: Problem) -> Self {
        Self { pointer: Some(problem.pointer), ..Self::new(problem.code, problem.text) }
    }
}

impl From<DelegateError> for CniError {
    fn from(error: DelegateError) -> Self {
        let mut this = Self::new(error.code(), error.to_string());
        this.details.extend(error.details().map(str::to_owned));
        this
    }
}

/// The text with every control character written out, for a terminal or a log.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            // The separators end a line for some readers; the others turn the direction of what follows.
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(char));
            }
            char if char.is_control() => {
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(char));
            }
            char => escaped.push(char),
        }
    }
    escaped
}

/// Bytes of an error's text: more than anybody reads, and a runtime keeps it and hands it on.
const TEXT: usize = 64 << 10;

/// The text up to that length.
fn cut(mut text: String) -> String {
    if text.len() > TEXT {
        text.truncate(text.floor_char_boundary(TEXT));
        text.push('…');
    }
    text
}

fn reword(text: &str) -> String {
    let text = replace_any_case(text, "not found", "missing");
    replace_any_case(&text, "no such file or directory", "file or directory does not exist")
}

/// `words` are ASCII, so a match starts and ends at a character's boundary.
fn replace_any_case(text: &str, words: &str, by: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) =
        rest.as_bytes().windows(words.len()).position(|window| window.eq_ignore_ascii_case(words.as_bytes()))
    {
        let (before, found) = rest.split_at(at);
        replaced.push_str(before);
        replaced.push_str(by);
        rest = found.split_at(words.len()).1;
    }
    replaced.push_str(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_del_error_is_never_taken_for_success() {
        let error = CniError::new(7, "Link NOT FOUND: é not found, No Such File Or Directory")
            .detail("open /x: no such file or directory")
            .for_del();
        assert_eq!(error.msg, "Link missing: é missing, file or directory does not exist");
        assert_eq!(error.details, ["open /x: file or directory does not exist"]);
    }

    #[test]
    fn what_a_person_reads_has_no_control_characters() {
        let object = CniError::new(7, "a\n\u{1b}[31mb\u{202e}").detail("c\0").detail("d").to_object(None);
        assert_eq!(object.msg, "a\\n\\u{1b}[31mb\\u{202e}");
        assert_eq!(object.details.as_deref(), Some("c\\u{0}; d"));
        assert_eq!(object.cni_version.as_deref(), Some("1.1.0"));
    }

    #[test]
    fn what_a_runtime_keeps_is_bounded() {
        let mut error = CniError::new(7, "ü".repeat(1 << 20));
        error.details = vec!["x".repeat(1000); 1000];
        let object = error.to_object(None);
        assert!(object.msg.len() < TEXT + 4 && object.msg.ends_with("ü…"));
        assert!(object.details.is_some_and(|details| details.len() < TEXT + 4));
    }

    #[test]
    fn the_first_error_decides() {
        let all = [CniError::new(11, "later").detail("a"), CniError::new(7, "bad").detail("b")];
        let first = CniError::first_of(all).unwrap();
        assert_eq!((first.code, first.msg.as_str()), (11, "later"));
        assert_eq!(first.details, ["a", "bad (code 7)", "b"]);
    }
}
