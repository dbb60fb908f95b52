//! Which stores have to be complete before a controller starts, the process is ready, and it campaigns
//! for the lease.

use std::future::pending;
use std::time::Duration;

use tokio::time::timeout;
use tracing::error;

use super::Manager;
use crate::store::SyncState;

impl Manager {
    /// Waits until every store holds a complete list of its objects.
    pub async fn synced(&self) {
        let stores = self.stores().all.clone();
        all_synced(&stores).await;
    }

    /// Waits until the stores that controllers wait for hold complete lists. Until then this process
    /// does not campaign for the lease: another one may be able to reconcile.
    pub(crate) async fn controllers_synced(&self) {
        let stores = self.stores().required.clone();
        all_synced(&stores).await;
    }

    /// Makes the process wait for these stores before it campaigns for the lease.
    pub(crate) fn require(&self, stores: &[SyncState]) {
        self.stores().required.extend_from_slice(stores);
    }

    /// Waits until these stores are complete, so that no reconciler takes an object for missing that
    /// is only not yet known, and until this process leads. Where a store is not complete in time, the
    /// process ends.
    pub(crate) async fn may_reconcile(&self, name: &str, stores: &[SyncState], limit: Duration) {
        if timeout(limit, all_synced(stores)).await.is_err() {
            let missing: Vec<_> = stores.iter().flat_map(SyncState::pending).collect();
            let missing = missing.join("; ");
            let failure = format!("{name} could not start within {limit:?}: {missing}");
            error!("{failure}");
            self.0.failure.send_replace(Some(failure));
            pending::<()>().await; // until it has
        }
        self.0.leader.acquired().await;
    }

    /// Why the process is not ready, as /readyz reports it; nothing if it is.
    pub fn failing_readiness_checks(&self) -> Vec<String> {
        let mut failing = self.0.health.failing_readiness_checks();
        let stores = self.stores().required.clone();
        for line in stores.iter().flat_map(SyncState::pending) {
            if !failing.contains(&line) {
                failing.push(line);
            }
        }
        failing
    }
}

async fn all_synced(stores: &[SyncState]) {
    for store in stores {
        store.synced().await;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use axum::http::{Request, Response};
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::Client;
    use kube::client::Body;
    use kube::runtime::controller::Action;
    use serde_json::json;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tower::service_fn;

    use super::*;
    use crate::{Controller, Identity, Object, Options};

    const SYNC_TIMEOUT: Duration = Duration::from_secs(1);

    /// A manager of an API server with one ConfigMap, which permits nothing else.
    fn manager() -> Manager {
        let service = service_fn(async |request: Request<Body>| {
            let (code, answer) = if request.uri().path().ends_with("/configmaps") {
                let item = json!({ "metadata": { "name": "x", "resourceVersion": "1" } });
                let metadata = json!({ "resourceVersion": "1" });
                (200, json!({ "metadata": metadata, "items": [item] }))
            } else {
                let message = "secrets is forbidden";
                (
                    403,
                    json!({ "status": "Failure", "code": 403, "message": message }),
                )
            };
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
        });
        let identity = Identity::new("test", "1.0.0");
        let flags = ["--health-probe-bind-address=0", "--metrics-bind-address=0"];
        let options = Options::from_flags(flags).unwrap();
        Manager::new(identity, Client::new(service, "default"), options)
    }

    async fn send<K>(_: Arc<K>, sender: Arc<UnboundedSender<()>>) -> Result<Action, Infallible> {
        sender.send(()).unwrap();
        Ok(Action::await_change())
    }

    fn controller<K: Object<DynamicType: Default>>(manager: &Manager) -> Controller<K> {
        Controller::new(manager).sync_timeout(SYNC_TIMEOUT)
    }

    #[tokio::test]
    async fn a_store_without_a_list_stops_only_the_controllers_that_need_it() {
        let manager = manager();
        let (sender, mut config_maps) = unbounded_channel();
        controller::<ConfigMap>(&manager).run(send, sender);
        let (sender, mut secrets) = unbounded_channel();
        controller::<Secret>(&manager).run(send, sender.clone());
        let readers = controller::<ConfigMap>(&manager).named("readers");
        readers.reads(&manager.store::<Secret>());
        readers.run(send, sender);

        config_maps.recv().await.unwrap();
        let error = manager.clone().run().await.unwrap_err().to_string();
        let pending = "the watch of Secret in all namespaces has no complete list yet";
        assert!(
            error.contains("could not start within 1s") && error.contains(pending),
            "{error}"
        );
        assert!(error.contains("secrets is forbidden"), "{error}");
        assert!(secrets.try_recv().is_err());
    }

    #[tokio::test]
    async fn readiness_and_metrics_name_the_store_that_a_controller_waits_for() {
        let manager = manager();
        manager.store::<Secret>();
        assert!(
            manager.failing_readiness_checks().is_empty(),
            "no controller needs it"
        );
        let (sender, _receiver) = unbounded_channel();
        controller::<Secret>(&manager).run(send, sender.clone());
        controller::<ConfigMap>(&manager).run(send, sender);
        manager.store::<ConfigMap>().synced().await;
        let failing = manager.failing_readiness_checks();
        assert!(
            failing.iter().all(|line| line.contains("Secret")) && !failing.is_empty(),
            "{failing:?}"
        );
        let metrics = manager.encode_metrics().unwrap();
        for line in [
            r#"store_synced{kind="configmap",watch_namespace="",selector=""} 1"#,
            r#"store_synced{kind="secret",watch_namespace="",selector=""} 0"#,
        ] {
            assert!(metrics.contains(line), "{metrics}");
        }
    }

    #[tokio::test]
    async fn a_process_campaigns_once_the_stores_of_its_controllers_are_complete() {
        let manager = manager();
        let (sender, _receiver) = unbounded_channel();
        controller::<Secret>(&manager).run(send, sender.clone());
        let campaign = timeout(SYNC_TIMEOUT / 2, manager.controllers_synced());
        assert!(campaign.await.is_err());

        let healthy = self::manager();
        healthy.store::<Secret>();
        controller::<ConfigMap>(&healthy).run(send, sender);
        let campaign = timeout(SYNC_TIMEOUT, healthy.controllers_synced());
        assert!(campaign.await.is_ok());
    }
}
