//! The objects that wait to be reconciled, each of them once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::Stream;
use futures::stream::poll_fn;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::metrics::ControllerMetrics;
use crate::object::Object;

/// Takes in what is to be reconciled; the other end is the stream that comes with it.
pub(super) struct Queue<K: Object> {
    state: Mutex<State<K>>,
    sender: mpsc::UnboundedSender<ObjectRef<K>>,
}

struct State<K: Object> {
    /// `None` while the queue is closed.
    metrics: Option<ControllerMetrics>,
    /// Since when each object has been waiting.
    waiting: HashMap<ObjectRef<K>, Instant>,
}

impl<K: Object> Queue<K> {
    /// A closed queue. What is added to it is dropped, so that a standby's does not grow.
    pub fn new() -> (Self, impl Stream<Item = ObjectRef<K>> + Send) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let state = Mutex::new(State {
            metrics: None,
            waiting: HashMap::new(),
        });
        let queue = Self { state, sender };
        (queue, poll_fn(move |context| receiver.poll_recv(context)))
    }

    /// Takes in what is added from now on.
    pub fn open(&self, metrics: ControllerMetrics) {
        self.state().metrics = Some(metrics);
    }

    /// Has the object reconciled, once, however often it is added before that starts.
    pub fn add(&self, mut object: ObjectRef<K>) {
        object.extra = Default::default();
        let mut state = self.state();
        let State { metrics, waiting } = &mut *state;
        let Some(metrics) = metrics else { return };
        if let Entry::Vacant(entry) = waiting.entry(object) {
            // The receiver is gone only when the process is about to end.
            let _ = self.sender.send(entry.key().clone());
            entry.insert(Instant::now());
            metrics.adds.inc();
            metrics.set_depth(waiting.len());
        }
    }

    /// The object no longer waits: it is being reconciled, or it is gone. Returns whether it did wait:
    /// what it returned from its last reconcile brings it, too.
    pub fn take(&self, object: &ObjectRef<K>) -> bool {
        let mut state = self.state();
        let State { metrics, waiting } = &mut *state;
        let since = waiting.remove(object);
        if let Some(metrics) = metrics {
            match since {
                Some(since) => metrics.waited.observe(since.elapsed().as_secs_f64()),
                None => _ = metrics.adds.inc(),
            }
            metrics.set_depth(waiting.len());
        }
        since.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn an_object_waits_once_until_it_is_taken() {
        let (queue, mut stream) = Queue::<ConfigMap>::new();
        let object = ObjectRef::new("x");
        queue.add(object.clone());
        assert!(
            stream.next().now_or_never().is_none(),
            "the queue is closed"
        );

        queue.open(Metrics::for_tests().controller("test", 1));
        queue.add(object.clone());
        queue.add(object.clone());
        assert_eq!(stream.next().now_or_never().flatten(), Some(object.clone()));
        queue.add(object.clone());
        assert!(stream.next().now_or_never().is_none(), "it still waits");

        assert!(queue.take(&object) && !queue.take(&object));
        queue.add(object.clone());
        assert_eq!(stream.next().now_or_never().flatten(), Some(object));
    }
}
