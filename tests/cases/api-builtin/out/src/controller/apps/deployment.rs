// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! Watches Deployment of `apps/v1`, which is Kubernetes' own.
//! It makes nothing of it yet.

use std::sync::Arc;

use k8s_openapi::api::apps::v1;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::runtime::controller::Action;
use tracing::info;

use crate::manager::Manager;
use crate::manager::controller::Controller;
use crate::manager::error::Result;
use crate::manager::rbac::rule;

/// What the controller may do; `make manifests` makes config/rbac/role.yaml of it.
pub fn rules() -> Vec<PolicyRule> {
    vec![rule::<v1::Deployment>(&["list", "watch"])]
}

/// What a reconcile works with: nothing yet.
pub struct Context;

/// Starts the controller: its cache, and the reconciler that its changes wake.
pub fn start(manager: &Manager) {
    Controller::new(manager).run(Context, reconcile);
}

/// Called for every object that there is, and again after each change of one. The object is somebody
/// else's: read it and make other objects of it, but leave its spec and status to those who own them.
pub async fn reconcile(object: Arc<v1::Deployment>, _: Arc<Context>) -> Result<Action> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    info!("seen, and nothing made of it");
    Ok(Action::await_change())
}
