//! How one cost grows with one thing.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::stats::{Samples, micros, millis, ms};

/// The exponent of the last step above which a cost grows faster than its input. Every call has a part that does not
/// grow, so what is linear stays below 1, and n log n is at 1.1 from 10,000 to 100,000. The rest up to here is for
/// what is not the algorithm's: caches that the larger input does not fit into, and neighbours on the machine.
const LIMIT: f64 = 1.25;

/// What is below this is noise around nothing, and an exponent of it arbitrary.
const FLOOR: Duration = Duration::from_micros(100);

/// The same as a share of the delegates' time, by which one run of them differs from the next.
const NOISE: f64 = 0.1;

/// What the points of a series say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Growth {
    /// No faster than its input.
    Bounded,
    /// Faster than its input.
    TooFast,
    /// Nobody knows: what catena adds to the delegates vanished in how long they took.
    Unknown,
}

/// What was measured at one size.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) size: usize,
    pub(crate) with: Samples,
    /// The delegates without catena; empty where there is nothing to compare.
    pub(crate) alone: Samples,
}

/// Points from small to large.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) what: &'static str,
    pub(crate) command: &'static str,
    pub(crate) points: Vec<Point>,
    /// Whether wall time says anything: a delegate's DEL waits until the kernel has let go of its links, for a time that
    /// differs more from one to the next than all that catena does.
    pub(crate) judge_wall: bool,
}

/// What catena adds to the delegates.
#[derive(Debug, Clone, Copy)]
struct Over {
    added: Duration,
    alone: Duration,
}

impl Over {
    fn new(with: Duration, alone: Duration) -> Over {
        Over { added: with.saturating_sub(alone), alone }
    }

    /// It, unless it is lost in noise.
    fn seen(self) -> Option<f64> {
        let least = FLOOR.as_secs_f64().max(self.alone.as_secs_f64() * NOISE);
        Some(self.added.as_secs_f64()).filter(|added| *added >= least)
    }
}

impl Point {
    /// Least wall time.
    fn wall(&self) -> Over {
        Over::new(self.with.least(), self.alone.least())
    }

    /// Least processor time.
    fn cpu(&self) -> Over {
        Over::new(self.with.least_cpu(), self.alone.least_cpu())
    }
}

/// The exponent of the growth between two points; above 1 is faster than the input.
fn exponent(small: usize, less: Over, large: usize, more: Over) -> Option<f64> {
    Some((more.seen()? / less.seen()?).ln() / (large as f64 / small as f64).ln())
}

impl Series {
    pub(crate) fn new(what: &'static str, command: &'static str, judge_wall: bool) -> Series {
        Series { what, command, points: Vec::new(), judge_wall }
    }

    /// From each point to the next.
    fn exponents(&self, of: fn(&Point) -> Over) -> Vec<Option<f64>> {
        let steps = self.points.iter().zip(self.points.iter().skip(1));
        steps.map(|(less, more)| exponent(less.size, of(less), more.size, of(more))).collect()
    }

    /// The last step decides: there the part that does not grow hides least. What wall time does not show, since the
    /// delegates take so much of it, processor time does.
    pub(crate) fn growth(&self) -> Growth {
        let last = |of| self.exponents(of).last().copied().flatten();
        let wall = if self.judge_wall { last(Point::wall) } else { None };
        match last(Point::cpu) {
            None => Growth::Unknown,
            Some(cpu) if cpu > LIMIT || wall.is_some_and(|wall| wall > LIMIT) => Growth::TooFast,
            Some(_) => Growth::Bounded,
        }
    }

    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{:<46} {:>9} {:>9} {:>9} {:>6} {:>9} {:>9} {:>6} {:>9} {:>9}",
            format!("{}: {}", self.what, self.command),
            "least ms",
            "alone",
            "over",
            "exp",
            "cpu ms",
            "over",
            "exp",
            "peak MiB",
            "syscalls"
        );
        let (walls, cpus) = (self.exponents(Point::wall), self.exponents(Point::cpu));
        for (index, point) in self.points.iter().enumerate() {
            let step =
                |exponents: &[Option<f64>]| match index.checked_sub(1).and_then(|step| exponents.get(step)) {
                    Some(Some(exponent)) => format!("{exponent:.2}"),
                    Some(None) => "?".to_owned(),
                    None => String::new(),
                };
            let _ = writeln!(
                text,
                "{:>46} {:>9} {:>9} {:>9.2} {:>6} {:>9} {:>9.2} {:>6} {:>9.1} {:>9}",
                point.size,
                ms(point.with.least()),
                ms(point.alone.least()),
                millis(point.wall().added),
                step(&walls),
                ms(point.with.least_cpu()),
                millis(point.cpu().added),
                step(&cpus),
                point.with.trace.peak_mib(),
                point.with.trace.calls,
            );
        }
        let _ = match self.growth() {
            Growth::Bounded => Ok(()),
            Growth::TooFast => writeln!(text, "{:>46} GROWS FASTER THAN ITS INPUT", ""),
            Growth::Unknown => writeln!(text, "{:>46} NOT JUDGED: lost in the time of the delegates", ""),
        };
        text
    }

    pub(crate) fn to_value(&self) -> Value {
        let point = |point: &Point| {
            json!({
                "size": point.size,
                "leastUs": micros(point.with.least()), "overUs": micros(point.wall().added),
                "cpuUs": micros(point.with.least_cpu()), "cpuOverUs": micros(point.cpu().added),
                "peakKiB": point.with.trace.peak_kib, "systemCalls": point.with.trace.calls,
            })
        };
        json!({
            "what": self.what, "command": self.command,
            "points": self.points.iter().map(point).collect::<Vec<_>>(),
            "exponents": {"wall": self.exponents(Point::wall), "cpu": self.exponents(Point::cpu)},
            "growth": match self.growth() {
                Growth::Bounded => "bounded",
                Growth::TooFast => "too fast",
                Growth::Unknown => "unknown",
            },
        })
    }
}

/// All of them in one line, which names those that do not stay bounded.
pub(crate) fn summary(all: &[Series]) -> String {
    let named = |growth| {
        let those = all.iter().filter(|series| series.growth() == growth);
        those.map(|series| format!("{} of {}", series.command, series.what)).collect::<Vec<_>>()
    };
    let fast = named(Growth::TooFast);
    let mut text = match fast.len() {
        0 => format!("none of {} costs grows faster than its input", all.len()),
        1 => format!("1 of {} costs grows faster than its input: {}", all.len(), fast.join(", ")),
        count => format!("{count} of {} costs grow faster than their input: {}", all.len(), fast.join(", ")),
    };
    let unknown = named(Growth::Unknown);
    if !unknown.is_empty() {
        // Writing to a String does not fail.
        let _ =
            write!(text, "\nnot judged, for want of rounds or of an idle machine: {}", unknown.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Cost;

    fn samples(millis: u64) -> Samples {
        let mut samples = Samples::default();
        let time = Duration::from_millis(millis);
        samples.push(Cost { wall: time, cpu: time, faults: 0 });
        samples
    }

    fn series(points: &[(usize, u64, u64)]) -> Series {
        let mut series = Series::new("routes", "ADD", true);
        for (size, with, alone) in points {
            series.points.push(Point { size: *size, with: samples(*with), alone: samples(*alone) });
        }
        series
    }

    #[test]
    fn an_exponent_is_1_where_cost_and_size_grow_alike() {
        let over = |millis| Over::new(Duration::from_millis(millis), Duration::ZERO);
        let of = |less, more| exponent(10, over(less), 100, over(more));
        let is = |exponent: Option<f64>, wanted: f64| exponent.is_some_and(|is| (is - wanted).abs() < 1e-9);
        assert!(is(of(5, 50), 1.0) && is(of(5, 500), 2.0) && is(of(5, 5), 0.0));
        assert_eq!((of(0, 5), of(5, 0)), (None, None));
        let lost = Over::new(Duration::from_millis(109), Duration::from_millis(100));
        assert_eq!(exponent(10, over(5), 100, lost), None);
    }

    #[test]
    fn the_last_step_over_the_delegates_alone_decides() {
        // Linear, with delegates that are not.
        assert_eq!(series(&[(10, 20, 10), (100, 1_100, 1_000)]).growth(), Growth::Bounded);
        assert_eq!(series(&[(10, 20, 10), (100, 1_200, 200)]).growth(), Growth::TooFast);
        assert_eq!(series(&[(1, 1, 0), (10, 1_000, 0), (100, 10_000, 0)]).growth(), Growth::Bounded);
        for unknown in [&[(10, 20, 30), (100, 1_200, 200)][..], &[(10, 20, 10)], &[]] {
            assert_eq!(series(unknown).growth(), Growth::Unknown, "{unknown:?}");
        }
    }

    #[test]
    fn a_verdict_stands_below_the_points_and_in_the_report() {
        let fast = series(&[(10, 20, 10), (100, 1_200, 200)]);
        assert!(fast.table().ends_with("GROWS FASTER THAN ITS INPUT\n"), "{}", fast.table());
        assert_eq!(fast.to_value()["growth"], "too fast");
        let exponent = fast.to_value()["exponents"]["wall"][0].as_f64();
        assert!(exponent.is_some_and(|exponent| (exponent - 2.0).abs() < 1e-9), "{exponent:?}");
        let linear = || series(&[(10, 20, 10), (100, 1_100, 1_000)]);
        assert_eq!(linear().table().lines().count(), 3, "{}", linear().table());
        assert_eq!(summary(&[linear()]), "none of 1 costs grows faster than its input");
        let text = summary(&[fast, linear(), series(&[])]);
        assert_eq!(
            text,
            "1 of 3 costs grows faster than its input: ADD of routes\n\
             not judged, for want of rounds or of an idle machine: ADD of routes"
        );
    }

    #[test]
    fn wall_time_is_judged_only_where_it_says_something() {
        let mut removal = series(&[(10, 20, 10), (100, 1_200, 200)]);
        for (point, cpu) in removal.points.iter_mut().zip([20, 300]) {
            let mut with = Samples::default();
            let cpu = Duration::from_millis(cpu);
            with.push(Cost { wall: point.with.least(), cpu, ..Cost::default() });
            point.with = with;
        }
        assert_eq!(removal.growth(), Growth::TooFast);
        removal.judge_wall = false;
        assert_eq!(removal.growth(), Growth::Bounded);
    }
}
