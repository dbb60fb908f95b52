//! Numbers that a seed repeats.

use std::env;

pub struct Random(u64);

impl Random {
    /// That of `OPCTL_SEED`, or 1. It is printed: a test that fails shows it.
    pub fn of_environment() -> Self {
        let seed = match env::var("OPCTL_SEED") {
            Ok(seed) => seed.parse().expect("OPCTL_SEED should be a number"),
            Err(_) => 1,
        };
        eprintln!("OPCTL_SEED={seed}");
        Self(seed)
    }

    /// A number below a limit, as SplitMix64 has it.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}
