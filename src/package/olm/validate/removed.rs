//! APIs that Kubernetes has removed (<https://kubernetes.io/docs/reference/using-api/deprecation-guide/>).

use std::collections::BTreeMap;

use semver::Version;

use super::{BundleDirectory, Level, Problem, Problems, Values};

/// The kinds that a version of Kubernetes has removed, by API version.
const REMOVED: [(u64, &str, &[&str]); 17] = [
    (22, "apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"]),
    (22, "scheduling.k8s.io/v1beta1", &["PriorityClass"]),
    (
        22,
        "rbac.authorization.k8s.io/v1beta1",
        &["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"],
    ),
    (22, "apiregistration.k8s.io/v1beta1", &["APIService"]),
    (
        22,
        "admissionregistration.k8s.io/v1beta1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    ),
    (22, "coordination.k8s.io/v1beta1", &["Lease"]),
    (22, "extensions/v1beta1", &["Ingress"]),
    (22, "networking.k8s.io/v1beta1", &["Ingress", "IngressClass"]),
    (22, "storage.k8s.io/v1beta1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
    (22, "certificates.k8s.io/v1beta1", &["CertificateSigningRequest"]),
    (25, "batch/v1beta1", &["CronJob"]),
    (25, "discovery.k8s.io/v1beta1", &["EndpointSlice"]),
    (25, "events.k8s.io/v1beta1", &["Event"]),
    (25, "autoscaling/v2beta1", &["HorizontalPodAutoscaler"]),
    (25, "policy/v1beta1", &["PodDisruptionBudget", "PodSecurityPolicy"]),
    (25, "node.k8s.io/v1beta1", &["RuntimeClass"]),
    (26, "autoscaling/v2beta2", &["HorizontalPodAutoscaler"]),
];

/// The objects of removed APIs: an error if the operator needs a version of Kubernetes without them.
pub fn check(bundle: &BundleDirectory, values: &Values) -> Problems {
    let minimum = bundle.csv.as_ref().map(|csv| csv.text("/spec/minKubeVersion"));
    let minimum = minimum.and_then(tolerant_version);
    let mut found: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for object in bundle.crds.iter().chain(&bundle.objects) {
        let api = object.text("/apiVersion");
        let removed = REMOVED
            .iter()
            .find(|(_, version, kinds)| *version == api && kinds.contains(&object.kind()));
        if let Some((minor, ..)) = removed {
            found.entry(*minor).or_default().push(format!("{} ({api})", object.title()));
        }
    }
    let problem = |(minor, titles): (u64, Vec<String>)| {
        let removed = Version::new(1, minor, 0);
        let is_needed = [&values.kubernetes, &minimum]
            .into_iter()
            .any(|version| version.as_ref().is_some_and(|version| *version >= removed));
        let titles = titles.join(", ");
        let level = if is_needed { Level::Error } else { Level::Warning };
        Problem { level, message: format!("Kubernetes 1.{minor} has removed the API of {titles}") }
    };
    found.into_iter().map(problem).collect()
}

/// A version whose last parts may be missing.
pub fn tolerant_version(text: &str) -> Option<Version> {
    let text = text.trim().trim_start_matches('v');
    let missing = 2_usize.checked_sub(text.matches('.').count())?;
    Version::parse(&format!("{text}{}", ".0".repeat(missing))).ok()
}
