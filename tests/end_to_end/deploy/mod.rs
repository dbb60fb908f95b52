//! What a project deploys, against the real control plane: every part of config/, and the Makefile's way there.

mod chart;
mod rights;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use assert_cmd::{Command, cargo::cargo_bin};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The optional parts.
const PARTS: [&str; 5] =
    ["availability", "network-policy", "prometheus", "cert-manager", "grafana"];

/// The longest name that a project may have.
const LONGEST: &str = "an-operator-with-a-long-name";

fn opctl(directory: &Path) -> Command {
    let mut command = Command::new(cargo_bin!("opctl"));
    command.current_dir(directory);
    command
}

/// The stdout of a command that must succeed.
fn ok(command: &mut Command) -> String {
    String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
}

/// A generated project.
struct Project {
    directory: TempDir,
    name: &'static str,
}

impl Project {
    /// One that has no API yet.
    fn bare(name: &'static str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let init = ["init", "--domain", "example.com", "--project-name", name];
        ok(opctl(directory.path()).args(init).args(flags));
        Self { directory, name }
    }

    /// One with the kind Memcached.
    fn new(name: &'static str, flags: &[&str]) -> Self {
        let project = Self::bare(name, flags);
        let api = ["create", "api", "--group", "cache", "--version", "v1alpha1"];
        ok(opctl(project.directory.path()).args(api).args(["--kind", "Memcached"]));
        project
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.directory.path().join(path)).unwrap()
    }

    /// The name of one of its objects.
    fn object(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    fn namespace(&self) -> String {
        self.object("system")
    }

    /// Has these optional parts and no others.
    fn switch(&self, parts: &[&str]) {
        let list = |enabled| {
            let chosen = PARTS.into_iter().filter(|part| parts.contains(part) == enabled);
            chosen.collect::<Vec<_>>().join(",")
        };
        let flags = [("--enable", list(true)), ("--disable", list(false))];
        let flags = flags.iter().filter(|(_, list)| !list.is_empty());
        let flags = flags.flat_map(|(flag, list)| [*flag, list.as_str()]);
        ok(opctl(self.directory.path()).arg("edit").args(flags));
    }

    /// The manifests of config/default.
    fn manifests(&self) -> String {
        let mut kubectl = Command::new("kubectl");
        ok(kubectl.current_dir(self.directory.path()).args(["kustomize", "config/default"]))
    }

    /// Its objects, by kind and name.
    fn objects(&self) -> BTreeSet<String> {
        let text = self.manifests();
        let field = |object: &str, start: &str| {
            let line = object.lines().find_map(|line| line.strip_prefix(start));
            line.unwrap().trim_matches('"').to_owned()
        };
        text.split("\n---\n")
            .map(|object| format!("{}/{}", field(object, "kind: "), field(object, "  name: ")))
            .collect()
    }

    fn git(&self, args: &[&str]) -> String {
        let identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
        let mut git = Command::new("git");
        ok(git.current_dir(self.directory.path()).args(identity).args(args))
    }
}

/// A control plane that ends with the test.
struct Cluster(TempDir);

impl Cluster {
    fn start() -> Self {
        let kubectl = Command::new("kubectl").args(["version", "--client"]).output();
        assert!(kubectl.is_ok(), "these tests need kubectl on PATH: {kubectl:?}");
        let cluster = Self(tempfile::tempdir().unwrap());
        ok(cluster.opctl(cluster.0.path()).arg("start"));
        cluster
    }

    fn opctl(&self, directory: &Path) -> Command {
        let mut command = opctl(directory);
        command.arg("cluster").env("OPCTL_STATE_DIR", self.0.path().join("state"));
        command
    }

    /// Runs a command in the directory of the project, with the cluster.
    fn run(&self, project: &Project, command: &[&str]) -> Command {
        let mut run = self.opctl(project.directory.path());
        run.args(["run", "--no-start", "--"]).args(command);
        run.env("OPCTL", cargo_bin!("opctl")); // for make
        run
    }

    fn kubectl(&self, project: &Project, args: &[&str]) -> String {
        ok(&mut self.run(project, &[&["kubectl"], args].concat()))
    }

    /// Applies what the API server takes without a warning.
    fn apply(&self, project: &Project, flags: &[&str]) {
        let command = [&["kubectl", "apply", "--server-side"], flags].concat();
        self.run(project, &command).assert().success().stderr("");
    }

    /// The pods run: they have passed Pod Security.
    fn deployed(&self, project: &Project, replicas: usize) {
        let (namespace, deployment) =
            (project.namespace(), format!("deployment/{}", project.object("controller-manager")));
        let rollout = ["-n", &namespace, "rollout", "status", &deployment, "--timeout=60s"];
        self.kubectl(project, &rollout);
        let get = ["-n", &namespace, "get", &deployment, "-o", "jsonpath={.status.readyReplicas}"];
        assert_eq!(self.kubectl(project, &get), replicas.to_string());
    }

    /// Whether the operator is permitted what `request` says.
    fn permits(&self, project: &Project, request: &str) -> bool {
        let user = format!(
            "--as=system:serviceaccount:{}:{}",
            project.namespace(),
            project.object("controller-manager")
        );
        let request: Vec<&str> = request.split(' ').collect();
        let command = [&["kubectl", "auth", "can-i", &user], request.as_slice()].concat();
        let output = self.run(project, &command).output().unwrap();
        match output.stdout.trim_ascii() {
            b"yes" => true,
            b"no" => false,
            _ => panic!("{request:?}: {output:?}"),
        }
    }

    /// Stands in for the Prometheus operator and cert-manager.
    fn install_external_crds(&self, project: &Project) {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let (certificates, monitoring) = ("cert-manager.io", "monitoring.coreos.com");
        let kinds = [
            (certificates, "Certificate", "certificates"),
            (certificates, "Issuer", "issuers"),
            (monitoring, "PrometheusRule", "prometheusrules"),
            (monitoring, "ServiceMonitor", "servicemonitors"),
        ];
        let crds = kinds.map(|(group, kind, plural)| {
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.{group}")},
                "spec": {
                    "group": group, "scope": "Namespaced",
                    "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                    "versions": [{
                        "name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": schema},
                    }],
                },
            })
        });
        let list = json!({"apiVersion": "v1", "kind": "List", "items": crds}).to_string();
        let path = self.0.path().join("crds.json");
        fs::write(&path, list).unwrap();
        let path = path.to_str().unwrap();
        self.apply(project, &["-f", path]);
        self.kubectl(
            project,
            &["wait", "--for=condition=Established", "--timeout=60s", "-f", path],
        );
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let stopped = self.opctl(self.0.path()).arg("delete").output().unwrap();
        assert!(stopped.status.success() || std::thread::panicking(), "{stopped:?}");
    }
}

const DRY_RUN: [&str; 3] = ["--dry-run=server", "-k", "config/default"];

#[test]
fn the_api_server_takes_every_part() {
    let cluster = Cluster::start();
    let project = Project::new("memcached-operator", &[]);
    cluster.apply(&project, &["-k", "config/default"]);
    cluster.deployed(&project, 1);
    let plain = project.objects();

    cluster.install_external_crds(&project);
    let kinds: [&[&str]; PARTS.len()] = [
        &["PodDisruptionBudget"],
        &["NetworkPolicy"],
        &["PrometheusRule", "ServiceMonitor"],
        &["Certificate", "Issuer"],
        &["ConfigMap"],
    ];
    for (part, kinds) in PARTS.into_iter().zip(kinds) {
        project.switch(&[part]);
        let objects = project.objects();
        assert!(objects.is_superset(&plain));
        let added = objects.difference(&plain).filter_map(|object| object.split('/').next());
        assert_eq!(added.collect::<Vec<_>>(), kinds, "{part}");
        cluster.apply(&project, &DRY_RUN);
    }

    project.switch(&PARTS);
    cluster.apply(&project, &["-k", "config/default"]);
    cluster.deployed(&project, 2);
    let namespace = project.namespace();
    let allowed = "--for=jsonpath={.status.disruptionsAllowed}=1";
    let budget = format!("pdb/{}", project.object("controller-manager"));
    cluster.kubectl(&project, &["-n", &namespace, "wait", allowed, "--timeout=60s", &budget]);

    let refused = ["kubectl", "-n", &namespace, "run", "root", "--image=example.com/none"];
    let refused = cluster.run(&project, &refused).assert().failure();
    let error = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(error.contains("violates PodSecurity"), "{error}");

    let own = format!("-n {namespace}");
    for request in [
        format!("create leases.coordination.k8s.io {own}"),
        format!("update leases.coordination.k8s.io/{} {own}", project.name),
        "create tokenreviews.authentication.k8s.io".to_owned(),
        "create subjectaccessreviews.authorization.k8s.io".to_owned(),
        "list deployments.apps -A".to_owned(),
    ] {
        assert!(cluster.permits(&project, &request), "{request}");
    }
    let another = format!("update leases.coordination.k8s.io/another {own}");
    for request in ["create leases.coordination.k8s.io -n default", "get secrets -A", &another] {
        assert!(!cluster.permits(&project, request), "{request}");
    }
}

#[test]
fn a_namespaced_operator_has_nothing_but_reviews_in_other_namespaces() {
    let cluster = Cluster::start();
    let project = Project::new(LONGEST, &["--namespaced"]);
    cluster.apply(&project, &["-k", "config/default"]);
    cluster.deployed(&project, 1);
    cluster.install_external_crds(&project);
    project.switch(&PARTS);
    cluster.apply(&project, &DRY_RUN);

    let bindings: Vec<String> =
        project.objects().into_iter().filter(|o| o.starts_with("ClusterRoleBinding/")).collect();
    assert_eq!(bindings, [format!("ClusterRoleBinding/{LONGEST}-metrics-auth-rolebinding")]);
    let own = format!("-n {}", project.namespace());
    for (verb, kind) in [("list", "deployments.apps"), ("watch", "memcacheds.cache.example.com")] {
        assert!(cluster.permits(&project, &format!("{verb} {kind} {own}")));
        assert!(!cluster.permits(&project, &format!("{verb} {kind} -n default")));
    }
    assert!(cluster.permits(&project, "create tokenreviews.authentication.k8s.io"));
}

#[test]
fn make_deploys_an_image_and_dirties_no_tracked_file() {
    let cluster = Cluster::start();
    let project = Project::new("memcached-operator", &[]);
    project.git(&["init", "-q"]);
    project.git(&["add", "."]);
    project.git(&["commit", "-qm", "Begin"]);

    let image = "localhost:5000/memcached@sha256:\
                 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let set = format!("IMG={image}");
    ok(&mut cluster.run(&project, &["make", "build-installer", &set]));
    assert_eq!(project.git(&["status", "--porcelain"]), "?? dist/\n");
    cluster.apply(&project, &["-f", "dist/install.yaml"]);
    cluster.deployed(&project, 1);
    fs::remove_dir_all(project.directory.path().join("dist")).unwrap();

    let deployed = || {
        let name = project.object("controller-manager");
        let path = "jsonpath={.spec.template.spec.containers[*].image}";
        let namespace = project.namespace();
        cluster.kubectl(&project, &["-n", &namespace, "get", "deployment", &name, "-o", path])
    };
    assert_eq!(deployed(), image);
    ok(&mut cluster.run(&project, &["make", "deploy", "IMG=example.com/x:1"]));
    assert_eq!(deployed(), "example.com/x:1");
    cluster.deployed(&project, 1);

    cluster.kubectl(&project, &["create", "-k", "config/samples"]);
    // What waits for an operator that does not run is an error, not a hang.
    let finalized = |finalizers: Value| {
        let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
        let patch = ["patch", "memcached/memcached-sample", "--type=merge", "-p", &patch];
        cluster.kubectl(&project, &patch);
    };
    finalized(json!(["example.com/waits"]));
    let waits =
        cluster.run(&project, &["make", "undeploy", "DELETE_TIMEOUT=2s"]).assert().failure();
    let error = String::from_utf8_lossy(&waits.get_output().stderr).into_owned();
    assert!(error.contains("timed out"), "{error}");
    finalized(Value::Null);
    ok(&mut cluster.run(&project, &["make", "undeploy"]));
    ok(&mut cluster.run(&project, &["make", "undeploy"]));
    let rest = cluster.kubectl(&project, &["get", "ns,crd,clusterroles", "-o", "name"]);
    assert!(!rest.contains("memcached"), "{rest}");
    assert_eq!(project.git(&["status", "--porcelain"]), "");

    // Without a cluster nothing is hidden: kubectl's error is make's.
    fs::remove_file(project.directory.path().join("config/manager/manager.yaml")).unwrap();
    let broken = cluster.run(&project, &["make", "deploy"]).assert().failure();
    let error = String::from_utf8_lossy(&broken.get_output().stderr).into_owned();
    assert!(error.contains("manager.yaml"), "{error}");
}

#[test]
fn prometheus_verifies_the_certificate_of_cert_manager() {
    let project = Project::new(LONGEST, &[]);
    let object = |parts: &[&str], kind: &str| {
        project.switch(parts);
        let objects = project.manifests();
        let objects =
            objects.split("\n---\n").map(|text| serde_yaml::from_str::<Value>(text).unwrap());
        objects.into_iter().find(|object| object["kind"] == kind).unwrap()
    };
    let plain = object(&["prometheus"], "ServiceMonitor");
    assert_eq!(plain["spec"]["endpoints"][0]["tlsConfig"], json!({"insecureSkipVerify": true}));

    let parts = ["prometheus", "cert-manager"];
    let certificate = object(&parts, "Certificate");
    let issuer = object(&parts, "Issuer");
    assert_eq!(certificate["spec"]["issuerRef"]["name"], issuer["metadata"]["name"]);
    assert_eq!(certificate["metadata"]["namespace"], project.namespace());
    let secret = &certificate["spec"]["secretName"];
    let verified = object(&parts, "ServiceMonitor");
    let tls = &verified["spec"]["endpoints"][0]["tlsConfig"];
    assert_eq!(tls["ca"]["secret"], json!({"name": secret, "key": "ca.crt"}));
    assert_eq!(tls["serverName"], certificate["spec"]["dnsNames"][0]);
    assert_eq!(tls.get("insecureSkipVerify"), None);
    let service = project.object("controller-manager-metrics-service");
    assert!(project.objects().contains(&format!("Service/{service}")));
    assert_eq!(tls["serverName"], format!("{service}.{}.svc", project.namespace()));

    let pod = &object(&parts, "Deployment")["spec"]["template"]["spec"];
    let (container, volume) = (&pod["containers"][0], &pod["volumes"][0]);
    assert_eq!(volume["secret"]["secretName"], *secret);
    let mount = &container["volumeMounts"][0];
    assert_eq!(mount["name"], volume["name"]);
    let flag = format!("--metrics-cert-path={}", mount["mountPath"].as_str().unwrap());
    assert!(container["args"].as_array().unwrap().contains(&json!(flag)), "{container}");
}

#[test]
fn a_crd_is_as_strict_as_one_in_go() {
    let cluster = Cluster::start();
    let project = Project::new("memcached-operator", &[]);
    cluster.apply(&project, &["-k", "config/crd"]);
    let established = ["wait", "--for=condition=Established", "-f", "config/crd/bases"];
    cluster.kubectl(&project, &established);
    cluster.apply(&project, &["-k", "config/samples"]);
    let object = "memcached/memcached-sample";
    let patch = |patch: &Value, flags: &[&str]| {
        let patch = patch.to_string();
        let command = ["kubectl", "patch", object, "--type=merge", "-p", &patch];
        cluster.run(&project, &[&command[..], flags].concat()).output().unwrap()
    };

    let condition = |field: &str, value: Value| {
        let mut condition = json!({
            "type": "Ready", "status": "True", "reason": "Because", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        });
        condition[field] = value;
        patch(&json!({"status": {"conditions": [condition]}}), &["--subresource=status"])
    };
    for (field, value) in [
        ("type", json!("")),
        ("type", json!("/Ready")),
        ("status", json!("maybe")),
        ("reason", json!("")),
        ("reason", json!("not a reason")),
        ("reason", json!("R".repeat(1025))),
        ("message", json!("m".repeat(32_769))),
        ("observedGeneration", json!(-1)),
    ] {
        let output = condition(field, value);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(&format!("status.conditions[0].{field}")), "{field}: {error}");
    }
    for (field, value) in [
        ("type", json!("example.com/Ready")),
        ("status", json!("Unknown")),
        ("message", json!("é".repeat(32_768))),
    ] {
        let output = condition(field, value);
        assert!(output.status.success(), "{output:?}");
    }
    for spec in [json!({"size": 1001}), json!({"image": "i".repeat(1025)})] {
        let output = patch(&json!({"spec": spec}), &[]);
        assert!(!output.status.success(), "{spec}");
    }

    // Whoever says that there is none, says nothing.
    let named = json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {"name": "null"}, "spec": {"size": 1, "image": null}, "status": null,
    });
    let path = project.directory.path().join("null.json");
    fs::write(&path, named.to_string()).unwrap();
    cluster.kubectl(&project, &["create", "-f", "null.json"]);
    let stored = cluster.kubectl(&project, &["get", "memcached/null", "-o", "json"]);
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["spec"], json!({"size": 1, "containerPort": 11211}));
    assert_eq!(stored["status"]["observedGeneration"], -1);
}

#[test]
fn a_pinned_image_is_deployed_unless_another_is_named() {
    let project = Project::new("memcached-operator", &[]);
    let path = project.directory.path();
    let deployed = |variables: &[&str]| {
        let mut make = Command::new("make");
        ok(make.current_dir(path).arg("build-installer").args(variables));
        let text = project.text("dist/install.yaml");
        let image = text.lines().find_map(|line| line.trim_start().strip_prefix("image: "));
        image.unwrap().to_owned()
    };
    assert_eq!(deployed(&[]), "controller:latest");
    assert_eq!(deployed(&["IMG=example.com/x:1"]), "example.com/x:1");

    let image = "localhost:5000/memcached@sha256:\
                 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    ok(opctl(path).args(["image", "pin", image]));
    assert_eq!(deployed(&[]), image);
    assert_eq!(deployed(&["IMG=example.com/x:1"]), "example.com/x:1");
    ok(opctl(path).args(["image", "pin", &image.replace("b855", "0000")]));
    assert_eq!(deployed(&[]), image.replace("b855", "0000"));

    // A Makefile with another image deploys that when none is pinned.
    ok(opctl(path).args(["image", "unpin"]));
    let makefile =
        project.text("Makefile").replace("controller:latest\nPLAT", "example.com/y:2\nPLAT");
    fs::write(path.join("Makefile"), makefile).unwrap();
    assert_eq!(deployed(&[]), "example.com/y:2");
}

#[test]
fn every_name_and_a_project_without_an_api_build() {
    for name in ["true", "on", "null", "x", LONGEST] {
        let project = Project::bare(name, &[]);
        project.switch(&PARTS);
        let objects = project.objects();
        for object in ["Namespace/NAME-system", "ConfigMap/NAME-grafana-dashboard"] {
            assert!(objects.contains(&object.replace("NAME", name)), "{name}: {objects:?}");
        }
    }
}

#[test]
fn every_alert_has_a_runbook() {
    let project = Project::new("memcached-operator", &[]);
    serde_json::from_str::<Value>(&project.text("config/grafana/dashboard.json")).unwrap();
    let rules = project.text("config/prometheus/rules.yaml");
    let rules: serde_yaml::Value = serde_yaml::from_str(&rules).unwrap();
    let runbooks = project.text("docs/runbooks.md");
    let headings: Vec<&str> =
        runbooks.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let mut alerts = Vec::new();
    for rule in rules["spec"]["groups"][0]["rules"].as_sequence().unwrap() {
        let (alert, notes) = (rule["alert"].as_str().unwrap(), &rule["annotations"]);
        alerts.push(alert);
        assert!(["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()));
        assert!(notes["summary"].is_string() && notes["description"].is_string());
        let runbook = format!("docs/runbooks.md#{}", alert.to_lowercase());
        assert_eq!(notes["runbook"].as_str(), Some(runbook.as_str()));
    }
    assert_eq!(alerts, headings);
}
