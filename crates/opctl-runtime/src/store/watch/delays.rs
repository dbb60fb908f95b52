//! How long a watch waits after it has failed.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The delay after the first failure.
const MIN_DELAY: Duration = Duration::from_millis(250);

/// The longest delay where the API server does not answer: where it was away for seconds, its operators
/// should not be away for longer.
const MAX_OUTAGE_DELAY: Duration = Duration::from_millis(2500);

/// The longest delay where it refuses: that of client-go's reflector.
const MAX_REFUSAL_DELAY: Duration = Duration::from_secs(30);

/// Delays that double with each failure in a row. The jitter at most doubles a delay.
#[derive(Debug)]
pub(super) struct Delays {
    next: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self { next: MIN_DELAY }
    }
}

impl Delays {
    /// The delay after a failure.
    pub fn next(&mut self, is_refusal: bool) -> Duration {
        let max = if is_refusal {
            MAX_REFUSAL_DELAY
        } else {
            MAX_OUTAGE_DELAY
        };
        let delay = self.next.min(max);
        self.next = (2 * delay).min(max);
        let share = RandomState::new().hash_one(delay) as f64 / u64::MAX as f64;
        delay + delay.mul_f64(share)
    }

    /// What failed has worked.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_an_outage_does_not_delay_what_follows() {
        let mut delays = Delays::default();
        let first = delays.next(false);
        assert!((MIN_DELAY..=2 * MIN_DELAY).contains(&first), "{first:?}");
        for _ in 0..100 {
            assert!(delays.next(false) <= 2 * MAX_OUTAGE_DELAY);
        }
        let refused = delays.next(true);
        assert!(refused <= 2 * MAX_OUTAGE_DELAY, "{refused:?}");
        for _ in 0..100 {
            delays.next(true);
        }
        assert!(delays.next(true) >= MAX_REFUSAL_DELAY);
        delays.reset();
        assert!(delays.next(true) <= 2 * MIN_DELAY);
    }
}
