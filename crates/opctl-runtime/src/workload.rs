//! What operators of Deployments and other workloads have in common: labels, Pod Security, resources,
//! and conditions that follow a rollout. These are opinions; the rest of the crate does without them.

mod pods;
mod rollout;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, ResourceRequirements, SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use kube::core::Selector;

pub use pods::{PodState, active_pods, container_failure};
pub use rollout::{Rollout, Step, has_unavailable_pods};
pub use status::write_status;

use crate::Identity;

/// The labels that select the pods of `owner`; a Deployment cannot change them.
pub fn selector(app: &str, owner: &impl ResourceExt) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), app.to_owned()),
        ("app.kubernetes.io/instance".to_owned(), owner.name_any()),
    ])
}

/// The labels that Kubernetes recommends, for the children of `owner`
/// (<https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/>).
pub fn labels(
    identity: Identity,
    app: &str,
    component: &str,
    owner: &impl ResourceExt,
) -> BTreeMap<String, String> {
    let mut labels = selector(app, owner);
    labels.insert(
        "app.kubernetes.io/component".to_owned(),
        component.to_owned(),
    );
    labels.insert(
        "app.kubernetes.io/managed-by".to_owned(),
        identity.name().to_owned(),
    );
    labels
}

/// Selects what [`labels`] marks as managed by this operator: for
/// [`Applier::adopting`](crate::Applier::adopting).
pub fn managed_by(identity: Identity) -> Selector {
    [("app.kubernetes.io/managed-by", identity.name())]
        .into_iter()
        .collect()
}

/// A selector in the form that the scale subresource reports.
pub fn selector_text(selector: &BTreeMap<String, String>) -> String {
    let terms: Vec<_> = selector
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    terms.join(",")
}

/// What the Pod Security Standard `restricted` requires of a pod
/// (<https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>).
pub fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    }
}

/// What the Pod Security Standard `restricted` requires of each container of a pod.
pub fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            ..Capabilities::default()
        }),
        ..SecurityContext::default()
    }
}

/// The requests and limits of a container, by the names of the resources.
pub fn resources(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> ResourceRequirements {
    ResourceRequirements {
        requests: Some(quantities(requests)),
        limits: Some(quantities(limits)),
        ..ResourceRequirements::default()
    }
}

/// Amounts by the names of the resources.
pub fn quantities(amounts: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    let amounts = amounts.iter();
    amounts
        .map(|(name, amount)| (name.to_string(), Quantity(amount.to_string())))
        .collect()
}
