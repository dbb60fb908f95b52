//! What is installed with the operator, kept in its code.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::CustomResourceExt;
use opctl_runtime::rbac::{rule, subresource_rule};
use serde_json::{Value, json};

use crate::IDENTITY;
use crate::api::CronJob;

/// The CRD and the role, as a list for `kubectl apply --server-side -f -`.
pub fn list() -> Value {
    let mut role = ClusterRole {
        rules: Some(rules()),
        ..ClusterRole::default()
    };
    role.metadata.name = Some(IDENTITY.name().to_owned());
    json!({ "apiVersion": "v1", "kind": "List", "items": [CronJob::crd(), role] })
}

/// What the operator may do. A verb or a kind that is misspelt in a role is found in production; the
/// kinds here are types.
fn rules() -> Vec<PolicyRule> {
    vec![
        rule::<CronJob>(&["list", "patch", "watch"]),
        subresource_rule::<CronJob>("finalizers", &["update"]),
        subresource_rule::<CronJob>("status", &["patch"]),
        rule::<Job>(&["create", "delete", "list", "watch"]),
        rule::<ConfigMap>(&["list", "watch"]),
        rule::<Event>(&["create", "patch"]),
    ]
}
