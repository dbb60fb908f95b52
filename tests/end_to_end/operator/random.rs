//! Random numbers that are the same in each run.

/// Knuth's linear congruential generator (MMIX).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Its high bits are the better ones.
        (self.0 >> 33) as usize % limit
    }
}
