//! The objects that wait to be reconciled, each of them once.
//!
//! A change is not to wait for the thousands of objects of a start or a resync. kube's scheduler knows no
//! priorities, and holds what it has in no order: so it gets only some of the backlog at a time.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::Stream;
use futures::stream::poll_fn;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, ObjectRef};
use tokio::time::Instant;

use super::cause::{CauseNames, Causes};
use super::ticket::{Ticket, Tickets};
use crate::metrics::ControllerMetrics;
use crate::object::Object;

/// How many objects of the backlog the scheduler gets, for each that is reconciled at a time: it debounces
/// them, and has to have enough for that time.
const BACKLOG_PER_WORKER: usize = 16;

/// How many objects may have waited for the memory of that to be kept.
const SMALL: usize = 1024;

/// Takes in what is to be reconciled; the other end is the stream that comes with it.
pub(super) struct Queue<K: Object> {
    state: Mutex<State<K>>,
    pub causes: CauseNames,
}

struct State<K: Object> {
    /// `None` while the queue is closed.
    metrics: Option<ControllerMetrics>,
    waiting: HashMap<ObjectRef<K>, Waiting>,
    /// What the scheduler has yet to get, by the lane. Some may no longer wait.
    lanes: [VecDeque<ObjectRef<K>>; 2],
    /// How many of each lane the scheduler has.
    scheduled: [usize; 2],
    concurrency: usize,
    scheduler: Option<Waker>,
    /// Those of the objects that the scheduler has.
    tickets: Tickets<K>,
}

struct Waiting {
    since: Instant,
    causes: Causes,
    lane: Lane,
    is_scheduled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Change,
    /// What nothing is known to have changed of.
    Backlog,
}

impl<K: Object> Queue<K> {
    /// A closed queue. What is added to it is dropped, so that a standby's does not grow.
    pub fn new(
        dyntype: K::DynamicType,
    ) -> (Arc<Self>, impl Stream<Item = ObjectRef<Ticket<K>>> + Send) {
        let state = Mutex::new(State {
            metrics: None,
            waiting: HashMap::new(),
            lanes: Default::default(),
            scheduled: [0; 2],
            concurrency: 1,
            scheduler: None,
            tickets: Tickets::new(dyntype),
        });
        let causes = CauseNames::default();
        let queue = Arc::new(Self { state, causes });
        let stream = Arc::clone(&queue);
        (
            queue,
            poll_fn(move |context| stream.state().poll_next(context)),
        )
    }

    /// Takes in what is added from now on, for so many reconciles at a time.
    pub fn open(&self, metrics: ControllerMetrics, concurrency: u16) {
        let mut state = self.state();
        state.metrics = Some(metrics);
        state.concurrency = usize::from(concurrency).max(1);
    }

    /// Has the object reconciled, once, however often it is added before that starts.
    pub fn add(&self, mut object: ObjectRef<K>, cause: Causes) {
        object.extra = Default::default();
        self.state().add(object, cause);
    }

    /// The object no longer waits: it is being reconciled, or it is gone. Returns why it did; `None`
    /// where it did not: what it returned from its last reconcile brings it, too.
    pub fn take(&self, object: &ObjectRef<K>) -> Option<Causes> {
        self.state().take(object)
    }

    /// A reconcile of the object has returned that, which may bring it again.
    pub fn finish(&self, object: &ObjectRef<K>, action: &Action) {
        self.state().finish(object, action);
    }

    /// Where the scheduler finds what it gets.
    pub fn tickets(&self) -> reflector::Store<Ticket<K>> {
        self.state().tickets.reader()
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Object> State<K> {
    fn add(&mut self, object: ObjectRef<K>, cause: Causes) {
        let Some(metrics) = &self.metrics else { return };
        let lane = if cause.is_backlog() {
            Lane::Backlog
        } else {
            Lane::Change
        };
        match self.waiting.entry(object) {
            Entry::Occupied(mut entry) => {
                let waiting = entry.get_mut();
                waiting.causes.insert(cause);
                if waiting.is_scheduled || waiting.lane == lane || lane == Lane::Backlog {
                    return;
                }
                waiting.lane = lane;
                self.lanes[lane as usize].push_back(entry.key().clone());
            }
            Entry::Vacant(entry) => {
                self.lanes[lane as usize].push_back(entry.key().clone());
                entry.insert(Waiting {
                    since: Instant::now(),
                    causes: cause,
                    lane,
                    is_scheduled: false,
                });
                metrics.adds.inc();
                metrics.set_depth(self.waiting.len());
            }
        }
        self.wake();
    }

    fn take(&mut self, object: &ObjectRef<K>) -> Option<Causes> {
        let taken = self.waiting.remove(object);
        if let Some(metrics) = &self.metrics {
            match &taken {
                Some(taken) => metrics.waited.observe(taken.since.elapsed().as_secs_f64()),
                None => _ = metrics.adds.inc(),
            }
            metrics.set_depth(self.waiting.len());
        }
        let taken = taken?;
        if taken.is_scheduled {
            self.scheduled[taken.lane as usize] -= 1;
            self.wake();
        }
        if self.waiting.is_empty() {
            // What a start took.
            self.waiting.shrink_to(SMALL);
            self.lanes.iter_mut().for_each(|lane| lane.shrink_to(SMALL));
        }
        Some(taken.causes)
    }

    fn finish(&mut self, object: &ObjectRef<K>, action: &Action) {
        let is_scheduled = self.waiting.get(object).is_some_and(|it| it.is_scheduled);
        if !is_scheduled && *action == Action::await_change() {
            self.tickets.withdraw(object);
        }
    }

    /// What the scheduler gets next.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ObjectRef<Ticket<K>>>> {
        let next = self.next(Lane::Change);
        if let Some(object) = next.or_else(|| self.next(Lane::Backlog)) {
            self.tickets.issue(&object);
            let dyntype = object.dyntype.clone();
            return Poll::Ready(Some(object.into_kind_unchecked(dyntype)));
        }
        self.scheduler = Some(context.waker().clone());
        Poll::Pending
    }

    fn next(&mut self, lane: Lane) -> Option<ObjectRef<K>> {
        while self.has_room(lane) {
            let object = self.lanes[lane as usize].pop_front()?;
            let waiting = self.waiting.get_mut(&object);
            if let Some(waiting) = waiting.filter(|it| !it.is_scheduled && it.lane == lane) {
                waiting.is_scheduled = true;
                self.scheduled[lane as usize] += 1;
                return Some(object);
            }
        }
        None
    }

    /// Whether the scheduler may have more of that lane. While it has a change, the backlog only goes on.
    fn has_room(&self, lane: Lane) -> bool {
        let [changes, backlog] = self.scheduled;
        let room = match changes {
            0 => BACKLOG_PER_WORKER * self.concurrency,
            _ => self.concurrency,
        };
        lane == Lane::Change || backlog < room
    }

    fn wake(&mut self) {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{FutureExt, StreamExt};
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::metrics::Metrics;

    /// A queue, and what the scheduler gets of it.
    fn queue() -> (
        Arc<Queue<ConfigMap>>,
        impl Stream<Item = ObjectRef<ConfigMap>> + Unpin,
    ) {
        let (queue, stream) = Queue::<ConfigMap>::new(());
        (queue, stream.map(|ticket| ticket.into_kind_unchecked(())))
    }

    #[test]
    fn an_object_waits_once_until_it_is_taken() {
        let (queue, mut stream) = queue();
        let object = ObjectRef::new("x");
        queue.add(object.clone(), Causes::START);
        assert!(
            stream.next().now_or_never().is_none(),
            "the queue is closed"
        );

        queue.open(Metrics::for_tests().controller("test", 1), 1);
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

    #[test]
    fn an_object_has_a_ticket_while_the_scheduler_has_it() {
        let (queue, mut stream) = queue();
        queue.open(Metrics::for_tests().controller("test", 1), 1);
        let (object, tickets) = (ObjectRef::new("x"), queue.tickets());
        let mut schedule = || {
            queue.add(object.clone(), Causes::START);
            assert_eq!(stream.next().now_or_never().flatten(), Some(object.clone()));
        };
        let reconcile = |action| {
            assert_eq!(tickets.len(), 1);
            queue.take(&object);
            queue.finish(&object, &action);
            tickets.len()
        };
        schedule();
        assert_eq!(reconcile(Action::requeue(Duration::ZERO)), 1, "it returns");
        assert_eq!(reconcile(Action::await_change()), 0);

        schedule();
        queue.take(&object);
        schedule();
        queue.finish(&object, &Action::await_change());
        assert_eq!(reconcile(Action::await_change()), 0, "it was there again");
    }

    #[test]
    fn a_change_overtakes_the_backlog_of_which_the_scheduler_has_some() {
        let (queue, mut stream) = queue();
        queue.open(Metrics::for_tests().controller("test", 2), 2);
        let change = queue.causes.of_kind("ConfigMap");
        let object = |number: usize| ObjectRef::<ConfigMap>::new(&number.to_string());
        let count = 3 * BACKLOG_PER_WORKER;
        (0..count).for_each(|number| queue.add(object(number), Causes::START));
        let mut next = || stream.next().now_or_never().flatten();
        for number in 0..2 * BACKLOG_PER_WORKER {
            assert_eq!(next(), Some(object(number)));
        }
        assert_eq!(next(), None);

        queue.add(object(count - 1), change);
        queue.add(object(count), change);
        assert_eq!(next(), Some(object(count - 1)), "it was in the backlog");
        assert_eq!(next(), Some(object(count)));
        (0..10).for_each(|number| _ = queue.take(&object(number)));
        assert_eq!(next(), None, "the changes come first");
        let mut causes = Causes::START;
        causes.insert(change);
        assert_eq!(queue.take(&object(count - 1)), Some(causes));
        assert_eq!(queue.take(&object(count)), Some(change));
        let rest: Vec<_> = std::iter::from_fn(|| {
            let object = next()?;
            queue.take(&object);
            Some(object)
        })
        .collect();
        let expected: Vec<_> = (2 * BACKLOG_PER_WORKER..count - 1).map(object).collect();
        assert_eq!(rest, expected, "each once");
    }
}
