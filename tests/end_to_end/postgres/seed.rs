//! The seed of what is chosen at random.

use std::env;

use crate::postgres::random::Random;

/// That of `OPCTL_SEED`, or 1. It is printed: a test that fails shows it.
pub fn random() -> Random {
    let seed = match env::var("OPCTL_SEED") {
        Ok(seed) => seed.parse().expect("OPCTL_SEED should be a number"),
        Err(_) => 1,
    };
    eprintln!("OPCTL_SEED={seed}");
    Random(seed)
}
