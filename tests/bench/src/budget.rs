//! The budgets of whole calls, beside what was measured. One that cannot be computed is an error.

use crate::measured::{Key, Measured, NO_DELEGATE};
use crate::stats::{Samples, millis, ms};
use crate::subject::Meta;
use crate::verdict::Verdict;

/// Median and least of all runs, in milliseconds.
type Pair = (f64, f64);

fn pair(samples: &Samples) -> Pair {
    (millis(samples.median()), millis(samples.least()))
}

fn minus(one: Pair, other: Pair) -> Pair {
    (one.0 - other.0, one.1 - other.1)
}

/// An ADD of catena.
fn add(measured: &Measured, case: &str) -> Result<Pair, String> {
    measured.need(Key { case, subject: Meta::CATENA, command: "ADD" }).map(pair)
}

/// What catena adds to the delegates' ADD.
fn over(measured: &Measured, case: &str) -> Result<Pair, String> {
    let alone = measured.need(Key { case, subject: "alone", command: "ADD" })?;
    Ok(minus(add(measured, case)?, pair(alone)))
}

/// Milliseconds that a module may cost more than the built-in stage in whose place it is. Finding and reading the
/// artifact of one more compiled module takes 0.4 to 0.7 ms, and compiling the least stage took 57 ms: only what
/// compiles exceeds this, even where a neighbour makes everything take twice as long.
const MODULE_BUDGET: f64 = 2.0;

/// Compares; the file is catena's.
pub(crate) fn verdicts(measured: &Measured, binary: u64) -> Result<Vec<Verdict>, String> {
    let time = |what: &str, (measured, least): Pair, budget| Verdict {
        what: what.to_owned(),
        unit: "ms",
        measured,
        least,
        budget,
    };
    let one = over(measured, "instant ×1")?;
    let eight = over(measured, "instant ×8")?;
    let each = ((eight.0 - one.0) / 7.0, (eight.1 - one.1) / 7.0);
    let module = minus(add(measured, "instant ×1, a module installed")?, add(measured, "instant ×1")?);
    let version = Key { case: NO_DELEGATE, subject: Meta::CATENA, command: "VERSION" };
    let version = minus(pair(measured.need(version)?), pair(measured.need(Key::EMPTY)?));
    let size = binary as f64 / 1e6;
    Ok(vec![
        time("ADD around one instant delegate, over the delegate", one, 2.5),
        time("each further attachment, over its delegate", each, 0.5),
        time("VERSION, over an empty static process", version, 0.3),
        time("a module that was swapped in, over the built-in stage", module, MODULE_BUDGET),
        peak(measured)?,
        Verdict { what: "the executable".to_owned(), unit: "MB", measured: size, least: size, budget: 7.0 },
    ])
}

/// The most memory of any call.
fn peak(measured: &Measured) -> Result<Verdict, String> {
    let mut most: Option<(u64, f64, String)> = None;
    for (key, samples) in measured.of(Meta::CATENA) {
        let Key { case, command, .. } = key;
        let peak = samples.trace.peak_kib;
        if peak == 0 {
            return Err(format!(
                "the memory of {command} in the case '{case}' was not seen, and a budget needs it"
            ));
        }
        if most.as_ref().is_none_or(|most| peak > most.0) {
            let what = format!("peak memory, the most of all calls ({command}, {case})");
            most = Some((peak, samples.trace.peak_mib(), what));
        }
    }
    let (_, mib, what) = most.ok_or("no call of catena was measured, and a budget needs its memory")?;
    Ok(Verdict { what, unit: "MiB", measured: mib, least: mib, budget: 10.0 })
}

/// A line about how fast the machine is, for a reader who compares two runs or two machines.
pub(crate) fn speed_note(measured: &Measured) -> Result<String, String> {
    let empty = measured.need(Key::EMPTY)?;
    Ok(format!(
        "an empty static process takes {} ms here (least {}); the budgets are from a machine where it takes 0.49 to 0.59 ms",
        ms(empty.median()),
        ms(empty.least())
    ))
}

/// A line about what moving the default route costs in a whole call, for which the budget is a number inside the process.
pub(crate) fn route_note(measured: &Measured) -> Result<String, String> {
    let without = add(measured, "linked ×2")?;
    let (median, least) = minus(add(measured, "linked ×2, default route moved")?, without);
    Ok(format!(
        "moving the default route of both families from one attachment to another adds {median:.2} ms to an ADD \
         (least {least:.2} ms; without: {:.2} ms)",
        without.0
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process::Cost;

    /// What the budgets need, with these milliseconds of ADD around one delegate and peak memory of ADD around eight.
    fn all(one: u64, peak_kib: u64) -> Measured {
        let mut measured = Measured::default();
        let mut push = |case, subject, command, millis, peak_kib| {
            let samples = measured.entry(Key { case, subject, command });
            samples.push(Cost { wall: Duration::from_millis(millis), ..Cost::default() });
            samples.trace.peak_kib = peak_kib;
        };
        push(NO_DELEGATE, "empty process", "–", 1, 100);
        push(NO_DELEGATE, Meta::CATENA, "VERSION", 1, 200);
        for (case, alone, with) in
            [("instant ×1", 1, one), ("instant ×8", 8, one + 14), ("instant ×1, a module installed", 1, one)]
        {
            push(case, "alone", "ADD", alone, 300);
            push(case, Meta::CATENA, "ADD", with, if case == "instant ×8" { peak_kib } else { 5_000 });
        }
        measured
    }

    #[test]
    fn what_is_over_a_budget_is_said_to_be() {
        let holds = |measured: &Measured| -> Vec<bool> {
            verdicts(measured, 6_000_000).unwrap().iter().map(Verdict::holds).collect()
        };
        assert_eq!(holds(&all(3, 6_000)), [true, false, true, true, true, true]);
        assert_eq!(holds(&all(4, 11_000)), [false, false, true, true, false, true]);
        let peak = &verdicts(&all(3, 11_000), 0).unwrap()[4];
        assert!(peak.what.contains("ADD, instant ×8"), "{}", peak.what);
        assert_eq!(format!("{:.2}", peak.measured), "10.74");
    }

    #[test]
    fn a_budget_that_cannot_be_computed_is_an_error() {
        assert!(verdicts(&Measured::default(), 0).is_err());
        assert!(verdicts(&all(3, 0), 0).unwrap_err().contains("memory of ADD in the case 'instant ×8'"));
        assert!(route_note(&all(3, 1)).unwrap_err().contains("linked ×2"));
    }
}
