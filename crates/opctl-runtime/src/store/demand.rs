//! Watches that run only while objects of another store need them.

use std::collections::HashMap;
use std::time::Duration;

use kube::runtime::reflector::ObjectRef;
use tokio::sync::watch::Sender;
use tokio::time::{Instant, sleep, timeout};

use super::Store;
use crate::object::{Object, reference};

/// For how long an object needs a watch without a change of its own until the watch starts: what goes on
/// by itself needs none.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often that is looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// For how long a watch goes on that nothing needs any more: it may be needed again soon, and starts
/// with a list.
const LINGER: Duration = Duration::from_secs(60);

/// The objects that need a watch, and when each of them has changed. Clones are of the same objects.
#[derive(Clone, Default)]
pub(crate) struct Demand(Sender<HashMap<Name, Instant>>);

/// The namespace and the name of an object.
type Name = (Option<String>, String);

impl<K: Object> Store<K> {
    /// The objects of this store that satisfy the condition.
    pub(crate) fn demand(&self, condition: impl Fn(&K) -> bool + Send + Sync + 'static) -> Demand {
        let demand = Demand::default();
        let (objects, dyntype) = (demand.clone(), self.dyntype().clone());
        self.observe(Box::new(move |change| {
            let [was_needed, is_needed] =
                [change.before, change.after].map(|object| object.is_some_and(&condition));
            if let Some(object) = change.after.or(change.before)
                && (was_needed || is_needed)
            {
                objects.set(reference(object, &dyntype), is_needed);
            }
        }));
        demand
    }
}

impl Demand {
    /// Runs `work` whenever it is needed, and `end` when it is no longer.
    pub async fn serve<F: Future<Output = ()>>(&self, work: impl Fn() -> F, end: impl Fn()) {
        loop {
            self.lasts().await;
            tokio::select! {
                () = work() => {}
                () = self.ends() => {}
            }
            end();
        }
    }

    /// Waits until an object has been in need for a while.
    async fn lasts(&self) {
        let mut objects = self.0.subscribe();
        loop {
            // The sender is in `self`, so that it cannot be gone.
            let _ = objects.wait_for(|objects| !objects.is_empty()).await;
            if objects
                .borrow()
                .values()
                .any(|since| since.elapsed() >= PATIENCE)
            {
                return;
            }
            sleep(PERIOD).await;
        }
    }

    /// Waits until no object has been in need for a while.
    async fn ends(&self) {
        let mut objects = self.0.subscribe();
        loop {
            let _ = objects.wait_for(HashMap::is_empty).await;
            let again = objects.wait_for(|objects| !objects.is_empty());
            if timeout(LINGER, again).await.is_err() {
                return;
            }
        }
    }

    /// An object that is or was in need has changed.
    fn set<K: Object>(&self, object: ObjectRef<K>, is_needed: bool) {
        let name = (object.namespace, object.name);
        self.0.send_if_modified(|objects| {
            let was_empty = objects.is_empty();
            if is_needed {
                objects.insert(name, Instant::now());
            } else {
                objects.remove(&name);
            }
            was_empty != objects.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::time::advance;

    use super::*;
    use crate::store::Event;

    /// The store has this version of the object, which is in need or not.
    fn change(store: &Store<ConfigMap>, version: u64, needs: bool) {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".to_owned());
        object.metadata.resource_version = Some(version.to_string());
        object.immutable = Some(needs);
        store.take(&None, Event::Applied(object));
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_done_while_a_need_lasts() {
        let store: Store<ConfigMap> = Store::from_iter([]);
        change(&store, 1, true);
        let demand = store.demand(|object| object.immutable == Some(true));
        let count = || Arc::new(AtomicUsize::new(0));
        let (begun, ended) = (count(), count());
        let (begins, ends) = (Arc::clone(&begun), Arc::clone(&ended));
        tokio::spawn(async move {
            let work = || {
                begins.fetch_add(1, Ordering::Relaxed);
                std::future::pending()
            };
            demand
                .serve(work, || _ = ends.fetch_add(1, Ordering::Relaxed))
                .await;
        });
        let seen = async |wait: u64| {
            for _ in 0..wait {
                tokio::task::yield_now().await;
                advance(Duration::from_secs(1)).await;
            }
            tokio::task::yield_now().await;
            (begun.load(Ordering::Relaxed), ended.load(Ordering::Relaxed))
        };

        for version in 2..6 {
            assert_eq!(seen(4).await, (0, 0), "it goes on by itself");
            change(&store, version, true);
        }
        change(&store, 6, false);
        assert_eq!(seen(10).await, (0, 0), "it needs nothing");
        change(&store, 7, true);
        assert_eq!(seen(7).await, (1, 0));
        change(&store, 8, false);
        assert_eq!(seen(50).await, (1, 0), "it may be needed again");
        change(&store, 9, true);
        assert_eq!(seen(100).await, (1, 0), "it is");
        change(&store, 10, false);
        assert_eq!(seen(70).await, (1, 1));
    }
}
