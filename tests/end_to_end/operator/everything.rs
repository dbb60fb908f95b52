//! An operator with a kind of every recipe, on a control plane of its own.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::operator::background::Background;
use crate::operator::cluster::{Cluster, free_port};
use crate::operator::machine::Machine;
use crate::operator::project::{Built, Project, get};
use crate::operator::wait::eventually;

const PROJECT: &str = "everything-operator";

/// A kind of every recipe.
pub const KINDS: [Kind; 5] = [
    Kind { name: "Memcached", plural: "memcacheds", group: "cache", flags: "" },
    Kind { name: "WebServer", plural: "webservers", group: "web", flags: "" },
    Kind { name: "PostgresCluster", plural: "postgresclusters", group: "db", flags: "" },
    Kind { name: "Site", plural: "sites", group: "ops", flags: " --image example.com/site:1" },
    Kind { name: "Thing", plural: "things", group: "ops", flags: " --recipe none" },
];

/// A kind of the operator.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    pub plural: &'static str,
    group: &'static str,
    flags: &'static str,
}

impl Kind {
    /// An object of a size, if it has one, and an image or a version that differs with `revision`.
    pub fn object(&self, name: &str, size: usize, revision: usize) -> Value {
        json!({
            "apiVersion": format!("{}.example.com/v1", self.group),
            "kind": self.name,
            "metadata": { "name": name, "namespace": "default" },
            "spec": self.spec(size, revision),
        })
    }

    /// The specification of such an object.
    pub fn spec(&self, size: usize, revision: usize) -> Value {
        match self.name {
            "WebServer" => json!({ "replicas": size, "image": self.image(revision) }),
            "PostgresCluster" => json!({
                "size": size.max(1),
                "version": format!("17.{revision}"),
                "storage": { "size": "1Gi", "whenDeleted": "Delete" },
            }),
            "Thing" => json!({ "message": format!("revision {revision}") }),
            _ => json!({ "size": size, "image": self.image(revision) }),
        }
    }

    fn image(&self, revision: usize) -> String {
        format!("example.com/{}:{revision}", self.plural)
    }

    /// The path of its objects in a namespace.
    pub fn path(&self, namespace: &str) -> String {
        format!("/apis/{}.example.com/v1/namespaces/{namespace}/{}", self.group, self.plural)
    }
}

/// All tests run the same manager.
static BUILT: OnceLock<Built> = OnceLock::new();

pub struct Everything<'a> {
    machine: &'a Machine,
    pub cluster: Cluster,
    built: &'static Built,
}

impl<'a> Everything<'a> {
    /// Compiles the operator and installs its CRDs on a new control plane.
    pub fn installed(machine: &'a Machine) -> Self {
        let built = BUILT.get_or_init(|| {
            let project = Project::init(machine, PROJECT, &[]);
            for Kind { name, group, flags, .. } in &KINDS {
                project.api(&format!("--group {group} --version v1 --kind {name}{flags}"));
            }
            project.build()
        });
        let cluster = Cluster::start(machine, "everything");
        let crds = built.config.join("crd").display().to_string();
        cluster.ok(&["apply", "--server-side", "-k", &crds]);
        cluster.ok(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
        Self { machine, cluster, built }
    }

    /// Starts the operator for all namespaces.
    pub fn start(&self) -> Background {
        let probes = free_port();
        let mut operator = self.launch("", &self.cluster.kubeconfig, probes);
        eventually("ready operator", || {
            operator.assert_runs();
            get(probes, "/readyz")
        });
        operator
    }

    /// Starts an operator for a namespace, with the credentials of a kubeconfig, without waiting.
    pub fn launch(&self, namespace: &str, kubeconfig: &Path, probes: u16) -> Background {
        let mut command = self.machine.command(self.built.manager.to_str().unwrap());
        command.env("KUBECONFIG", kubeconfig);
        command.arg(format!("--health-probe-bind-address=127.0.0.1:{probes}"));
        command.arg("--metrics-bind-address=0");
        if !namespace.is_empty() {
            command.arg(format!("--namespaces={namespace}"));
        }
        let log = self.machine.home().join(format!("operator-{namespace}.log"));
        Background::start("the operator", command, log)
    }
}
