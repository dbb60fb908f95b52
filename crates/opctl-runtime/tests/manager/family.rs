//! An object and its children, without a controller: the tests reconcile.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use opctl_runtime::testing::{Operator, eventually};
use opctl_runtime::{Applier, Object, Result, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::{IDENTITY, operator};

/// The children of one object, as its reconciler and as others see them.
pub struct Family<K: Object> {
    pub operator: Operator,
    pub owner: ConfigMap,
    pub applier: Applier,
    pub store: Store<K>,
    /// Of the test, which is another field manager.
    pub children: Api<K>,
}

impl<K> Family<K>
where
    K: Object<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned,
{
    pub async fn new() -> Self {
        let operator = operator(|_| {}).await;
        let (client, namespace) = (&operator.client, &operator.namespace);
        let owners: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let owner = json!({ "metadata": { "name": "owner" } });
        let owner = create(&owners, owner).await;
        let family = Self {
            owner,
            applier: operator.manager.applier(),
            store: operator.manager.store(),
            children: Api::namespaced(client.clone(), namespace),
            operator,
        };
        family.operator.manager.synced().await;
        let leads = async || {
            let missing: Store<ConfigMap> = Store::from_iter([]);
            let child = from(json!({ "metadata": { "name": "first" } }));
            let applied = family.applier.apply(&family.owner, child, &missing).await;
            applied.ok()
        };
        eventually("the lease", leads).await;
        family
    }

    pub async fn apply(&self, desired: Value) -> Result<Arc<K>> {
        self.apply_with(&self.applier, desired).await
    }

    pub async fn apply_with(&self, applier: &Applier, desired: Value) -> Result<Arc<K>> {
        applier.apply(&self.owner, from(desired), &self.store).await
    }

    /// An applier that has repaired nothing yet: how often a child is repaired is another matter.
    pub fn new_applier(&self) -> Applier {
        Applier::new(IDENTITY, self.operator.manager.client())
    }

    /// Somebody else changes the child; the store has that when it returns.
    pub async fn edit(&self, name: &str, patch: Patch<Value>) -> K {
        let params = PatchParams::default();
        let edited = self.children.patch(name, &params, &patch).await;
        let edited = edited.unwrap_or_else(|error| panic!("{patch:?}: {error}"));
        self.reported(&edited).await;
        edited
    }

    pub async fn reported(&self, object: &K) {
        let version = |object: &K| -> u64 {
            let version = object.resource_version().and_then(|it| it.parse().ok());
            version.expect("a version should be a number")
        };
        eventually("the watch", async || {
            let namespace = object.namespace();
            let stored = self.store.get(namespace.as_deref(), &object.name_any())?;
            (version(&stored) >= version(object)).then_some(())
        })
        .await;
    }

    pub async fn live(&self, name: &str) -> Value {
        let live = self.children.get(name).await;
        json!(live.expect("the child should exist"))
    }

    pub fn patches(&self) -> u64 {
        let metrics = self.operator.manager.encode_metrics();
        let metrics = metrics.expect("metrics should be encoded");
        let lines = metrics.lines().filter(|line| {
            line.starts_with("rest_client_requests_total") && line.contains(r#"method="PATCH""#)
        });
        let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        counts.sum()
    }
}

pub async fn create<K>(objects: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + Serialize + DeserializeOwned + Debug,
{
    let created = objects.create(&PostParams::default(), &from(object)).await;
    created.expect("an object should be created")
}

pub fn from<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("the object should be of its kind")
}
