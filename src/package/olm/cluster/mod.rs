//! What the Operator Lifecycle Manager (OLM) does on a cluster: it installs bundles, upgrades and removes them, and it
//! is installed itself.
//!
//! OLM v0 installs what a Subscription names from a catalog, which a registry serves: [`Registry`] runs one for a
//! single package. OLM v1 installs what a ClusterExtension names. Every object that opctl creates has the label
//! `app.kubernetes.io/managed-by: opctl` and an annotation with the package, and only those are deleted.

mod bundle;
mod catalog;
mod cleanup;
mod download;
mod install_mode;
mod kubectl;
mod manager;
mod operator;
mod registry;
mod remaining;
mod wait;

pub use bundle::{BundleSource, RunBundle};
pub use cleanup::{Cleanup, CleanupRequest};
pub use download::manifests;
pub use install_mode::InstallMode;
pub use kubectl::Kubectl;
pub use manager::{ManagedObject, Manager, ObjectState};
pub use operator::{Operator, RunRequest};
pub use registry::RegistrySettings;
pub use wait::Deadline;

use anyhow::Result;
use serde_json::Value;

use super::csv;
use super::object::Object;
use crate::error::UserError;

/// The label of every object that opctl creates.
const MANAGED: &str = "app.kubernetes.io/managed-by";
/// Its value.
const OPCTL: &str = "opctl";
/// The annotation with the package that an object was created for.
const PACKAGE: &str = "opctl/package";

/// Whether opctl has created an object for a package.
fn is_of(object: &Object, package: &str) -> bool {
    object.value()["metadata"]["labels"][MANAGED] == OPCTL
        && object.annotation(PACKAGE) == Some(package)
}

/// A name of an object that is most similar to a text.
fn name_of(text: &str) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(valid).collect::<String>().trim_matches('-').to_owned()
}

/// The API group of OLM v1.
const V1_GROUP: &str = "olm.operatorframework.io";

/// Checks that a cluster has OLM v0.
///
/// # Errors
/// A [`UserError`] if it has not, which says what it has.
pub fn check_olm(kubectl: &Kubectl) -> Result<()> {
    let groups = kubectl.raw("/apis")?;
    let has = |name: &str| {
        let groups = groups["groups"].as_array().into_iter().flatten();
        groups.clone().any(|group: &Value| group["name"] == name)
    };
    if has(csv::GROUP) {
        return Ok(());
    }
    let server = &kubectl.context.server;
    let error = match has(V1_GROUP) {
        true => UserError::failure(format!("the cluster at {server} has OLM v1, not v0"))
            .with_hint("add the bundle to a catalog, and create a ClusterExtension of its package"),
        false => UserError::failure(format!("the cluster at {server} has no OLM")).with_hint(
            "install it: `opctl olm install --manifests crds.yaml --manifests olm.yaml`",
        ),
    };
    Err(error.into())
}
