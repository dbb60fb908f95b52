//! Plays the part of OLM v0 as far as opctl sees it: the real CRDs of OLM, and what its operators write to the objects.
//! It resolves nothing, pulls no images and checks no permissions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::api::Patch;
use serde_json::{Value, json};

use crate::operator::client::Client;

/// The CRDs of OLM, from the module that its operators are compiled with.
pub fn crds() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/olm");
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", "github.com/operator-framework/api"]);
    let output = download.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let module: Value = serde_json::from_slice(&output.stdout).unwrap();
    let crds = std::fs::read_dir(Path::new(module["Dir"].as_str().unwrap()).join("crds")).unwrap();
    let mut crds: Vec<PathBuf> = crds.map(|entry| entry.unwrap().path()).collect();
    crds.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    crds.sort();
    assert_eq!(crds.len(), 8);
    crds
}

/// OLM on a cluster, until it is dropped.
pub struct PlayedOlm {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PlayedOlm {
    /// Begins to play. `kubeconfig` is that of the cluster.
    pub fn start(kubeconfig: &str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let player = Player(Client::new(kubeconfig.as_ref()));
        let end = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                // The command under test deletes objects meanwhile.
                let _ = player.turn();
                thread::sleep(Duration::from_millis(300));
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for PlayedOlm {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The manifests of bundles, by the names of their ClusterServiceVersions.
type Bundles = BTreeMap<String, Vec<Value>>;

struct Player(Client);

impl Player {
    fn list(&self, resource: &str) -> Option<Vec<Value>> {
        let list = self.0.get(&[resource, "-A"]).ok()?;
        Some(list["items"].as_array().unwrap().clone())
    }

    fn set_status(&self, resource: &str, object: &Value, status: &Value) -> Option<()> {
        let patch = json!({ "status": status });
        let (namespace, name) = (text(&object["metadata"]["namespace"]), name(object));
        let status = ["-n", namespace, resource, name, "--subresource=status"];
        self.0.patch(&status, &Patch::Merge(&patch)).ok()
    }

    fn turn(&self) -> Option<()> {
        for source in self.list("catalogsources.operators.coreos.com")? {
            let address = &source["spec"]["address"];
            if source["status"]["connectionState"]["address"] != *address {
                let connection = json!({ "address": address, "lastObservedState": "READY" });
                let status = json!({ "connectionState": connection });
                self.set_status("catalogsources.operators.coreos.com", &source, &status)?;
            }
        }
        for subscription in self.list("subscriptions.operators.coreos.com")? {
            self.follow(&subscription)?;
        }
        for csv in self.list("clusterserviceversions.operators.coreos.com")? {
            if csv["status"]["phase"] != "Succeeded" {
                let status = json!({ "phase": "Succeeded", "reason": "InstallSucceeded" });
                self.set_status("clusterserviceversions.operators.coreos.com", &csv, &status)?;
            }
        }
        Some(())
    }

    /// Makes a plan for the last version in the channel, and installs it once it is approved.
    fn follow(&self, subscription: &Value) -> Option<()> {
        let namespace = text(&subscription["metadata"]["namespace"]);
        let (entries, bundles) = self.catalog(namespace)?;
        let head = text(&entries.last()?["name"]).to_owned();
        let plan = format!("install-{}", head.replace('.', "-"));
        if subscription["status"]["currentCSV"] != head.as_str() {
            let _ = self.0.create(&json!({
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "InstallPlan",
                "metadata": { "name": plan, "namespace": namespace },
                "spec": { "approval": "Manual", "approved": false, "clusterServiceVersionNames": [head] },
            }));
            let status = json!({
                "currentCSV": head,
                "installPlanRef": { "name": plan, "namespace": namespace },
                "lastUpdated": "2026-01-01T00:00:00Z",
            });
            return self.set_status("subscriptions.operators.coreos.com", subscription, &status);
        }
        if subscription["status"]["installedCSV"] == head.as_str() {
            return Some(());
        }
        let plan = self.0.get(&["-n", namespace, "installplans", &plan]).ok()?;
        if plan["spec"]["approved"] != true {
            return Some(());
        }
        for object in bundles.get(&head)? {
            let mut object = object.clone();
            object["metadata"]["namespace"] = namespace.into();
            let _ = self.0.create(&object);
        }
        if let Some(old) = entries.last()?["replaces"].as_str() {
            let _ = self.0.delete(&["-n", namespace, "clusterserviceversions", old]);
        }
        let status = json!({ "installedCSV": head });
        self.set_status("subscriptions.operators.coreos.com", subscription, &status)
    }

    /// The channel of the catalog in a namespace, and the manifests of its bundles.
    fn catalog(&self, namespace: &str) -> Option<(Vec<Value>, Bundles)> {
        let mut channel = Vec::new();
        let mut bundles = BTreeMap::new();
        for map in self.list("configmaps")? {
            if map["metadata"]["namespace"] != namespace || map["data"]["bundle.json"].is_null() {
                continue;
            }
            let documents = text(&map["data"]["catalog.json"]).lines();
            let mut documents = documents.map(|line| serde_json::from_str::<Value>(line).unwrap());
            let of_map = documents.find(|it| it["schema"] == "olm.channel").unwrap();
            let of_map = of_map["entries"].as_array().unwrap().clone();
            if of_map.len() > channel.len() {
                channel = of_map;
            }
            let bundle: Value = serde_json::from_str(text(&map["data"]["bundle.json"])).unwrap();
            bundles.insert(name_of_bundle(&bundle), objects(&bundle));
        }
        Some((channel, bundles))
    }
}

fn name_of_bundle(bundle: &Value) -> String {
    text(&bundle["name"]).to_owned()
}

/// The manifests in a bundle.
fn objects(bundle: &Value) -> Vec<Value> {
    let properties = bundle["properties"].as_array().unwrap().iter();
    let objects = properties.filter(|property| property["type"] == "olm.bundle.object");
    let decode = |property: &Value| {
        let bytes = BASE64_STANDARD.decode(text(&property["value"]["data"])).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    objects.map(decode).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}
