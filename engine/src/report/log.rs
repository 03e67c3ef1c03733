//! The log: one JSON line per invocation, and the stages' own lines at level `debug`.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

use crate::cni::Level;

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file could not be opened.
    #[error("log file {path}: {source}; it must be a regular file, or not be there in a folder that is")]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

static LEVEL: OnceLock<Level> = OnceLock::new();

/// The level of the log that was started.
pub fn level() -> Option<Level> {
    LEVEL.get().copied()
}

/// Starts logging. Without a file and without stderr nothing is set up, and events cost nothing.
pub fn start(file: Option<&Path>, level: Level, to_stderr: bool) -> Result<(), LogError> {
    let file = file.map(open).transpose()?;
    if file.is_none() && !to_stderr {
        return Ok(());
    }
    let filter = match LEVEL.get_or_init(|| level) {
        Level::Panic | Level::Error => LevelFilter::ERROR,
        Level::Verbose => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    let output = Output { file, to_stderr };
    let lines = tracing_subscriber::fmt::layer().event_format(JsonLine).with_ansi(false).with_writer(output);
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    // A second call can only come from a test in the same process; the first log stays.
    drop(tracing::subscriber::set_global_default(subscriber));
    Ok(())
}

fn open(path: &Path) -> Result<File, LogError> {
    let failed = |source| LogError::Open { path: path.to_owned(), source };
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC | nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("not a regular file")));
    }
    Ok(file)
}

/// Where lines go.
#[derive(Debug)]
struct Output {
    file: Option<File>,
    to_stderr: bool,
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Output {
    type Writer = &'a Output;

    fn make_writer(&'a self) -> &'a Output {
        self
    }
}

impl io::Write for &Output {
    /// A line comes in one piece, and an append of one piece is not torn by other processes.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.to_stderr {
            // Nobody reads it any more; the file still is to have the line.
            drop(io::stderr().write_all(line));
        }
        if let Some(mut file) = self.file.as_ref()
            && let Err(error) = file.write_all(line)
        {
            // Whoever called us asks no logger how it fared.
            let text = format!("catena: the log line could not be written: {error}\n");
            drop(io::stderr().write_all(text.as_bytes()));
            if !self.to_stderr {
                drop(io::stderr().write_all(line));
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes an event as one JSON object. A field called `record` holds a JSON object whose members stand
/// beside the event's own.
struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut members = Members(Map::new());
        members.0.insert("time".to_owned(), Value::from(now()));
        members.0.insert("level".to_owned(), Value::from(event.metadata().level().as_str().to_lowercase()));
        event.record(&mut members);
        writer.write_str(&visible(&Value::Object(members.0).to_string()))?;
        writer.write_char('\n')
    }
}

/// JSON text without characters that a terminal hides or obeys. JSON itself escapes only those below U+0020; the
/// others can stand in its strings alone, where an escape means the same.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let hidden = character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if hidden {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    out
}

/// Seconds since 1970 with milliseconds, as text.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03}", since.as_secs(), since.subsec_millis())
}

struct Members(Map<String, Value>);

impl Visit for Members {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(text, "{value:?}");
        self.record_str(field, &text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "record"
            && let Ok(Value::Object(record)) = serde_json::from_str(value)
        {
            self.0.extend(record);
            return;
        }
        self.0.insert(field.name().to_owned(), Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), Value::from(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_members_of_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catena.log");
        let output = Output { file: Some(open(&path).unwrap()), to_stderr: false };
        let layer =
            tracing_subscriber::fmt::layer().event_format(JsonLine).with_ansi(false).with_writer(output);
        let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(record = r#"{"command":"ADD","n":[1]}"#, outcome = "ok", code = 0);
            tracing::debug!("not at this level");
        });
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["command"], "ADD");
        assert_eq!(value["n"][0], 1);
        assert_eq!(value["level"], "info");
        assert_eq!(value["code"], 0);
    }

    #[test]
    fn a_line_obeys_no_terminal() {
        let evil = "\u{1b}[2J\u{7f}\u{9b}2J\u{202e}\u{2066}ü";
        let line = visible(&serde_json::json!({ "a": evil, evil: 1 }).to_string());
        assert!(line.chars().all(|c| (' '..='~').contains(&c) || c == 'ü'), "{line:?}");
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&value["a"], &value[evil]), (&Value::from(evil), &Value::from(1)));
    }

    #[test]
    fn a_log_is_never_written_over_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("x.log");
        std::os::unix::fs::symlink(folder.path().join("target"), &link).unwrap();
        assert!(open(&link).is_err());
        assert!(open(folder.path()).is_err());
        assert!(open(Path::new("/dev/null")).is_err());
    }
}
