//! Bundles of generated projects, next to what the same projects install without OLM.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

/// The flags that make an API of each recipe.
const RECIPES: [&[&str]; 5] = [
    &["--kind", "Memcached"],
    &["--kind", "WebServer"],
    &["--kind", "PostgresCluster"],
    &["--kind", "Box", "--image", "busybox:1.36"],
    &["--kind", "Widget"],
];

/// The output of a command that must succeed. Nothing is piped to it.
fn ok(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// The bundle of a project.
struct Bundle(TempDir);

impl Bundle {
    fn new(init: &[&str], apis: &[&[&str]]) -> Self {
        let bundle = Self(tempfile::tempdir().unwrap());
        let name = ["--domain", "example.com", "--project-name", "my-operator"];
        bundle.opctl(&[&["init"], &name[..], init].concat());
        for api in apis {
            let version = ["create", "api", "--group", "cache", "--version", "v1alpha1"];
            bundle.opctl(&[&version, *api].concat());
        }
        bundle.opctl(&["generate", "kustomize", "manifests"]);
        bundle
    }

    /// The output of a command that must succeed.
    fn opctl(&self, args: &[&str]) -> (String, String) {
        let mut command = Command::new(cargo_bin!("opctl"));
        let output = ok(command.current_dir(self.0.path()).args(args));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }

    fn generate(&self) -> String {
        self.opctl(&["generate", "bundle", "--version", "0.1.0"]).1
    }

    /// The objects of the bundle.
    fn objects(&self) -> Vec<Value> {
        let entries = fs::read_dir(self.0.path().join("bundle/manifests")).unwrap();
        entries
            .flat_map(|entry| parse(&fs::read_to_string(entry.unwrap().path()).unwrap()))
            .collect()
    }

    /// The objects that are installed without OLM.
    fn installer(&self) -> Vec<Value> {
        let mut kubectl = Command::new("kubectl");
        let output = ok(kubectl.current_dir(self.0.path()).args(["kustomize", "config/default"]));
        parse(&String::from_utf8(output.stdout).unwrap())
    }
}

/// The shell commands of the page about bundles.
fn documented() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/olm.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("\n```sh\n").skip(1);
    blocks.map(|block| format!("{}\n", block.split_once("\n```").unwrap().0)).collect()
}

fn parse(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text).map(|part| Value::deserialize(part).unwrap()).collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What a rule permits, an entry for each verb, in the namespace of the operator or in the cluster.
fn permitted(rule: &Value, scope: &str) -> Vec<String> {
    let mut permitted = Vec::new();
    for verb in items(&rule["verbs"]).map(text) {
        for url in items(&rule["nonResourceURLs"]).map(text) {
            permitted.push(format!("{scope}: {verb} {url}"));
        }
        for group in items(&rule["apiGroups"]).map(text) {
            for resource in items(&rule["resources"]).map(text) {
                let names = &rule["resourceNames"];
                permitted.push(format!("{scope}: {verb} {resource}.{group} {names}"));
            }
        }
    }
    permitted
}

/// What the operator may do by the roles that are bound to its service account.
fn bound(objects: &[Value]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let is_operator = |subject: &Value| subject["name"] == "my-operator-controller-manager";
    for binding in objects.iter().filter(|object| items(&object["subjects"]).any(is_operator)) {
        let role = &binding["roleRef"];
        let is_role = |object: &&Value| {
            object["kind"] == role["kind"] && object["metadata"]["name"] == role["name"]
        };
        let scope = if binding["kind"] == "RoleBinding" { "namespace" } else { "cluster" };
        let role = objects.iter().find(is_role).unwrap();
        all.extend(items(&role["rules"]).flat_map(|rule| permitted(rule, scope)));
    }
    all
}

/// What OLM permits the operator, by the ClusterServiceVersion and by the other objects.
fn granted(objects: &[Value]) -> BTreeSet<String> {
    let mut all = bound(objects);
    let csv = objects.iter().find(|object| object["kind"] == "ClusterServiceVersion").unwrap();
    for (list, scope) in [("permissions", "namespace"), ("clusterPermissions", "cluster")] {
        for entry in items(&csv["spec"]["install"]["spec"][list]) {
            assert_eq!(entry["serviceAccountName"], "my-operator-controller-manager");
            all.extend(items(&entry["rules"]).flat_map(|rule| permitted(rule, scope)));
        }
    }
    all
}

/// The kinds and names of the objects that OLM does not make from the ClusterServiceVersion.
fn plain(objects: &[Value]) -> BTreeSet<String> {
    let own = ["manager", "leader-election", "metrics-auth"]
        .map(|name| format!("my-operator-{name}-role"));
    let made = ["ClusterServiceVersion", "Deployment", "Namespace", "ServiceAccount"];
    let is_made = |object: &&Value| {
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        made.contains(&kind) || own.iter().any(|start| name.starts_with(start.as_str()))
    };
    let title = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    objects.iter().filter(|object| !is_made(object)).map(title).collect()
}

#[test]
fn bundle_of_every_recipe_is_valid_scores_and_does_not_change() {
    for recipe in RECIPES {
        let bundle = Bundle::new(&[], &[recipe]);
        let report = bundle.generate();
        assert!(!report.contains("warning"), "{recipe:?}: {report}");
        let suite = ["--select-optional", "suite=operatorframework"];
        let (problems, _) = bundle.opctl(&[&["bundle", "validate", "bundle"], &suite[..]].concat());
        assert_eq!(problems, "", "{recipe:?}");
        let (score, _) = bundle.opctl(&["scorecard", "bundle"]);
        let passed: Vec<&str> = score.lines().filter(|line| !line.starts_with(' ')).collect();
        assert!(
            passed.len() == 6 && passed.iter().all(|line| line.starts_with("pass ")),
            "{score}"
        );
        assert_eq!(bundle.generate(), "The bundle my-operator.v0.1.0 is in bundle\n");
    }
}

#[test]
fn bundle_is_what_the_installer_installs() {
    for init in [&[][..], &["--namespaced"]] {
        let bundle = Bundle::new(init, &RECIPES);
        bundle.opctl(&["edit", "--enable", "availability,grafana,network-policy,prometheus"]);
        let report = bundle.generate();
        assert!(!report.contains("warning"), "{report}");
        let (objects, installer) = (bundle.objects(), bundle.installer());
        let rights = granted(&objects);
        assert!(rights.len() > 50, "{rights:?}");
        assert_eq!(rights, bound(&installer), "{init:?}");
        let plain_objects = plain(&objects);
        assert!(plain_objects.len() > 20, "{plain_objects:?}");
        assert_eq!(plain_objects, plain(&installer), "{init:?}");
    }
}

/// A control plane that ends with the test.
struct Cluster(TempDir);

impl Cluster {
    fn start() -> Self {
        let cluster = Self(tempfile::tempdir().unwrap());
        ok(cluster.opctl().arg("start"));
        cluster
    }

    fn opctl(&self) -> Command {
        let mut command = Command::new(cargo_bin!("opctl"));
        command.arg("cluster").env("OPCTL_STATE_DIR", self.0.path().join("state"));
        command
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let mut run = self.opctl();
        let output = ok(run.args(["run", "--no-start", "--", "kubectl"]).args(args));
        String::from_utf8(output.stdout).unwrap()
    }

    fn apply(&self, objects: &[Value]) {
        let file = self.0.path().join("objects.json");
        let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        fs::write(&file, list.to_string()).unwrap();
        self.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]);
    }

    /// What the operator in a namespace may do in another one, as the API server says.
    fn rights(&self, own: &str, other: &str) -> BTreeSet<String> {
        let user = format!("--as=system:serviceaccount:{own}:my-operator-controller-manager");
        let list = self.kubectl(&["auth", "can-i", "--list", "-n", other, &user]);
        list.lines().map(str::to_owned).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.opctl().arg("delete").output();
    }
}

/// The objects that OLM creates in a namespace for a bundle.
fn installed(objects: &[Value], namespace: &str) -> Vec<Value> {
    let csv = objects.iter().find(|object| object["kind"] == "ClusterServiceVersion").unwrap();
    let strategy = &csv["spec"]["install"]["spec"];
    let mut made = vec![serde_json::json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
    })];
    let others = objects.iter().filter(|object| object["kind"] != "ClusterServiceVersion");
    made.extend(others.cloned());
    for (list, kind) in [("permissions", "Role"), ("clusterPermissions", "ClusterRole")] {
        for entry in items(&strategy[list]) {
            let account = &entry["serviceAccountName"];
            let api = "rbac.authorization.k8s.io";
            let metadata = serde_json::json!({ "name": format!("olm-{list}").to_lowercase() });
            made.push(serde_json::json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": account },
            }));
            made.push(serde_json::json!({
                "apiVersion": format!("{api}/v1"), "kind": kind, "metadata": metadata,
                "rules": entry["rules"],
            }));
            made.push(serde_json::json!({
                "apiVersion": format!("{api}/v1"), "kind": format!("{kind}Binding"),
                "metadata": metadata,
                "roleRef": { "apiGroup": api, "kind": kind, "name": metadata["name"] },
                "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
            }));
        }
    }
    for deployment in items(&strategy["deployments"]) {
        made.push(serde_json::json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": deployment["name"], "labels": deployment["label"] },
            "spec": deployment["spec"],
        }));
    }
    for object in &mut made {
        let kind = text(&object["kind"]).to_owned();
        let is_global = ["Namespace", "CustomResourceDefinition"].contains(&kind.as_str());
        if !is_global && !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = namespace.into();
        }
    }
    made
}

#[test]
fn applied_bundle_has_the_rights_of_the_installer() {
    let bundle = Bundle::new(&[], &RECIPES);
    bundle.generate();
    let cluster = Cluster::start();
    cluster.apply(&bundle.installer());
    cluster.apply(&installed(&bundle.objects(), "olm"));
    let installer = "my-operator-system";
    assert_eq!(cluster.rights("olm", "olm"), cluster.rights(installer, installer));
    let rights = cluster.rights("olm", "default");
    assert!(rights.iter().any(|line| line.starts_with("statefulsets.apps ")), "{rights:?}");
    assert_eq!(rights, cluster.rights(installer, "default"));
    let deployment = "deployment/my-operator-controller-manager";
    cluster.kubectl(&["-n", "olm", "rollout", "status", deployment, "--timeout=60s"]);
}

#[test]
fn commands_of_the_page_work() {
    let bundle = Bundle::new(&[], &RECIPES[..1]);
    bundle.opctl(&["edit", "--disable", "olm"]);
    let opctl = Path::new(cargo_bin!("opctl")).parent().unwrap();
    let path = format!("{}:{}", opctl.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.current_dir(bundle.0.path()).env("PATH", path).env("CARGO", "true");
    let output = ok(shell.args(["-ec", &documented()]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("\npass ").count(), 6, "{text}");
}

#[test]
fn make_bundle_has_the_pinned_image() {
    let bundle = Bundle::new(&[], &RECIPES[..1]);
    let image = format!("example.com/box@sha256:{}", "0".repeat(64));
    bundle.opctl(&["image", "pin", &image]);
    for (args, expected) in [(&[][..], image.as_str()), (&["IMG=box:2"], "box:2")] {
        let mut make = Command::new("make");
        make.current_dir(bundle.0.path()).env("OPCTL", cargo_bin!("opctl"));
        ok(make.args(["bundle", "CARGO=true"]).args(args));
        let objects = bundle.objects();
        let csv = objects.iter().find(|object| object["kind"] == "ClusterServiceVersion").unwrap();
        assert_eq!(csv["spec"]["relatedImages"][0]["image"], expected);
    }
}

#[test]
fn make_bundle_has_the_image_and_the_version() {
    let bundle = Bundle::new(&[], &RECIPES[..1]);
    let mut make = Command::new("make");
    make.current_dir(bundle.0.path()).env("OPCTL", cargo_bin!("opctl"));
    // The manifests are those of the code, which was not changed.
    make.args(["bundle", "CARGO=true", "IMG=example.com/box:1", "VERSION=1.2.3"]);
    ok(make.arg("BUNDLE_FLAGS=--channels stable"));
    let objects = bundle.objects();
    let csv = objects.iter().find(|object| object["kind"] == "ClusterServiceVersion").unwrap();
    assert_eq!(csv["metadata"]["name"], "my-operator.v1.2.3");
    let pod = &csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "example.com/box:1");
    let images = items(&csv["spec"]["relatedImages"]).map(|image| text(&image["name"]));
    assert_eq!(images.collect::<Vec<_>>(), ["manager", "memcached"]);
    let annotations = Path::new("bundle/metadata/annotations.yaml");
    let annotations = fs::read_to_string(bundle.0.path().join(annotations)).unwrap();
    assert!(annotations.contains("channels.v1: stable\n"), "{annotations}");
}
