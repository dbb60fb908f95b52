//! What the controllers of an operator share, and the life of its process.

mod control;
mod signals;
mod store_builder;
mod sync;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use kube::Client;
use kube::config::Config;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

pub(crate) use self::control::Control;
pub use self::store_builder::StoreBuilder;
use crate::applier::Applier;
use crate::client::{self, Counted, Sends};
use crate::events::EventRecorder;
use crate::health::Health;
use crate::identity::Identity;
use crate::leader::LeaderState;
use crate::metrics::Metrics;
use crate::object::Object;
use crate::options::Options;
use crate::store::{Store, SyncState};

/// How long reconciles may take to finish once the process is asked to stop. Kubernetes kills it
/// after `terminationGracePeriodSeconds`, 30 by default.
const GRACE_PERIOD: Duration = Duration::from_secs(20);

/// What the controllers of an operator share: a client, stores, leader election, health and metrics.
/// Clones are the same manager.
///
/// # Example
/// ```no_run
/// use opctl_runtime::{Identity, Manager, Options};
///
/// async fn run(identity: Identity, options: Options) -> anyhow::Result<()> {
///     let manager = Manager::connect(identity, options).await?;
///     manager.add_readiness_check("registry", || Err("is not connected yet".to_owned()));
///     manager.spawn_on_leader("the report of unused images", async {
///         // Runs in one process only.
///     });
///     manager.run().await
/// }
/// ```
#[derive(Clone)]
pub struct Manager(Arc<Shared>);

struct Shared {
    identity: Identity,
    options: Options,
    /// Writes only while this process leads.
    client: Client,
    /// Also writes while another process leads: leases and reviews.
    unfenced: Client,
    /// The cluster to connect to once more, from the thread of the leases and servers.
    config: Option<Config>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    leader: LeaderState,
    stop: CancellationToken,
    tasks: TaskTracker,
    applier: Applier,
    stores: Mutex<Stores>,
    /// Why the process has to end, if it has to.
    failure: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct Stores {
    /// By the kind and what is selected of it.
    by_selection: HashMap<(TypeId, String), Box<dyn Any + Send>>,
    all: Vec<SyncState>,
    /// Those that a controller waits for.
    required: Vec<SyncState>,
}

impl Manager {
    /// Connects to the cluster of the current kubeconfig or, in a pod, to the cluster of the pod.
    ///
    /// # Errors
    /// There is neither a kubeconfig nor a service account, or one is invalid. An API server that
    /// does not answer is not an error: the manager waits for it.
    pub async fn connect(identity: Identity, options: Options) -> Result<Self> {
        let config = Config::infer()
            .await
            .context("cannot find a cluster: there is no kubeconfig, and this is not a pod")?;
        let (name, version) = (identity.name(), identity.version());
        info!(server = %config.cluster_url, version, "starting {name}");
        Ok(Self::for_config(identity, config, options)?)
    }

    pub(crate) fn for_config(
        identity: Identity,
        config: Config,
        options: Options,
    ) -> kube::Result<Self> {
        let metrics = Arc::new(Metrics::new(identity));
        let counted = client::connect_counted(config.clone(), Arc::clone(&metrics))?;
        let config = Some(config);
        Ok(Self::build(identity, counted, metrics, config, options))
    }

    /// A manager on an existing client, as tests have one. In the metrics, what that client repeats by
    /// itself counts as one request.
    pub fn new(identity: Identity, client: Client, options: Options) -> Self {
        let metrics = Arc::new(Metrics::new(identity));
        let counted = client::counted(client, Arc::clone(&metrics), String::new());
        Self::build(identity, counted, metrics, None, options)
    }

    fn build(
        identity: Identity,
        counted: Counted<impl Sends>,
        metrics: Arc<Metrics>,
        config: Option<Config>,
        options: Options,
    ) -> Self {
        let leader = if options.leader_election.enabled {
            // From the start: a manager that never comes to campaign does not lead, either.
            let lease = options.leader_election.id.as_deref();
            metrics.set_leader(lease.unwrap_or(identity.name()), false);
            LeaderState::default()
        } else {
            LeaderState::without_election()
        };
        let (client, unfenced) = (counted.fenced(leader.clone()), counted.client());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let applier = Applier::new(identity, client.clone());
        Self(Arc::new(Shared {
            identity,
            options,
            applier: applier.with_tasks(tasks.clone(), stop.clone()),
            client,
            unfenced,
            config,
            metrics,
            health: Arc::default(),
            leader,
            stop,
            tasks,
            stores: Mutex::default(),
            failure: watch::Sender::default(),
        }))
    }

    /// The operator's name and version.
    pub fn identity(&self) -> Identity {
        self.0.identity
    }

    /// The flags of this process.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// A client for everything else: finalizers, direct reads, other objects. It counts requests in
    /// the metrics, and writes only while this process leads: a write without the lease is an error.
    pub fn client(&self) -> Client {
        self.0.client.clone()
    }

    /// The writer of objects and status. A controller's reconciler had better use
    /// [`Controller::applier`](crate::Controller::applier).
    pub fn applier(&self) -> Applier {
        self.0.applier.clone()
    }

    /// The recorder of events.
    pub fn events(&self) -> EventRecorder {
        self.applier().events().clone()
    }

    /// The objects of kind `K` in the namespaces that the operator watches. It is the same store
    /// for everyone who asks for it.
    pub fn store<K: Object<DynamicType: Default>>(&self) -> Store<K> {
        self.watch().start()
    }

    /// A store of some objects of kind `K`.
    pub fn watch<K: Object<DynamicType: Default>>(&self) -> StoreBuilder<K> {
        self.watch_with(K::DynamicType::default())
    }

    /// A store of objects whose kind is known at run time: `K` is `DynamicObject`, and `dyntype` its
    /// `ApiResource`.
    pub fn watch_with<K: Object>(&self, dyntype: K::DynamicType) -> StoreBuilder<K> {
        StoreBuilder::new(self.clone(), dyntype)
    }

    /// Adds metrics to those that /metrics serves.
    ///
    /// # Example
    /// ```no_run
    /// use opctl_runtime::Manager;
    /// use opctl_runtime::prometheus_client::metrics::counter::Counter;
    ///
    /// fn count_jobs(manager: &Manager) -> Counter {
    ///     let jobs = Counter::default();
    ///     manager.register_metrics(|registry| {
    ///         registry.register("jobs_started", "Jobs that were started", jobs.clone());
    ///     });
    ///     jobs
    /// }
    /// ```
    pub fn register_metrics(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.0.metrics.registry());
    }

    /// Makes /readyz fail while `check` returns an error. It is called for every request, so it must
    /// return at once: have a background task find out, and `check` read what it found.
    pub fn add_readiness_check(
        &self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let health = &self.0.health;
        health.add_readiness_check(name.into(), Box::new(check));
    }

    /// The metrics in the OpenMetrics text format, as /metrics serves them.
    ///
    /// # Errors
    /// A metric of the operator cannot be encoded.
    pub fn encode_metrics(&self) -> Result<String, fmt::Error> {
        self.0.metrics.encode()
    }

    /// Runs a task in the background from now on, until it ends or the process is asked to stop: also
    /// while another process leads, so it must not write. A panic of the task makes /healthz fail.
    pub fn spawn(&self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_after(async {}, name.into(), task);
    }

    /// Runs a task in the background once this process leads and the stores of its controllers are
    /// complete, until it ends or the process is asked to stop. A panic of the task makes /healthz fail.
    /// A task that reads another store waits for it with [`Store::synced`].
    pub fn spawn_on_leader(
        &self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let manager = self.clone();
        let leads = async move {
            manager.controllers_synced().await;
            manager.0.leader.acquired().await;
        };
        self.spawn_after(leads, name.into(), task);
    }

    fn spawn_after(
        &self,
        start: impl Future<Output = ()> + Send + 'static,
        name: String,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let manager = self.clone();
        self.0.tasks.spawn(async move {
            let work = async {
                start.await;
                let health = &manager.0.health;
                health.supervise_to_the_end(name, task).await;
            };
            tokio::select! {
                () = work => {}
                () = manager.stopping() => {}
            }
        });
    }

    /// Serves probes and metrics, takes part in leader election, and runs the controllers until
    /// SIGTERM, SIGINT or [`Manager::stop`]. A second signal ends the process at once.
    ///
    /// # Errors
    /// A server cannot run, this process no longer leads, or the stores of a controller were not
    /// complete [in time](crate::Controller::sync_timeout).
    pub async fn run(self) -> Result<()> {
        let mut control = control::start(&self, true)?;
        let mut failure = self.0.failure.subscribe();
        let outcome = tokio::select! {
            () = self.stopping() => Ok(()),
            Ok(failure) = failure.wait_for(Option::is_some) => {
                Err(anyhow!(failure.clone().unwrap_or_default()))
            }
            ended = control.ended() => return ended,
        };
        // What is under way needs the lease, and what may still write must not release it.
        let finished = tokio::select! {
            finished = self.stop() => finished,
            ended = control.ended() => return ended,
        };
        if finished {
            control.release().await?;
        }
        outcome
    }

    /// Serves probes and metrics, and takes part in leader election, until the result is dropped.
    pub(crate) fn control(&self) -> Result<Control> {
        control::start(self, false)
    }

    /// Starts no further reconcile and waits for those under way. Returns whether they ended in time.
    pub async fn stop(&self) -> bool {
        self.0.stop.cancel();
        self.0.tasks.close();
        let finished = timeout(GRACE_PERIOD, self.0.tasks.wait()).await.is_ok();
        if !finished {
            warn!("leaving reconciles that are under way after {GRACE_PERIOD:?}");
        }
        finished
    }

    /// Waits until the process is asked to stop.
    pub fn stopping(&self) -> WaitForCancellationFutureOwned {
        self.0.stop.clone().cancelled_owned()
    }

    /// The tasks that have ended or stalled, unless they are about to end anyway.
    pub(crate) fn failing_checks(&self) -> Vec<String> {
        if self.0.stop.is_cancelled() {
            Vec::new()
        } else {
            self.0.health.failing_checks()
        }
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    pub(crate) fn health(&self) -> &Health {
        &self.0.health
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    fn stores(&self) -> MutexGuard<'_, Stores> {
        let stores = &self.0.stores;
        stores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::http::{Request, Response};
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::client::Body;
    use kube::runtime::watcher;
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    /// A manager of an API server without objects.
    fn manager() -> Manager {
        let service = service_fn(async |_: Request<Body>| {
            let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] });
            let answer = Response::new(Body::from(list.to_string().into_bytes()));
            Ok::<_, Infallible>(answer)
        });
        let identity = Identity::new("test", "1.0.0");
        let options = Options::from_flags([""; 0]).unwrap();
        Manager::new(identity, Client::new(service, "default"), options)
    }

    #[tokio::test]
    async fn a_kind_is_watched_once_for_each_selection() {
        let manager = manager();
        manager.store::<ConfigMap>();
        manager.store::<ConfigMap>();
        let watches = || -> usize {
            let stores = &manager.stores().all;
            stores.iter().map(|store| store.pending().len()).sum()
        };
        assert_eq!(watches(), 1);
        manager.store::<Secret>();
        let config = watcher::Config::default().labels("a=b");
        manager.watch::<ConfigMap>().config(config).start();
        manager.watch::<ConfigMap>().namespaces(["x", "y"]).start();
        assert_eq!(watches(), 5);
    }

    #[tokio::test]
    async fn a_manager_reports_from_the_start_that_it_does_not_lead() {
        let options = Options::from_flags(["--leader-elect"]).unwrap();
        let service =
            service_fn(async |_: Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
        let identity = Identity::new("test", "1.0.0");
        let manager = Manager::new(identity, Client::new(service, "default"), options);
        let metrics = manager.encode_metrics().unwrap();
        let status = r#"leader_election_master_status{name="test"} 0"#;
        assert!(metrics.contains(status), "{metrics}");
    }
}
