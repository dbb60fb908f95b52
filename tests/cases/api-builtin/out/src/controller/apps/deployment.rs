// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! Watches Deployment of `apps/v1`, which is a core type of Kubernetes.
//! It does nothing yet.

use std::sync::Arc;

use k8s_openapi::api::apps::v1;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::runtime::controller::Action;
use opctl_runtime::rbac::rule;
use opctl_runtime::{Controller, Manager, Result};
use tracing::info;

/// The permissions of the controller; `make manifests` writes them to config/rbac/role.yaml.
pub fn rules() -> Vec<PolicyRule> {
    vec![rule::<v1::Deployment>(&["list", "watch"])]
}

/// What a reconcile works with: nothing yet.
struct Context;

/// Starts the controller.
pub fn start(manager: &Manager) {
    Controller::new(manager).run(reconcile, Context);
}

/// Runs for every existing object, and again after each change of one. Read the object and write
/// others, but leave its spec and status to the controllers that it belongs to.
async fn reconcile(object: Arc<v1::Deployment>, _: Arc<Context>) -> Result<Action> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    info!("nothing to do yet");
    Ok(Action::await_change())
}
