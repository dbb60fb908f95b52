//! Bundles of generated projects, next to what the same projects install without OLM.

pub mod installed;
mod played;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::operator::docs::commands;
use crate::operator::machine::path;
use installed::installed;
use played::PlayedOlm;

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
        Self::named("my-operator", init, apis)
    }

    fn named(name: &str, init: &[&str], apis: &[&[&str]]) -> Self {
        let bundle = Self(tempfile::tempdir().unwrap());
        let name = ["--domain", "example.com", "--project-name", name];
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

    /// A command of opctl on the cluster.
    fn run(&self, directory: &Path, args: &[&str]) -> Output {
        let mut run = self.opctl();
        run.args(["run", "--no-start", "--"]).arg(cargo_bin!("opctl")).args(args);
        run.current_dir(directory).output().unwrap()
    }

    /// What a command of opctl that must succeed prints on stderr.
    fn succeed(&self, directory: &Path, args: &[&str]) -> String {
        let output = self.run(directory, args);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args:?}: {text}");
        text
    }

    /// What a command of opctl that must fail prints on stderr.
    fn fail(&self, directory: &Path, args: &[&str]) -> String {
        let output = self.run(directory, args);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{args:?}: {text}");
        text
    }

    fn kubeconfig(&self) -> String {
        self.0.path().join("state/clusters/opctl/kubeconfig").to_str().unwrap().to_owned()
    }

    /// The names of objects, such as `pod/a`.
    fn names(&self, namespace: &str, resources: &str) -> BTreeSet<String> {
        let list = self.kubectl(&["-n", namespace, "get", resources, "-o", "name"]);
        list.lines().map(str::to_owned).collect()
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

/// The files of a release of OLM, which is played.
fn release(directory: &Path) -> [PathBuf; 2] {
    let texts = played::crds().into_iter().map(|path| fs::read_to_string(path).unwrap());
    let crds: String = texts.map(|text| format!("---\n{text}\n")).collect();
    let files = ["crds.yaml", "olm.yaml"].map(|name| directory.join(name));
    fs::write(&files[0], crds).unwrap();
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/olm/manifests.yaml"),
        &files[1],
    )
    .unwrap();
    files
}

#[test]
fn bundle_is_installed_upgraded_and_cleaned_up() {
    let bundle = Bundle::new(&[], &RECIPES[..1]);
    bundle.generate();
    let directory = bundle.0.path();
    let cluster = Cluster::start();
    let run = ["run", "bundle", "bundle", "--namespace", "own", "--timeout", "1m"];
    let upgrade = ["run", "bundle-upgrade", "bundle", "--namespace", "own", "--timeout", "1m"];
    let cleanup = ["cleanup", "my-operator", "--namespace", "own", "--timeout", "1m"];
    let text = cluster.fail(directory, &run);
    assert!(text.contains("has no OLM\nhint: install it: `opctl olm install "), "{text}");

    for crd in played::crds() {
        cluster.kubectl(&["create", "-f", crd.to_str().unwrap()]);
    }
    let _olm = PlayedOlm::start(&cluster.kubeconfig());
    let text = cluster.fail(directory, &run);
    assert!(text.contains("error: there is no namespace own\n"), "{text}");
    cluster.kubectl(&["create", "namespace", "own"]);
    let text = cluster.fail(directory, &[&run[..], &["--install-mode", "OwnNamespace"]].concat());
    assert!(text.contains("hint: it supports AllNamespaces\n"), "{text}");
    assert!(cluster.names("own", "pods,catalogsources,operatorgroups").is_empty());

    let text = cluster.succeed(directory, &run);
    assert!(text.ends_with("   Installed my-operator.v0.1.0\n"), "{text}");
    assert!(cluster.names("own", "pods").contains("pod/my-operator-catalog-v0-1-0"));
    let text = cluster.fail(directory, &run);
    assert!(text.contains("is installed in own by the Subscription"), "{text}");
    let text = cluster.fail(directory, &upgrade);
    assert!(text.contains("error: my-operator.v0.1.0 is installed already\n"), "{text}");

    bundle.opctl(&["generate", "bundle", "--version", "0.2.0"]);
    let text = cluster.succeed(directory, &upgrade);
    assert!(text.ends_with("   Installed my-operator.v0.2.0\n"), "{text}");
    let pods = cluster.names("own", "pods");
    assert!(!pods.contains("pod/my-operator-catalog-v0-1-0"), "{pods:?}");

    let sample = "apiVersion: cache.example.com/v1alpha1\nkind: Memcached\n\
                  metadata:\n  name: mine\nspec:\n  size: 1\n";
    fs::write(directory.join("mine.yaml"), sample).unwrap();
    let mine = directory.join("mine.yaml");
    cluster.kubectl(&["apply", "-f", mine.to_str().unwrap()]);
    let everything =
        "subscriptions,clusterserviceversions,catalogsources,operatorgroups,pods,configmaps";
    let before = cluster.names("own", everything);
    let text = cluster.fail(directory, &cleanup);
    assert!(text.contains("would be deleted with it: Memcached default/mine\n"), "{text}");
    assert_eq!(cluster.names("own", everything), before);

    cluster.succeed(directory, &[&cleanup[..], &["--delete-all=false"]].concat());
    let left = ["configmap/kube-root-ca.crt", "operatorgroup.operators.coreos.com/opctl-og"];
    assert_eq!(cluster.names("own", everything), BTreeSet::from(left.map(str::to_owned)));
    cluster.kubectl(&["get", "memcacheds", "mine"]);

    cluster.succeed(directory, &run);
    cluster.succeed(directory, &[&cleanup[..], &["--delete-custom-resources"]].concat());
    assert_eq!(cluster.names("own", everything), BTreeSet::from([left[0].to_owned()]));
    assert!(!cluster.kubectl(&["get", "crds", "-o", "name"]).contains("memcacheds"));
    let text = cluster.succeed(directory, &cleanup);
    assert!(text.contains("warning: there is nothing of the package my-operator in own"), "{text}");
}

#[test]
fn what_opctl_has_not_created_stays() {
    let bundle = Bundle::new(&[], &RECIPES[..1]);
    bundle.generate();
    let directory = bundle.0.path();
    let cluster = Cluster::start();
    for crd in played::crds() {
        cluster.kubectl(&["create", "-f", crd.to_str().unwrap()]);
    }
    cluster.kubectl(&["create", "namespace", "own"]);
    let api = "operators.coreos.com/v1alpha1";
    cluster.apply(&[serde_json::json!({
        "apiVersion": api, "kind": "Subscription", "metadata": { "name": "a", "namespace": "own" },
        "spec": { "name": "my-operator", "source": "theirs", "sourceNamespace": "own" },
    })]);
    cluster.apply(&[serde_json::json!({
        "apiVersion": api, "kind": "CatalogSource", "metadata": { "name": "theirs", "namespace": "own" },
        "spec": { "sourceType": "grpc", "address": "127.0.0.1:1" },
    })]);
    let before = cluster.names("own", "subscriptions,catalogsources");
    let own = ["--namespace", "own", "--timeout", "5s"];
    let text = cluster.fail(directory, &[&["cleanup", "my-operator"], &own[..]].concat());
    assert!(text.contains("error: opctl has not installed my-operator"), "{text}");
    let text = cluster.fail(directory, &[&["run", "bundle-upgrade", "bundle"], &own[..]].concat());
    assert!(text.contains("error: opctl has not created the CatalogSource theirs"), "{text}");
    assert_eq!(cluster.names("own", "subscriptions,catalogsources"), before);

    // OLM does not answer.
    cluster.kubectl(&["-n", "own", "delete", "subscriptions,catalogsources", "--all"]);
    let text = cluster.fail(directory, &[&["run", "bundle", "bundle"], &own[..]].concat());
    let reason = "is not ready after 5s: OLM has not connected to it\nhint: give it more time";
    assert!(text.contains(reason), "{text}");
}

#[test]
fn olm_is_installed_and_uninstalled() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    release(directory);
    let cluster = Cluster::start();
    let _olm = PlayedOlm::start(&cluster.kubeconfig());
    let manifests = ["--manifests", "crds.yaml", "--manifests", "olm.yaml", "--timeout", "1m"];
    let olm = |command: &'static str| [&["olm", command], &manifests[..]].concat();
    let text = cluster.fail(directory, &olm("status"));
    assert!(text.contains("error: OLM is not installed\n"), "{text}");
    let text = cluster.fail(directory, &["olm", "install", "--manifests", "olm.yaml"]);
    assert!(text.contains("the CRD subscriptions.operators.coreos.com is missing"), "{text}");

    cluster.succeed(directory, &olm("install"));
    cluster.succeed(directory, &olm("status"));
    let text = cluster.fail(directory, &olm("install"));
    assert!(text.contains("error: OLM, or a part of it, is installed already: "), "{text}");

    cluster.kubectl(&["-n", "olm", "create", "secret", "generic", "mine"]);
    cluster.apply(&[serde_json::json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": { "name": "mine", "namespace": "default" },
        "spec": { "sourceType": "grpc", "address": "127.0.0.1:1" },
    })]);
    let text = cluster.fail(directory, &olm("uninstall"));
    assert!(text.contains("would be lost: CatalogSource default/mine\n"), "{text}");
    cluster.succeed(directory, &olm("status"));

    let text =
        cluster.succeed(directory, &[&olm("uninstall")[..], &["--delete-user-objects"]].concat());
    assert!(text.contains("Deleted CatalogSource mine\n"), "{text}");
    assert!(text.contains("Kept Namespace olm with Secret olm/mine\n"), "{text}");
    assert!(!cluster.kubectl(&["get", "crds", "-o", "name"]).contains("operators.coreos.com"));
    cluster.kubectl(&["-n", "olm", "get", "secret", "mine"]);
}

#[test]
fn commands_of_the_page_work() {
    let bundle = Bundle::named("memcached-operator", &[], &RECIPES[..1]);
    let directory = bundle.0.path();
    bundle.opctl(&["edit", "--disable", "olm"]);
    release(directory);
    let cluster = Cluster::start();
    let _olm = PlayedOlm::start(&cluster.kubeconfig());
    let mut shell = cluster.opctl();
    shell.args(["run", "--no-start", "--", "sh", "-ec", &commands("docs/olm.md").join("\n")]);
    let output = ok(shell.current_dir(directory).env("PATH", path()).env("CARGO", "true"));
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
