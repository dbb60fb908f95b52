//! The registry of a catalog: a pod with opm, which serves the catalog from ConfigMaps.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bundle::RunBundle;
use super::catalog::{self, Entry};
use super::kubectl::Kubectl;
use super::wait::{Deadline, Progress};
use super::{MANAGED, OPCTL, PACKAGE, name_of};
use crate::error::UserError;
use crate::package::olm::{Object, csv};

/// The CatalogSources of OLM.
pub const CATALOG_SOURCES: &str = "catalogsources.v1alpha1.operators.coreos.com";

/// The annotation of a CatalogSource with the settings of its registry.
const SETTINGS: &str = "opctl/registry";
/// The annotation of a CatalogSource with the name of its pod and of the ConfigMap with its channel.
const REVISION: &str = "opctl/revision";

/// The keys of a ConfigMap.
const CATALOG_KEY: &str = "catalog.json";
const BUNDLE_KEY: &str = "bundle.json";

/// Where images of catalogs keep theirs, which is served too.
const CONFIGS: &str = "/configs";
/// The port of opm.
const PORT: u16 = 50051;
/// What fits into a ConfigMap, in bytes, with room for its metadata.
const MAX_SIZE: usize = 1_000_000;

/// How the pod is run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySettings {
    /// The image with opm.
    pub index_image: String,
    /// The service account, if it is not the default one.
    pub service_account: Option<String>,
    /// When its node pulls the image.
    pub pull_policy: String,
    /// Whether it keeps the restricted Pod Security Standard.
    pub is_restricted: bool,
}

/// A registry for a package.
pub struct Registry<'a> {
    /// The cluster, and the namespace of the registry.
    pub kubectl: &'a Kubectl,
    /// When to give up.
    pub deadline: Deadline,
    /// How its pod is run.
    pub settings: RegistrySettings,
}

/// The name of the catalog of a package.
pub fn catalog_name(package: &str) -> String {
    format!("{package}-catalog")
}

impl Registry<'_> {
    /// Creates a catalog with one bundle.
    ///
    /// # Errors
    /// If a part of it cannot be created, or if the pod does not run in time.
    pub fn create(&self, bundle: &RunBundle, secrets: &[String]) -> Result<()> {
        let entries = catalog::upgraded(Vec::new(), bundle.name());
        let revision = revision(bundle);
        let address = self.serve(bundle, &[], &entries, None)?;
        let context = if self.settings.is_restricted { "restricted" } else { "legacy" };
        let source = json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "CatalogSource",
            "metadata": self.metadata(&catalog_name(&bundle.package), &bundle.package, json!({
                SETTINGS: serde_json::to_string(&self.settings)?,
                REVISION: revision,
            })),
            "spec": {
                "sourceType": "grpc",
                "address": address,
                "displayName": bundle.package,
                "publisher": OPCTL,
                "secrets": secrets,
                "grpcPodConfig": { "securityContextConfig": context },
            },
        });
        let source = self.kubectl.create(&source)?;
        // From now on, the garbage collector deletes the parts with the catalog.
        let owned = json!({ "metadata": { "ownerReferences": [owner(&source)] } });
        self.kubectl.patch("configmaps", &revision, &owned)?;
        self.kubectl.patch("pods", &revision, &owned)
    }

    /// Adds a bundle to a catalog that [`Registry::create`] has created, as the upgrade of the last one.
    ///
    /// # Errors
    /// If a part of it cannot be created, or if the pod does not run in time.
    pub fn upgrade(&self, bundle: &RunBundle, source: &Object, secrets: &[String]) -> Result<()> {
        let old = source.annotation(REVISION).context("a catalog without a revision")?.to_owned();
        let stored = self.kubectl.get("configmaps", &old)?;
        let stored = stored.as_ref().and_then(|map| map.value()["data"][CATALOG_KEY].as_str());
        let Some(stored) = stored else {
            let problem = format!("the ConfigMap {old} with the catalog is gone");
            let hint = format!("install the operator again: `opctl cleanup {}`", bundle.package);
            return Err(UserError::failure(problem).with_hint(hint).into());
        };
        let entries = catalog::entries(stored)?;
        let revision = revision(bundle);
        let names = entries.iter().map(|entry| revision_of(&bundle.package, &entry.name));
        let others: Vec<String> = names.filter(|name| *name != revision).collect();
        let entries = catalog::upgraded(entries, bundle.name());
        let address = self.serve(bundle, &others, &entries, Some(source))?;

        let known = source.items("/spec/secrets").iter().filter_map(Value::as_str);
        let mut all: Vec<&str> = known.chain(secrets.iter().map(String::as_str)).collect();
        all.sort_unstable();
        all.dedup();
        let patch = json!({
            "metadata": { "annotations": { REVISION: revision } },
            "spec": { "address": address, "secrets": all },
        });
        self.kubectl.patch(CATALOG_SOURCES, source.name(), &patch)?;
        if old != revision {
            self.kubectl.delete("pods", &old)?;
        }
        Ok(())
    }

    /// The settings of the registry of a CatalogSource.
    ///
    /// # Errors
    /// A [`UserError`] if opctl has not created it.
    pub fn settings_of(source: &Object) -> Result<RegistrySettings> {
        let settings = source.annotation(SETTINGS).filter(|_| source.annotation(PACKAGE).is_some());
        let Some(settings) = settings else {
            let problem = format!("opctl has not created the CatalogSource {}", source.name());
            return Err(UserError::failure(problem)
                .with_hint("add the new version to that catalog: OLM upgrades the operator from it")
                .into());
        };
        serde_json::from_str(settings).context("the settings of the registry")
    }

    /// Runs a pod that serves these bundles, and returns its address.
    fn serve(
        &self,
        bundle: &RunBundle,
        others: &[String],
        entries: &[Entry],
        source: Option<&Object>,
    ) -> Result<String> {
        let revision = revision(bundle);
        let contents = catalog::bundle(bundle).to_string();
        if contents.len() > MAX_SIZE {
            let size = contents.len() / 1000;
            let problem = format!("the bundle has {size} KB, and a ConfigMap at most 1,000 KB");
            return Err(UserError::failure(problem)
                .with_hint("push its image, and run that: OLM pulls it then")
                .into());
        }
        let mut metadata = self.metadata(&revision, &bundle.package, json!({}));
        if let Some(source) = source {
            metadata["ownerReferences"] = json!([owner(source)]);
        }
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {
                CATALOG_KEY: catalog::package(&bundle.package, entries),
                BUNDLE_KEY: contents,
            },
        });
        self.kubectl.apply(&map)?;
        // One that is left of an attempt that failed serves other contents.
        self.kubectl.delete("pods", &revision)?;
        self.deadline.wait(&format!("deletion of pod {revision}"), || {
            Ok(match self.kubectl.get("pods", &revision)? {
                None => Progress::Done(()),
                Some(_) => Progress::Pending("it is ending".to_owned()),
            })
        })?;
        self.kubectl.create(&self.pod(metadata, &revision, others))?;
        self.deadline.wait(&format!("pod {revision}"), || {
            Ok(match self.kubectl.get("pods", &revision)? {
                Some(pod) => match (is_ready(&pod), pod.text("/status/podIP")) {
                    (true, ip) if !ip.is_empty() => Progress::Done(address(ip)),
                    _ => Progress::Pending(pod_state(&pod)),
                },
                None => Progress::Pending("it does not exist".to_owned()),
            })
        })
    }

    fn metadata(&self, name: &str, package: &str, annotations: Value) -> Value {
        let mut annotations = annotations;
        annotations[PACKAGE] = package.into();
        json!({
            "name": name,
            "namespace": self.kubectl.namespace,
            "labels": { MANAGED: OPCTL },
            "annotations": annotations,
        })
    }

    fn pod(&self, metadata: Value, revision: &str, others: &[String]) -> Value {
        let maps = others.iter().map(String::as_str).chain([revision]).enumerate();
        let volume = |(number, map): (usize, &str)| json!({ "name": format!("bundle-{number}"), "configMap": { "name": map } });
        let volumes: Vec<Value> = maps.map(volume).collect();
        // A file by its path, because the directory of a volume has each file twice.
        let mount = |number: usize, key: &str| {
            json!({
                "name": format!("bundle-{number}"),
                "mountPath": format!("{CONFIGS}/opctl-{number}/{key}"),
                "subPath": key,
            })
        };
        let mut mounts: Vec<Value> =
            (0..volumes.len()).map(|number| mount(number, BUNDLE_KEY)).collect();
        mounts.push(mount(volumes.len() - 1, CATALOG_KEY));
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "containers": [{
                    "name": "registry-grpc",
                    "image": self.settings.index_image,
                    "imagePullPolicy": self.settings.pull_policy,
                    "command": ["opm", "serve", CONFIGS, "-p", PORT.to_string()],
                    "ports": [{ "name": "grpc", "containerPort": PORT }],
                    "readinessProbe": { "grpc": { "port": PORT }, "periodSeconds": 2 },
                    "volumeMounts": mounts,
                }],
                "volumes": volumes,
            },
        });
        let spec = &mut pod["spec"];
        if let Some(account) = &self.settings.service_account {
            spec["serviceAccountName"] = account.as_str().into();
        }
        if self.settings.is_restricted {
            spec["securityContext"] =
                json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } });
            spec["containers"][0]["securityContext"] = json!({
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
            });
        }
        pod
    }
}

/// The name of the pod and the ConfigMap for a bundle.
fn revision(bundle: &RunBundle) -> String {
    revision_of(&bundle.package, bundle.name())
}

fn revision_of(package: &str, csv: &str) -> String {
    let version = csv.strip_prefix(package).unwrap_or(csv).trim_start_matches('.');
    name_of(&format!("{}-{version}", catalog_name(package)))
}

fn owner(source: &Object) -> Value {
    json!({
        "apiVersion": format!("{}/v1alpha1", csv::GROUP),
        "kind": "CatalogSource",
        "name": source.name(),
        "uid": source.text("/metadata/uid"),
    })
}

fn address(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:{PORT}") } else { format!("{ip}:{PORT}") }
}

/// Whether a pod is ready.
pub fn is_ready(pod: &Object) -> bool {
    let conditions = pod.items("/status/conditions");
    conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// Why a pod is not ready.
pub fn pod_state(pod: &Object) -> String {
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let statuses = statuses.iter().flat_map(|list| pod.items(&format!("/status/{list}")));
    for status in statuses {
        for state in ["waiting", "terminated"] {
            let state = &status["state"][state];
            if let Some(reason) = state["reason"].as_str() {
                let message = state["message"].as_str().unwrap_or_default();
                return format!("{reason} {message}").trim().to_owned();
            }
        }
    }
    let conditions = pod.items("/status/conditions");
    let failed = conditions.iter().find(|it| it["status"] == "False");
    let message = failed.and_then(|it| it["message"].as_str().filter(|text| !text.is_empty()));
    match (message, pod.text("/status/phase")) {
        (Some(message), _) => message.to_owned(),
        (None, "") => "it has no status".to_owned(),
        (None, phase) => phase.to_owned(),
    }
}
