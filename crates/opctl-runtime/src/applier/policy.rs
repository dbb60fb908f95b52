//! What an applier may do with what is not its own.

use std::sync::Arc;

use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use super::Applier;
use crate::object::controller_ref;

/// What it does beyond its own children and fields.
#[derive(Clone, Default)]
pub(super) struct Policy {
    pub adopts: Option<Selector>,
    pub tolerated: Vec<String>,
    pub recreates: bool,
}

impl Applier {
    /// An applier that adopts orphans: it becomes the controller of an object of the desired name that
    /// has no controller, and whose labels match the selector, as a ReplicaSet does with pods. Without
    /// it such an object is [`Error::NotControlled`](crate::Error::NotControlled).
    ///
    /// The orphans of an owner that was deleted with `kubectl delete --cascade=orphan` have the labels
    /// that the operator gave them; an object of another origin gets them from who wants it adopted.
    ///
    /// # Example
    /// ```no_run
    /// use k8s_openapi::api::core::v1::Node;
    /// use opctl_runtime::{Applier, Controller, Identity, workload};
    ///
    /// fn applier(controller: &Controller<Node>, identity: Identity) -> Applier {
    ///     controller.applier().adopting(workload::managed_by(identity))
    /// }
    /// ```
    #[must_use]
    pub fn adopting(self, selector: Selector) -> Self {
        self.with_policy(|policy| policy.adopts = Some(selector))
    }

    /// An applier that leaves these fields to others where `desired` does not set them, such as
    /// `spec.suspend` or `spec.template.spec.tolerations`. A list is a field, its items have no step of
    /// their own: `spec.template.spec.containers.resources` is that of every container.
    #[must_use]
    pub fn tolerating<F: Into<String>>(self, fields: impl IntoIterator<Item = F>) -> Self {
        let fields = fields.into_iter().map(Into::into);
        self.with_policy(|policy| policy.tolerated.extend(fields))
    }

    /// An applier that deletes an object which cannot be changed to the desired state, instead of
    /// returning [`Error::Immutable`](crate::Error::Immutable). The reconcile that follows the deletion creates it.
    ///
    /// # Caveats
    /// What the object holds is lost, and so are its pods until the new one has its own. It needs
    /// the permission to delete.
    #[must_use]
    pub fn recreating(self) -> Self {
        self.with_policy(|policy| policy.recreates = true)
    }

    fn with_policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(Arc::make_mut(&mut self.policy));
        self
    }

    pub(super) fn adopts(&self, object: &impl ResourceExt) -> bool {
        let selector = self.policy.adopts.as_ref();
        controller_ref(object).is_none()
            && selector.is_some_and(|selector| selector.matches(object.labels()))
    }
}
