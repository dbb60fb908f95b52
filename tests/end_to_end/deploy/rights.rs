//! The installer, the chart and the bundle of a project deploy the same operator with the same rights.

use std::collections::BTreeSet;
use std::fs;

use assert_cmd::cargo::cargo_bin;
use serde::Deserialize;
use serde_json::{Value, json};

use super::chart::helm;
use super::{Cluster, Project, ok, opctl};
use crate::olm::installed::installed;

/// The flags that make an API of each recipe but that of Memcached.
const OTHERS: [&[&str]; 4] = [
    &["--kind", "WebServer"],
    &["--kind", "PostgresCluster"],
    &["--kind", "Box", "--image", "busybox:1.36"],
    &["--kind", "Widget"],
];

/// An image by its digest.
const IMAGE: &str = "localhost:5000/a/operator@sha256:\
    e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

impl Project {
    /// The objects that OLM makes of the bundle.
    fn olm(&self) -> String {
        let directory = self.directory.path();
        ok(opctl(directory).args(["generate", "kustomize", "manifests"]));
        // assert_cmd would pipe nothing to it, where it looks for manifests.
        let mut generate = std::process::Command::new(cargo_bin!("opctl"));
        generate.current_dir(directory).args(["generate", "bundle", "--version", "0.1.0"]);
        let output = generate.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let manifests = fs::read_dir(directory.join("bundle/manifests")).unwrap();
        let texts = manifests.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        let objects: Vec<Value> = texts.map(|text| serde_yaml::from_str(&text).unwrap()).collect();
        let items = installed(&objects, &self.namespace());
        json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
    }

    fn chart(&self) -> String {
        let mut helm = helm();
        helm.current_dir(self.directory.path()).args(["template", self.name, "chart"]);
        let chart = ok(helm.args(["--namespace", &self.namespace()]));
        // Helm creates the namespace.
        let namespace = self.namespace();
        format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n---\n{chart}")
    }
}

/// What an API server says of the operator that these manifests deploy: its image, and what it may do.
fn deployed(project: &Project, manifests: &str) -> (String, BTreeSet<String>) {
    let cluster = Cluster::start();
    fs::write(project.directory.path().join("deployed.yaml"), manifests).unwrap();
    cluster.kubectl(project, &["apply", "--server-side", "-f", "deployed.yaml"]);
    let (namespace, account) = (project.namespace(), project.object("controller-manager"));
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    let deployment = ["-n", &namespace, "get", "deployment", &account, "-o", path];
    let image = cluster.kubectl(project, &deployment);
    let user = format!("--as=system:serviceaccount:{namespace}:{account}");
    let mut rights = BTreeSet::new();
    for place in [&namespace, "default"] {
        let list = cluster.kubectl(project, &["auth", "can-i", "--list", "-n", place, &user]);
        rights.extend(list.lines().map(|line| format!("{place}: {line}")));
    }
    (image, rights)
}

/// The rules of the roles that are bound to the operator, which `opctl audit` compares with its requests.
fn roles(manifests: &str, account: &str) -> BTreeSet<String> {
    let documents = serde_yaml::Deserializer::from_str(manifests);
    let mut objects = Vec::new();
    for document in documents {
        match Value::deserialize(document).unwrap() {
            Value::Object(mut list) if list["kind"] == "List" => {
                objects.extend(list["items"].take().as_array().unwrap().clone());
            }
            object => objects.push(object),
        }
    }
    let bindings = objects.iter().filter(|object| {
        object["subjects"].as_array().into_iter().flatten().any(|it| it["name"] == account)
    });
    let mut rules = BTreeSet::new();
    for binding in bindings {
        let role = objects.iter().find(|role| {
            role["kind"] == binding["roleRef"]["kind"]
                && role["metadata"]["name"] == binding["roleRef"]["name"]
        });
        let all = role.unwrap()["rules"].as_array().unwrap();
        rules.extend(all.iter().map(|rule| format!("{} {rule}", binding["kind"])));
    }
    rules
}

#[test]
fn installer_chart_and_bundle_have_the_same_image_and_the_same_rights() {
    for flags in [&[][..], &["--namespaced"]] {
        let project = Project::new("my-operator", flags);
        let directory = project.directory.path();
        for api in OTHERS {
            let create = ["create", "api", "--group", "cache", "--version", "v1alpha1"];
            ok(opctl(directory).args(create).args(api));
        }
        ok(opctl(directory).args(["generate", "helm"]));
        ok(opctl(directory).args(["image", "pin", IMAGE]));
        let all = [project.manifests(), project.chart(), project.olm()];

        let account = project.object("controller-manager");
        let [installer, chart, bundle] = all.each_ref().map(|text| roles(text, &account));
        assert!(installer.len() > 10, "{installer:?}");
        assert_eq!(chart, installer, "{flags:?}");
        assert_eq!(bundle, installer, "{flags:?}");

        let [installer, chart, bundle] = all.map(|text| deployed(&project, &text));
        assert_eq!(installer.0, IMAGE);
        assert!(installer.1.iter().any(|line| line.contains("statefulsets.apps ")));
        assert_eq!(chart, installer, "{flags:?}");
        assert_eq!(bundle, installer, "{flags:?}");
    }
}
