//! What of a large table one run tries: a seeded sample, or with CATENA_SOAK=1 everything.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64: small, and the same on every machine.
#[derive(Debug, Clone)]
pub struct Seed(u64);

impl Seed {
    /// From CATENA_SEED, else from the clock. Told at once, so that a run that fails or hangs can be made again.
    pub fn of_test(name: &str) -> Seed {
        let given =
            std::env::var("CATENA_SEED").ok().map(|text| text.parse().expect("CATENA_SEED is a number"));
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
        let seed = given.unwrap_or_else(clock);
        tell(&format!("{name}: CATENA_SEED={seed}"));
        Seed(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % u64::try_from(bound.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    /// `count` elements of `all` in random order, or all of them in order in a soak.
    pub fn choose<T>(&mut self, all: Vec<T>, count: usize) -> Vec<T> {
        if soak() {
            return all;
        }
        let mut some = self.shuffle(all);
        some.truncate(count);
        some
    }

    /// All in random order.
    pub fn shuffle<T>(&mut self, mut all: Vec<T>) -> Vec<T> {
        for index in (1..all.len()).rev() {
            all.swap(index, self.below(index + 1));
        }
        all
    }
}

/// Whether everything is tried.
pub fn soak() -> bool {
    std::env::var_os("CATENA_SOAK").is_some_and(|value| value == "1")
}

/// A line for the log of the run, past the capture of the test harness.
pub fn tell(line: &str) {
    // Without a stderr nobody listens.
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).ok();
}
