//! Which objects a store holds, and the watches that fill it.

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

use kube::runtime::watcher;

use super::Manager;
use crate::object::{Object, Scope, api, kind_name};
use crate::store::{Demand, Event, Selection, Store, SyncState};

/// Selects the objects of a [`Store`].
///
/// # Example
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::core::PartialObjectMeta;
/// use kube::runtime::watcher;
/// use opctl_runtime::{Manager, Store};
///
/// fn cache_pods(manager: &Manager) -> Store<PartialObjectMeta<Pod>> {
///     let config = watcher::Config::default().labels("app.kubernetes.io/name=memcached");
///     manager.watch().config(config).start()
/// }
/// ```
#[must_use = "`start` makes the store"]
pub struct StoreBuilder<K: Object> {
    manager: Manager,
    dyntype: K::DynamicType,
    config: watcher::Config,
    namespaces: Option<Vec<Option<String>>>,
    demand: Option<Demand>,
    kind: PhantomData<K>,
}

impl<K: Object> StoreBuilder<K> {
    pub(super) fn new(manager: Manager, dyntype: K::DynamicType) -> Self {
        Self {
            manager,
            dyntype,
            config: watcher::Config::default(),
            namespaces: None,
            demand: None,
            kind: PhantomData,
        }
    }

    /// Selects by labels and fields. Of the rest, `timeout`, `bookmarks`, and the list semantic of the first
    /// list count; how and by which pages it lists is up to the store.
    pub fn config(mut self, config: watcher::Config) -> Self {
        self.config = config;
        self
    }

    /// Watches these namespaces instead of those of `--namespaces`.
    pub fn namespaces<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(|name| Some(name.into()));
        self.namespaces = Some(names.collect());
        self
    }

    /// Watches the whole cluster whatever `--namespaces` says. A cluster-scoped kind needs it only
    /// where its scope is known at run time, as that of a `DynamicObject`.
    pub fn cluster_wide(mut self) -> Self {
        self.namespaces = Some(vec![None]);
        self
    }

    /// Watches only while some object of another store satisfies the condition, and has not changed for
    /// 5 seconds: for objects that tell what is wrong with that one. Where many satisfy it, they may wait for
    /// each other: each adds 200 ms, up to five minutes. The store is empty before that, and again a minute after
    /// it. What satisfies the condition at the start is not waited for, and controllers start with what the
    /// watch lists for it.
    ///
    /// # Example
    /// ```no_run
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use k8s_openapi::api::core::v1::Pod;
    /// use opctl_runtime::workload::has_unavailable_pods;
    /// use opctl_runtime::{Manager, Store};
    ///
    /// fn pods_in_trouble(manager: &Manager) -> Store<Pod> {
    ///     let deployments = manager.store::<Deployment>();
    ///     manager.watch().while_any(&deployments, has_unavailable_pods).start()
    /// }
    /// ```
    ///
    /// # Caveats
    /// The objects are not those of the cluster at all times: do not count them, and do not create what
    /// is missing among them.
    pub fn while_any<C: Object>(
        mut self,
        store: &Store<C>,
        condition: impl Fn(&C) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.demand = Some(store.demand(condition));
        self
    }

    /// The store, with a watch for each namespace. It is the same store for the same selection, unless
    /// it is watched only at times.
    pub fn start(self) -> Store<K> {
        self.start_with(Selection::All)
    }

    /// The store, of which the caller needs some objects.
    pub(crate) fn start_with(self, needed: Selection) -> Store<K> {
        let Self {
            manager,
            dyntype,
            config,
            namespaces,
            demand,
            ..
        } = self;
        let watched = &manager.options().namespaces.0;
        let namespaces = match namespaces {
            _ if K::Scope::NAMESPACED == Some(false) => vec![None],
            Some(namespaces) => namespaces,
            None if watched.is_empty() => vec![None],
            None => watched.iter().cloned().map(Some).collect(),
        };
        let selection = format!("{dyntype:?} {namespaces:?} {config:?}");
        let mut stores = manager.stores();
        let key = (TypeId::of::<K>(), selection);
        let known = stores.by_selection.get(&key);
        if demand.is_none()
            && let Some(store) = known.and_then(|store| store.downcast_ref::<Store<K>>())
        {
            store.select(needed);
            return store.clone();
        }
        let store = Store::empty(dyntype, needed);
        let selectors = [&config.label_selector, &config.field_selector];
        let selectors: Vec<_> = selectors
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        for namespace in namespaces {
            let place = namespace.as_deref().unwrap_or("all namespaces");
            let name = format!("the watch of {} in {place}", K::kind(store.dyntype()));
            let api = api(&manager.0.client, namespace.as_deref(), store.dyntype());
            let gauge = manager.metrics().store_synced(
                kind_name::<K>(store.dyntype()),
                namespace.as_deref(),
                selectors.join(","),
            );
            let watch = {
                let (store, namespace, config) = (store.clone(), namespace.clone(), config.clone());
                move |first_list| {
                    let (namespace, api, config) = (namespace.clone(), api.clone(), config.clone());
                    store.clone().watch(namespace, api, config, first_list)
                }
            };
            let first_list = store.sync_state().add(name.clone(), gauge.clone());
            let health = Arc::clone(&manager.0.health);
            let (store, demand) = (store.clone(), demand.clone());
            tokio::spawn(async move {
                let Some(demand) = demand else {
                    return health.supervise(name, watch(first_list)).await;
                };
                // Nothing waits for a later list.
                let next_list = || SyncState::default().add(name.clone(), gauge.clone());
                let end = || store.take(&namespace, Event::Ended);
                let work = demand.serve(first_list, next_list, watch, end);
                health.supervise(name.clone(), work).await
            });
        }
        stores.all.push(store.sync_state().clone());
        if demand.is_none() {
            stores.by_selection.insert(key, Box::new(store.clone()));
        }
        store
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use axum::http::{Request, Response};
    use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::sleep;
    use tower::service_fn;

    use super::*;
    use crate::{Controller, Identity, Options};

    #[tokio::test]
    async fn controllers_share_the_objects_of_a_kind() {
        let lists = Arc::new(AtomicUsize::new(0));
        let listed = Arc::clone(&lists);
        let service = service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().to_string().contains("watch=true");
            listed.fetch_add(usize::from(!is_watch), Ordering::Relaxed);
            async move {
                if is_watch {
                    pending::<()>().await;
                }
                let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] });
                let answer = Response::new(Body::from(list.to_string().into_bytes()));
                Ok::<_, Infallible>(answer)
            }
        });
        let client = Client::new(service, "default");
        let options = Options::from_flags([""; 0]).unwrap();
        let manager = Manager::new(Identity::new("test", "1.0.0"), client, options);
        let services = Controller::<Service>::new(&manager);
        let secrets = Controller::<Secret>::new(&manager);
        services.owns::<ConfigMap>();
        secrets.owns::<ConfigMap>();
        secrets.owns::<Service>();
        Controller::<ConfigMap>::new(&manager);
        manager.synced().await;
        assert_eq!(lists.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_has_objects_only_while_another_needs_them() {
        let service = service_fn(async |request: Request<Body>| {
            if request.uri().to_string().contains("watch=true") {
                pending::<()>().await;
            }
            let metadata = json!({ "name": "a", "namespace": "x", "resourceVersion": "1" });
            let item = json!({ "metadata": metadata, "immutable": true });
            let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [item] });
            let answer = Response::new(Body::from(list.to_string().into_bytes()));
            Ok::<_, Infallible>(answer)
        });
        let client = Client::new(service, "default");
        let options = Options::from_flags([""; 0]).unwrap();
        let manager = Manager::new(Identity::new("test", "1.0.0"), client, options);
        let maps = manager.store::<ConfigMap>();
        let is_fixed = |map: &ConfigMap| map.immutable == Some(true);
        let secrets = manager.watch::<Secret>().while_any(&maps, is_fixed).start();
        let count_after = async |seconds| {
            sleep(Duration::from_secs(seconds)).await;
            secrets.list().len()
        };

        secrets.synced().await;
        assert_eq!(secrets.list().len(), 1, "needed from the start");
        let change = |version: u64, immutable| {
            let mut map = ConfigMap::clone(&maps.list()[0]);
            map.metadata.resource_version = Some(version.to_string());
            map.immutable = immutable;
            maps.take(&None, Event::Applied(map));
        };
        change(2, None);
        assert_eq!(count_after(50).await, 1);
        assert_eq!(count_after(20).await, 0);
        let metrics = manager.encode_metrics().unwrap();
        let synced = r#"store_synced{kind="secret",watch_namespace="",selector=""} 1"#;
        assert!(metrics.contains(synced), "nothing is missing: {metrics}");
        change(3, Some(true));
        assert_eq!(count_after(3).await, 0);
        assert_eq!(count_after(4).await, 1);
    }
}
