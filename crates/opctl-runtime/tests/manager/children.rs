//! Children are created, repaired and garbage-collected.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt};
use opctl_runtime::testing::eventually;
use opctl_runtime::{Applier, Controller, Manager, Result, Store};
use serde_json::{Value, json};

use crate::api::{Backup, BackupSpec, Tenant, TenantSpec};
use crate::cluster::{example, operator};

struct Context<C: opctl_runtime::Object> {
    children: Store<C>,
    applier: Applier,
}

fn own_by_tenants(manager: &Manager) {
    let controller = Controller::new(manager);
    let context = Context {
        children: controller.owns(),
        applier: controller.applier(),
    };
    controller.run(reconcile_tenant, context);
}

async fn reconcile_tenant(tenant: Arc<Tenant>, ctx: Arc<Context<ConfigMap>>) -> Result<Action> {
    let mut desired = ConfigMap::default();
    desired.metadata.name = Some("child".to_owned());
    desired.metadata.namespace = Some(tenant.spec.namespace.clone());
    desired.data = Some([("owner".to_owned(), tenant.name_any())].into());
    ctx.applier.apply(&*tenant, desired, &ctx.children).await?;
    Ok(Action::await_change())
}

fn own_unstructured(manager: &Manager) {
    let controller = Controller::new(manager);
    let children = manager
        .watch_with(ApiResource::erase::<ConfigMap>(&()))
        .start();
    controller.owns_in::<DynamicObject>(&children);
    let applier = controller.applier();
    controller.run(reconcile_backup, Context { children, applier });
}

async fn reconcile_backup(backup: Arc<Backup>, ctx: Arc<Context<DynamicObject>>) -> Result<Action> {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let desired = DynamicObject::new("child", &resource);
    let desired = desired.data(json!({ "data": { "owner": backup.name_any() } }));
    ctx.applier.apply(&*backup, desired, &ctx.children).await?;
    Ok(Action::await_change())
}

/// The ConfigMaps of a test, as its user sees them.
struct Children(Api<ConfigMap>);

impl Children {
    /// Waits until the ConfigMap has the value.
    async fn wait_for(&self, name: &str, key: &str, value: &str) {
        eventually("the ConfigMap as desired", async || {
            let data = self.0.get(name).await.ok()?.data?;
            (data.get(key).map(String::as_str) == Some(value)).then_some(())
        })
        .await;
    }

    async fn patch(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        let patched = self.0.patch(name, &params, &Patch::Merge(patch)).await;
        patched.expect("a ConfigMap should be changed");
    }

    async fn delete(&self, name: &str) {
        let deleted = self.0.delete(name, &DeleteParams::default()).await;
        deleted.expect("a ConfigMap should be deleted");
    }
}

#[tokio::test]
async fn a_cluster_scoped_owner_has_a_child_in_a_namespace() {
    let operator = operator(own_by_tenants).await;
    let (client, namespace) = (&operator.client, &operator.namespace);
    let children = Children(Api::namespaced(client.clone(), namespace));
    let tenants: Api<Tenant> = Api::all(client.clone());
    // Other tests' tenants would have the same name.
    let spec = TenantSpec {
        namespace: namespace.clone(),
    };
    let created = tenants
        .create(&PostParams::default(), &Tenant::new(namespace, spec))
        .await;
    created.expect("a Tenant should be created");
    children.wait_for("child", "owner", namespace).await;

    children
        .patch("child", json!({ "data": { "owner": "nobody" } }))
        .await;
    children.wait_for("child", "owner", namespace).await;
    children.delete("child").await;
    children.wait_for("child", "owner", namespace).await;

    let deleted = tenants.delete(namespace, &DeleteParams::default()).await;
    deleted.expect("the Tenant should be deleted");
    eventually("the end of the child", async || {
        children
            .0
            .get_opt("child")
            .await
            .ok()?
            .is_none()
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_unstructured_child_is_applied_and_watched() {
    let operator = operator(own_unstructured).await;
    let (client, namespace) = (&operator.client, &operator.namespace);
    let children = Children(Api::namespaced(client.clone(), namespace));
    let backups: Api<Backup> = Api::namespaced(client.clone(), namespace);
    let backup = Backup::new("daily", BackupSpec { copies: 1 });
    let created = backups.create(&PostParams::default(), &backup).await;
    created.expect("a Backup should be created");
    children.wait_for("child", "owner", "daily").await;

    children
        .patch("child", json!({ "data": { "owner": "nobody" } }))
        .await;
    children.wait_for("child", "owner", "daily").await;
    children.delete("child").await;
    children.wait_for("child", "owner", "daily").await;
}

#[tokio::test]
async fn the_example_does_what_it_says() {
    let operator = operator(|_| {}).await;
    let (client, namespace) = (&operator.client, &operator.namespace);
    let children = Children(Api::namespaced(client.clone(), namespace));
    let flags = ["--metrics-bind-address=0", "--health-probe-bind-address=0"];
    let mut manager = example(&operator, &flags);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let label = async |profile: &str| {
        let labels = json!({ "metadata": { "labels": { "example.com/profile": profile } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(labels));
        let labelled = namespaces.patch(namespace, &params, &patch).await;
        labelled.expect("a namespace should be labelled");
    };
    for profile in ["small", "large"] {
        label(profile).await;
        children.wait_for("profile", "profile", profile).await;
    }
    children.delete("profile").await;
    children.wait_for("profile", "profile", "large").await;
    assert!(manager.stop().await.success());
}
