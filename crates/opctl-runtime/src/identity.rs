//! Who the operator is.

/// The name and the version of an operator. The name is the field manager of its writes, the
/// controller that reports its events, the value of `app.kubernetes.io/managed-by` on its children, and
/// the name of its lease, so it must be unique in a cluster and stay the same from version to version.
///
/// # Example
/// ```
/// use opctl_runtime::Identity;
///
/// const IDENTITY: Identity = Identity::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
/// assert!(!IDENTITY.name().is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    name: &'static str,
    version: &'static str,
}

impl Identity {
    /// The identity of an operator. `name` must be valid as a DNS label (RFC 1123).
    pub const fn new(name: &'static str, version: &'static str) -> Self {
        Self { name, version }
    }

    /// The name of the operator.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The version of the operator, for logs and the metric `operator_build_info`.
    pub const fn version(self) -> &'static str {
        self.version
    }
}
