// Copyright Example, Inc
// SPDX-License-Identifier: Apache-2.0

//! Reconciles Pond. It does nothing yet, and leaves the status as it is.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::runtime::controller::Action;
use opctl_runtime::rbac::rule;
use opctl_runtime::{Controller, Manager, Result};
use tracing::info;

use crate::api::park::v1;

// The permissions of the Go project, by its markers. Move those to `rules` that the reconciler uses:
// `make rbac-audit` reports each one that it does not.
//
//     rule::<v1::Pond>(&["get", "list", "watch", "update"]),
//     subresource_rule::<v1::Pond>("status", &["get", "update", "patch"]),
//     rule::<k8s_openapi::api::core::v1::ConfigMap>(&["get", "list", "watch", "create"]),
//     PolicyRule {
//         api_groups: Some(vec!["cert-manager.io".into()]),
//         resources: Some(vec!["certificates".into()]),
//         verbs: vec!["get".into()],
//         ..PolicyRule::default()
//     },
//     PolicyRule {
//         api_groups: Some(vec!["".into()]),
//         resources: Some(vec!["secrets".into()]),
//         resource_names: Some(vec!["tls".into()]),
//         verbs: vec!["get".into()],
//         ..PolicyRule::default()
//     },
//     PolicyRule {
//         non_resource_urls: Some(vec!["/metrics".into()]),
//         verbs: vec!["get".into()],
//         ..PolicyRule::default()
//     },

/// The permissions of the controller; `make manifests` writes them to config/rbac/role.yaml.
pub fn rules() -> Vec<PolicyRule> {
    vec![rule::<v1::Pond>(&["list", "watch"])]
}

/// What a reconcile works with: nothing yet.
struct Context;

/// Starts the controller.
pub fn start(manager: &Manager) {
    Controller::new(manager).run(reconcile, Context);
}

/// Brings the cluster to the state that the object specifies.
///
/// It runs for every object, and again when one changes or after an error. It must not block its
/// thread, which watches and other reconciles share: wrap what blocks, such as a long computation, in
/// `tokio::task::spawn_blocking`.
async fn reconcile(object: Arc<v1::Pond>, _: Arc<Context>) -> Result<Action> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    info!("nothing to do yet");
    Ok(Action::await_change())
}
