//! Runs reconciles: measures them, ends those that take too long, survives their panics, and spaces
//! out those that fail.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;
use kube::api::ObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use tokio::time::timeout;
use tracing::{debug, error};

use super::rate_limiter::{FailingObjects, RateLimiter};
use crate::metrics::ControllerMetrics;
use crate::object::Object;

/// What follows a reconcile that failed.
///
/// # Example
/// ```
/// use opctl_runtime::Retry;
///
/// #[derive(Debug)]
/// enum Error {
///     InvalidSchedule(String),
///     Runtime(opctl_runtime::Error),
/// }
///
/// /// For [`Controller::run_with`](opctl_runtime::Controller::run_with).
/// fn error_policy<K, C>(_: &K, error: &Error, _: &C) -> Retry {
///     match error {
///         Error::InvalidSchedule(_) => Retry::OnChange,
///         Error::Runtime(_) => Retry::Backoff,
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// Try again after a delay that grows with every failure in a row, as
    /// [`RateLimiter`](crate::RateLimiter) explains.
    Backoff,
    /// Try again after this delay.
    After(Duration),
    /// Do not try again until the object or what it depends on changes. For errors that only a change
    /// of the object can mend, such as a specification that makes no sense.
    OnChange,
}

/// How a reconcile failed.
#[derive(Debug)]
pub(super) enum Failure<E> {
    /// The reconciler returned an error.
    Reconciler(E),
    /// It took too long.
    Timeout(Duration),
    /// It panicked.
    Panic(String),
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // With its causes, as `anyhow` prints them.
            Self::Reconciler(error) => write!(f, "{error:#}"),
            Self::Timeout(limit) => write!(f, "the reconcile did not end within {limit:?}"),
            Self::Panic(message) => write!(f, "the reconciler panicked: {message}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> StdError for Failure<E> {}

/// Runs the reconciles of one controller.
pub(super) struct ReconcileRunner<K: Object> {
    metrics: ControllerMetrics,
    timeout: Duration,
    failing: FailingObjects<K>,
}

impl<K: Object> ReconcileRunner<K> {
    pub fn new(
        metrics: ControllerMetrics,
        timeout: Duration,
        limiter: RateLimiter,
        debounce: Duration,
    ) -> Self {
        Self {
            metrics,
            timeout,
            failing: FailingObjects::new(limiter, debounce),
        }
    }

    pub async fn run<E: fmt::Display>(
        &self,
        object: &ObjectRef<K>,
        reconcile: impl Future<Output = Result<Action, E>>,
    ) -> Result<Action, Failure<E>> {
        let start = Instant::now();
        self.metrics.active.inc();
        // A reconciler shares nothing with the next one but stores, whose locks heal.
        let reconcile = AssertUnwindSafe(reconcile).catch_unwind();
        let outcome = match timeout(self.timeout, reconcile).await {
            Err(_) => Err(Failure::Timeout(self.timeout)),
            Ok(Err(panic)) => {
                self.metrics.panics.inc();
                Err(Failure::Panic(message(&*panic)))
            }
            Ok(Ok(outcome)) => outcome.map_err(Failure::Reconciler),
        };
        match &outcome {
            Ok(_) => {
                self.forget(object);
                debug!(took = ?start.elapsed(), "reconciled");
            }
            Err(error) => error!(%error, "reconcile failed"),
        }
        self.metrics.active.dec();
        self.metrics
            .finished(outcome.as_ref().ok(), start.elapsed());
        outcome
    }

    /// How long the object has to wait before it may be reconciled, if it has to.
    pub fn wait(
        &self,
        object: &ObjectRef<K>,
        metadata: &ObjectMeta,
        for_event: bool,
    ) -> Option<Duration> {
        let wait = self.failing.wait(object, metadata, for_event);
        self.metrics.set_failing(self.failing.count());
        wait
    }

    /// When the object is reconciled again after it failed.
    pub fn retry(&self, object: ObjectRef<K>, metadata: &ObjectMeta, retry: Retry) -> Action {
        let counter = match retry {
            Retry::Backoff | Retry::After(_) => &self.metrics.retries,
            Retry::OnChange => &self.metrics.terminal,
        };
        counter.inc();
        let action = self.failing.failed(object, metadata, retry);
        self.metrics.set_failing(self.failing.count());
        action
    }

    pub fn forget(&self, object: &ObjectRef<K>) {
        self.failing.forget(object);
        self.metrics.set_failing(self.failing.count());
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::Error;
    use crate::metrics::Metrics;

    fn runner(timeout: Duration) -> (Metrics, ReconcileRunner<ConfigMap>) {
        let metrics = Metrics::for_tests();
        let controller = metrics.controller("test", 1);
        let runner =
            ReconcileRunner::new(controller, timeout, RateLimiter::default(), Duration::ZERO);
        (metrics, runner)
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_counted() {
        let (metrics, runner) = runner(Duration::from_secs(60));
        let panics = async { panic!("on {}", "purpose") };
        let outcome = runner.run::<Error>(&ObjectRef::new("x"), panics).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.to_string(), "the reconciler panicked: on purpose");
        let text = metrics.encode().unwrap();
        for line in [
            r#"controller_runtime_reconcile_panics_total{controller="test"} 1"#,
            r#"controller_runtime_reconcile_errors_total{controller="test"} 1"#,
            r#"controller_runtime_reconcile_total{controller="test",result="error"} 1"#,
            r#"controller_runtime_active_workers{controller="test"} 0"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test]
    async fn a_reconcile_ends_in_time() {
        let (_, runner) = runner(Duration::from_millis(1));
        let outcome = runner.run::<Error>(&ObjectRef::new("x"), pending()).await;
        assert!(matches!(outcome, Err(Failure::Timeout(_))));
    }

    #[tokio::test]
    async fn objects_that_fail_are_counted_until_they_succeed_change_or_are_gone() {
        let (metrics, runner) = runner(Duration::from_secs(60));
        let count = || {
            let text = metrics.encode().unwrap();
            let name = r#"controller_failing_objects{controller="test"} "#;
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().parse::<u8>().unwrap()
        };
        assert_eq!(count(), 0);
        let metadata = ObjectMeta::default();
        let objects = ["x", "y", "z"].map(ObjectRef::new);
        for object in &objects {
            for retry in [Retry::Backoff, Retry::OnChange] {
                runner.retry(object.clone(), &metadata, retry);
            }
        }
        assert_eq!(count(), 3);
        let success = async { Ok::<_, Error>(Action::await_change()) };
        runner.run(&objects[0], success).await.unwrap();
        assert_eq!(count(), 2);
        let changed = ObjectMeta {
            generation: Some(2),
            ..ObjectMeta::default()
        };
        runner.wait(&objects[1], &changed, false);
        assert_eq!(count(), 1);
        runner.forget(&objects[2]);
        assert_eq!(count(), 0);
    }

    #[tokio::test]
    async fn a_success_resets_the_delay_and_a_terminal_error_has_none() {
        let (metrics, runner) = runner(Duration::from_secs(60));
        let (object, metadata) = (ObjectRef::new("x"), ObjectMeta::default());
        for _ in 0..20 {
            runner.retry(object.clone(), &metadata, Retry::Backoff);
        }
        assert!(runner.wait(&object, &metadata, false).is_some());
        let success = async { Ok::<_, Error>(Action::await_change()) };
        runner.run(&object, success).await.unwrap();
        assert_eq!(runner.wait(&object, &metadata, false), None);

        let action = runner.retry(object.clone(), &metadata, Retry::OnChange);
        assert_eq!(action, Action::await_change());
        let delay = Duration::from_secs(7);
        let action = runner.retry(object, &metadata, Retry::After(delay));
        assert_eq!(action, Action::requeue(delay));
        let text = metrics.encode().unwrap();
        for line in [
            r#"workqueue_retries_total{name="test",controller="test"} 21"#,
            r#"controller_runtime_terminal_reconcile_errors_total{controller="test"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
