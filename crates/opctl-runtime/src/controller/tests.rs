//! Controllers of a store that the test fills, on a clock that stands still while anything is to do.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use axum::http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tower::service_fn;

use super::*;
use crate::store::Event;
use crate::{Identity, Options};

/// The delay between two events of an object that never rests.
const NOISE: Duration = Duration::from_millis(20);

fn manager() -> Manager {
    let service =
        service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
    let options = Options::from_flags([""; 0]).unwrap();
    Manager::new(
        Identity::new("test", "1.0.0"),
        Client::new(service, "default"),
        options,
    )
}

/// An object that changes, and a reconciler of it that fails until its dependency is there.
struct Subject {
    store: Store<ConfigMap>,
    version: AtomicU64,
    recovered: AtomicBool,
    attempts: Mutex<Vec<Instant>>,
}

impl Subject {
    fn start(configure: impl FnOnce(Controller<ConfigMap>) -> Controller<ConfigMap>) -> Arc<Self> {
        let subject = Arc::new(Self {
            store: Store::from_iter([]),
            version: AtomicU64::new(0),
            recovered: AtomicBool::new(false),
            attempts: Mutex::default(),
        });
        subject.change(1);
        let controller = Controller::for_store(&manager(), subject.store.clone());
        let controller = controller.resync(None);
        let reconcile = async |_, subject: Arc<Arc<Self>>| {
            subject.attempts.lock().unwrap().push(Instant::now());
            let recovered = subject.recovered.load(Ordering::Relaxed);
            recovered.then(Action::await_change).ok_or("on purpose")
        };
        configure(controller).run(reconcile, Arc::clone(&subject));
        subject
    }

    /// An event of the object, which has that generation.
    fn change(&self, generation: i64) {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("x".to_owned());
        object.metadata.uid = Some("1".to_owned());
        object.metadata.generation = Some(generation);
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        object.metadata.resource_version = Some(version.to_string());
        self.store.take(&None, Event::Applied(object));
    }

    async fn change_until(&self, end: Instant) {
        while Instant::now() < end {
            self.change(1);
            sleep(NOISE).await;
        }
    }

    fn recover(&self) {
        self.recovered.store(true, Ordering::Relaxed);
    }

    fn attempts(&self) -> Vec<Instant> {
        self.attempts.lock().unwrap().clone()
    }

    /// How long after that time the next attempt was.
    fn next_after(&self, time: Instant) -> Option<Duration> {
        let attempts = self.attempts();
        let next = attempts.iter().find(|attempt| **attempt > time);
        next.map(|next| *next - time)
    }
}

#[tokio::test(start_paused = true)]
async fn events_neither_multiply_the_attempts_nor_delay_the_recovery() {
    let outage = Duration::from_secs(60);
    let subject = Subject::start(|controller| controller);
    let end = Instant::now() + outage;
    subject.change_until(end).await;
    let attempts = subject.attempts().len();
    assert!((10..=20).contains(&attempts), "{attempts} attempts");

    subject.recover();
    sleep(Duration::from_secs(3600)).await;
    let recovery = subject.next_after(end).unwrap();
    assert!(recovery <= Duration::from_secs(5), "{recovery:?}");
    assert_eq!(subject.attempts().len(), attempts + 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_specification_is_reconciled_at_once_and_starts_over() {
    let subject = Subject::start(|controller| controller);
    sleep(Duration::from_secs(600)).await;
    subject.change(2);
    let changed = Instant::now();
    sleep(Duration::from_secs(1)).await;
    assert!(subject.next_after(changed).unwrap() <= 2 * DEBOUNCE);
    let again = subject
        .attempts()
        .iter()
        .filter(|attempt| **attempt > changed)
        .count();
    assert!(again >= 3, "{again} attempts");
}

#[tokio::test(start_paused = true)]
async fn an_event_brings_an_attempt_forward_and_leaves_the_schedule_alone() {
    let delay = Duration::from_secs(300);
    let limiter = RateLimiter::exponential(delay, delay);
    let subject = Subject::start(|controller| controller.rate_limiter(limiter));
    sleep(Duration::from_secs(100)).await;
    let first = subject.attempts()[0];
    subject.change(1);
    let event = Instant::now();
    sleep(2 * delay).await;
    let attempts = subject.attempts();
    assert!(attempts[1] - event <= 2 * DEBOUNCE);
    assert!(
        attempts[2] < first + delay,
        "the event may have been ahead of what it announces"
    );
    assert!((delay..=delay + 2 * DEBOUNCE).contains(&(attempts[3] - first)));
    assert!(attempts[4] - attempts[3] >= delay);
}

#[tokio::test(start_paused = true)]
async fn an_object_waits_longer_with_every_failure_up_to_the_longest_delay() {
    let (first, last) = (Duration::from_millis(5), Duration::from_secs(300));
    let subject = Subject::start(|controller| controller);
    sleep(Duration::from_secs(3600)).await;
    let attempts = subject.attempts();
    let delays: Vec<_> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(delays[0] <= first + 2 * DEBOUNCE, "{delays:?}");
    let longest = delays.iter().max().unwrap();
    assert!((last..=last + 2 * DEBOUNCE).contains(longest), "{delays:?}");
    assert!((15..=30).contains(&attempts.len()), "{delays:?}");
}

/// How often 1,000 objects are reconciled in three days, each, and how many of them at once at most
/// after the first minute.
async fn reconciled(
    configure: impl FnOnce(Controller<ConfigMap>) -> Controller<ConfigMap>,
) -> (Vec<usize>, usize) {
    let objects = (0..1000).map(|number| {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(format!("x-{number}"));
        object
    });
    let store = Store::from_iter(objects);
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let reconcile = async |object: Arc<ConfigMap>, attempts: Arc<Arc<Mutex<Vec<_>>>>| {
        attempts
            .lock()
            .unwrap()
            .push((object.name_any(), Instant::now()));
        Ok::<_, Infallible>(Action::await_change())
    };
    let controller = Controller::for_store(&manager(), store);
    configure(controller).run(reconcile, Arc::clone(&attempts));
    sleep(Duration::from_secs(3 * 24 * 3600)).await;
    let attempts = attempts.lock().unwrap();
    let start = attempts[0].1 + Duration::from_secs(60);
    let (mut counts, mut later) = (HashMap::new(), HashMap::new());
    for (name, time) in &*attempts {
        *counts.entry(name).or_insert(0) += 1;
        *later.entry(time).or_insert(0) += usize::from(*time > start);
    }
    let counts: Vec<_> = counts.into_values().collect();
    (counts, later.into_values().max().unwrap())
}

#[tokio::test(start_paused = true)]
async fn every_object_is_reconciled_once_in_ten_hours_and_not_all_at_once() {
    let (counts, at_once) = reconciled(|controller| controller).await;
    assert_eq!(counts.len(), 1000);
    assert!(
        counts.iter().all(|count| (8..=9).contains(count)),
        "{counts:?}"
    );
    assert!(at_once < 50, "{at_once} at once");
}

/// The backlog of a start does not hold up a change, although each reconcile takes its time.
/// The versions of objects that were reconciled, and when.
type Attempts = Mutex<Vec<(String, Option<String>, Instant)>>;

/// A controller that begins with ten thousand objects, each of which takes it 10 ms.
fn with_backlog() -> (Store<ConfigMap>, Arc<Attempts>) {
    let store = Store::from_iter((0..10_000).map(|number| config_map(number, 1)));
    let seen = Arc::new(Attempts::default());
    let reconcile = async |object: Arc<ConfigMap>, seen: Arc<Arc<Attempts>>| {
        sleep(Duration::from_millis(10)).await;
        let version = object.resource_version();
        let attempt = (object.name_any(), version, Instant::now());
        seen.lock().unwrap().push(attempt);
        Ok::<_, Infallible>(Action::await_change())
    };
    let controller = Controller::for_store(&manager(), store.clone());
    controller.resync(None).run(reconcile, Arc::clone(&seen));
    (store, seen)
}

fn config_map(number: usize, version: u64) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(format!("x-{number}"));
    object.metadata.resource_version = Some(version.to_string());
    object
}

#[tokio::test(start_paused = true)]
async fn a_change_is_reconciled_at_once_while_thousands_of_objects_wait() {
    let (store, seen) = with_backlog();
    for number in [9_999, 5_000, 0, 10_000] {
        sleep(Duration::from_secs(1)).await;
        let change = Instant::now();
        store.take(&None, Event::Applied(config_map(number, 2)));
        sleep(Duration::from_millis(500)).await;
        let (name, version) = (format!("x-{number}"), Some("2".to_owned()));
        let seen = seen.lock().unwrap();
        let is_seen = seen.iter().any(|it| (&it.0, &it.1) == (&name, &version));
        assert!(is_seen, "{name} after {:?}", change.elapsed());
        assert!(seen.len() < 10_000, "the backlog is still there");
    }
    sleep(Duration::from_secs(60)).await;
    let names: HashSet<_> = seen.lock().unwrap().iter().map(|it| it.0.clone()).collect();
    assert_eq!(names.len(), 10_001);
}

/// Else an object that changes while it is about to be reconciled might wait for all the others.
#[tokio::test(start_paused = true)]
async fn no_object_waits_for_those_that_come_later() {
    let (store, seen) = with_backlog();
    let order = store.references();
    sleep(Duration::from_secs(60)).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), order.len());
    let positions = seen.iter().map(|it| &it.0).zip(0_usize..);
    let positions: HashMap<_, _> = positions.collect();
    for (object, turn) in order.iter().zip(0_usize..) {
        let position = positions[&object.name];
        assert!(position.abs_diff(turn) <= 16, "{turn} is {position}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resync_can_be_switched_off() {
    let (counts, _) = reconciled(|controller| controller.resync(None)).await;
    assert_eq!(counts, [1; 1000]);
}

/// The versions of objects as reconciles have last seen them.
type Seen = Mutex<HashMap<String, Option<String>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_the_last_version_of_every_object_is_reconciled() {
    let store = Store::<ConfigMap>::from_iter([]);
    let seen = Arc::new(Seen::default());
    let reconcile = async |object: Arc<ConfigMap>, seen: Arc<Arc<Seen>>| {
        let version = object.resource_version();
        seen.lock().unwrap().insert(object.name_any(), version);
        Ok::<_, Infallible>(Action::await_change())
    };
    let controller = Controller::for_store(&manager(), store.clone());
    let controller = controller.debounce(Duration::ZERO);
    controller.run(reconcile, Arc::clone(&seen));
    for round in 0..500 {
        let writer = store.clone();
        let write = move || {
            for version in 100 * round..100 * (round + 1) {
                let mut object = ConfigMap::default();
                // Each has another version while the reconcile of the first one starts.
                object.metadata.name = Some(format!("x-{}", version / 2 % 50));
                object.metadata.resource_version = Some((version + 1).to_string());
                writer.take(&None, Event::Applied(object));
            }
        };
        spawn_blocking(write).await.unwrap();
        let missed = || -> Vec<_> {
            let (objects, seen) = (store.list().into_iter(), seen.lock().unwrap());
            let version = |object: &ConfigMap| seen.get(&object.name_any()).cloned().flatten();
            objects
                .filter(|object| version(object) != object.resource_version())
                .collect()
        };
        let end = Instant::now() + Duration::from_secs(5);
        while !missed().is_empty() {
            assert!(Instant::now() < end, "round {round}: {:?}", missed());
            sleep(Duration::from_millis(1)).await;
        }
    }
}
