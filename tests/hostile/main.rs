//! CRDs and `PROJECT` files that are broken or malicious: opctl refuses them before it writes anything, or
//! what it writes is harmless. [`crd_attacks`] and [`project_attacks`] are known attacks; [`sweep`]
//! looks for unknown ones.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
// Runs report what they saw.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod compile;
mod crd_attacks;
mod crds;
mod mutate;
mod project_attacks;
mod projects;
mod random;
mod sandbox;
mod sweep;

use std::time::Duration;

/// How long a command may take that refuses a file of 10 MB, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
