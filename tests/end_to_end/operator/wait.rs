//! Waiting, with a limit and an account of what was waited for.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// For what takes seconds, on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// For what may compile every dependency, or build the control plane.
pub const COMPILATION: Duration = Duration::from_secs(3600);

/// Looks until there is a result. The error says what was seen instead.
pub fn eventually<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    within(PATIENCE, what, look)
}

/// As [`eventually`], with a limit of its own.
pub fn within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => {
                assert!(begin.elapsed() < limit, "no {what} within {limit:?}; last seen: {seen}");
            }
        }
        // Many tests that wait would keep the machine busy with looking.
        sleep((begin.elapsed() / 10).clamp(Duration::from_millis(100), Duration::from_secs(1)));
    }
}

/// Says how long the step takes: a slow one is seen before it fails.
pub fn timed<T>(what: &str, step: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = step();
    eprintln!("{what}: {:.1?}", begin.elapsed());
    result
}
