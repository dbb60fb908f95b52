// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! Deployment of `apps/v1` on a real API server. `make test` runs it.

use k8s_openapi::api::apps::v1;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use opctl_runtime::Manager;
use opctl_runtime::testing::{Operator, eventually, from_manifest};
use operator::{IDENTITY, controller};

const CONTROLLER: &str = "deployment.apps";

/// The object that the test creates; `$NAMESPACE` stands for the test's own namespace.
const OBJECT: &str = include_str!("objects/apps_deployment.yaml");

#[tokio::test]
async fn an_object_is_reconciled() {
    let operator = Operator::start(IDENTITY, controller::start).await;
    let (client, namespace) = (operator.client, operator.namespace);
    let objects: Api<v1::Deployment> = Api::namespaced(client, &namespace);
    let object: v1::Deployment = from_manifest(&OBJECT.replace("$NAMESPACE", &namespace));
    let name = object.name_any();
    let created = objects.create(&PostParams::default(), &object).await;
    let created = created.expect("the API server should accept the object of tests/objects");

    let manager = operator.manager;
    let store = manager.store::<v1::Deployment>();
    eventually("a reconcile", async || {
        let stored = store.get(created.namespace().as_deref(), &name);
        (stored.is_some() && has_reconciled(&manager)).then_some(())
    })
    .await;
    objects
        .delete(&name, &DeleteParams::default())
        .await
        .expect("the API server should delete the object");
}

/// Whether the controller has reconciled an object without an error.
fn has_reconciled(manager: &Manager) -> bool {
    let metrics = manager.encode_metrics().expect("metrics");
    let name = "controller_runtime_reconcile_total";
    let counter = format!(r#"{name}{{controller="{CONTROLLER}",result="success"}}"#);
    let value = metrics.lines().find_map(|line| line.strip_prefix(&counter));
    value.is_some_and(|value| value.trim() != "0")
}
