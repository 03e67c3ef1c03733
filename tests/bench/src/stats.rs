//! Samples of one thing, and what is said about them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::process::Cost;
use crate::trace::Trace;

/// All runs of one command of one subject in one case.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    costs: Vec<Cost>,
    pub(crate) trace: Trace,
}

impl Samples {
    pub(crate) fn push(&mut self, cost: Cost) {
        self.costs.push(cost);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.costs.is_empty()
    }

    fn sorted<T: Ord + Copy + Default>(&self, of: impl Fn(&Cost) -> T) -> Vec<T> {
        let mut sorted: Vec<T> = self.costs.iter().map(of).collect();
        sorted.sort_unstable();
        sorted
    }

    /// Wall time that a share of the runs stayed below; 0.0 is the least.
    pub(crate) fn wall(&self, share: f64) -> Duration {
        at(&self.sorted(|cost| cost.wall), share)
    }

    pub(crate) fn median(&self) -> Duration {
        self.wall(0.5)
    }

    pub(crate) fn least(&self) -> Duration {
        self.wall(0.0)
    }

    /// Least processor time.
    pub(crate) fn least_cpu(&self) -> Duration {
        at(&self.sorted(|cost| cost.cpu), 0.0)
    }

    /// Median of processor time.
    pub(crate) fn cpu(&self) -> Duration {
        at(&self.sorted(|cost| cost.cpu), 0.5)
    }

    /// Median of page faults.
    pub(crate) fn faults(&self) -> i64 {
        at(&self.sorted(|cost| cost.faults), 0.5)
    }

    pub(crate) fn to_value(&self) -> Value {
        json!({
            "runs": self.costs.len(),
            "wallUs": {"min": micros(self.least()), "median": micros(self.median()), "p95": micros(self.wall(0.95))},
            "cpuUs": micros(self.cpu()),
            "pageFaults": self.faults(),
            "peakKiB": self.trace.peak_kib,
            "systemCalls": self.trace.calls,
        })
    }
}

fn at<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let last = sorted.len().saturating_sub(1);
    // Between 0 and `last`.
    let index = (last as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Milliseconds with two digits.
pub(crate) fn ms(duration: Duration) -> String {
    format!("{:.2}", millis(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_sorted_samples() {
        let mut samples = Samples::default();
        for millis in [5, 1, 3, 2, 4] {
            samples.push(Cost { wall: Duration::from_millis(millis), ..Cost::default() });
        }
        assert_eq!(samples.least(), Duration::from_millis(1));
        assert_eq!(samples.median(), Duration::from_millis(3));
        assert_eq!(samples.wall(0.95), Duration::from_millis(5));
        assert_eq!(Samples::default().median(), Duration::ZERO);
        assert_eq!(ms(Duration::from_micros(1_234)), "1.23");
    }
}
