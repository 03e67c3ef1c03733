//! The processes of an invocation's delegates: each in the log, and what they wrote to stderr on our own.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::cni::escape;
use crate::delegate::{Exit, Observer, Run};

/// Bytes of one process's stderr that are handed on and logged: the end, where the cause usually is. A caller that
/// reads no stderr must not stop us, so that of a few delegates has to fit into a pipe.
const STDERR: usize = 8 * 1024;

/// What ran, in the order in which it ended.
#[derive(Debug, Default)]
pub struct DelegateLog(Mutex<Vec<Value>>);

impl DelegateLog {
    /// The processes so far, as they stand in the log line.
    pub fn to_value(&self) -> Value {
        Value::Array(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Observer for DelegateLog {
    /// libcni hands a plugin's stderr on to its own if the plugin succeeded. If it failed, the error tells the cause,
    /// and stderr is in the log.
    fn ended(&self, run: &Run<'_>) {
        let stderr = tail(run.stderr.trim_end());
        if run.exit == Exit::Status(0) {
            let text: String = lines(run, stderr).collect();
            // Nobody may be reading, and the work is done all the same.
            drop(std::io::stderr().lock().write_all(text.as_bytes()));
        }
        let mut record = json!({
            "plugin": run.plugin,
            "ifname": run.ifname,
            "command": run.command.as_str(),
            "path": run.path.display().to_string(),
            "durationUs": u64::try_from(run.duration.as_micros()).unwrap_or(u64::MAX),
            "exit": match run.exit {
                Exit::Status(status) => json!(status),
                Exit::Signal(signal) => json!(signal.as_str()),
                Exit::Deadline => json!("deadline"),
                Exit::Output => json!("too much output"),
            },
        });
        if !stderr.is_empty() {
            record["stderr"] = Value::from(stderr.lines().map(escape).collect::<Vec<_>>());
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    }
}

/// The lines of a delegate's stderr, each with its author.
fn lines<'a>(run: &'a Run<'_>, stderr: &'a str) -> impl Iterator<Item = String> + 'a {
    let ifname = if run.ifname.is_empty() { String::new() } else { format!(" for {}", run.ifname) };
    stderr
        .lines()
        .map(move |line| format!("delegate {}{ifname} ({}): {}\n", run.plugin, run.command, escape(line)))
}

fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(STDERR);
    (from..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::delegate::Command;

    #[test]
    fn what_a_delegate_wrote_is_bounded_and_escaped() {
        let stderr = format!("{}\nlast\u{1b}[2J\n", "é".repeat(STDERR));
        let run = Run {
            plugin: "ptp",
            ifname: "eth0",
            command: Command::Add,
            path: Path::new("/opt/cni/bin/ptp"),
            duration: Duration::from_micros(7),
            exit: Exit::Status(3),
            stderr: &stderr,
        };
        assert!(tail(run.stderr).len() <= STDERR);
        assert_eq!(
            lines(&run, "a\tb\nc").collect::<String>(),
            "delegate ptp for eth0 (ADD): a\\tb\ndelegate ptp for eth0 (ADD): c\n"
        );
        let log = DelegateLog::default();
        log.ended(&run);
        let value = log.to_value();
        assert_eq!((&value[0]["exit"], &value[0]["durationUs"]), (&json!(3), &json!(7)));
        assert_eq!(value[0]["stderr"].as_array().unwrap().last().unwrap(), "last\\u{1b}[2J");
    }
}
