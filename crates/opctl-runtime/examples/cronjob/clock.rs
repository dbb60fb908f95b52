//! The time, which tests control.

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

#[cfg(test)]
pub mod manual {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A clock that stands still until a test sets it. Clones are the same clock.
    #[derive(Clone, Default)]
    pub struct ManualClock(Arc<Mutex<Timestamp>>);

    impl ManualClock {
        pub fn set(&self, now: Timestamp) {
            *self.0.lock().unwrap() = now;
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            *self.0.lock().unwrap()
        }

        /// Soon, since the test may set the clock at any moment.
        fn until(&self, _: Timestamp) -> Duration {
            Duration::from_millis(100)
        }
    }

    #[test]
    fn a_time_that_has_passed_is_due_at_once() {
        assert_eq!(SystemClock.until(Timestamp::UNIX_EPOCH), Duration::ZERO);
        let hour = Duration::from_secs(3600);
        let until = SystemClock.until(Timestamp::now() + hour);
        assert!(until <= hour && until > hour / 2);
    }
}
