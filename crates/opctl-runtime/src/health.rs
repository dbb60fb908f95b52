//! Whether the tasks of this process are alive, and whether it is ready.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::future::poll_fn;
use tokio::time::{Instant, interval};

/// How often a task beats that has nothing else to do.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How long a task may miss its beats.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The heartbeats of all tasks, and the checks of readiness. A quiet watch is healthy, and so is a watch
/// while the API server is away: a restart would not help it. A task that has panicked, or that never
/// yields, needs one.
#[derive(Default)]
pub(crate) struct Health {
    tasks: Mutex<Vec<Task>>,
    readiness: Mutex<Vec<(String, Check)>>,
}

#[derive(Debug)]
struct Task {
    name: String,
    /// When it was last seen alive; `None` once it has ended.
    beat: Arc<Mutex<Option<Instant>>>,
}

impl Health {
    /// Runs `task`, which is not supposed to end, and reports it in [`Health::failing_checks`] when it does or
    /// stalls.
    pub async fn supervise<T>(&self, name: String, task: impl Future<Output = T>) -> T {
        let heart = Heart(Arc::new(Mutex::new(Some(Instant::now()))));
        let beat = Arc::clone(&heart.0);
        lock(&self.tasks).push(Task { name, beat });

        let (mut task, mut ticks) = (pin!(task), interval(HEARTBEAT));
        poll_fn(|context| {
            while ticks.poll_tick(context).is_ready() {}
            let outcome: Poll<T> = task.as_mut().poll(context);
            *lock(&heart.0) = Some(Instant::now());
            outcome
        })
        .await
    }

    /// As [`Health::supervise`], for a task that may end: only a panic is reported.
    pub async fn supervise_to_the_end(&self, name: String, task: impl Future<Output = ()>) {
        self.supervise(name.clone(), task).await;
        lock(&self.tasks).retain(|task| task.name != name);
    }

    /// Makes /readyz fail while `check` does.
    pub fn add_readiness_check(&self, name: String, check: Check) {
        lock(&self.readiness).push((name, check));
    }

    /// The readiness checks that fail.
    pub fn failing_readiness_checks(&self) -> Vec<String> {
        let checks = lock(&self.readiness);
        let failing = checks.iter().filter_map(|(name, check)| {
            let error = check().err()?;
            Some(format!("{name}: {error}"))
        });
        failing.collect()
    }

    /// The tasks that have ended or stalled.
    pub fn failing_checks(&self) -> Vec<String> {
        self.failing_at(Instant::now())
    }

    fn failing_at(&self, now: Instant) -> Vec<String> {
        let tasks = lock(&self.tasks);
        let failure = |task: &Task| match *lock(&task.beat) {
            None => Some(format!("{} has ended", task.name)),
            Some(beat) if now.saturating_duration_since(beat) > STALL_TIMEOUT => {
                Some(format!("{} has stalled", task.name))
            }
            Some(_) => None,
        };
        tasks.iter().filter_map(failure).collect()
    }
}

/// Stops with its task, also when that panics.
struct Heart(Arc<Mutex<Option<Instant>>>);

impl Drop for Heart {
    fn drop(&mut self) {
        *lock(&self.0) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::task::yield_now;

    use super::*;

    async fn health<T: Send + 'static>(
        task: impl Future<Output = T> + Send + 'static,
    ) -> Arc<Health> {
        let health = Arc::new(Health::default());
        let watched = Arc::clone(&health);
        tokio::spawn(async move { watched.supervise("the watch".to_owned(), task).await });
        yield_now().await;
        health
    }

    #[tokio::test]
    async fn a_task_beats_until_it_stalls() {
        let health = health(pending::<()>()).await;
        assert!(health.failing_at(Instant::now() + HEARTBEAT).is_empty());
        let late = Instant::now() + 2 * STALL_TIMEOUT;
        assert_eq!(health.failing_at(late), ["the watch has stalled"]);
    }

    #[tokio::test]
    async fn a_task_that_panics_has_ended() {
        let health = health(async { panic!("on purpose") }).await;
        assert_eq!(health.failing_checks(), ["the watch has ended"]);
    }

    #[tokio::test]
    async fn a_task_may_end_that_is_expected_to() {
        let health = Health::default();
        let name = "the migration".to_owned();
        health.supervise_to_the_end(name, async {}).await;
        assert!(health.failing_checks().is_empty());
    }

    #[test]
    fn readiness_checks_are_asked_each_time() {
        let health = Health::default();
        let ready = Arc::new(Mutex::new(false));
        let state = Arc::clone(&ready);
        let check = move || lock(&state).then_some(()).ok_or("warming up".to_owned());
        health.add_readiness_check("registry".to_owned(), Box::new(check));
        assert_eq!(health.failing_readiness_checks(), ["registry: warming up"]);
        *lock(&ready) = true;
        assert!(health.failing_readiness_checks().is_empty());
    }
}
