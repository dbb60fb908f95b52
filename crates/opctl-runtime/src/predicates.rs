//! Properties of objects whose change counts: kube's, and more.
//!
//! A predicate is also any closure from an object to a hash. Where it returns `None`, every change
//! counts.

pub use kube::runtime::Predicate;
pub use kube::runtime::predicates::*;

/// Nothing but that an object appears, goes, or is mapped to other objects.
///
/// # Example
/// ```no_run
/// use k8s_openapi::api::core::v1::{Namespace, Pod};
/// use kube::runtime::reflector::ObjectRef;
/// use opctl_runtime::{Controller, Manager, predicates};
///
/// /// Counts the pods of each namespace: what a pod does is of no interest.
/// fn controller(manager: &Manager) -> Controller<Namespace> {
///     let controller = Controller::new(manager);
///     let namespace = |pod: &Pod| pod.metadata.namespace.as_deref().map(ObjectRef::new);
///     controller.watches_with(&manager.store(), predicates::membership, namespace);
///     controller
/// }
/// ```
pub fn membership<K>(_: &K) -> Option<u64> {
    Some(0)
}
