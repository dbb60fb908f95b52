//! Installs OLM v0 from its manifests, and uninstalls it.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::{Value, json};

use super::catalog::csv_resource;
use super::kubectl::Kubectl;
use super::remaining::{CRDS, contents, delete, names, resource};
use super::wait::{Deadline, Progress};
use crate::error::UserError;
use crate::package::olm::{Object, csv};
use crate::ui::Ui;

/// The CRD that every version of OLM v0 has.
const SUBSCRIPTION_CRD: &str = "subscriptions.operators.coreos.com";
/// The API that OLM serves itself, and its object.
const API_SERVICES: &str = "apiservices.v1.apiregistration.k8s.io";
const PACKAGES_API: &str = "v1.packages.operators.coreos.com";
/// The objects that users of OLM create. Operators go first, while OLM can remove what it made for them.
const USED: [&str; 4] = [
    "subscriptions.operators.coreos.com",
    "clusterserviceversions.operators.coreos.com",
    "catalogsources.operators.coreos.com",
    "operatorgroups.operators.coreos.com",
];
/// The label of copies of ClusterServiceVersions.
const COPIED: &str = "olm.copiedFrom";

/// Whether an object of OLM exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectState {
    /// It exists.
    Installed,
    /// It does not.
    Missing,
}

/// An object of the manifests of OLM.
#[derive(Debug)]
pub struct ManagedObject {
    /// The object, as the manifests have it.
    pub object: Object,
    /// Whether it exists.
    pub state: ObjectState,
}

/// OLM on a cluster.
pub struct Manager<'a> {
    /// The cluster.
    pub kubectl: &'a Kubectl,
    /// When to give up.
    pub deadline: Deadline,
    /// Where progress is printed.
    pub ui: Ui,
}

impl Manager<'_> {
    /// Installs OLM and waits until it runs.
    ///
    /// # Errors
    /// A [`UserError`] if a part of it exists already, or if it does not run in time.
    pub fn install(&self, manifests: &[Object]) -> Result<()> {
        check(manifests)?;
        let present = self.present(manifests)?;
        let (namespaces, others): (Vec<_>, Vec<_>) = present.into_iter().partition(is_namespace);
        if !others.is_empty() {
            let problem = format!("OLM, or a part of it, is installed already: {}", names(&others));
            return Err(UserError::failure(problem)
                .with_hint(
                    "see `opctl olm status`, or uninstall it with `opctl olm uninstall` before",
                )
                .into());
        }
        let is_new = |object: &&Object| !namespaces.iter().any(|it| key(it) == key(object));
        let (crds, rest): (Vec<_>, Vec<_>) =
            manifests.iter().filter(is_new).partition(|object| is_crd(object));
        self.create(&crds)?;
        self.wait_for_crds(&crds)?;
        self.create(&rest)?;
        self.wait_for_deployments(&rest)?;
        for object in rest.iter().filter(|object| object.is(csv::GROUP, csv::KIND)) {
            self.wait_for_csv(object)?;
        }
        Ok(())
    }

    /// The objects of the manifests, and whether they exist.
    ///
    /// # Errors
    /// If the API server refuses the requests.
    pub fn status(&self, manifests: &[Object]) -> Result<Vec<ManagedObject>> {
        check(manifests)?;
        let present = self.present(manifests)?;
        let present: BTreeSet<_> = present.iter().map(key).collect();
        let state = |object: &Object| match present.contains(&key(object)) {
            true => ObjectState::Installed,
            false => ObjectState::Missing,
        };
        let managed =
            |object: &Object| ManagedObject { object: object.clone(), state: state(object) };
        Ok(manifests.iter().map(managed).collect())
    }

    /// Uninstalls OLM. Operators that it has installed are objects of the user: they stay unless `all` is set, and OLM
    /// with them.
    ///
    /// # Errors
    /// A [`UserError`] if it is not installed, or if objects of the user would be lost: then nothing is deleted.
    pub fn uninstall(&self, manifests: &[Object], all: bool) -> Result<()> {
        check(manifests)?;
        let present = self.present(manifests)?;
        if !present.iter().any(|object| !is_namespace(object)) {
            let server = &self.kubectl.context.server;
            let problem = format!("OLM is not installed in the cluster at {server}");
            return Err(UserError::failure(problem)
                .with_hint("see what there is with `opctl olm status`")
                .into());
        }
        let used = self.used(&present)?;
        if !used.is_empty() && !all {
            let problem = format!("OLM is in use, and these would be lost: {}", names(&used));
            return Err(UserError::failure(problem)
                .with_hint(
                    "delete the operators first, with `opctl cleanup PACKAGE` or as they were installed, or delete \
                     all of it with `--delete-user-objects`",
                )
                .into());
        }
        for object in &used {
            self.delete(object)?;
        }
        // While OLM runs, so that it removes what it made for them.
        let (custom, rest): (Vec<_>, Vec<_>) =
            present.iter().partition(|object| object.group() == csv::GROUP);
        for object in custom.iter().rev() {
            self.delete(object)?;
        }
        // Without its server, this API would keep every namespace from being deleted.
        delete(self.kubectl, self.deadline, self.ui, API_SERVICES, PACKAGES_API)?;
        let order = |object: &&&Object| (is_namespace(object), is_crd(object));
        let mut rest: Vec<&Object> = rest.iter().rev().copied().collect();
        rest.sort_by_key(|object| order(&object));
        for object in rest {
            if is_namespace(object) { self.delete_namespace(object)? } else { self.delete(object)? }
        }
        Ok(())
    }

    /// Those of the objects that exist, in their order.
    fn present(&self, objects: &[Object]) -> Result<Vec<Object>> {
        let (custom, plain): (Vec<_>, Vec<_>) =
            objects.iter().partition(|object| object.group() == csv::GROUP);
        let mut present = self.existing(&plain)?;
        let has_crds = plain
            .iter()
            .filter(|it| is_crd(it))
            .all(|it| present.iter().any(|p| key(p) == key(it)));
        // Without their CRDs there is nothing to ask for.
        if has_crds {
            present.extend(self.existing(&custom)?);
        }
        let order = |object: &Object| objects.iter().position(|it| key(it) == key(object));
        present.sort_by_key(order);
        Ok(present)
    }

    fn existing(&self, objects: &[&Object]) -> Result<Vec<Object>> {
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        let args = ["get", "-f", "-", "--ignore-not-found", "-o", "json"];
        let text = self.kubectl.run(&args, Some(&list(objects)))?;
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        Ok(Object::parse_all(&text, "answer of kubectl")?)
    }

    fn create(&self, objects: &[&Object]) -> Result<()> {
        let args = ["create", "-f", "-", "--field-manager=opctl"];
        let text = self.kubectl.run(&args, Some(&list(objects)))?;
        text.lines().for_each(|line| self.ui.status("Created", line.trim_end_matches(" created")));
        Ok(())
    }

    fn wait_for_crds(&self, crds: &[&Object]) -> Result<()> {
        self.deadline.wait("the CRDs of OLM", || {
            let stored = self.kubectl.list(CRDS, &[])?;
            let is_established = |crd: &&&Object| {
                let stored = stored.iter().find(|it| it.name() == crd.name());
                let conditions =
                    stored.map(|it| it.items("/status/conditions")).unwrap_or_default();
                conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True")
            };
            Ok(match crds.iter().find(|crd| !is_established(crd)) {
                None => Progress::Done(()),
                Some(crd) => Progress::Pending(format!("{} is not established", crd.name())),
            })
        })
    }

    fn wait_for_deployments(&self, objects: &[&Object]) -> Result<()> {
        for deployment in objects.iter().filter(|object| object.is("apps", "Deployment")) {
            let kubectl = self.kubectl.with_namespace(deployment.namespace());
            self.deadline.wait(&deployment.title(), || {
                let stored = kubectl.get("deployments.v1.apps", deployment.name())?;
                Ok(stored
                    .map_or_else(|| Progress::Pending("it is gone".to_owned()), |it| rollout(&it)))
            })?;
        }
        Ok(())
    }

    fn wait_for_csv(&self, object: &Object) -> Result<()> {
        let kubectl = self.kubectl.with_namespace(object.namespace());
        self.deadline.wait(&object.title(), || {
            let stored = kubectl.get(&csv_resource(), object.name())?;
            let Some(csv) = stored else { return Ok(Progress::Pending("it is gone".to_owned())) };
            Ok(match (csv.text("/status/phase"), csv.text("/status/message")) {
                ("Succeeded", _) => Progress::Done(()),
                ("", _) => Progress::Pending("OLM has not begun".to_owned()),
                (phase, message) => Progress::Pending(format!("{phase}: {message}")),
            })
        })
    }

    /// The objects of users that OLM works for.
    fn used(&self, own: &[Object]) -> Result<Vec<Object>> {
        let crds = self.kubectl.list(CRDS, &[])?;
        let mut used = Vec::new();
        for resource in USED.into_iter().filter(|name| crds.iter().any(|crd| crd.name() == *name)) {
            used.extend(self.kubectl.list(resource, &["--all-namespaces"])?);
        }
        let is_copy = |object: &Object| object.value()["metadata"]["labels"][COPIED].is_string();
        used.retain(|object| !is_copy(object) && !own.iter().any(|it| key(it) == key(object)));
        Ok(used)
    }

    fn delete(&self, object: &Object) -> Result<()> {
        let kubectl = self.kubectl.with_namespace(object.namespace());
        delete(&kubectl, self.deadline, self.ui, &resource(object), object.name())?;
        Ok(())
    }

    /// Deletes a namespace, unless there is something of the user in it.
    fn delete_namespace(&self, namespace: &Object) -> Result<()> {
        let rest = contents(self.kubectl, namespace.name())?;
        if rest.is_empty() {
            return self.delete(namespace);
        }
        self.ui.attention("Kept", format!("{} with {}", namespace.title(), names(&rest)));
        Ok(())
    }
}

/// Checks that manifests are those of OLM.
fn check(manifests: &[Object]) -> Result<(), UserError> {
    let has_crd =
        manifests.iter().any(|object| is_crd(object) && object.name() == SUBSCRIPTION_CRD);
    let has_deployment = manifests.iter().any(|object| object.is("apps", "Deployment"));
    let missing = match (has_crd, has_deployment) {
        (true, true) => return Ok(()),
        (false, _) => format!("the CRD {SUBSCRIPTION_CRD}"),
        (true, false) => "a Deployment".to_owned(),
    };
    Err(UserError::failure(format!("the manifests are not those of OLM v0: {missing} is missing"))
        .with_hint("name both files of a release: `--manifests crds.yaml --manifests olm.yaml`"))
}

fn list(objects: &[&Object]) -> Value {
    let items: Vec<&Value> = objects.iter().map(|object| object.value()).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

fn key(object: &Object) -> (String, String, String, String) {
    let texts = [object.group(), object.kind(), object.namespace(), object.name()];
    texts.map(str::to_owned).into()
}

fn is_crd(object: &Object) -> bool {
    object.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

fn is_namespace(object: &Object) -> bool {
    object.is("", "Namespace")
}

/// Whether all pods of a Deployment are of its last version and available.
fn rollout(deployment: &Object) -> Progress<()> {
    let number = |pointer: &str| {
        deployment.value().pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
    };
    let wanted = deployment.value().pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    let is_observed = number("/status/observedGeneration") >= number("/metadata/generation");
    let available = number("/status/availableReplicas");
    let counts = [number("/status/updatedReplicas"), number("/status/replicas"), available];
    if is_observed && counts.iter().all(|count| *count == wanted) {
        return Progress::Done(());
    }
    Progress::Pending(format!("{available} of {wanted} pods are available"))
}
