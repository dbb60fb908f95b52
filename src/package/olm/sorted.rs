//! The objects of an operator, by what becomes of them in a bundle.

use std::collections::BTreeSet;

use super::csv::{self, Csv};
use super::generate::{CSV_DIRECTORY, left_out};
use super::object::Object;
use super::permissions::is_rbac;
use super::webhooks;
use crate::error::UserError;

/// The service account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// The objects of an operator, by what becomes of them.
#[derive(Debug, Default)]
pub struct Sorted {
    /// Those that the user has written: one.
    pub csvs: Vec<Object>,
    /// The deployments.
    pub deployments: Vec<Object>,
    /// Roles, bindings and service accounts.
    pub rbac: Vec<Object>,
    /// Configurations of webhooks.
    pub webhooks: Vec<Object>,
    /// The configuration of the scorecard.
    pub tests: Vec<Object>,
    /// The namespaces.
    pub namespaces: Vec<Object>,
    /// All others.
    pub others: Vec<Object>,
}

impl Sorted {
    /// Sorts objects.
    pub fn new(objects: Vec<Object>) -> Self {
        let mut sorted = Self::default();
        for object in objects {
            let list = if object.is(csv::GROUP, csv::KIND) {
                &mut sorted.csvs
            } else if object.is("apps", "Deployment") {
                &mut sorted.deployments
            } else if is_rbac(&object) {
                &mut sorted.rbac
            } else if object.group() == webhooks::GROUP
                && object.kind().ends_with("WebhookConfiguration")
            {
                &mut sorted.webhooks
            } else if object.is("scorecard.operatorframework.io", "Configuration") {
                &mut sorted.tests
            } else if object.is("", "Namespace") {
                &mut sorted.namespaces
            } else {
                &mut sorted.others
            };
            list.push(object);
        }
        sorted
    }

    /// The ClusterServiceVersion that the user has written.
    pub fn csv(&mut self, package: &str) -> Result<Csv, UserError> {
        if self.deployments.is_empty() {
            return Err(UserError::failure("there is no Deployment among the manifests")
                .with_hint(
                    "`kubectl kustomize config/manifests` shows the manifests of a project",
                ));
        }
        match (self.csvs.pop(), self.csvs.pop()) {
            (Some(csv), None) => Csv::parse(csv),
            (Some(one), Some(other)) => Err(UserError::failure(format!(
                "there are several ClusterServiceVersions: {} and {}",
                other.name(),
                one.name()
            ))),
            (None, _) => Err(UserError::failure(format!(
                "there is no ClusterServiceVersion among the manifests, nor {CSV_DIRECTORY}/{package}.clusterserviceversion.yaml"
            ))
            .with_hint("write one with `opctl generate kustomize manifests`")),
        }
    }

    /// The namespace of the operator; empty if the manifests have none.
    pub fn namespace(&self) -> String {
        self.deployments.first().map(Object::namespace).unwrap_or_default().to_owned()
    }

    /// The service accounts of the operator.
    pub fn accounts(&self, extra: &[String]) -> Result<BTreeSet<String>, UserError> {
        let is_account = |name: &String| {
            let mut accounts = self.rbac.iter().filter(|object| object.kind() == "ServiceAccount");
            accounts.any(|account| account.name() == name)
        };
        if let Some(name) = extra.iter().find(|name| !is_account(name)) {
            let reason = "there is no such ServiceAccount among the manifests";
            return Err(UserError::invalid_value("--extra-service-accounts <NAME>", name, reason));
        }
        let pods = self.deployments.iter();
        let account = |pod: &Object| match pod.text("/spec/template/spec/serviceAccountName") {
            "" => DEFAULT_ACCOUNT.to_owned(),
            name => name.to_owned(),
        };
        Ok(pods.map(account).chain(extra.iter().cloned()).collect())
    }

    /// Who installs an operator chooses its namespace. Its labels are a proposal.
    pub fn suggest_namespace(&self, own: &str, csv: &mut Csv, warnings: &mut Vec<String>) {
        for namespace in &self.namespaces {
            if namespace.name() == own {
                let template = namespace.clone().without_cluster();
                let name = "operatorframework.io/suggested-namespace-template";
                csv.annotate(name, template.value().to_string());
            } else {
                warnings.push(left_out(namespace));
            }
        }
    }
}
