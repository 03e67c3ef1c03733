//! All that was measured, and its table.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::stats::{Samples, millis, ms};

/// The case of what has no delegate.
pub(crate) const NO_DELEGATE: &str = "no delegate";

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Key<'a> {
    pub(crate) case: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) command: &'a str,
}

impl Key<'static> {
    /// The empty process, which has no command.
    pub(crate) const EMPTY: Self = Key { case: NO_DELEGATE, subject: "empty process", command: "–" };
}

impl Key<'_> {
    /// What this is compared with.
    fn beside(self) -> Option<Self> {
        match self {
            Key { subject: "alone", .. } | Key::EMPTY => None,
            Key { case: NO_DELEGATE, .. } => Some(Key::EMPTY),
            key => Some(Key { subject: "alone", ..key }),
        }
    }
}

#[derive(Debug)]
struct Row {
    case: String,
    subject: String,
    command: String,
    samples: Samples,
    /// Why there are none.
    failure: Option<String>,
}

impl Row {
    fn key(&self) -> Key<'_> {
        Key { case: &self.case, subject: &self.subject, command: &self.command }
    }

    /// The first line of why there are no samples.
    fn failed(&self) -> Option<&str> {
        self.failure.as_ref().and_then(|failure| failure.lines().next())
    }
}

/// All samples, in the order in which they first came.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    rows: Vec<Row>,
}

impl Measured {
    fn row(&mut self, key: Key<'_>) -> &mut Row {
        let there = self.rows.iter().position(|row| row.key() == key);
        let index = there.unwrap_or_else(|| {
            self.rows.push(Row {
                case: key.case.to_owned(),
                subject: key.subject.to_owned(),
                command: key.command.to_owned(),
                samples: Samples::default(),
                failure: None,
            });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// Samples to which something is added.
    pub(crate) fn entry(&mut self, key: Key<'_>) -> &mut Samples {
        &mut self.row(key).samples
    }

    /// Notes that there is nothing to be had, for the first reason that is given.
    pub(crate) fn fail(&mut self, key: Key<'_>, error: String) {
        self.row(key).failure.get_or_insert(error);
    }

    pub(crate) fn failure(&self, key: Key<'_>) -> Option<&str> {
        self.rows.iter().find(|row| row.key() == key)?.failure.as_deref()
    }

    /// Samples that a budget or a note needs.
    pub(crate) fn need(&self, key: Key<'_>) -> Result<&Samples, String> {
        let row = self.rows.iter().find(|row| row.key() == key && !row.samples.is_empty());
        row.map(|row| &row.samples).ok_or_else(|| {
            let Key { case, subject, command } = key;
            format!("{command} of {subject} in the case '{case}' was not measured, and a budget needs it")
        })
    }

    /// All that was measured of one subject.
    pub(crate) fn of<'a>(&'a self, subject: &'a str) -> impl Iterator<Item = (Key<'a>, &'a Samples)> {
        self.rows.iter().filter(move |row| row.subject == subject).map(|row| (row.key(), &row.samples))
    }

    pub(crate) fn to_value(&self) -> Value {
        let one = |row: &Row| {
            let mut value = match &row.failure {
                Some(failure) => json!({"failed": failure}),
                None => row.samples.to_value(),
            };
            value["case"] = json!(row.case);
            value["subject"] = json!(row.subject);
            value["command"] = json!(row.command);
            value
        };
        self.rows.iter().map(one).collect()
    }

    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<33} {:<8} {:<14} {:>8} {:>8} {:>8} {:>9} {:>8} {:>9} {:>8} {:>7}\n",
            "case",
            "command",
            "subject",
            "min ms",
            "median",
            "p95",
            "over",
            "cpu ms",
            "peak MiB",
            "syscalls",
            "faults"
        );
        let mut last = "";
        for row in &self.rows {
            let case = if last == row.case { "" } else { &row.case };
            last = &row.case;
            // Writing to a String does not fail.
            let _ = write!(text, "{case:<33} {:<8} {:<14} ", row.command, row.subject);
            text += &match row.failure {
                Some(_) => format!("{:>8}\n", "n/a"),
                None => self.numbers(row),
            };
        }
        text + &self.failures()
    }

    fn numbers(&self, row: &Row) -> String {
        let Row { samples, .. } = row;
        let beside = row.key().beside().and_then(|key| self.rows.iter().find(|row| row.key() == key));
        let over = beside
            .map(|beside| format!("{:+.2}", millis(samples.median()) - millis(beside.samples.median())));
        format!(
            "{:>8} {:>8} {:>8} {:>9} {:>8} {:>9.1} {:>8} {:>7}\n",
            ms(samples.least()),
            ms(samples.median()),
            ms(samples.wall(0.95)),
            over.unwrap_or_default(),
            ms(samples.cpu()),
            samples.trace.peak_mib(),
            samples.trace.calls,
            samples.faults(),
        )
    }

    /// What was first said of each failure, once; all of it is in the report.
    fn failures(&self) -> String {
        let mut text = String::new();
        let mut said: Vec<&str> = Vec::new();
        for row in &self.rows {
            let Some(line) = row.failed() else { continue };
            if said.contains(&line) {
                continue;
            }
            said.push(line);
            let more = match self.rows.iter().filter(|row| row.failed() == Some(line)).count() {
                0 | 1 => String::new(),
                all => format!(" and {} more", all - 1),
            };
            // Writing to a String does not fail.
            let _ = writeln!(text, "n/a: {} {} of {}{more}: {line}", row.subject, row.command, row.case);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process::Cost;

    fn key<'a>(subject: &'a str, command: &'a str) -> Key<'a> {
        Key { case: "instant ×1", subject, command }
    }

    fn cost(millis: u64) -> Cost {
        Cost { wall: Duration::from_millis(millis), ..Cost::default() }
    }

    #[test]
    fn a_line_says_what_it_costs_over_what_it_is_beside() {
        let mut measured = Measured::default();
        measured.entry(key("alone", "ADD")).push(cost(1));
        measured.entry(key("catena", "ADD")).push(cost(3));
        let table = measured.table();
        assert!(table.lines().any(|line| line.contains("catena") && line.contains("+2.00")), "{table}");
        assert!(!table.contains("n/a"), "{table}");
    }

    #[test]
    fn a_failure_is_a_line_without_numbers_and_told_once() {
        let mut measured = Measured::default();
        for command in ["ADD", "DEL"] {
            measured.fail(key("other", command), format!("code 7\nstdin: {command}"));
            measured.fail(key("other", command), "code 8".to_owned());
        }
        let table = measured.table();
        assert_eq!(table.matches("code").count(), 1, "{table}");
        assert!(table.ends_with("n/a: other ADD of instant ×1 and 1 more: code 7\n"), "{table}");
        assert_eq!(measured.to_value()[0]["failed"], "code 7\nstdin: ADD");
    }

    #[test]
    fn what_was_not_measured_is_an_error_for_a_budget() {
        let mut measured = Measured::default();
        measured.entry(key("catena", "ADD")).push(cost(3));
        measured.entry(key("catena", "DEL")).trace.calls = 5;
        assert!(measured.need(key("catena", "ADD")).is_ok());
        for command in ["CHECK", "DEL"] {
            let error = measured.need(key("catena", command)).unwrap_err();
            assert!(error.contains(command) && error.contains("instant ×1"), "{error}");
        }
    }
}
