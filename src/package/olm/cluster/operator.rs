//! Installs and upgrades the operator of a bundle with OLM v0.

use anyhow::Result;
use serde_json::{Value, json};

use super::bundle::RunBundle;
use super::catalog::{CHANNEL, csv_resource};
use super::install_mode::InstallMode;
use super::kubectl::Kubectl;
use super::registry::{
    CATALOG_SOURCES, Registry, RegistrySettings, catalog_name, is_ready, pod_state,
};
use super::wait::{Deadline, Progress};
use super::{MANAGED, OPCTL, PACKAGE, check_olm, name_of};
use crate::error::UserError;
use crate::package::olm::Object;
use crate::ui::Ui;

/// The Subscriptions of OLM.
pub const SUBSCRIPTIONS: &str = "subscriptions.v1alpha1.operators.coreos.com";
/// Its InstallPlans.
pub const INSTALL_PLANS: &str = "installplans.v1alpha1.operators.coreos.com";
/// Its OperatorGroups.
pub const OPERATOR_GROUPS: &str = "operatorgroups.v1.operators.coreos.com";

/// The name of the OperatorGroup of a namespace that has none.
pub const OPERATOR_GROUP: &str = "opctl-og";

/// How to install an operator.
#[derive(Debug)]
pub struct RunRequest {
    /// For which namespaces, if not for those that it supports.
    pub install_mode: Option<InstallMode>,
    /// The registry of the catalog.
    pub settings: RegistrySettings,
    /// The Secrets with which images are pulled.
    pub pull_secrets: Vec<String>,
}

/// The operator of a bundle on a cluster.
pub struct Operator<'a> {
    /// The cluster, and the namespace of the operator.
    pub kubectl: &'a Kubectl,
    /// When to give up.
    pub deadline: Deadline,
    /// Where progress is printed.
    pub ui: Ui,
}

impl Operator<'_> {
    /// Installs an operator. What exists already is not changed.
    ///
    /// # Errors
    /// A [`UserError`] if it is installed already, if it cannot be installed so, or if it does not run in time.
    pub fn install(&self, bundle: &RunBundle, request: &RunRequest) -> Result<()> {
        check_olm(self.kubectl)?;
        self.check_absent(bundle)?;
        let group = self.operator_group(bundle, request.install_mode.as_ref())?;

        let settings = request.settings.clone();
        self.registry(settings).create(bundle, &request.pull_secrets)?;
        let catalog = catalog_name(&bundle.package);
        self.ui.status("Created", format!("CatalogSource {catalog}"));
        if let Some(group) = group {
            self.kubectl.create(&group)?;
            self.ui.status("Created", format!("OperatorGroup {OPERATOR_GROUP}"));
        }
        self.wait_for_catalog(&catalog)?;
        let subscription = self.kubectl.create(&self.subscription(bundle, &catalog))?;
        self.ui.status("Created", format!("Subscription {}", subscription.name()));
        self.follow(bundle, &subscription)
    }

    /// Upgrades an operator that [`Operator::install`] has installed.
    ///
    /// # Errors
    /// A [`UserError`] if it is not installed so, or if the new version does not run in time.
    pub fn upgrade(&self, bundle: &RunBundle, pull_secrets: &[String]) -> Result<()> {
        check_olm(self.kubectl)?;
        let subscription = self.subscription_of(&bundle.package)?.ok_or_else(|| {
            let namespace = &self.kubectl.namespace;
            UserError::failure(format!("{} is not installed in {namespace}", bundle.package))
                .with_hint(
                    "install it with `opctl run bundle`, or name its namespace with `--namespace`",
                )
        })?;
        if subscription.text("/status/installedCSV") == bundle.name() {
            return Err(UserError::failure(format!("{} is installed already", bundle.name()))
                .with_hint("generate the bundle with a higher version: `opctl generate bundle --version VERSION`")
                .into());
        }
        let catalog = subscription.text("/spec/source");
        let source = self.kubectl.get(CATALOG_SOURCES, catalog)?.ok_or_else(|| {
            UserError::failure(format!("the CatalogSource {catalog} is gone")).with_hint(format!(
                "install the operator again: `opctl cleanup {}`",
                bundle.package
            ))
        })?;
        let settings = Registry::settings_of(&source)?;
        self.registry(settings).upgrade(bundle, &source, pull_secrets)?;
        self.ui.status("Updated", format!("CatalogSource {catalog}"));
        self.wait_for_catalog(catalog)?;
        self.follow(bundle, &subscription)
    }

    fn registry(&self, settings: RegistrySettings) -> Registry<'_> {
        Registry { kubectl: self.kubectl, deadline: self.deadline, settings }
    }

    /// The Subscription of a package in the namespace.
    fn subscription_of(&self, package: &str) -> Result<Option<Object>> {
        let all = self.kubectl.list(SUBSCRIPTIONS, &[])?;
        Ok(all.into_iter().find(|subscription| subscription.text("/spec/name") == package))
    }

    /// Checks that neither the namespace has the operator nor an attempt left a part of it.
    fn check_absent(&self, bundle: &RunBundle) -> Result<()> {
        let (package, namespace) = (&bundle.package, &self.kubectl.namespace);
        if self.kubectl.get("namespaces", namespace)?.is_none() {
            return Err(UserError::failure(format!("there is no namespace {namespace}"))
                .with_hint(format!("create it: `kubectl create namespace {namespace}`"))
                .into());
        }
        if let Some(subscription) = self.subscription_of(package)? {
            let name = subscription.name();
            let problem =
                format!("{package} is installed in {namespace} by the Subscription {name}");
            return Err(UserError::failure(problem)
                .with_hint(format!("upgrade it with `opctl run bundle-upgrade`, or delete it with `opctl cleanup {package}`"))
                .into());
        }
        let catalog = catalog_name(package);
        if self.kubectl.get(CATALOG_SOURCES, &catalog)?.is_some() {
            return Err(UserError::failure(format!("the CatalogSource {catalog} exists already"))
                .with_hint(format!(
                    "`opctl cleanup {package}` deletes what an interrupted command left"
                ))
                .into());
        }
        Ok(())
    }

    /// The OperatorGroup to create, if the namespace has none.
    fn operator_group(
        &self,
        bundle: &RunBundle,
        mode: Option<&InstallMode>,
    ) -> Result<Option<Value>> {
        let own = &self.kubectl.namespace;
        let groups = self.kubectl.list(OPERATOR_GROUPS, &[])?;
        let [group] = groups.as_slice() else {
            if !groups.is_empty() {
                let names = groups.iter().map(Object::name).collect::<Vec<_>>().join(", ");
                let problem = format!("the namespace {own} has several OperatorGroups: {names}");
                return Err(UserError::failure(problem)
                    .with_hint("OLM installs nothing there until only one is left")
                    .into());
            }
            let mode = match mode {
                Some(mode) => mode.clone(),
                None => InstallMode::default_of(&bundle.csv)?,
            };
            mode.check(&bundle.csv, own)?;
            return Ok(Some(operator_group(own, &mode)));
        };
        let targets = group.items("/spec/targetNamespaces").iter().filter_map(Value::as_str);
        let targets: Vec<String> = targets.map(str::to_owned).collect();
        let existing = InstallMode::of(&targets, own);
        if let Some(mode) = mode.filter(|mode| **mode != existing) {
            let problem = format!(
                "the OperatorGroup {} has the install mode {existing}, not {mode}",
                group.name()
            );
            return Err(UserError::failure(problem)
                .with_hint(
                    "install the operator in another namespace, or with the mode of the group",
                )
                .into());
        }
        existing.check(&bundle.csv, own)?;
        Ok(None)
    }

    fn subscription(&self, bundle: &RunBundle, catalog: &str) -> Value {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "Subscription",
            "metadata": {
                "name": format!("{}-sub", name_of(bundle.name())),
                "namespace": self.kubectl.namespace,
                "labels": { MANAGED: OPCTL },
                "annotations": { PACKAGE: bundle.package },
            },
            "spec": {
                "name": bundle.package,
                "channel": CHANNEL,
                "startingCSV": bundle.name(),
                "source": catalog,
                "sourceNamespace": self.kubectl.namespace,
                // Nothing else is installed with it before the plan was read.
                "installPlanApproval": "Manual",
            },
        })
    }

    fn wait_for_catalog(&self, name: &str) -> Result<()> {
        self.deadline.wait(&format!("CatalogSource {name}"), || {
            let source = self.kubectl.get(CATALOG_SOURCES, name)?;
            let state = source.as_ref().map(|source| &source.value()["status"]);
            let connection = state.map(|state| &state["connectionState"]);
            let address = source.as_ref().map(|source| source.text("/spec/address"));
            let is_current = connection.is_some_and(|it| it["address"].as_str() == address);
            match connection.and_then(|it| it["lastObservedState"].as_str()) {
                Some("READY") if is_current => Ok(Progress::Done(())),
                Some(state) => Ok(Progress::Pending(format!("its connection is {state}"))),
                None => Ok(Progress::Pending("OLM has not connected to it".to_owned())),
            }
        })
    }

    /// Approves the plan for a bundle and waits until the operator runs.
    fn follow(&self, bundle: &RunBundle, subscription: &Object) -> Result<()> {
        let plan = self.wait_for_plan(bundle, subscription.name())?;
        self.approve(bundle, &plan)?;
        self.wait_for_csv(bundle, plan.name())?;
        self.ui.status("Installed", bundle.name());
        Ok(())
    }

    /// The plan that has the bundle.
    fn wait_for_plan(&self, bundle: &RunBundle, subscription: &str) -> Result<Object> {
        self.deadline.wait(&format!("the InstallPlan of {}", bundle.name()), || {
            let Some(subscription) = self.kubectl.get(SUBSCRIPTIONS, subscription)? else {
                return Err(
                    UserError::failure(format!("the Subscription {subscription} is gone")).into()
                );
            };
            let name = subscription.text("/status/installPlanRef/name");
            let plan = match name {
                "" => None,
                name => self.kubectl.get(INSTALL_PLANS, name)?,
            };
            Ok(match plan {
                Some(plan) if clusterserviceversions(&plan).any(|it| it == bundle.name()) => {
                    Progress::Done(plan)
                }
                _ => Progress::Pending(subscription_state(&subscription)),
            })
        })
    }

    /// Approves a plan, unless it would also change another operator of the user.
    fn approve(&self, bundle: &RunBundle, plan: &Object) -> Result<()> {
        let others: Vec<&str> =
            clusterserviceversions(plan).filter(|name| *name != bundle.name()).collect();
        let subscriptions = self.kubectl.list(SUBSCRIPTIONS, &[])?;
        let touched = subscriptions.iter().find(|subscription| {
            subscription.text("/spec/name") != bundle.package
                && others.contains(&subscription.text("/status/currentCSV"))
                && !subscription.text("/status/installedCSV").is_empty()
        });
        if let Some(subscription) = touched {
            let name = plan.name();
            let problem = format!(
                "the InstallPlan {name} would also change {}, which opctl has not installed",
                subscription.text("/spec/name")
            );
            let approve = json!({ "spec": { "approved": true } });
            return Err(UserError::failure(problem)
                .with_hint(format!(
                    "approve it yourself: `kubectl -n {} patch installplan {name} --type merge -p '{approve}'`",
                    self.kubectl.namespace
                ))
                .into());
        }
        if !others.is_empty() {
            self.ui.attention("Requires", others.join(", "));
        }
        self.kubectl.patch(INSTALL_PLANS, plan.name(), &json!({ "spec": { "approved": true } }))?;
        self.ui.status("Approved", format!("InstallPlan {}", plan.name()));
        Ok(())
    }

    fn wait_for_csv(&self, bundle: &RunBundle, plan: &str) -> Result<()> {
        let name = bundle.name();
        self.deadline.wait(&format!("ClusterServiceVersion {name}"), || {
            let Some(csv) = self.kubectl.get(&csv_resource(), name)? else {
                return self.plan_state(plan).map(Progress::Pending);
            };
            match csv.text("/status/phase") {
                "Succeeded" => Ok(Progress::Done(())),
                // OLM looks again when it has seen the OperatorGroup.
                "Failed" if csv.text("/status/reason") == "NoOperatorGroup" => {
                    Ok(Progress::Pending("OLM has not seen the OperatorGroup".to_owned()))
                }
                "Failed" => Err(self.failed(&csv, "OLM cannot install it")),
                phase => Ok(Progress::Pending(self.csv_state(&csv, phase)?)),
            }
        })
    }

    /// What a plan is doing.
    fn plan_state(&self, name: &str) -> Result<String> {
        let Some(plan) = self.kubectl.get(INSTALL_PLANS, name)? else {
            return Ok(format!("the InstallPlan {name} is gone"));
        };
        let failed = plan.items("/status/conditions").iter().find(|it| it["status"] == "False");
        let message = failed.and_then(|it| it["message"].as_str()).unwrap_or_default();
        match plan.text("/status/phase") {
            "Failed" => Err(self.failed(&plan, message)),
            phase => Ok(format!("the InstallPlan is {phase} {message}").trim().to_owned()),
        }
    }

    fn failed(&self, object: &Object, reason: &str) -> anyhow::Error {
        let message = match object.text("/status/message") {
            "" => reason,
            message => message,
        };
        let namespace = &self.kubectl.namespace;
        let kind = object.kind().to_lowercase();
        UserError::failure(format!("{} failed: {message}", object.title()))
            .with_hint(format!("see `kubectl -n {namespace} describe {kind} {}`", object.name()))
            .into()
    }

    /// What a ClusterServiceVersion is waiting for: its phase, or what its pods say.
    fn csv_state(&self, csv: &Object, phase: &str) -> Result<String> {
        let message = csv.text("/status/message");
        if phase != "Installing" {
            let missing = csv.items("/status/requirementStatus").iter();
            let missing = missing.filter(|it| it["status"] != "Present").filter_map(|it| {
                Some(format!(
                    "{} {}: {}",
                    it["kind"].as_str()?,
                    it["name"].as_str()?,
                    it["status"].as_str()?
                ))
            });
            let missing: Vec<String> = missing.collect();
            return Ok(match (phase, missing.as_slice()) {
                ("", _) => "OLM has not begun".to_owned(),
                (_, []) => format!("{phase}: {message}"),
                _ => format!("{phase}: {}", missing.join(", ")),
            });
        }
        let pods = self.kubectl.list("pods", &[])?;
        let deployments = csv.items("/spec/install/spec/deployments");
        let names: Vec<&str> = deployments.iter().filter_map(|it| it["name"].as_str()).collect();
        let of_operator = |pod: &&Object| names.iter().any(|name| pod.name().starts_with(name));
        let waiting = pods.iter().filter(of_operator).find(|pod| !is_ready(pod));
        Ok(match waiting {
            Some(pod) => format!("pod {}: {}", pod.name(), pod_state(pod)),
            None => format!("{phase}: {message}"),
        })
    }
}

fn operator_group(namespace: &str, mode: &InstallMode) -> Value {
    let mut group = json!({
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {
            "name": OPERATOR_GROUP,
            "namespace": namespace,
            "labels": { MANAGED: OPCTL },
        },
        "spec": {},
    });
    let targets = mode.targets(namespace);
    if !targets.is_empty() {
        group["spec"]["targetNamespaces"] = json!(targets);
    }
    group
}

/// The operators in a plan.
fn clusterserviceversions(plan: &Object) -> impl Iterator<Item = &str> {
    plan.items("/spec/clusterServiceVersionNames").iter().filter_map(Value::as_str)
}

/// Why OLM has not made a plan for a Subscription.
fn subscription_state(subscription: &Object) -> String {
    let conditions = subscription.items("/status/conditions").iter();
    let problems = conditions.filter(|it| {
        let is_problem = it["type"].as_str().is_some_and(|kind| {
            ["ResolutionFailed", "BundleUnpackFailed", "BundleUnpacking"].contains(&kind)
        });
        is_problem && it["status"] == "True"
    });
    let messages: Vec<&str> = problems.filter_map(|it| it["message"].as_str()).collect();
    match messages.as_slice() {
        [] => "OLM resolves the Subscription".to_owned(),
        messages => messages.join("; "),
    }
}
