//! The objects that wait to be reconciled, each of them once.
//!
//! A change is not to wait for the thousands of objects of a start or a resync, nor for other changes that come
//! later. kube's scheduler knows no priorities, and takes from what it has in no order: so it gets an object only
//! when that can be reconciled at once.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures::stream::poll_fn;
use futures::{FutureExt, Stream};
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, ObjectRef};
use tokio::time::{Instant, Sleep, sleep_until};

use super::cause::{CauseNames, Causes};
use super::ticket::{Ticket, Tickets};
use crate::metrics::ControllerMetrics;
use crate::object::Object;
use crate::runtime::Hurry;

/// How many changes there may be in a row while the backlog waits, which has to end, too.
const ROW: usize = 8;

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
    /// How long an object waits at least, for changes that follow.
    debounce: Duration,
    /// How many are reconciled at a time.
    concurrency: usize,
    waiting: HashMap<ObjectRef<K>, Waiting>,
    /// Those of them that are not being reconciled, by the lane, the first ones first. Some may no longer wait.
    lanes: [VecDeque<ObjectRef<K>>; 2],
    /// How many changes have come before the backlog.
    row: usize,
    /// How many of those that wait the scheduler has.
    scheduled: usize,
    running: HashSet<ObjectRef<K>>,
    scheduler: Option<Waker>,
    /// While more than three quarters of the places are taken.
    hurry: Option<Hurry>,
    /// Those of the objects that the scheduler has, or will have again.
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

/// What a lane has for the scheduler.
enum Next<T> {
    Now(T),
    /// Nothing before that time.
    At(Instant),
    Nothing,
}

impl<K: Object> Queue<K> {
    /// A closed queue. What is added to it is dropped, so that a standby's does not grow.
    pub fn new(
        dyntype: K::DynamicType,
    ) -> (Arc<Self>, impl Stream<Item = ObjectRef<Ticket<K>>> + Send) {
        let state = Mutex::new(State {
            metrics: None,
            debounce: Duration::ZERO,
            concurrency: 1,
            waiting: HashMap::new(),
            lanes: Default::default(),
            row: 0,
            scheduled: 0,
            running: HashSet::new(),
            scheduler: None,
            hurry: None,
            tickets: Tickets::new(dyntype),
        });
        let causes = CauseNames::default();
        let queue = Arc::new(Self { state, causes });
        let (stream, mut timer) = (Arc::clone(&queue), None);
        let tickets = poll_fn(move |context| stream.poll_next(&mut timer, context));
        (queue, tickets)
    }

    /// Takes in what is added from now on, which waits for `debounce` at least, and for so many reconciles at a
    /// time; 0 is as many as there are objects.
    pub fn open(&self, metrics: ControllerMetrics, debounce: Duration, concurrency: u16) {
        let mut state = self.state();
        state.metrics = Some(metrics);
        state.debounce = debounce;
        state.concurrency = match concurrency {
            0 => usize::MAX,
            limit => usize::from(limit),
        };
    }

    /// Has the object reconciled, once, however often it is added before that starts.
    pub fn add(&self, mut object: ObjectRef<K>, cause: Causes) {
        object.extra = Default::default();
        self.state().add(object, cause);
    }

    /// The object no longer waits: it is being reconciled. Returns why; `None` where it did not wait: what it
    /// returned from its last reconcile brings it, too.
    pub fn take(&self, object: &ObjectRef<K>) -> Option<Causes> {
        self.state().take(object)
    }

    /// The reconcile of the object has ended with an action that may bring it again.
    pub fn finish(&self, object: &ObjectRef<K>, action: &Action) {
        self.state().finish(object, action);
    }

    /// Where the scheduler finds what it gets.
    pub fn tickets(&self) -> reflector::Store<Ticket<K>> {
        self.state().tickets.reader()
    }

    /// What the scheduler gets next. It asks only if it has room.
    fn poll_next(
        &self,
        timer: &mut Option<Pin<Box<Sleep>>>,
        context: &mut Context<'_>,
    ) -> Poll<Option<ObjectRef<Ticket<K>>>> {
        loop {
            match self.state().next(context) {
                Next::Now(object) => {
                    let dyntype = object.dyntype.clone();
                    return Poll::Ready(Some(object.into_kind_unchecked(dyntype)));
                }
                Next::At(time) => {
                    let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(time)));
                    timer.as_mut().reset(time);
                    ready!(timer.poll_unpin(context));
                }
                Next::Nothing => return Poll::Pending,
            }
        }
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
        let object = match self.waiting.entry(object) {
            Entry::Occupied(mut entry) => {
                let waiting = entry.get_mut();
                waiting.causes.insert(cause);
                if waiting.is_scheduled || waiting.lane == lane || lane == Lane::Backlog {
                    return;
                }
                waiting.lane = lane;
                entry.key().clone()
            }
            Entry::Vacant(entry) => {
                let object = entry.key().clone();
                entry.insert(Waiting {
                    since: Instant::now(),
                    causes: cause,
                    lane,
                    is_scheduled: false,
                });
                metrics.adds.inc();
                metrics.set_depth(self.waiting.len());
                object
            }
        };
        self.line_up(object, lane);
    }

    /// The object waits in that lane, unless it is being reconciled.
    fn line_up(&mut self, object: ObjectRef<K>, lane: Lane) {
        if !self.running.contains(&object) {
            self.lanes[lane as usize].push_back(object);
            self.wake();
        }
    }

    /// How many places are taken.
    fn taken(&self) -> usize {
        self.scheduled + self.running.len()
    }

    fn hurry(&mut self) {
        let is_scarce = self.taken().saturating_mul(4) > self.concurrency.saturating_mul(3);
        if !is_scarce {
            self.hurry = None;
        } else if self.hurry.is_none() {
            self.hurry = Some(Hurry::for_queue());
        }
    }

    fn take(&mut self, object: &ObjectRef<K>) -> Option<Causes> {
        self.running.insert(object.clone());
        let taken = self.waiting.remove(object);
        if let Some(metrics) = &self.metrics {
            match &taken {
                Some(taken) => metrics.waited.observe(taken.since.elapsed().as_secs_f64()),
                None => _ = metrics.adds.inc(),
            }
            metrics.set_depth(self.waiting.len());
        }
        if taken.as_ref().is_some_and(|taken| taken.is_scheduled) {
            self.scheduled -= 1;
        }
        self.hurry();
        let taken = taken?;
        if self.waiting.is_empty() {
            // What a start took.
            self.waiting.shrink_to(SMALL);
            self.lanes.iter_mut().for_each(|lane| lane.shrink_to(SMALL));
        }
        Some(taken.causes)
    }

    fn finish(&mut self, object: &ObjectRef<K>, action: &Action) {
        self.running.remove(object);
        self.hurry();
        if *action == Action::await_change() {
            self.tickets.withdraw(object);
        }
        match self.waiting.get(object).map(|waiting| waiting.lane) {
            Some(lane) => self.line_up(object.clone(), lane),
            None => self.wake(), // for another one
        }
    }

    /// What the scheduler gets next.
    fn next(&mut self, context: &Context<'_>) -> Next<ObjectRef<K>> {
        self.scheduler = Some(context.waker().clone());
        if self.taken() >= self.concurrency {
            return Next::Nothing;
        }
        let mut lanes = [Lane::Change, Lane::Backlog];
        if self.row >= ROW {
            lanes.reverse();
        }
        let mut next = Next::Nothing;
        for lane in lanes {
            next = match (next, self.first(lane)) {
                (_, Next::Now(object)) => {
                    self.row = match lane {
                        Lane::Change => self.row + 1,
                        Lane::Backlog => 0,
                    };
                    self.tickets.issue(&object);
                    return Next::Now(object);
                }
                (Next::At(one), Next::At(other)) => Next::At(one.min(other)),
                (Next::Nothing, next) | (next, _) => next,
            };
        }
        next
    }

    /// Takes the first of a lane, if it has waited for long enough.
    fn first(&mut self, lane: Lane) -> Next<ObjectRef<K>> {
        while let Some(object) = self.lanes[lane as usize].pop_front() {
            if self.running.contains(&object) {
                continue; // it came otherwise, and lines up again when that has ended
            }
            let waiting = self.waiting.get_mut(&object);
            let Some(waiting) = waiting.filter(|it| !it.is_scheduled && it.lane == lane) else {
                continue;
            };
            let time = waiting.since + self.debounce;
            if time > Instant::now() {
                self.lanes[lane as usize].push_front(object);
                return Next::At(time);
            }
            waiting.is_scheduled = true;
            self.scheduled += 1;
            self.hurry();
            return Next::Now(object);
        }
        Next::Nothing
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

    fn open(queue: &Queue<ConfigMap>, debounce: Duration, concurrency: u16) {
        let metrics = Metrics::for_tests().controller("test", concurrency);
        queue.open(metrics, debounce, concurrency);
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

        open(&queue, Duration::ZERO, 1);
        queue.add(object.clone(), Causes::START);
        queue.add(object.clone(), Causes::START);
        assert_eq!(stream.next().now_or_never().flatten(), Some(object.clone()));
        queue.add(object.clone(), Causes::START);
        assert!(stream.next().now_or_never().is_none(), "it still waits");

        assert_eq!(queue.take(&object), Some(Causes::START));
        assert_eq!(queue.take(&object), None);
        queue.add(object.clone(), Causes::START);
        assert!(stream.next().now_or_never().is_none(), "it is reconciled");
        queue.finish(&object, &Action::await_change());
        assert_eq!(stream.next().now_or_never().flatten(), Some(object));
    }

    #[test]
    fn an_object_has_a_ticket_while_the_scheduler_has_it() {
        let (queue, mut stream) = queue();
        open(&queue, Duration::ZERO, 1);
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
        assert_eq!(reconcile(Action::await_change()), 0, "once more");
    }

    #[test]
    fn what_brought_itself_is_not_scheduled_again_before_it_ends() {
        let (queue, mut stream) = queue();
        open(&queue, Duration::ZERO, 2);
        let object = ObjectRef::new("x");
        queue.add(object.clone(), Causes::START);
        queue.take(&object); // what it returned from its last reconcile was faster
        queue.add(object.clone(), Causes::START);
        assert!(stream.next().now_or_never().is_none(), "it is reconciled");
        queue.finish(&object, &Action::await_change());
        assert_eq!(stream.next().now_or_never().flatten(), Some(object));
        assert_eq!(queue.tickets().len(), 1);
    }

    #[test]
    fn it_hurries_while_places_are_scarce() {
        let (queue, mut stream) = queue();
        open(&queue, Duration::ZERO, 4);
        let objects = ["a", "b", "c", "d"].map(ObjectRef::new);
        let hurries = || queue.state().hurry.is_some();
        for object in &objects {
            assert!(!hurries());
            queue.add(object.clone(), Causes::START);
            assert_eq!(
                stream.next().now_or_never().flatten().as_ref(),
                Some(object)
            );
            queue.take(object);
        }
        assert!(hurries());
        queue.finish(&objects[0], &Action::await_change());
        assert!(!hurries());
    }

    #[test]
    fn a_change_comes_before_the_backlog_which_goes_on() {
        let (queue, mut stream) = queue();
        open(&queue, Duration::ZERO, 2);
        let change = queue.causes.of_kind("ConfigMap");
        let object = |number: usize| ObjectRef::<ConfigMap>::new(&number.to_string());
        (0..10).for_each(|number| queue.add(object(number), Causes::START));
        let mut next = || stream.next().now_or_never().flatten();
        assert_eq!([next(), next()], [0, 1].map(|number| Some(object(number))));
        assert_eq!(next(), None, "two at a time");
        queue.add(object(9), change);
        (20..30).for_each(|number| queue.add(object(number), change));
        queue.take(&object(0));
        assert_eq!(next(), None, "two are reconciled or about to be");
        queue.finish(&object(0), &Action::await_change());

        let rest: Vec<_> = std::iter::from_fn(|| {
            let object = next()?;
            queue.take(&object);
            queue.finish(&object, &Action::await_change());
            Some(object)
        })
        .collect();
        let expected = [
            9, 20, 21, 22, 23, 24, 25, 26, 2, 27, 28, 29, 3, 4, 5, 6, 7, 8,
        ];
        assert_eq!(rest, expected.map(object), "each once");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_waits_for_changes_that_follow() {
        let (queue, mut stream) = queue();
        open(&queue, Duration::from_secs(1), 1);
        let begin = Instant::now();
        queue.add(ObjectRef::new("x"), Causes::START);
        let change = queue.causes.of_kind("ConfigMap");
        let changes = async {
            sleep_until(begin + Duration::from_millis(500)).await;
            queue.add(ObjectRef::new("y"), change);
            queue.add(ObjectRef::new("x"), change);
        };
        let (first, ()) = tokio::join!(stream.next(), changes);
        assert_eq!(first, Some(ObjectRef::new("y")));
        assert_eq!(begin.elapsed(), Duration::from_millis(1500));
    }
}
