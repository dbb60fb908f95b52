//! Makes a bundle of the manifests of an operator.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::{Value, json};

use super::csv::{self, Csv};
use super::images;
use super::metadata::Annotations;
use super::object::Object;
use super::permissions::{self, is_rbac};
use super::webhooks::{self, Servers};
use super::{MARK, owned};
use crate::error::UserError;
use crate::package::image;
use crate::project::{LAYOUT, VERSION};
use crate::sync::Output;

/// The directory of the ClusterServiceVersion that the user writes.
pub const CSV_DIRECTORY: &str = "config/manifests/bases";

/// The service account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// The kinds that a bundle may have besides a ClusterServiceVersion
/// (<https://olm.operatorframework.io/docs/tasks/creating-operator-manifests/>).
pub const SUPPORTED: [&str; 21] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "CustomResourceDefinition",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PodMonitor",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];

/// A request for a bundle.
#[derive(Debug, Clone, Default)]
pub struct BundleRequest {
    /// The name of the package.
    pub package: String,
    /// The version of the operator; that of the user's ClusterServiceVersion if `None`.
    pub version: Option<String>,
    /// The channels, separated by commas; those of `annotations` if `None`.
    pub channels: Option<String>,
    /// The default channel; that of `annotations` if `None`.
    pub default_channel: Option<String>,
    /// Service accounts whose permissions are folded besides those of the deployments.
    pub extra_accounts: Vec<String>,
    /// The annotations of an older bundle.
    pub annotations: Annotations,
    /// The directory of the bundle, seen from where its image is built.
    pub directory: String,
    /// Whether to replace the tags of images by the digests that their registries know.
    pub pins_images: bool,
}

/// A bundle.
#[derive(Debug, Default)]
pub struct Bundle {
    /// The name and the version.
    pub name: String,
    /// The files of `manifests`, by name.
    pub manifests: BTreeMap<String, String>,
    /// The tests of the scorecard, if there are any.
    pub tests: Option<String>,
    /// `metadata/annotations.yaml`.
    pub annotations: String,
    /// `bundle.Dockerfile`.
    pub dockerfile: String,
    /// What is not as the manifests say.
    pub warnings: Vec<String>,
}

/// The objects of an operator, by what becomes of them.
#[derive(Debug, Default)]
struct Sorted {
    csvs: Vec<Object>,
    deployments: Vec<Object>,
    rbac: Vec<Object>,
    webhooks: Vec<Object>,
    tests: Vec<Object>,
    namespaces: Vec<Object>,
    others: Vec<Object>,
}

/// Makes a bundle of these objects, among which is the user's ClusterServiceVersion.
///
/// # Errors
/// A [`UserError`] if the objects do not make an operator.
pub fn generate(objects: Vec<Object>, request: &BundleRequest) -> Result<Bundle> {
    let mut sorted = Sorted::new(objects);
    let mut bundle = Bundle::default();
    let mut csv = sorted.csv(&request.package)?;
    if request.pins_images {
        for deployment in &mut sorted.deployments {
            images::pin(deployment, &image::pinned)?;
        }
    }
    let version = version(request, &csv)?;
    csv.set_version(&request.package, &version);
    csv.metadata
        .annotations
        .insert("operators.operatorframework.io/builder".to_owned(), format!("opctl-v{VERSION}"));
    csv.metadata
        .annotations
        .insert("operators.operatorframework.io/project_layout".to_owned(), LAYOUT.to_owned());

    let is_crd = |object: &Object| object.kind() == "CustomResourceDefinition";
    let (crds, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut sorted.others).into_iter().partition(is_crd);
    let crds: Vec<&Object> = crds.iter().collect();
    let (examples, others) = owned::examples(others, &crds);
    csv.metadata.annotations.insert("alm-examples".to_owned(), format!("{:#}", json!(examples)));
    let namespace = sorted.namespace();
    sorted.suggest_namespace(&namespace, &mut csv, &mut bundle.warnings);
    let accounts = sorted.accounts(&request.extra_accounts);
    let permissions = permissions::fold(sorted.rbac, &accounts, &namespace);
    bundle.warnings.extend(permissions.warnings);
    csv.spec.install.strategy = "deployment".to_owned();
    csv.spec.install.spec.permissions = permissions.namespaced;
    csv.spec.install.spec.cluster_permissions = permissions.cluster;

    let strategy = &csv.spec.install.spec;
    let rules =
        strategy.permissions.iter().chain(&strategy.cluster_permissions).collect::<Vec<_>>();
    let written = std::mem::take(&mut csv.spec.customresourcedefinitions.owned);
    csv.spec.customresourcedefinitions.owned = owned::entries(&written, &crds, &rules);
    for gone in owned::unknown(&written, &csv.spec.customresourcedefinitions.owned) {
        let warning = format!("{} {} is left out: no CRD serves it", gone.name, gone.version);
        bundle.warnings.push(warning);
    }

    let services = others.iter().filter(|object| object.is("", "Service")).collect();
    let servers = Servers { deployments: &sorted.deployments, services };
    let webhooks = servers.webhooks(&sorted.webhooks, &crds)?;
    bundle.warnings.extend(webhooks.warnings);
    csv.spec.webhookdefinitions = webhooks.definitions;
    csv.spec.related_images =
        images::related(&csv.spec.related_images, &sorted.deployments, &examples)?;
    csv.spec.install.spec.deployments = sorted.deployments.iter().map(deployment).collect();

    let (supported, refused): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|object| SUPPORTED.contains(&object.kind()));
    bundle.warnings.extend(refused.iter().map(left_out));
    csv.metadata.name.clone_into(&mut bundle.name);
    let file = format!("{}.clusterserviceversion.yaml", request.package);
    bundle.manifests.insert(file, to_yaml(&csv.to_object()?)?);
    let objects = crds.into_iter().cloned().chain(permissions.objects).chain(supported);
    for object in objects.map(Object::without_cluster) {
        let text = to_yaml(&object)?;
        if bundle.manifests.insert(file_name(&object), text.clone()).is_some_and(|old| old != text)
        {
            let title = object.title();
            return Err(UserError::failure(format!("there are two manifests of {title}")).into());
        }
    }
    bundle.tests = sorted.tests.first().map(to_yaml).transpose()?;
    let mut annotations = request.annotations.clone();
    let (channels, default) = (request.channels.as_deref(), request.default_channel.as_deref());
    annotations.update(&request.package, channels, default, bundle.tests.is_some());
    bundle.annotations = annotations.to_yaml()?;
    bundle.dockerfile = annotations.dockerfile(&request.directory);
    Ok(bundle)
}

impl Bundle {
    /// The files of the bundle in a directory of the project. Its Dockerfile is beside the directory.
    pub fn output(
        self,
        mut output: Output,
        directory: &str,
        manifests: bool,
        metadata: bool,
    ) -> Output {
        let mut add = |path: String, text: String| output.files.insert(path, text);
        if manifests {
            for (name, text) in self.manifests {
                add(format!("{directory}/manifests/{name}"), text);
            }
            if let Some(tests) = self.tests {
                add(format!("{directory}/tests/scorecard/config.yaml"), tests);
            }
        }
        if metadata {
            add(format!("{directory}/metadata/annotations.yaml"), self.annotations);
            add("bundle.Dockerfile".to_owned(), self.dockerfile);
        }
        if manifests {
            let directories = ["manifests", "tests/scorecard"];
            output.directories = directories.map(|name| format!("{directory}/{name}")).into();
        }
        output
    }
}

impl Sorted {
    fn new(objects: Vec<Object>) -> Self {
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
    fn csv(&mut self, package: &str) -> Result<Csv, UserError> {
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
    fn namespace(&self) -> String {
        self.deployments.first().map(Object::namespace).unwrap_or_default().to_owned()
    }

    /// The service accounts of the operator.
    fn accounts(&self, extra: &[String]) -> BTreeSet<String> {
        let pods = self.deployments.iter();
        let account = |pod: &Object| match pod.text("/spec/template/spec/serviceAccountName") {
            "" => DEFAULT_ACCOUNT.to_owned(),
            name => name.to_owned(),
        };
        pods.map(account).chain(extra.iter().cloned()).collect()
    }

    /// Who installs an operator chooses its namespace. Its labels are a proposal.
    fn suggest_namespace(&self, own: &str, csv: &mut Csv, warnings: &mut Vec<String>) {
        for namespace in &self.namespaces {
            if namespace.name() == own {
                let template = namespace.clone().without_cluster();
                csv.metadata.annotations.insert(
                    "operatorframework.io/suggested-namespace-template".to_owned(),
                    template.value().to_string(),
                );
            } else {
                warnings.push(left_out(namespace));
            }
        }
    }
}

/// Why an object is not in a bundle.
fn left_out(object: &Object) -> String {
    let title = object.title();
    match object.group() {
        "cert-manager.io" => {
            format!("{title} is left out: OLM issues the certificates of webhooks itself")
        }
        _ => format!("{title} is left out: a bundle cannot have it"),
    }
}

/// A deployment, as a ClusterServiceVersion has it.
fn deployment(deployment: &Object) -> Value {
    let value = deployment.value();
    let mut spec = value["spec"].clone();
    for list in ["/template/spec/containers", "/template/spec/initContainers"] {
        let containers = spec.pointer_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let variables = container.get_mut("env").and_then(Value::as_array_mut);
            for variable in variables.into_iter().flatten() {
                if variable["name"] == "WATCH_NAMESPACE" {
                    // OLM writes there what the operator is installed for.
                    let path = "metadata.annotations['olm.targetNamespaces']";
                    *variable = json!({
                        "name": "WATCH_NAMESPACE",
                        "valueFrom": { "fieldRef": { "fieldPath": path } },
                    });
                }
            }
        }
    }
    let labels = value.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    json!({ "name": deployment.name(), "label": labels, "spec": spec })
}

/// The version of the operator.
fn version(request: &BundleRequest, csv: &Csv) -> Result<String, UserError> {
    let (version, name) = match &request.version {
        Some(version) => (version, "--version <VERSION>"),
        None => (&csv.spec.version, "spec.version of the ClusterServiceVersion"),
    };
    match semver::Version::parse(version) {
        Ok(_) => Ok(version.clone()),
        Err(error) => Err(UserError::invalid_value(name, version, error)
            .with_hint("name the version, such as `--version 0.1.0`")),
    }
}

/// The name of the file of an object.
fn file_name(object: &Object) -> String {
    let name = object.name().replace(':', "-");
    if object.kind() == "CustomResourceDefinition" {
        let (plural, group) = name.split_once('.').unwrap_or((&name, ""));
        return format!("{group}_{plural}.yaml");
    }
    let kind = object.kind().to_lowercase();
    match (object.group(), object.version()) {
        ("", version) => format!("{name}_{version}_{kind}.yaml"),
        (group, version) => format!("{name}_{group}_{version}_{kind}.yaml"),
    }
}

/// The text of an object, with its keys in order.
fn to_yaml(object: &Object) -> Result<String> {
    let mut value = object.value().clone();
    value.sort_all_objects();
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    Ok(format!("{MARK}{}", serde_saphyr::to_string_with_options(&value, options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_texts_for_readers_of_yaml_1_1() {
        let texts =
            ["y", "No", "on", "OFF", "True", "null", "~", "1_000", "0x1f", "010", "0o7", "1e3"];
        let dates = ["1:30", "2001-01-01", ".5", "+1", ".inf", "NaN", "=", "<<", ""];
        for text in texts.into_iter().chain(dates) {
            let yaml = to_yaml(&Object::new(json!({ "key": text }))).unwrap();
            assert_eq!(yaml, format!("{MARK}key: \"{text}\"\n"));
        }
    }
}
