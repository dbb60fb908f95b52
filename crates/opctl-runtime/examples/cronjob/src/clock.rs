//! The time, which tests control.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// A clock.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// How long it takes until `time`.
    fn until(&self, time: Timestamp) -> Duration;
}

/// The clock of the system.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn until(&self, time: Timestamp) -> Duration {
        // A time that has passed is not a `Duration`.
        Duration::try_from(time.duration_since(self.now())).unwrap_or_default()
    }
}

/// A clock for tests that stands still until it is set. Clones are the same clock.
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Mutex<Timestamp>>);

impl ManualClock {
    /// Sets the current time.
    pub fn set(&self, now: Timestamp) {
        *self.time() = now;
    }

    fn time(&self) -> MutexGuard<'_, Timestamp> {
        self.0.lock().expect("nothing panics while it sets a clock")
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.time()
    }

    /// Soon, since the clock may be set at any moment.
    fn until(&self, _: Timestamp) -> Duration {
        Duration::from_millis(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_passed_is_due_at_once() {
        assert_eq!(SystemClock.until(Timestamp::UNIX_EPOCH), Duration::ZERO);
        let hour = Duration::from_secs(3600);
        let until = SystemClock.until(Timestamp::now() + hour);
        assert!(until <= hour && until > hour / 2);
    }
}
