//! The Helm chart of a project, judged by Helm: it installs what config/default deploys, brings new fields of CRDs
//! to the cluster, and takes nobody's objects away.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use assert_cmd::Command;
use serde::Deserialize;
use serde_json::Value;

use super::{Cluster, LONGEST, PARTS, Project, ok};

/// The values that the optional parts have, in the order of [`PARTS`].
const VALUES: [&str; PARTS.len()] =
    ["availability", "networkPolicy", "prometheus", "certManager", "grafana"];

/// The labels that Helm's conventions add, and `managed-by`, which tells who deploys.
const LABELS: [&str; 4] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];

/// Compiles Helm, with the Go that the control plane is built with.
pub fn helm() -> Command {
    static BINARY: OnceLock<std::path::PathBuf> = OnceLock::new();
    let binary = BINARY.get_or_init(|| {
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("helm");
        let mut go = std::process::Command::new("go");
        go.args(["build", "-buildvcs=false", "-mod=readonly", "-trimpath", "-o"]).arg(&binary);
        go.arg("helm.sh/helm/v4/cmd/helm").env("CGO_ENABLED", "0");
        go.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/deploy/helm"));
        let output = go.output().expect("Go, with which the control plane is built, too");
        assert!(output.status.success(), "{output:?}");
        binary
    });
    Command::new(binary)
}

/// Objects by kind and name.
type Objects = BTreeMap<String, Value>;

/// The objects of a stream of documents, without what tells who deploys them.
fn objects(yaml: &str) -> Objects {
    let documents = serde_yaml::Deserializer::from_str(yaml);
    let objects = documents.filter_map(|document| {
        let mut object = Value::deserialize(document).unwrap();
        let kind = object.get("kind")?.as_str().unwrap().to_owned();
        let metadata = &mut object["metadata"];
        remove(metadata, "labels", &LABELS);
        remove(metadata, "annotations", &["helm.sh/resource-policy"]);
        let key = format!("{kind}/{}", metadata["name"].as_str().unwrap());
        normalize(&mut object);
        Some((key, object))
    });
    objects.collect()
}

fn remove(metadata: &mut Value, field: &str, keys: &[&str]) {
    let Some(map) = metadata[field].as_object_mut() else {
        metadata.as_object_mut().unwrap().remove(field);
        return;
    };
    map.retain(|key, _| !keys.contains(&key.as_str()));
    if map.is_empty() {
        metadata.as_object_mut().unwrap().remove(field);
    }
}

/// 1 and 1.0 are one number.
fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) => *value = number.as_f64().unwrap().into(),
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(fields) => fields.values_mut().for_each(normalize),
        _ => {}
    }
}

impl Project {
    /// One with a chart.
    fn with_chart(self) -> Self {
        ok(super::opctl(self.directory.path()).args(["generate", "helm"]));
        self
    }

    /// What `make build-installer` writes, but for the namespace, which Helm creates (`--create-namespace`).
    fn installer(&self) -> Objects {
        let mut make = Command::new("make");
        ok(make.current_dir(self.directory.path()).arg("build-installer"));
        let mut objects = objects(&self.text("dist/install.yaml"));
        objects.remove(&format!("Namespace/{}", self.namespace())).unwrap();
        objects
    }

    /// What the chart installs with these values in a release of the operator's name.
    fn templated(&self, values: &[String]) -> Objects {
        let mut helm = helm();
        helm.current_dir(self.directory.path()).args(["template", self.name, "chart"]);
        helm.args(["--namespace", &self.namespace()]).args(values);
        objects(&ok(&mut helm))
    }

    fn same(&self, values: &[String], what: &str) {
        let (expected, actual) = (self.installer(), self.templated(values));
        let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&actual), names(&expected), "{what}");
        for (name, object) in &expected {
            assert_eq!(&actual[name], object, "{what}: {name}");
        }
    }

    fn helm(&self, arguments: &[&str]) -> Command {
        let mut helm = helm();
        helm.current_dir(self.directory.path()).args(arguments);
        helm
    }
}

#[test]
fn the_chart_installs_what_config_default_deploys() {
    for (name, flags) in [("memcached-operator", &[] as &[&str]), (LONGEST, &["--namespaced"])] {
        let project = Project::new(name, flags).with_chart();
        ok(&mut project.helm(&["lint", "--strict", "chart"]));
        project.same(&[], "without parts");
        for (part, value) in PARTS.into_iter().zip(VALUES) {
            project.switch(&[part]);
            project.same(&[], part);
            project.switch(&[]);
            let off = project.templated(&[]);
            let on = project.templated(&["--set".to_owned(), format!("{value}.enabled=true")]);
            assert!(on != off, "{value}");
        }
        project.switch(&PARTS);
        project.same(&[], "with all parts");

        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let image = format!("localhost:5000/a/operator@{digest}");
        ok(super::opctl(project.directory.path()).args(["image", "pin", &image]));
        project.same(&[], "with a pinned image");
        let deployment = &project.templated(&[])[&format!("Deployment/{name}-controller-manager")];
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], Value::String(image));

        let without = project.templated(&["--set".to_owned(), "crds.enabled=false".to_owned()]);
        assert!(without.keys().all(|name| !name.starts_with("CustomResourceDefinition/")));
    }
}

#[test]
fn every_name_and_a_project_without_an_api_have_a_chart() {
    for name in ["true", "on", "null", "x", LONGEST] {
        let project = Project::bare(name, &[]).with_chart();
        project.switch(&PARTS);
        project.same(&[], name);
        ok(&mut project.helm(&["lint", "--strict", "chart"]));
    }
}

#[test]
fn names_of_releases_are_those_of_their_objects() {
    let project = Project::new("memcached-operator", &[]).with_chart();
    project.switch(&PARTS);
    let longest = "a".repeat(53);
    let mut deployments = Vec::new();
    for release in ["memcached-operator", "a", "0", "team-a-memcached-operator", &longest] {
        let template = ["template", release, "chart", "--namespace", "shared"];
        let objects = objects(&ok(&mut project.helm(&template)));
        for (name, object) in &objects {
            let short = object["metadata"]["name"].as_str().unwrap();
            let is_namespaced = !object["metadata"]["namespace"].is_null();
            assert!(!is_namespaced || object["metadata"]["namespace"] == "shared", "{name}");
            assert!(!is_namespaced || short.len() <= 63, "{name}");
            let names = object.to_string();
            assert!(!names.contains("memcached-operator-system"), "{name}: {names}");
        }
        deployments.extend(objects.into_keys().filter(|name| name.starts_with("Deployment/")));
    }
    deployments.sort();
    deployments.dedup();
    assert_eq!(deployments.len(), 5, "{deployments:?}");
}

#[test]
fn values_that_mean_nothing_are_refused() {
    let project = Project::new("memcached-operator", &[]).with_chart();
    for (value, error) in [
        ("metrics.enable=true", "enable"),
        ("image.digest=v1", "digest"),
        ("availability.replicas=two", "replicas"),
        (
            "certManager.enabled=true,metrics.enabled=false",
            "certManager.enabled needs metrics.enabled",
        ),
        (
            "prometheus.enabled=true,metrics.enabled=false",
            "prometheus.enabled needs metrics.enabled",
        ),
    ] {
        let refused = project.helm(&["template", "chart", "--set", value]).assert().failure();
        let output = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(output.contains(error), "{value}: {output}");
    }
}

#[test]
fn a_release_upgrades_crds_and_leaves_them_with_their_objects() {
    let cluster = Cluster::start();
    let project = Project::new("memcached-operator", &[]).with_chart();
    let namespace = project.namespace();
    let helm = helm().get_program().to_str().unwrap().to_owned();
    let release = ["memcached-operator", "chart", "--namespace", &namespace];
    let upgrade = [&[&*helm, "upgrade", "--install", "--create-namespace", "--wait"], &release[..]];
    let upgrade = || ok(&mut cluster.run(&project, &upgrade.concat()));
    let notes = upgrade();
    assert!(notes.contains("kubectl get memcacheds.cache.example.com --all-namespaces"), "{notes}");
    cluster.deployed(&project, 1);
    cluster.kubectl(&project, &["apply", "--server-side", "-k", "config/samples"]);

    // Helm waits for the pods, and these crash.
    let crash = ["--set-string", "podLabels.opctl/pods=crash", "--timeout", "10s"];
    let crashing = [&[&*helm, "upgrade", "--wait"], &release[..], &crash].concat();
    let error = cluster.run(&project, &crashing).assert().failure();
    let error = String::from_utf8_lossy(&error.get_output().stderr).into_owned();
    assert!(error.contains("memcached-operator-controller-manager"), "{error}");

    // What `make manifests` does after a new field in the code.
    let field = "              size:\n";
    for path in ["config/crd/bases", "chart/files/crd/bases"] {
        let path = format!("{path}/cache.example.com_memcacheds.yaml");
        let crd = project.text(&path);
        assert!(crd.contains(field), "{crd}");
        let new = format!("              extra:\n                type: string\n{field}");
        fs::write(project.directory.path().join(&path), crd.replace(field, &new)).unwrap();
    }
    upgrade();
    let path =
        "jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.extra.type}";
    let crd = ["get", "crd", "memcacheds.cache.example.com", "-o", path];
    assert_eq!(cluster.kubectl(&project, &crd), "string");

    let uninstall =
        [&*helm, "uninstall", "memcached-operator", "--namespace", &namespace, "--wait"];
    ok(&mut cluster.run(&project, &uninstall));
    let deployments = ["-n", &namespace, "get", "deployments,serviceaccounts", "-o", "name"];
    let rest = cluster.kubectl(&project, &deployments);
    assert_eq!(rest, "serviceaccount/default\n");
    let memcacheds = cluster.kubectl(&project, &["get", "memcacheds", "-o", "name"]);
    assert_eq!(memcacheds, "memcached.cache.example.com/memcached-sample\n");

    // The same release takes the CRDs that it left.
    upgrade();
    cluster.deployed(&project, 1);
}
