//! A controller: what makes it reconcile an object, and how it does that.

mod cause;
mod queue;
mod rate_limiter;
mod resync;
mod runner;
mod ticket;
mod trigger;

use std::any::TypeId;
use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt::{Debug, Display};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use kube::ResourceExt;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Predicate, applier};
use tracing::{Instrument, Span, error, info, info_span};

pub use rate_limiter::RateLimiter;
pub use runner::Retry;

use self::cause::Causes;
use self::queue::Queue;
use self::runner::{Failure, ReconcileRunner};
use self::ticket::Ticket;
use self::trigger::{Key, subscribe};
use crate::applier::Applier;
use crate::manager::Manager;
use crate::object::{Object, controller_of, kind_name, reference};
use crate::store::{ControllerId, Selection, Store, SyncState, in_reconcile};

/// How long an object that has changed waits before it is reconciled, by default: changes
/// come in bursts, and one reconcile is enough for all of them. A deleted owner is known to be gone by
/// the time that its children are.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// How long one reconcile may take, by default. The client repeats a request, up to 15
/// times, that the API server answers with 429, 503 or 504, and waits as long as the answer says:
/// meanwhile other objects want the place.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(60);

/// How often every object is reconciled again, by default: controller-runtime's `SyncPeriod`.
const RESYNC_PERIOD: Duration = Duration::from_secs(10 * 3600);

/// How long the stores of a controller may take to be complete, by default: controller-runtime's
/// `CacheSyncTimeout`.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// Reconciles the objects of kind `K`: one at a time each, several at once.
///
/// # Example
/// A ConfigMap for each Namespace, recreated when it is deleted:
/// ```no_run
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
/// use kube::ResourceExt;
/// use kube::runtime::controller::Action;
/// use opctl_runtime::{Applier, Controller, Manager, Result, Store};
///
/// struct Context {
///     config_maps: Store<ConfigMap>,
///     applier: Applier,
/// }
///
/// fn start(manager: &Manager) {
///     let controller = Controller::new(manager);
///     let context = Context {
///         config_maps: controller.owns(),
///         applier: controller.applier(),
///     };
///     controller.run(reconcile, context);
/// }
///
/// async fn reconcile(namespace: Arc<Namespace>, ctx: Arc<Context>) -> Result<Action> {
///     let mut desired = ConfigMap::default();
///     desired.metadata.name = Some("settings".to_owned());
///     desired.metadata.namespace = Some(namespace.name_any());
///     ctx.applier.apply(&*namespace, desired, &ctx.config_maps).await?;
///     Ok(Action::await_change())
/// }
/// ```
///
/// # Caveats
/// A reconcile must not block its thread: watches and the other reconciles share it. Leases, probes and
/// metrics have a thread of their own. Let others do what blocks:
/// ```
/// use std::fs::read_to_string;
/// use std::io::Result;
///
/// async fn settings() -> Result<String> {
///     tokio::task::spawn_blocking(|| read_to_string("/etc/settings")).await?
/// }
/// ```
pub struct Controller<K: Object> {
    manager: Manager,
    id: ControllerId,
    name: String,
    store: Store<K>,
    /// What it waits for before it starts.
    stores: Mutex<Vec<SyncState>>,
    /// The kinds that it owns.
    owned: Mutex<HashSet<TypeId>>,
    queue: Arc<Queue<K>>,
    requests: BoxStream<'static, ObjectRef<Ticket<K>>>,
    predicate: Option<Box<dyn Predicate<K> + Send + Sync>>,
    concurrency: u16,
    debounce: Duration,
    timeout: Duration,
    sync_timeout: Duration,
    resync: Option<Duration>,
    rate_limiter: RateLimiter,
}

impl<K: Object> Controller<K> {
    /// A controller of all objects of kind `K` in the namespaces that the manager watches.
    pub fn new(manager: &Manager) -> Self
    where
        K::DynamicType: Default,
    {
        Self::for_store(manager, manager.store())
    }

    /// A controller of the objects in `store`, which may select some by labels or fields, or hold
    /// unstructured ones.
    pub fn for_store(manager: &Manager, store: Store<K>) -> Self {
        static CONTROLLERS: AtomicU64 = AtomicU64::new(0);

        let name = kind_name::<K>(store.dyntype());
        let (queue, requests) = Queue::new(store.dyntype().clone());
        Self {
            manager: manager.clone(),
            id: ControllerId(CONTROLLERS.fetch_add(1, Ordering::Relaxed)),
            name,
            stores: Mutex::new(vec![store.sync_state().clone()]),
            owned: Mutex::default(),
            store,
            queue,
            requests: requests.boxed(),
            predicate: None,
            concurrency: manager.options().max_concurrent_reconciles,
            debounce: DEBOUNCE,
            timeout: RECONCILE_TIMEOUT,
            sync_timeout: SYNC_TIMEOUT,
            resync: Some(RESYNC_PERIOD),
            rate_limiter: RateLimiter::default(),
        }
    }

    /// The name in logs and metrics, instead of `<kind>.<group>`. Two controllers of a kind need
    /// different names.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many objects are reconciled at a time, instead of `--max-concurrent-reconciles`.
    #[must_use]
    pub fn concurrency(mut self, objects: u16) -> Self {
        self.concurrency = objects;
        self
    }

    /// How long a changed object waits for further changes before it is reconciled; 100 ms by default.
    /// It is added to the delays of retries, too, and an object that asks to be reconciled again at once waits
    /// as long.
    #[must_use]
    pub fn debounce(mut self, delay: Duration) -> Self {
        self.debounce = delay;
        self
    }

    /// How long one reconcile may take; 60 s by default.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// How long the stores that the controller waits for may take to be complete; 2 minutes by
    /// default. After that the process ends with an error that names the store: the watched kind may
    /// not be installed, or a permission may be missing.
    #[must_use]
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.sync_timeout = limit;
        self
    }

    /// Reconciles every object once in this period, even when nothing has changed: what an event was
    /// lost for, or a bug has missed, is not wrong until the next restart. 10 hours by default; `None`
    /// switches it off. The objects are spread over the period.
    #[must_use]
    pub fn resync(mut self, period: impl Into<Option<Duration>>) -> Self {
        self.resync = period.into();
        self
    }

    /// How long an object waits that fails again and again; 5 ms at first and 5 minutes at last by
    /// default.
    #[must_use]
    pub fn rate_limiter(mut self, limiter: RateLimiter) -> Self {
        self.rate_limiter = limiter;
        self
    }

    /// Reconciles an object only when this property of it changes, or when it appears or goes.
    ///
    /// # Caveats
    /// [`generation`](crate::predicates::generation) alone hides the update that adds a finalizer:
    /// combine it with [`finalizers`](crate::predicates::finalizers).
    #[must_use]
    pub fn predicate(mut self, predicate: impl Predicate<K> + Send + Sync + 'static) -> Self {
        self.predicate = Some(Box::new(predicate));
        self
    }

    /// The objects that the controller reconciles.
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// The writer of children and status. A status that it writes does not make this controller
    /// reconcile the object once more.
    pub fn applier(&self) -> Applier {
        self.manager.applier().of_controller(self.id)
    }

    /// Reconciles the controlling object of a `C` that changes. Returns the objects of kind `C` that have
    /// a controller of kind `K`, the same store at each call; [`Store::by_owner`] selects those of one object.
    ///
    /// # Caveats
    /// Other objects of kind `C` take no memory, and are not in the store unless something else has asked
    /// for them: [`Manager::store`] is for who reads them, too.
    pub fn owns<C: Object<DynamicType: Default>>(&self) -> Store<C> {
        let children = Selection::controlled_by::<K>(self.store.dyntype());
        let store = self.manager.watch().start_with(children);
        let mut owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        if owned.insert(TypeId::of::<C>()) {
            self.owns_in(&store);
        }
        store
    }

    /// As [`Controller::owns`], for the objects of a store that selects some by labels or fields, or
    /// holds unstructured ones.
    pub fn owns_in<C: Object>(&self, store: &Store<C>) {
        let owner_type = self.store.dyntype().clone();
        self.subscribe(store, None, Key::Owners, move |child| {
            controller_of::<K>(child, &owner_type)
        });
    }

    /// Reconciles the objects that `mapper` returns for a `C` that changes: none, one (`Option`) or
    /// many (`Vec`), those of before the change and those of after it.
    pub fn watches<C: Object, I>(
        &self,
        store: &Store<C>,
        mapper: impl Fn(&C) -> I + Send + Sync + 'static,
    ) where
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.subscribe(store, None, Key::Anything, mapper);
    }

    /// As [`Controller::watches`], where only changes of a property count, or that the object appears,
    /// goes or is mapped to others.
    pub fn watches_with<C: Object, I>(
        &self,
        store: &Store<C>,
        predicate: impl Predicate<C> + Send + Sync + 'static,
        mapper: impl Fn(&C) -> I + Send + Sync + 'static,
    ) where
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.subscribe(store, Some(Box::new(predicate)), Key::Anything, mapper);
    }

    /// Reconciles every object that refers to a `C` that changes, such as the ConfigMap that many
    /// specs name. Returns all objects of kind `C`.
    pub fn refers_to<C: Object<DynamicType: Default>, I>(
        &self,
        references: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Store<C>
    where
        I: IntoIterator<Item = ObjectRef<C>>,
    {
        let referrers = self.store.index(references);
        let store = self.manager.store();
        self.watches(&store, move |object| {
            referrers.references(&ObjectRef::from_obj(object))
        });
        store
    }

    /// Waits for a store before the first reconcile, although its changes make the controller reconcile
    /// nothing. A controller waits for the stores that it owns, watches or refers to anyway, and for no
    /// others: a reconciler would take an object for missing that is only not yet known.
    pub fn reads<C: Object>(&self, store: &Store<C>) {
        self.stores().push(store.sync_state().clone());
    }

    /// Reconciles the objects that come from `source`, such as the notifications of an external
    /// system.
    #[must_use]
    pub fn reconcile_on(
        mut self,
        source: impl Stream<Item = ObjectRef<K>> + Send + 'static,
    ) -> Self {
        let queue = Arc::clone(&self.queue);
        let source = source.filter_map(move |object| {
            queue.add(object, Causes::SOURCE);
            async { None }
        });
        // It only feeds the queue; its end does not end the controller.
        let source = source.chain(futures::stream::pending());
        self.requests = futures::stream::select(self.requests, source).boxed();
        self
    }

    /// Starts to reconcile as soon as its stores are complete and this process leads. An object that
    /// fails is reconciled again after a delay that grows.
    pub fn run<C, F, E>(
        self,
        reconcile: impl Fn(Arc<K>, Arc<C>) -> F + Send + Sync + 'static,
        context: C,
    ) where
        C: Send + Sync + 'static,
        F: Future<Output = Result<Action, E>> + Send + 'static,
        E: Display + Debug + Send + 'static,
    {
        self.run_with(reconcile, |_, _, _| Retry::Backoff, context);
    }

    /// As [`Controller::run`], where `error_policy` decides what follows an error of the reconciler.
    pub fn run_with<C, F, E>(
        self,
        reconcile: impl Fn(Arc<K>, Arc<C>) -> F + Send + Sync + 'static,
        error_policy: impl Fn(&K, &E, &C) -> Retry + Send + Sync + 'static,
        context: C,
    ) where
        C: Send + Sync + 'static,
        F: Future<Output = Result<Action, E>> + Send + 'static,
        E: Display + Debug + Send + 'static,
    {
        let manager = self.manager.clone();
        let name = format!("the controller {}", self.name);
        let stores = self.stores().clone();
        manager.require(&stores);
        manager.clone().tasks().spawn(async move {
            let limit = self.sync_timeout;
            let work = self.work(reconcile, error_policy, Arc::new(context));
            tokio::select! {
                () = manager.may_reconcile(&name, &stores, limit) => manager.health().supervise(name, work).await,
                () = manager.stopping() => {}
            }
        });
    }

    async fn work<C, F, E>(
        self,
        reconcile: impl Fn(Arc<K>, Arc<C>) -> F + Sync,
        error_policy: impl Fn(&K, &E, &C) -> Retry + Sync,
        context: Arc<C>,
    ) where
        C: Send + Sync + 'static,
        F: Future<Output = Result<Action, E>> + Send + 'static,
        E: Display + Debug + Send + 'static,
    {
        let Self {
            manager,
            id,
            name,
            store,
            queue,
            requests,
            predicate,
            concurrency,
            debounce,
            timeout,
            resync,
            rate_limiter,
            ..
        } = self;
        info!("reconciling {name}");
        let metrics = manager.metrics().controller(&name, concurrency);
        let dyntype = store.dyntype().clone();
        // First open, then list: what changes in between is reconciled twice rather than never.
        queue.open(metrics.clone(), debounce, concurrency);
        subscribe(&store, &queue, Some(id), predicate, Key::Name, {
            let dyntype = dyntype.clone();
            move |object| Some(reference(object, &dyntype))
        });
        for object in store.references() {
            queue.add(object, Causes::START);
        }

        let runner = &ReconcileRunner::new(metrics, timeout, rate_limiter, debounce);
        let (name, store, queue, ids) = (&name, &store, &*queue, &Ids::default());
        let (reconcile, error_policy) = (&reconcile, &error_policy);
        let attempt = |reference: ObjectRef<K>, context: Arc<C>| async move {
            // Before the look at the store: what changes after it is added again.
            let causes = queue.take(&reference);
            let Some(object) = store.find(&reference) else {
                runner.forget(&reference);
                return Action::await_change();
            };
            if let Some(wait) = runner.wait(&reference, object.meta(), causes.is_some()) {
                return Action::requeue(wait);
            }
            let causes = queue.causes.describe(causes);
            let span = span(name, &*object, &ids.next(), &causes);
            // In a box, since it is large and moves several times from here.
            let reconcile = || reconcile(Arc::clone(&object), Arc::clone(&context)).boxed();
            let reconcile = in_reconcile(reconcile);
            let failure = match runner.run(&reference, reconcile).instrument(span).await {
                Ok(action) if action == Action::requeue(Duration::ZERO) => {
                    return Action::requeue(debounce);
                }
                Ok(action) => return action,
                Err(failure) => failure,
            };
            let retry = match failure {
                Failure::Reconciler(error) => error_policy(&object, &error, &context),
                Failure::Timeout(_) | Failure::Panic(_) => Retry::Backoff,
            };
            runner.retry(reference, object.meta(), retry)
        };
        let reconciles = applier(
            |ticket: Arc<Ticket<K>>, context| {
                let object = ticket::object(&ticket, &dyntype);
                async move {
                    let action = attempt(object.clone(), context).await;
                    queue.finish(&object, &action);
                    Ok::<_, Infallible>(action)
                }
                .boxed()
            },
            |_, never, _| match *never {},
            context,
            queue.tickets(),
            requests
                .map(Ok::<_, Infallible>)
                .take_until(manager.stopping()),
            Config::default().concurrency(concurrency),
        )
        .for_each(async |outcome| {
            if let Err(error) = outcome {
                error!("{error}");
            }
        });
        tokio::select! {
            () = reconciles => {}
            () = resync::run(store, queue, resync) => {}
        }
    }

    fn subscribe<C: Object, I>(
        &self,
        store: &Store<C>,
        predicate: Option<Box<dyn Predicate<C> + Send + Sync>>,
        key: Key,
        mapper: impl Fn(&C) -> I + Send + Sync + 'static,
    ) where
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        self.reads(store);
        subscribe(store, &self.queue, None, predicate, key, mapper);
    }

    fn stores(&self) -> MutexGuard<'_, Vec<SyncState>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ids of reconciles: a counter that starts anywhere, so that two processes hardly share one.
struct Ids(AtomicU32);

impl Default for Ids {
    fn default() -> Self {
        Self(AtomicU32::new(
            RandomState::new().hash_one("reconcile") as u32
        ))
    }
}

impl Ids {
    fn next(&self) -> String {
        format!("{:08x}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// What every log line of a reconcile carries.
fn span<K: Object>(controller: &str, object: &K, reconcile_id: &str, causes: &str) -> Span {
    let (namespace, name) = (object.namespace(), object.name_any());
    info_span!(
        "reconcile",
        controller,
        namespace,
        object = name,
        generation = object.meta().generation,
        reconcile_id,
        causes
    )
}

/// The action that comes back first: after the shortest of the delays, or on the next change if there
/// is none.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use kube::runtime::controller::Action;
/// use opctl_runtime::soonest;
///
/// let (next_run, recheck) = (Some(Duration::from_secs(60)), None);
/// assert_eq!(soonest([next_run, recheck]), Action::requeue(Duration::from_secs(60)));
/// assert_eq!(soonest([None]), Action::await_change());
/// ```
pub fn soonest(delays: impl IntoIterator<Item = Option<Duration>>) -> Action {
    let soonest = delays.into_iter().flatten().min();
    soonest.map_or_else(Action::await_change, Action::requeue)
}

#[cfg(test)]
mod tests;
