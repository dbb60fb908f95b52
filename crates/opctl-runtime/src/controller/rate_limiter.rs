//! How long an object waits that fails again and again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use kube::runtime::reflector::ObjectRef;

use crate::object::Object;

/// The delays between the attempts at an object that fails: the first one, doubled with every failure
/// in a row up to the last one. Jitter at most doubles a delay. A success starts over.
///
/// # Example
/// ```no_run
/// use std::time::Duration;
///
/// use k8s_openapi::api::core::v1::Node;
/// use opctl_runtime::{Controller, Manager, RateLimiter};
///
/// /// For an external system that should not be asked more than once a second.
/// fn controller(manager: &Manager) -> Controller<Node> {
///     let (first, last) = (Duration::from_secs(1), Duration::from_secs(600));
///     Controller::new(manager).rate_limiter(RateLimiter::exponential(first, last))
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimiter {
    first: Duration,
    last: Duration,
}

impl RateLimiter {
    /// Delays from `first` to `last`.
    pub fn exponential(first: Duration, last: Duration) -> Self {
        Self { first, last }
    }
}

impl Default for RateLimiter {
    /// From 5 ms, as in controller-runtime (`DefaultTypedControllerRateLimiter`): a few failures in a
    /// row must not cost minutes. Up to 5 minutes.
    fn default() -> Self {
        Self::exponential(Duration::from_millis(5), Duration::from_secs(300))
    }
}

/// The delays of every object of a controller that fails.
pub(super) struct Delays<K: Object> {
    limiter: RateLimiter,
    failing: Mutex<HashMap<ObjectRef<K>, ExponentialBackoff>>,
}

impl<K: Object> Delays<K> {
    pub fn new(limiter: RateLimiter) -> Self {
        Self {
            limiter,
            failing: Mutex::default(),
        }
    }

    /// How long the object waits for its next attempt.
    pub fn next(&self, object: ObjectRef<K>) -> Duration {
        let RateLimiter { first, last } = self.limiter;
        let mut failing = self.failing();
        let delays = failing.entry(object).or_insert_with(|| {
            let delays = ExponentialBuilder::new()
                .with_min_delay(first)
                .with_max_delay(last);
            delays.with_jitter().without_max_times().build()
        });
        delays.next().unwrap_or(last)
    }

    /// The object starts over.
    pub fn forget(&self, object: &ObjectRef<K>) {
        self.failing().remove(object);
    }

    fn failing(&self) -> MutexGuard<'_, HashMap<ObjectRef<K>, ExponentialBackoff>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn delays_grow_for_each_object_by_itself() {
        let limiter = RateLimiter::default();
        let delays = Delays::<ConfigMap>::new(limiter);
        let object = ObjectRef::new("x");
        assert!(delays.next(object.clone()) <= 2 * limiter.first);
        for _ in 0..20 {
            delays.next(object.clone());
        }
        assert!(delays.next(object.clone()) >= limiter.last);
        assert!(delays.next(ObjectRef::new("y")) <= 2 * limiter.first);
        delays.forget(&object);
        assert!(delays.next(object) <= 2 * limiter.first);
    }
}
