//! What people and programs read.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use catena::report::log::visible;
use serde_json::Value;

use crate::error::Error;

/// A command's result, in both forms.
#[derive(Debug)]
pub(crate) struct Report {
    /// For people; lines.
    pub(crate) text: String,
    /// For programs.
    pub(crate) json: Value,
    pub(crate) exit: Exit,
}

/// What the exit status says of a command that has something to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did its work.
    Done = 0,
    /// It did its work, and the answer is no: problems, a denial, a difference.
    Negative = 1,
    /// A file of the node kept it from finishing.
    Unfinished = 3,
}

impl Exit {
    pub(crate) fn negative(is_so: bool) -> Exit {
        if is_so { Exit::Negative } else { Exit::Done }
    }
}

impl Report {
    /// The report of a command that found nothing wrong.
    pub(crate) fn new(text: String, json: Value) -> Report {
        Report { text, json, exit: Exit::Done }
    }
}

/// Prints the report; colour only where a terminal shows it and `NO_COLOR` is not set.
pub(crate) fn print(report: &Report, json: bool) -> Result<(), Error> {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let mut out = std::io::stdout().lock();
    let written = if json {
        writeln!(out, "{}", visible_lines(&report.json))
    } else {
        report.text.lines().try_for_each(|line| {
            let line = plain(line);
            if colour { writeln!(out, "{}", coloured(&line)) } else { writeln!(out, "{line}") }
        })
    };
    written.and_then(|()| out.flush()).map_err(Error::Output)
}

/// Tells why a command did not do its work: on standard error, and for programs as a document as well.
pub(crate) fn complain(error: &Error, json: bool) {
    let text = error.to_string();
    eprintln!("catenactl: {}", plain(&text));
    if json && !matches!(error, Error::Output(_)) {
        error_document(&text);
    }
}

/// Why nothing was done, for programs.
pub(crate) fn error_document(text: &str) {
    let document = serde_json::json!({ "error": text });
    // Who does not read it has the exit status.
    drop(writeln!(std::io::stdout(), "{}", visible_lines(&document)));
}

/// The document on lines of its own. What a terminal would act on is escaped, which in JSON means the same.
fn visible_lines(json: &Value) -> String {
    let text = format!("{json:#}");
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// A line without anything that a terminal would act on.
pub(crate) fn plain(text: &str) -> String {
    let hidden =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || hidden(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// What is gone red, what is new green, what is wrong red, the label of a line bold.
fn coloured(line: &str) -> String {
    const RESET: &str = "\u{1b}[0m";
    let body = line.trim_start();
    let colour = match body.split(' ').next().unwrap_or_default() {
        "+" => "\u{1b}[32m",
        "-" | "error" | "denied" | "problem" | "differs" | "left" => "\u{1b}[31m",
        "warning" | "note" => "\u{1b}[33m",
        _ => {
            let label = line.find("  ").filter(|at| *at > 0).unwrap_or(0);
            let (label, rest) = line.split_at(label);
            return if label.is_empty() { line.to_owned() } else { format!("\u{1b}[1m{label}{RESET}{rest}") };
        }
    };
    format!("{colour}{line}{RESET}")
}

/// `label: value` in a column.
pub(crate) fn line(text: &mut String, label: &str, value: &str) {
    // What a file says must not look like a line of ours.
    let value = value.replace('\n', "\\n");
    text.push_str(&format!("{label:<10} {value}\n"));
}

/// Bytes as people read them.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{} KB", count / 1000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

/// A duration as people read it.
pub(crate) fn time(duration: Duration) -> String {
    let micros = duration.as_micros();
    if micros < 10_000 { format!("{micros} µs") } else { format!("{} ms", duration.as_millis()) }
}

/// Tells on standard error what takes long: after a second, and from then on how long it has taken.
#[derive(Debug)]
pub(crate) struct Progress {
    end: Option<Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

impl Progress {
    /// From here to the end of the value's life.
    pub(crate) fn start(what: String) -> Progress {
        let (end, ended) = mpsc::channel::<()>();
        let teller = std::thread::spawn(move || {
            let (start, terminal) = (Instant::now(), std::io::stderr().is_terminal());
            let mut told = false;
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                if terminal {
                    eprint!("\rcatenactl: {} … {} s", plain(&what), start.elapsed().as_secs());
                } else if !told {
                    eprintln!("catenactl: {} …", plain(&what));
                }
                told = true;
            }
            if told && terminal {
                eprint!("\r\u{1b}[K");
            }
        });
        Progress { end: Some(end), teller: Some(teller) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.end.take());
        // It only prints; that it could not is no reason to fail.
        self.teller.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{7}\u{9b}x\r"), "a\\u{1b}[2Jb\\u{7}\\u{9b}x\\r");
        let mut text = String::new();
        line(&mut text, "name", "x\ngrants everything");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"a": ["\u{9b}1m", "\u{202e}", "\n", "\u{2028}", "ü"]});
        let text = visible_lines(&value);
        assert!(text.contains(r"\u009b1m") && text.contains(r"\u202e") && text.contains('ü'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.lines().count() > 5);
    }

    #[test]
    fn colours_are_around_the_text() {
        assert_eq!(coloured("+ default via 10.0.0.1"), "\u{1b}[32m+ default via 10.0.0.1\u{1b}[0m");
        assert_eq!(coloured("digest     sha256:ab"), "\u{1b}[1mdigest\u{1b}[0m     sha256:ab");
        assert_eq!(coloured(""), "");
        assert_eq!(coloured("one line"), "one line");
    }
}
