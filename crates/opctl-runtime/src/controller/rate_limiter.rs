//! When an object that fails is reconciled again.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::ObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use tokio::time::Instant;

use super::runner::Retry;
use crate::object::Object;

/// How long after a failed attempt an event may bring the next one forward. A dependency that is back
/// is noticed within five seconds, the debounce and the attempt included.
const EVENT_INTERVAL: Duration = Duration::from_millis(4500);

/// How long an object waits that fails: after each attempt for as long again as it has been failing. So
/// the delays double, from the first one to the last one. Jitter adds up to a half, but never exceeds
/// the last one. The debounce of the controller is added, as it is to every reconcile.
///
/// # Events
/// An event of a failing object may be what it waits for, such as a Secret that was missing, or noise.
/// It brings the next attempt forward: at once, but no earlier than 4.5 seconds after the last one. If
/// that fails, there is one more after as long, since an event may be ahead of what it announces. Such
/// attempts do not count: the object is tried again when it was to be tried anyway. So noise neither multiplies the attempts, nor makes them rarer, as it does where
/// every event is reconciled at once and every failure doubles the delay (client-go's `Add` and
/// `AddRateLimited`).
///
/// A success starts over, and so does a new specification, which does not wait for anything: the
/// object's `metadata.generation` tells it from other changes.
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

    /// The delay of an object that has been failing for so long.
    fn delay(self, failing: Duration) -> Duration {
        let share = RandomState::new().hash_one(failing) % 1000;
        let jitter = failing.mul_f64(share as f64 / 2000.0);
        failing
            .saturating_add(jitter)
            .max(self.first)
            .min(self.last)
    }
}

impl Default for RateLimiter {
    /// From 5 ms, as in controller-runtime (`DefaultTypedControllerRateLimiter`): a few failures in a
    /// row must not cost minutes. Up to 5 minutes.
    fn default() -> Self {
        Self::exponential(Duration::from_millis(5), Duration::from_secs(300))
    }
}

/// The objects of a controller that fail.
pub(super) struct FailingObjects<K: Object> {
    limiter: RateLimiter,
    /// What is added to each delay.
    debounce: Duration,
    objects: Mutex<HashMap<ObjectRef<K>, Failing>>,
}

/// What is known of an object whose last attempt failed.
struct Failing {
    specification: Specification,
    /// When the first attempt failed of those that are followed by growing delays.
    since: Option<Instant>,
    /// When the last attempt failed.
    last: Instant,
    /// When the next attempt is due that counts; `None` where only an event brings one.
    due: Option<Instant>,
    /// Whether there was an event since.
    has_event: bool,
}

/// Changes with the object's specification, and where an object of that name is recreated.
#[derive(PartialEq, Eq)]
struct Specification(Option<String>, Option<i64>);

impl Specification {
    fn of(metadata: &ObjectMeta) -> Self {
        Self(metadata.uid.clone(), metadata.generation)
    }
}

impl<K: Object> FailingObjects<K> {
    pub fn new(limiter: RateLimiter, debounce: Duration) -> Self {
        Self {
            limiter,
            debounce,
            objects: Mutex::default(),
        }
    }

    /// How long the object has to wait before it may be reconciled, if it has to. It is to be
    /// reconciled for an event, or for the action that the last attempt returned.
    pub fn wait(
        &self,
        object: &ObjectRef<K>,
        metadata: &ObjectMeta,
        for_event: bool,
    ) -> Option<Duration> {
        let mut objects = self.objects();
        let failing = objects.get_mut(object)?;
        if failing.specification != Specification::of(metadata) {
            objects.remove(object);
            return None;
        }
        failing.has_event |= for_event;
        let after_event = failing.last + EVENT_INTERVAL;
        let next = failing.due.map_or(after_event, |due| due.min(after_event));
        let wait = next.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then(|| wait.saturating_add(self.debounce))
    }

    /// An attempt has failed. Returns when the next one is due without an event.
    pub fn failed(&self, object: ObjectRef<K>, metadata: &ObjectMeta, retry: Retry) -> Action {
        let now = Instant::now();
        let mut objects = self.objects();
        let known = objects.remove(&object);
        let had_event = known.as_ref().is_some_and(|known| known.has_event);
        let (since, due) = known.map_or((None, None), |known| (known.since, known.due));
        let after_event = now + EVENT_INTERVAL;
        let (since, due) = match (retry, since, due) {
            (Retry::OnChange, ..) => (None, None),
            (Retry::After(delay), ..) => (None, now.checked_add(delay)),
            // It was brought forward, so it does not count.
            (Retry::Backoff, since @ Some(_), Some(due)) if due > now => {
                (since, Some(due.max(after_event)))
            }
            (Retry::Backoff, since, _) => {
                let since = since.unwrap_or(now);
                let delay = self.limiter.delay(now - since);
                (Some(since), now.checked_add(delay))
            }
        };
        let next = match due {
            Some(due) if had_event => Some(due.min(after_event)),
            due => due,
        };
        let failing = Failing {
            specification: Specification::of(metadata),
            since,
            last: now,
            due,
            has_event: false,
        };
        objects.insert(object, failing);
        let next = next.map(|next| (next - now).saturating_add(self.debounce));
        next.map_or_else(Action::await_change, Action::requeue)
    }

    /// The object starts over.
    pub fn forget(&self, object: &ObjectRef<K>) {
        self.objects().remove(object);
    }

    /// How many objects fail.
    pub fn count(&self) -> usize {
        self.objects().len()
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<ObjectRef<K>, Failing>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::time::advance;

    use super::*;

    fn failing() -> (FailingObjects<ConfigMap>, ObjectRef<ConfigMap>, ObjectMeta) {
        let objects = FailingObjects::new(RateLimiter::default(), Duration::ZERO);
        (objects, ObjectRef::new("x"), ObjectMeta::default())
    }

    fn wait(objects: &FailingObjects<ConfigMap>) -> Option<Duration> {
        objects.wait(&ObjectRef::new("x"), &ObjectMeta::default(), false)
    }

    #[test]
    fn delays_grow_from_the_first_to_the_last() {
        let limiter = RateLimiter::default();
        assert_eq!(limiter.delay(Duration::ZERO), limiter.first);
        let minute = Duration::from_secs(60);
        assert!((minute..=minute * 3 / 2).contains(&limiter.delay(minute)));
        assert_eq!(limiter.delay(Duration::MAX / 4), limiter.last);
    }

    #[tokio::test(start_paused = true)]
    async fn each_object_waits_for_itself_until_it_is_forgotten() {
        let (objects, object, metadata) = failing();
        assert_eq!(wait(&objects), None);
        objects.failed(object.clone(), &metadata, Retry::Backoff);
        assert!(wait(&objects).is_some());
        assert_eq!(objects.wait(&ObjectRef::new("y"), &metadata, true), None);
        objects.forget(&object);
        assert_eq!(wait(&objects), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_change_is_not_tried_at_every_event() {
        let (objects, object, metadata) = failing();
        let action = objects.failed(object.clone(), &metadata, Retry::OnChange);
        assert_eq!(action, Action::await_change());
        assert_eq!(wait(&objects), Some(EVENT_INTERVAL));
        advance(EVENT_INTERVAL).await;
        assert_eq!(wait(&objects), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_for_an_event_is_followed_by_one_more() {
        let (objects, object, metadata) = failing();
        let delay = Duration::from_secs(3600);
        let failed = || objects.failed(object.clone(), &metadata, Retry::Backoff);
        failed();
        advance(delay).await;
        failed();
        advance(2 * EVENT_INTERVAL).await;
        assert_eq!(objects.wait(&object, &metadata, true), None);
        assert_eq!(failed(), Action::requeue(EVENT_INTERVAL));
        advance(EVENT_INTERVAL).await;
        assert_eq!(wait(&objects), None);
        let last = RateLimiter::default().last;
        assert_eq!(failed(), Action::requeue(last - 3 * EVENT_INTERVAL));
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_of_the_error_policy_is_kept() {
        let (objects, object, metadata) = failing();
        let delay = Duration::from_secs(1);
        let action = objects.failed(object.clone(), &metadata, Retry::After(delay));
        assert_eq!(action, Action::requeue(delay));
        assert_eq!(wait(&objects), Some(delay));
        advance(Duration::from_secs(3600)).await;
        let action = objects.failed(object, &metadata, Retry::Backoff);
        let first = RateLimiter::default().first;
        assert_eq!(
            action,
            Action::requeue(first),
            "it is the first such failure"
        );
    }
}
