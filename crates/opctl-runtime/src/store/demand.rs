//! Watches that run only while objects of another store need them.

use std::collections::HashMap;
use std::time::Duration;

use kube::runtime::reflector::ObjectRef;
use tokio::sync::watch::Sender;
use tokio::time::{Instant, sleep_until, timeout};

use super::sync::{FirstList, SyncState};
use super::{Before, Store};
use crate::object::{Object, reference};

/// For how long an object needs a watch without a change of its own until the watch starts: what goes on
/// by itself needs none.
const PATIENCE: Duration = Duration::from_secs(5);

/// How much longer for each object in need, since they wait for each other: Kubernetes' own controllers send
/// 20 requests a second by default (`--kube-api-qps` of kube-controller-manager), of which a rollout of a
/// Deployment takes four.
const TURN: Duration = Duration::from_millis(200);

/// For how long at most: half of what a Deployment has for its progress by default
/// (<https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#progress-deadline-seconds>).
const MAX_PATIENCE: Duration = Duration::from_secs(300);

/// For how long a watch goes on that nothing needs any more: it may be needed again soon, and starts
/// with a list.
const LINGER: Duration = Duration::from_secs(60);

/// The objects that need a watch. Clones are of the same objects.
#[derive(Clone)]
pub(crate) struct Demand {
    objects: Sender<HashMap<Name, Need>>,
    /// Whether all of them are known.
    state: SyncState,
}

/// The namespace and the name of an object.
type Name = (Option<String>, String);

struct Need {
    /// The last change of the object.
    since: Instant,
    /// How many were in need then: it may be the last one's turn.
    count: usize,
}

impl<K: Object> Store<K> {
    /// The objects of this store that satisfy the condition.
    pub(crate) fn demand(&self, condition: impl Fn(&K) -> bool + Send + Sync + 'static) -> Demand {
        let demand = Demand {
            objects: Sender::default(),
            state: self.sync_state().clone(),
        };
        let (objects, dyntype) = (demand.clone(), self.dyntype().clone());
        self.observe(Box::new(move |change| {
            let is_needed = change.after.is_some_and(&condition);
            let before = || change.before.and_then(Before::object);
            if (is_needed || objects.are_some())
                && let Some(object) = change.after.or_else(before)
            {
                objects.set(reference(object, &dyntype), is_needed);
            }
        }));
        demand
    }
}

impl Demand {
    /// Runs `watch` whenever it is needed, and `end` when it is no longer. What needs it from the start, such
    /// as a failure that the process before this one has reported, needs it at once: `first_list` is not
    /// complete until it is known. `next_list` makes those of later watches.
    pub async fn serve<F: Future<Output = ()>>(
        &self,
        first_list: FirstList,
        next_list: impl Fn() -> FirstList,
        watch: impl Fn(FirstList) -> F,
        end: impl Fn(),
    ) {
        self.state.synced().await;
        let mut list = first_list;
        let is_needed = self.are_some();
        if !is_needed {
            drop(list); // nothing waits for it
            self.lasts().await;
            list = next_list();
        }
        loop {
            tokio::select! {
                () = watch(list) => {}
                () = self.ends() => {}
            }
            end();
            self.lasts().await;
            list = next_list();
        }
    }

    /// Waits until an object has been in need for a while.
    async fn lasts(&self) {
        let mut objects = self.objects.subscribe();
        loop {
            // The sender is in `self`, so that it cannot be gone.
            let _ = objects.wait_for(|objects| !objects.is_empty()).await;
            let Some(end) = end_of_patience(&objects.borrow()) else {
                continue;
            };
            let now = Instant::now();
            if end <= now {
                return;
            }
            sleep_until(end.min(now + PATIENCE)).await; // by then it may be another
        }
    }

    /// Waits until no object has been in need for a while.
    async fn ends(&self) {
        let mut objects = self.objects.subscribe();
        loop {
            let _ = objects.wait_for(HashMap::is_empty).await;
            let again = objects.wait_for(|objects| !objects.is_empty());
            if timeout(LINGER, again).await.is_err() {
                return;
            }
        }
    }

    fn are_some(&self) -> bool {
        !self.objects.borrow().is_empty()
    }

    /// An object has changed.
    fn set<K: Object>(&self, object: ObjectRef<K>, is_needed: bool) {
        let name = (object.namespace, object.name);
        self.objects.send_if_modified(|objects| {
            let was_empty = objects.is_empty();
            objects.remove(&name);
            if is_needed {
                let since = Instant::now();
                let count = objects.len() + 1;
                objects.insert(name, Need { since, count });
            }
            was_empty != objects.is_empty()
        });
    }
}

/// When the first of the objects will have been in need for too long.
fn end_of_patience(objects: &HashMap<Name, Need>) -> Option<Instant> {
    let ends = objects.values().map(|Need { since, count }| {
        let count = u32::try_from(objects.len().max(*count)).unwrap_or(u32::MAX);
        let patience = PATIENCE.saturating_add(TURN.saturating_mul(count));
        *since + patience.min(MAX_PATIENCE)
    });
    ends.min()
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use prometheus_client::metrics::gauge::Gauge;
    use tokio::time::sleep;

    use super::*;
    use crate::store::Event;

    /// The store has this version of an object, which is in need or not.
    fn change(store: &Store<ConfigMap>, version: u64, needs: bool) {
        change_of("a", store, version, needs);
    }

    fn change_of(name: &str, store: &Store<ConfigMap>, version: u64, needs: bool) {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object.metadata.resource_version = Some(version.to_string());
        object.immutable = Some(needs);
        store.take(&None, Event::Applied(object));
    }

    /// How often a watch has begun and ended.
    #[derive(Default)]
    struct Counts([AtomicUsize; 2]);

    impl Counts {
        /// Those after that many seconds.
        async fn after(&self, seconds: u64) -> [usize; 2] {
            sleep(Duration::from_secs(seconds)).await;
            [0, 1].map(|count| self.0[count].load(Ordering::Relaxed))
        }
    }

    /// What is served while objects of the store are immutable.
    fn served(store: &Store<ConfigMap>) -> Arc<Counts> {
        let demand = store.demand(|object| object.immutable == Some(true));
        let counts: Arc<Counts> = Arc::default();
        let served = Arc::clone(&counts);
        tokio::spawn(async move {
            let list = || SyncState::default().add("a watch".to_owned(), Gauge::default());
            let count = |count: usize| served.0[count].fetch_add(1, Ordering::Relaxed);
            let watch = |list| {
                count(0);
                async move {
                    pending::<()>().await;
                    drop(list);
                }
            };
            demand.serve(list(), list, watch, || _ = count(1)).await;
        });
        counts
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_runs_while_a_need_lasts() {
        let store: Store<ConfigMap> = Store::from_iter([]);
        let counts = served(&store);
        for version in 1..6 {
            assert_eq!(counts.after(4).await, [0, 0], "it goes on by itself");
            change(&store, version, true);
        }
        change(&store, 6, false);
        assert_eq!(counts.after(10).await, [0, 0], "it needs nothing");
        change(&store, 7, true);
        assert_eq!(counts.after(6).await, [1, 0]);
        change(&store, 8, false);
        assert_eq!(counts.after(50).await, [1, 0], "it may be needed again");
        change(&store, 9, true);
        assert_eq!(counts.after(100).await, [1, 0], "it is");
        change(&store, 10, false);
        assert_eq!(counts.after(70).await, [1, 1]);
        change(&store, 11, true);
        assert_eq!(counts.after(7).await, [2, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_wait_for_each_other_have_longer() {
        let store: Store<ConfigMap> = Store::from_iter([]);
        let counts = served(&store);
        assert_eq!(counts.after(1).await, [0, 0], "nothing from the start");
        let change = |name: u64, needs: bool| {
            change_of(&name.to_string(), &store, 1 + u64::from(!needs), needs);
        };
        for name in 0..50 {
            change(name, true);
        }
        assert_eq!(counts.after(14).await, [0, 0], "50 have 15 s");
        for name in 0..49 {
            change(name, false);
        }
        assert_eq!(counts.after(0).await, [0, 0], "the last one has them, too");
        assert_eq!(counts.after(6).await, [1, 0], "no longer");
    }

    #[tokio::test(start_paused = true)]
    async fn all_of_a_large_cluster_wait_for_five_minutes() {
        let store: Store<ConfigMap> = Store::from_iter([]);
        let counts = served(&store);
        assert_eq!(counts.after(1).await, [0, 0], "nothing from the start");
        for name in 0..3000 {
            change_of(&name.to_string(), &store, 1, true);
        }
        assert_eq!(counts.after(299).await, [0, 0]);
        assert_eq!(counts.after(7).await, [1, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_needed_from_the_start_is_watched_at_once() {
        let store: Store<ConfigMap> = Store::from_iter([]);
        change(&store, 1, true);
        assert_eq!(served(&store).after(1).await, [1, 0]);
    }
}
