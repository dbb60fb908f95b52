//! Which fields of an applied object other field managers own, by what the API server records in
//! `metadata.managedFields` (<https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management>).
//!
//! Server-side apply takes over the fields that it sets and leaves alone those that it does not mention:
//! what somebody adds to a child, such as a variable, a sidecar or `paused: true`, stays. The API
//! server knows who has set it, by the schema of the kind, so that nothing here depends on one. While
//! objects are read, [`summarize`] notes that others own fields; [`claim`] makes those fields the
//! operator's own, and the next apply, which does not mention them, removes them.

mod claim;
mod summary;

use kube::api::ObjectMeta;

pub(crate) use self::claim::{Claim, claim};
pub(crate) use self::summary::{Key, summarize};

/// The name of the annotation with the hash of the desired object. It has the prefix of an API
/// group, and who owns it has applied the object.
pub(crate) const DESIRED_HASH: &str = "desired-hash";

/// What the summary of the managed fields says: others own fields, and which. It changes when these
/// fields do.
///
/// An object carries it in `metadata.selfLink`, which the API server has ignored and left empty
/// since Kubernetes 1.24 (KEP-1164): so it changes with the object, and costs nothing where there is none.
pub(crate) fn of_others(meta: &ObjectMeta) -> Option<&str> {
    meta.self_link.as_deref()
}

/// Whether others may set the field, though a desired object does not. Whatever decides what runs,
/// with which rights, or whether it rolls out is not among them.
///
/// `parent` is the field that has it; a field of the object itself has none.
fn is_tolerated(parent: &str, field: &str) -> bool {
    match (parent, field) {
        // Labels and annotations, those of templates too: `kubectl rollout restart` sets one.
        (_, "f:metadata") => true,
        // The CA that an injector gives to webhooks.
        (_, "f:caBundle") => true,
        ("", "f:status") => true,
        // A ServiceAccount, to which a platform adds the credentials of its registry.
        ("", "f:secrets" | "f:imagePullSecrets") => true,
        // Who leaves the replicas out leaves them to an autoscaler, or to a person.
        ("f:spec", "f:replicas") => true,
        // A PersistentVolumeClaim that is bound.
        ("f:spec", "f:volumeName") => true,
        _ => false,
    }
}
