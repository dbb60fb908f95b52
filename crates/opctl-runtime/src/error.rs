//! What can go wrong when the runtime writes objects.

/// An error of an [`Applier`](crate::Applier). A reconciler may return it, or wrap it in an error of
/// its own.
///
/// # Example
/// ```
/// /// What can go wrong in a reconcile of this operator.
/// #[derive(Debug, thiserror::Error)]
/// enum Error {
///     #[error(transparent)]
///     Runtime(#[from] opctl_runtime::Error),
///
///     #[error("the registry does not answer")]
///     Registry(#[from] std::io::Error),
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server refused a request or could not be reached.
    #[error(transparent)]
    Kube(#[from] kube::Error),

    /// An object of the desired name exists, and the owner is not its controller.
    #[error("{kind} {name} exists and is not controlled by this object")]
    NotControlled {
        /// The kind of the existing object.
        kind: String,
        /// The name of the existing object.
        name: String,
    },

    /// An earlier attempt to create an object with a generated name has succeeded, though its answer was
    /// lost. The store has it now: another reconcile decides whether there should be one more.
    #[error("{kind} {name} was created, though the answer was lost")]
    AlreadyCreated {
        /// The kind of the object.
        kind: String,
        /// The name of the object.
        name: String,
    },

    /// A child is in another namespace than its owner, or cluster-scoped. Kubernetes would delete it:
    /// an owner reference has no namespace. [`apply_unowned`](crate::Applier::apply_unowned) writes it.
    #[error("{kind} {name} is not in the namespace of its owner, so it cannot have that owner")]
    OutOfScope {
        /// The kind of the child.
        kind: String,
        /// The name of the child.
        name: String,
    },

    /// The API server does not let the object be changed to the desired state, such as another selector
    /// of a Deployment, though it would let it be created.
    /// [`recreating`](crate::Applier::recreating) replaces such objects.
    #[error("{kind} {name} cannot be changed to the desired state, only recreated: {message}")]
    Immutable {
        /// The kind of the object.
        kind: String,
        /// The name of the object.
        name: String,
        /// Why the API server refuses the change.
        message: String,
    },

    /// Somebody else changes the object again and again. It is repaired once a minute for as long as
    /// that lasts.
    #[error("{kind} {name} is changed again and again by another client: {fields}")]
    Contested {
        /// The kind of the object.
        kind: String,
        /// The name of the object.
        name: String,
        /// What is changed, or who changes it.
        fields: String,
    },

    /// An object could not be serialized as JSON.
    #[error("cannot serialize: {0}")]
    Serialize(#[from] serde_json::Error),
}

/// The result of a write.
pub type Result<T, E = Error> = std::result::Result<T, E>;
