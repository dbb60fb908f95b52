//! Deletes what `opctl run bundle` has created, and what OLM has made of it.

use std::collections::BTreeSet;

use anyhow::Result;

use super::catalog::csv_resource;
use super::kubectl::Kubectl;
use super::operator::{OPERATOR_GROUP, OPERATOR_GROUPS, SUBSCRIPTIONS};
use super::registry::{CATALOG_SOURCES, catalog_name};
use super::remaining::{CRDS, custom_resources, delete, names, resource};
use super::wait::Deadline;
use super::{MANAGED, OPCTL, check_olm, is_of};
use crate::error::UserError;
use crate::package::olm::Object;
use crate::ui::Ui;

/// The label of copies of ClusterServiceVersions in namespaces that an operator watches.
const COPIED: &str = "!olm.copiedFrom";

/// What OLM tells of an operator in a namespace.
const OPERATORS: &str = "operators.v1.operators.coreos.com";
/// The objects of bundles that OLM leaves.
const ROLES: &str =
    "clusterrolebindings.v1.rbac.authorization.k8s.io,clusterroles.v1.rbac.authorization.k8s.io";

/// What to delete.
#[derive(Debug, Clone)]
pub struct CleanupRequest {
    /// The package.
    pub package: String,
    /// Also the CRDs of the operator.
    pub crds: bool,
    /// Also CRDs that have objects, and those objects.
    pub custom_resources: bool,
    /// Also the OperatorGroup, if nothing else needs it.
    pub operator_groups: bool,
}

/// Deletes an operator from a cluster.
pub struct Cleanup<'a> {
    /// The cluster, and the namespace of the operator.
    pub kubectl: &'a Kubectl,
    /// When to give up.
    pub deadline: Deadline,
    /// Where progress is printed.
    pub ui: Ui,
}

impl Cleanup<'_> {
    /// Deletes an operator. Returns whether there was anything to delete.
    ///
    /// # Errors
    /// A [`UserError`] if opctl has not installed it, or if objects of the user would be lost: then nothing is
    /// deleted.
    pub fn run(&self, request: &CleanupRequest) -> Result<bool> {
        check_olm(self.kubectl)?;
        let package = &request.package;
        let subscription = self.subscription(package)?;
        let csvs = self.csvs(subscription.as_ref())?;
        let crds = if request.crds { self.crds(&csvs)? } else { Vec::new() };
        if !request.custom_resources {
            crds.iter().try_for_each(|crd| self.check_unused(crd))?;
        }

        let mut found = false;
        // Without it OLM installs nothing while the rest is deleted.
        if let Some(subscription) = &subscription {
            found |= self.delete(SUBSCRIPTIONS, subscription.name())?;
        }
        // The operator still runs, so that it can finalize its objects.
        for crd in &crds {
            if !request.custom_resources {
                self.check_unused(crd)?;
            }
            found |= self.delete(CRDS, crd.name())?;
        }
        for csv in &csvs {
            found |= self.delete(&csv_resource(), csv.name())?;
            self.delete_roles(csv)?;
        }
        found |= self.delete_catalog(package)?;
        if request.crds {
            let summary = format!("{package}.{}", self.kubectl.namespace);
            found |= self.delete(OPERATORS, &summary)?;
        }
        if request.operator_groups {
            found |= self.delete_operator_group()?;
        }
        Ok(found)
    }

    fn delete(&self, resource: &str, name: &str) -> Result<bool> {
        delete(self.kubectl, self.deadline, self.ui, resource, name)
    }

    fn subscription(&self, package: &str) -> Result<Option<Object>> {
        let all = self.kubectl.list(SUBSCRIPTIONS, &[])?;
        let mut of_package = all.into_iter().filter(|it| it.text("/spec/name") == package);
        let Some(subscription) = of_package.next() else { return Ok(None) };
        if is_of(&subscription, package) {
            return Ok(Some(subscription));
        }
        let problem = format!(
            "opctl has not installed {package}: see the Subscription {}",
            subscription.name()
        );
        Err(UserError::failure(problem)
            .with_hint("delete it with the tool that has created it")
            .into())
    }

    /// The versions of the operator: that which runs, and that which replaces it.
    fn csvs(&self, subscription: Option<&Object>) -> Result<Vec<Object>> {
        let Some(subscription) = subscription else { return Ok(Vec::new()) };
        let names = ["/status/installedCSV", "/status/currentCSV"].map(|it| subscription.text(it));
        let names: BTreeSet<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let csvs = names.into_iter().map(|name| self.kubectl.get(&csv_resource(), name));
        csvs.filter_map(Result::transpose).collect()
    }

    /// The CRDs that no other operator has.
    fn crds(&self, csvs: &[Object]) -> Result<Vec<Object>> {
        let all = self.kubectl.list(&csv_resource(), &["--all-namespaces", "-l", COPIED])?;
        let is_own = |other: &Object| {
            let key = |csv: &Object| (csv.namespace().to_owned(), csv.name().to_owned());
            csvs.iter().any(|csv| key(csv) == key(other))
        };
        let others: Vec<&Object> = all.iter().filter(|csv| !is_own(csv)).collect();
        let mut crds = Vec::new();
        let names: BTreeSet<&str> = csvs.iter().flat_map(owned).collect();
        for name in names {
            if let Some(other) = others.iter().find(|csv| owned(csv).any(|crd| crd == name)) {
                let other = format!("{}/{}", other.namespace(), other.name());
                self.ui.attention(
                    "Kept",
                    format!("CustomResourceDefinition {name}: {other} has it too"),
                );
                continue;
            }
            crds.extend(self.kubectl.get(CRDS, name)?);
        }
        Ok(crds)
    }

    /// Checks that nothing is deleted with a CRD.
    fn check_unused(&self, crd: &Object) -> Result<()> {
        let objects = custom_resources(self.kubectl, crd)?;
        if objects.is_empty() {
            return Ok(());
        }
        let problem = format!(
            "the CRD {} has objects, which would be deleted with it: {}",
            crd.name(),
            names(&objects)
        );
        Err(UserError::failure(problem)
            .with_hint(
                "keep the CRDs and their objects with `--delete-all=false`, or delete both with \
                 `--delete-custom-resources`",
            )
            .into())
    }

    /// Deletes the ClusterRoles of a bundle and their bindings, which OLM leaves.
    fn delete_roles(&self, csv: &Object) -> Result<()> {
        let all = self.kubectl.list(&csv_resource(), &["--all-namespaces", "-l", COPIED])?;
        if all.iter().any(|other| other.name() == csv.name()) {
            // The same version in another namespace has the same roles.
            return Ok(());
        }
        let label = format!("olm.managed=true,olm.owner={}", csv.name());
        for object in self.kubectl.list(ROLES, &["-l", &label])? {
            self.delete(&resource(&object), object.name())?;
        }
        Ok(())
    }

    fn delete_catalog(&self, package: &str) -> Result<bool> {
        let mut found = false;
        let catalog = catalog_name(package);
        match self.kubectl.get(CATALOG_SOURCES, &catalog)? {
            Some(source) if is_of(&source, package) => {
                found |= self.delete(CATALOG_SOURCES, &catalog)?;
            }
            Some(_) => self
                .ui
                .attention("Kept", format!("CatalogSource {catalog}: opctl has not created it")),
            None => {}
        }
        let label = format!("{MANAGED}={OPCTL}");
        for resource in ["pods", "configmaps"] {
            let objects = self.kubectl.list(resource, &["-l", &label])?;
            for object in objects.iter().filter(|object| is_of(object, package)) {
                found |= self.delete(resource, object.name())?;
            }
        }
        Ok(found)
    }

    /// Deletes the OperatorGroup that opctl has created, if no operator is left in the namespace.
    fn delete_operator_group(&self) -> Result<bool> {
        let Some(group) = self.kubectl.get(OPERATOR_GROUPS, OPERATOR_GROUP)? else {
            return Ok(false);
        };
        let mut users = self.kubectl.list(SUBSCRIPTIONS, &[])?;
        users.extend(self.kubectl.list(&csv_resource(), &["-l", COPIED])?);
        let reason = if group.value()["metadata"]["labels"][MANAGED] != OPCTL {
            "opctl has not created it".to_owned()
        } else if users.is_empty() {
            return self.delete(OPERATOR_GROUPS, OPERATOR_GROUP);
        } else {
            format!("it is used by {}", names(&users))
        };
        self.ui.attention("Kept", format!("{}: {reason}", group.title()));
        Ok(false)
    }
}

/// The names of the CRDs of an operator.
fn owned(csv: &Object) -> impl Iterator<Item = &str> {
    let crds = csv.items("/spec/customresourcedefinitions/owned").iter();
    crds.filter_map(|crd| crd["name"].as_str())
}
