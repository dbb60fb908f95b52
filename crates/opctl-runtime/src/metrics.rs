//! Metrics, under controller-runtime's names where it has them. No label has values without bound.

mod process;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::runtime::controller::Action;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::process::Process;
use crate::Identity;

/// controller-runtime's buckets, in seconds, up to the minute that a reconcile may take.
const BUCKETS: [f64; 12] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0,
];

/// client-go's buckets for requests, in seconds (`rest_client_request_duration_seconds` in
/// controller-runtime's pkg/metrics).
const REQUEST_BUCKETS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// What a reconcile can end with.
const RESULTS: [&str; 4] = ["success", "error", "requeue", "requeue_after"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    controller: String,
    result: &'static str,
}

/// controller-runtime's queues carry the controller's name twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queue {
    name: String,
    controller: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    code: String,
    method: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Lease {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    name: &'static str,
    version: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Watch {
    kind: String,
    /// Empty for all namespaces. Prometheus itself sets a label `namespace`.
    watch_namespace: String,
    selector: String,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// What the process counts.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    results: Family<Outcome, Counter>,
    errors: Family<Controller, Counter>,
    terminal: Family<Controller, Counter>,
    panics: Family<Controller, Counter>,
    time: Histograms<Controller>,
    active: Family<Controller, Gauge>,
    failing: Family<Controller, Gauge>,
    limit: Family<Controller, Gauge>,
    depth: Family<Queue, Gauge>,
    adds: Family<Queue, Counter>,
    retries: Family<Queue, Counter>,
    waited: Histograms<Queue>,
    requests: Family<Request, Counter>,
    request_time: Histograms<Verb>,
    leader: Family<Lease, Gauge>,
    synced: Family<Watch, Gauge>,
}

/// What one controller counts.
#[derive(Clone)]
pub(crate) struct ControllerMetrics {
    results: [Counter; RESULTS.len()],
    errors: Counter,
    pub terminal: Counter,
    pub panics: Counter,
    time: Histogram,
    pub active: Gauge,
    failing: Gauge,
    depth: Gauge,
    pub adds: Counter,
    pub retries: Counter,
    pub waited: Histogram,
}

impl Metrics {
    pub fn new(identity: Identity) -> Self {
        let mut registry = Registry::default();
        let new = || Histogram::new(BUCKETS);
        let metrics = Self {
            results: Family::default(),
            errors: Family::default(),
            terminal: Family::default(),
            panics: Family::default(),
            time: Family::new_with_constructor(new),
            active: Family::default(),
            failing: Family::default(),
            limit: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Family::new_with_constructor(new),
            requests: Family::default(),
            request_time: Family::new_with_constructor(|| Histogram::new(REQUEST_BUCKETS)),
            leader: Family::default(),
            synced: Family::default(),
            registry: Mutex::default(),
        };

        let reconciles = registry.sub_registry_with_prefix("controller_runtime");
        let families = &metrics;
        reconciles.register(
            "reconcile",
            "Reconciles by result",
            families.results.clone(),
        );
        reconciles.register(
            "reconcile_errors",
            "Reconciles that failed",
            families.errors.clone(),
        );
        reconciles.register(
            "terminal_reconcile_errors",
            "Reconciles that failed and wait for a change",
            families.terminal.clone(),
        );
        reconciles.register(
            "reconcile_panics",
            "Reconciles that panicked",
            families.panics.clone(),
        );
        let help = "How long reconciles took, in seconds";
        reconciles.register("reconcile_time_seconds", help, families.time.clone());
        reconciles.register(
            "active_workers",
            "Reconciles under way",
            families.active.clone(),
        );
        let help = "How many reconciles may be under way";
        reconciles.register("max_concurrent_reconciles", help, families.limit.clone());
        // controller-runtime has no such metric.
        let help = "Objects whose last reconcile failed";
        registry.register("controller_failing_objects", help, families.failing.clone());

        let queue = registry.sub_registry_with_prefix("workqueue");
        queue.register(
            "depth",
            "Objects that wait to be reconciled",
            families.depth.clone(),
        );
        queue.register("adds", "Objects that came to wait", families.adds.clone());
        queue.register(
            "retries",
            "Objects to try again after an error",
            families.retries.clone(),
        );
        let help = "How long objects waited, in seconds";
        queue.register("queue_duration_seconds", help, families.waited.clone());

        let help = "Requests to the API server by the status code of the answer";
        registry.register("rest_client_requests", help, families.requests.clone());
        registry.register(
            "rest_client_request_duration_seconds",
            "How long requests waited for the head of the answer, in seconds",
            families.request_time.clone(),
        );
        let help = "Whether this process holds the lease";
        registry.register(
            "leader_election_master_status",
            help,
            families.leader.clone(),
        );
        let help = "Whether the store holds a complete list of the objects";
        registry.register("store_synced", help, families.synced.clone());
        let build: Family<Build, Gauge> = Family::default();
        let (name, version) = (identity.name(), identity.version());
        build.get_or_create(&Build { name, version }).set(1);
        registry.register(
            "operator_build_info",
            "Name and version of the operator",
            build,
        );
        registry.register_collector(Box::new(Process::new()));
        Self {
            registry: Mutex::new(registry),
            ..metrics
        }
    }

    #[cfg(test)]
    pub fn for_tests() -> Self {
        Self::new(Identity::new("test", "1.0.0"))
    }

    /// The registry in Prometheus' text format.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry())?;
        Ok(text)
    }

    /// The registry, to add further metrics.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The metrics of the controller of that name, all there from the beginning: a rate needs a zero
    /// to start from.
    pub fn controller(&self, name: &str, max_concurrent_reconciles: u16) -> ControllerMetrics {
        let controller = Controller {
            controller: name.to_owned(),
        };
        let queue = Queue {
            name: name.to_owned(),
            controller: name.to_owned(),
        };
        let outcome = |result| Outcome {
            controller: name.to_owned(),
            result,
        };
        let limit = max_concurrent_reconciles.into();
        self.limit.get_or_create(&controller).set(limit);
        ControllerMetrics {
            results: RESULTS.map(|result| self.results.get_or_create_owned(&outcome(result))),
            errors: self.errors.get_or_create_owned(&controller),
            terminal: self.terminal.get_or_create_owned(&controller),
            panics: self.panics.get_or_create_owned(&controller),
            time: self.time.get_or_create_owned(&controller),
            active: self.active.get_or_create_owned(&controller),
            failing: self.failing.get_or_create_owned(&controller),
            depth: self.depth.get_or_create_owned(&queue),
            adds: self.adds.get_or_create_owned(&queue),
            retries: self.retries.get_or_create_owned(&queue),
            waited: self.waited.get_or_create_owned(&queue),
        }
    }

    /// Counts a request; `code` is that of its answer, if there was one.
    pub fn count_request(&self, host: &str, method: &str, code: Option<&str>, took: Duration) {
        let (method, host) = (method.to_owned(), host.to_owned());
        let verb = Verb {
            verb: method.clone(),
            host: host.clone(),
        };
        let request = Request {
            // What client-go has for requests without an answer.
            code: code.unwrap_or("<error>").to_owned(),
            method,
            host,
        };
        self.requests.get_or_create(&request).inc();
        let time = self.request_time.get_or_create_owned(&verb);
        time.observe(took.as_secs_f64());
    }

    /// Whether a store has a complete list of the selected objects in that namespace.
    pub fn store_synced(&self, kind: String, namespace: Option<&str>, selector: String) -> Gauge {
        let watch = Watch {
            kind,
            watch_namespace: namespace.unwrap_or_default().to_owned(),
            selector,
        };
        self.synced.get_or_create_owned(&watch)
    }

    pub fn set_leader(&self, lease: &str, leads: bool) {
        let name = lease.to_owned();
        let lease = Lease { name };
        self.leader.get_or_create(&lease).set(leads.into());
    }
}

impl ControllerMetrics {
    /// Counts a reconcile; `action` is `None` if it failed.
    pub fn finished(&self, action: Option<&Action>, took: Duration) {
        let result = match action {
            None => "error",
            Some(action) if *action == Action::await_change() => "success",
            Some(action) if *action == Action::requeue(Duration::ZERO) => "requeue",
            Some(_) => "requeue_after",
        };
        if action.is_none() {
            self.errors.inc();
        }
        for (_, counter) in RESULTS
            .iter()
            .zip(&self.results)
            .filter(|(name, _)| **name == result)
        {
            counter.inc();
        }
        self.time.observe(took.as_secs_f64());
    }

    pub fn set_depth(&self, objects: usize) {
        self.depth.set(objects.try_into().unwrap_or(i64::MAX));
    }

    pub fn set_failing(&self, objects: usize) {
        self.failing.set(objects.try_into().unwrap_or(i64::MAX));
    }
}
