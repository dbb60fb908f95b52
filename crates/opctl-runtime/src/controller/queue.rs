//! The objects that wait to be reconciled, each of them once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::Stream;
use futures::stream::poll_fn;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cause::{CauseNames, Causes};
use crate::metrics::ControllerMetrics;
use crate::object::Object;

/// Takes in what is to be reconciled; the other end is the stream that comes with it.
pub(super) struct Queue<K: Object> {
    state: Mutex<State<K>>,
    sender: mpsc::UnboundedSender<ObjectRef<K>>,
    pub causes: CauseNames,
}

struct State<K: Object> {
    /// `None` while the queue is closed.
    metrics: Option<ControllerMetrics>,
    /// Since when each object has been waiting, and why.
    waiting: HashMap<ObjectRef<K>, (Instant, Causes)>,
}

impl<K: Object> Queue<K> {
    /// A closed queue. What is added to it is dropped, so that a standby's does not grow.
    pub fn new() -> (Self, impl Stream<Item = ObjectRef<K>> + Send) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let state = Mutex::new(State {
            metrics: None,
            waiting: HashMap::new(),
        });
        let causes = CauseNames::default();
        let queue = Self {
            state,
            sender,
            causes,
        };
        (queue, poll_fn(move |context| receiver.poll_recv(context)))
    }

    /// Takes in what is added from now on.
    pub fn open(&self, metrics: ControllerMetrics) {
        self.state().metrics = Some(metrics);
    }

    /// Has the object reconciled, once, however often it is added before that starts.
    pub fn add(&self, mut object: ObjectRef<K>, cause: Causes) {
        object.extra = Default::default();
        let mut state = self.state();
        let State { metrics, waiting } = &mut *state;
        let Some(metrics) = metrics else { return };
        match waiting.entry(object) {
            Entry::Occupied(mut entry) => entry.get_mut().1.insert(cause),
            Entry::Vacant(entry) => {
                // The receiver is gone only when the process is about to end.
                let _ = self.sender.send(entry.key().clone());
                entry.insert((Instant::now(), cause));
                metrics.adds.inc();
                metrics.set_depth(waiting.len());
            }
        }
    }

    /// The object no longer waits: it is being reconciled, or it is gone. Returns why it did; `None`
    /// where it did not: what it returned from its last reconcile brings it, too.
    pub fn take(&self, object: &ObjectRef<K>) -> Option<Causes> {
        let mut state = self.state();
        let State { metrics, waiting } = &mut *state;
        let taken = waiting.remove(object);
        if let Some(metrics) = metrics {
            match taken {
                Some((since, _)) => metrics.waited.observe(since.elapsed().as_secs_f64()),
                None => _ = metrics.adds.inc(),
            }
            metrics.set_depth(waiting.len());
        }
        taken.map(|(_, causes)| causes)
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
        queue.add(object.clone(), Causes::START);
        assert!(
            stream.next().now_or_never().is_none(),
            "the queue is closed"
        );

        queue.open(Metrics::for_tests().controller("test", 1));
        queue.add(object.clone(), Causes::START);
        queue.add(object.clone(), Causes::START);
        assert_eq!(stream.next().now_or_never().flatten(), Some(object.clone()));
        queue.add(object.clone(), Causes::START);
        assert!(stream.next().now_or_never().is_none(), "it still waits");

        assert_eq!(queue.take(&object), Some(Causes::START));
        assert_eq!(queue.take(&object), None);
        queue.add(object.clone(), Causes::START);
        assert_eq!(stream.next().now_or_never().flatten(), Some(object));
    }
}
