//! Makes a bundle of the manifests of an operator.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::csv::Csv;
use super::images;
use super::metadata::Annotations;
use super::object::Object;
use super::permissions;
use super::sorted::Sorted;
use super::webhooks::Servers;
use super::{MARK, owned};
use crate::error::UserError;
use crate::package::image;
use crate::project::{LAYOUT, VERSION};
use crate::sync::Output;

/// The Dockerfile of a bundle.
const DOCKERFILE: &str = "bundle.Dockerfile";

/// The directory of the ClusterServiceVersion that the user writes.
pub const CSV_DIRECTORY: &str = "config/manifests/bases";

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
    csv.set_version(&request.package, &version(request, &csv)?);
    let namespace = sorted.namespace();
    sorted.suggest_namespace(&namespace, &mut csv, &mut bundle.warnings);
    let accounts = sorted.accounts(&request.extra_accounts)?;
    let permissions = permissions::fold(sorted.rbac, &accounts, &namespace);
    bundle.warnings.extend(permissions.warnings);

    let is_crd = |object: &Object| object.kind() == "CustomResourceDefinition";
    let (crds, others): (Vec<_>, Vec<_>) = sorted.others.into_iter().partition(is_crd);
    let crds: Vec<&Object> = crds.iter().collect();
    let (examples, others) = owned::examples(others, &crds);
    let rules: Vec<&Value> = permissions.namespaced.iter().chain(&permissions.cluster).collect();
    let written = std::mem::take(&mut csv.spec.customresourcedefinitions.owned);
    let entries = owned::entries(&written, &crds, &rules);
    for gone in owned::unknown(&written, &entries) {
        let warning = format!("{} {} is left out: no CRD serves it", gone.name, gone.version);
        bundle.warnings.push(warning);
    }
    let services = others.iter().filter(|object| object.is("", "Service")).collect();
    let servers = Servers { deployments: &sorted.deployments, services };
    let webhooks = servers.webhooks(&sorted.webhooks, &crds)?;
    bundle.warnings.extend(webhooks.warnings);

    csv.annotate("alm-examples", format!("{:#}", json!(examples)));
    csv.annotate("operators.operatorframework.io/builder", format!("opctl-v{VERSION}"));
    csv.annotate("operators.operatorframework.io/project_layout", LAYOUT);
    csv.spec.customresourcedefinitions.owned = entries;
    csv.spec.webhookdefinitions = webhooks.definitions;
    csv.spec.related_images =
        images::related(&csv.spec.related_images, &sorted.deployments, &examples)?;
    csv.spec.install.strategy = "deployment".to_owned();
    csv.spec.install.spec.deployments = sorted.deployments.iter().map(deployment).collect();
    csv.spec.install.spec.permissions = permissions.namespaced;
    csv.spec.install.spec.cluster_permissions = permissions.cluster;

    let objects: Vec<Object> =
        crds.into_iter().cloned().chain(permissions.objects).chain(others).collect();
    for deployment in &sorted.deployments {
        bundle.warnings.extend(missing_volumes(deployment, &objects));
    }
    csv.metadata.name.clone_into(&mut bundle.name);
    let file = format!("{}.clusterserviceversion.yaml", request.package);
    bundle.manifests.insert(file, to_yaml(&csv.to_object()?)?);
    for object in objects {
        bundle.add(object, &namespace)?;
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
    /// Adds the file of an object, unless a bundle cannot have it.
    fn add(&mut self, object: Object, namespace: &str) -> Result<()> {
        if !SUPPORTED.contains(&object.kind()) {
            self.warnings.push(left_out(&object));
            return Ok(());
        }
        let title = object.title();
        let other = object.namespace();
        if !other.is_empty() && other != namespace {
            self.warnings.push(format!(
                "{title} is of the namespace {other}: OLM creates it in that of the operator"
            ));
        }
        let object = object.without_cluster();
        let text = to_yaml(&object)?;
        match self.manifests.insert(file_name(&object), text.clone()) {
            Some(old) if old != text => {
                Err(UserError::failure(format!("there are two manifests of {title}")).into())
            }
            _ => Ok(()),
        }
    }

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
            let directories = ["manifests", "tests/scorecard"];
            output.directories = directories.map(|name| format!("{directory}/{name}")).into();
        }
        if metadata {
            add(format!("{directory}/metadata/annotations.yaml"), self.annotations);
            add(DOCKERFILE.to_owned(), self.dockerfile);
            output.optional.push(DOCKERFILE.to_owned());
        }
        output
    }
}

/// Why an object is not in a bundle.
pub(super) fn left_out(object: &Object) -> String {
    let title = object.title();
    match object.group() {
        "cert-manager.io" => {
            format!("{title} is left out: OLM issues certificates itself, for webhooks alone")
        }
        _ => format!("{title} is left out: a bundle cannot have it"),
    }
}

/// The volumes of a deployment without which its pods do not start, and which the bundle does not have.
fn missing_volumes(deployment: &Object, objects: &[Object]) -> Vec<String> {
    let mut missing = Vec::new();
    for volume in deployment.items("/spec/template/spec/volumes") {
        for (source, name, kind) in
            [("secret", "secretName", "Secret"), ("configMap", "name", "ConfigMap")]
        {
            let source = &volume[source];
            let Some(name) = source[name].as_str().filter(|_| source["optional"] != true) else {
                continue;
            };
            let is_there = |object: &Object| object.is("", kind) && object.name() == name;
            if !objects.iter().any(is_there) {
                missing.push(format!(
                    "{} needs the {kind} {name}, which is not in the bundle: it must exist in the namespace of the operator",
                    deployment.title()
                ));
            }
        }
    }
    missing
}

/// A deployment, as a ClusterServiceVersion has it.
fn deployment(deployment: &Object) -> Value {
    let mut deployment = deployment.clone();
    for container in deployment.containers_mut() {
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
    let value = deployment.value();
    let labels = value.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    json!({ "name": deployment.name(), "label": labels, "spec": value["spec"] })
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
mod tests;
