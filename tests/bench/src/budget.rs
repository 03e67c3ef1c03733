//! The budgets, beside what was measured.

use std::time::Duration;

use serde_json::{Value, json};

use crate::calls::Measured;
use crate::stats::ms;

/// One promise and how it is kept.
#[derive(Debug)]
pub(crate) struct Verdict {
    what: &'static str,
    unit: &'static str,
    measured: f64,
    /// The same with the least of all runs instead of the median.
    least: f64,
    budget: f64,
}

impl Verdict {
    pub(crate) fn holds(&self) -> bool {
        self.measured <= self.budget
    }

    pub(crate) fn to_value(&self) -> Value {
        json!({"what": self.what, "unit": self.unit, "measured": self.measured, "least": self.least,
               "budget": self.budget, "holds": self.holds()})
    }

    pub(crate) fn line(&self) -> String {
        format!(
            "{:<58} {:>7.2} {:<3} (least {:>5.2})  budget {:>5.2}  {:>4.0} %  {}",
            self.what,
            self.measured,
            self.unit,
            self.least,
            self.budget,
            self.measured / self.budget * 100.0,
            if self.holds() { "holds" } else { "EXCEEDED" }
        )
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Compares; the file is catena's.
pub(crate) fn verdicts(measured: &Measured, binary: u64) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut push = |what, unit, measured, least, budget| {
        verdicts.push(Verdict { what, unit, measured, least, budget });
    };
    let over = |case: &str, command: &str| {
        let ours = measured.get(case, "catena", command)?;
        let alone = measured.get(case, "alone", command)?;
        Some((millis(ours.median()) - millis(alone.median()), millis(ours.least()) - millis(alone.least())))
    };
    if let Some((median, least)) = over("instant ×1", "ADD") {
        push("ADD around one instant delegate, over the delegate", "ms", median, least, 2.5);
        if let Some((median8, least8)) = over("instant ×8", "ADD") {
            let each = |eight: f64, one: f64| (eight - one) / 7.0;
            let what = "each further attachment, over its delegate";
            push(what, "ms", each(median8, median), each(least8, least), 0.5);
        }
    }
    if let (Some(version), Some(empty)) =
        (measured.get("no delegate", "catena", "VERSION"), measured.get("no delegate", "empty process", "–"))
    {
        let what = "VERSION, over an empty static process";
        let median = millis(version.median()) - millis(empty.median());
        push(what, "ms", median, millis(version.least()) - millis(empty.least()), 0.3);
    }
    if let Some(add) = measured.get("instant ×1", "catena", "ADD") {
        let peak = add.trace.peak_kib as f64 / 1024.0;
        push("peak memory of an ADD around one delegate", "MiB", peak, peak, 10.0);
    }
    let size = binary as f64 / 1e6;
    push("the executable", "MB", size, size, 7.0);
    verdicts
}

/// A line about how fast the machine is, for a reader who compares two runs or two machines.
pub(crate) fn speed_note(measured: &Measured) -> Option<String> {
    let empty = measured.get("no delegate", "empty process", "–")?;
    Some(format!(
        "an empty static process takes {} ms here (least {}); the budgets are from a machine where it takes 0.49 to 0.59 ms",
        ms(empty.median()),
        ms(empty.least())
    ))
}

/// A line about what moving the default route costs, for which the budget is a number inside the process.
pub(crate) fn route_note(measured: &Measured) -> Option<String> {
    let with = measured.get("linked ×2, default route moved", "catena", "ADD")?;
    let without = measured.get("linked ×2", "catena", "ADD")?;
    let median = millis(with.median()) - millis(without.median());
    let least = millis(with.least()) - millis(without.least());
    Some(format!(
        "moving the default route of both families from one attachment to another adds {median:.2} ms to an ADD \
         (least {least:.2} ms; without: {} ms)",
        ms(without.median())
    ))
}
