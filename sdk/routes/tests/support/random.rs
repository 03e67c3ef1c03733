/// xorshift64*: small, seeded, and the same on every machine.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % limit
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// A number from the environment, or the usual one.
pub(crate) fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |n| n.parse().unwrap_or_else(|_| panic!("{name}={n} is no number")))
}

/// `SOAK_APPLIES`, or what fits into CI.
pub(crate) fn rounds(usual: usize) -> usize {
    number("SOAK_APPLIES", usual)
}

/// `SOAK_SEED`, or 1.
pub(crate) fn seed() -> u64 {
    number("SOAK_SEED", 1).try_into().unwrap()
}
