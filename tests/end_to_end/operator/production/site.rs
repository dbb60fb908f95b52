//! A cluster that the Memcached project is deployed to, and managers that run beside it as the
//! deployed ServiceAccount.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::operator::background::Background;
use crate::operator::cluster::{Cluster, free_port};
use crate::operator::machine::Machine;
use crate::operator::project::{Built, Project, get};
use crate::operator::wait::eventually;

const PROJECT: &str = "memcached-operator";
const NAMESPACE: &str = "memcached-operator-system";
/// The ServiceAccount of the deployed operator.
pub const ACCOUNT: &str = "memcached-operator-controller-manager";

/// All sites run the same manager.
static BUILT: OnceLock<Built> = OnceLock::new();

pub struct Site<'a> {
    pub machine: &'a Machine,
    pub cluster: Cluster,
    built: &'static Built,
}

impl<'a> Site<'a> {
    /// The control plane plays the node, so that the deployed manager itself does nothing.
    pub fn deployed(machine: &'a Machine) -> Self {
        let built = Self::built(machine);
        let cluster = Cluster::start(machine, "production");
        let default = built.config.join("default").display().to_string();
        cluster.ok(&["apply", "--server-side", "-k", &default]);
        let crd = "crd/memcacheds.cache.example.com";
        cluster.ok(&["wait", "--for=condition=Established", "--timeout=60s", crd]);
        Self { machine, cluster, built }
    }

    /// The manager of the Memcached project.
    pub fn built(machine: &Machine) -> &'static Built {
        BUILT.get_or_init(|| {
            let project = Project::init(machine, PROJECT, &[]);
            project.api("--group cache --version v1alpha1 --kind Memcached");
            project.build()
        })
    }

    /// A cluster that another project is to be deployed to.
    pub fn of(machine: &'a Machine, cluster: Cluster, built: &'static Built) -> Self {
        Self { machine, cluster, built }
    }

    /// A file in the project's folder `config`.
    pub fn config(&self, path: &str) -> PathBuf {
        self.built.config.join(path)
    }

    /// Credentials of their own of the deployed ServiceAccount.
    pub fn account(&self, name: &str) -> Account {
        self.account_of(ACCOUNT, NAMESPACE, name)
    }

    /// The namespace of the deployed operator.
    pub fn namespace(&self) -> String {
        NAMESPACE.to_owned()
    }

    /// Credentials of a ServiceAccount.
    pub fn account_of(&self, account: &str, namespace: &str, name: &str) -> Account {
        let token = self.cluster.ok(&["create", "token", account, "-n", namespace]);
        let view = self.cluster.ok(&["config", "view", "--minify", "--raw", "-o", "json"]);
        let view: Value = serde_json::from_str(&view).unwrap();
        let cluster = &view["clusters"][0]["cluster"];
        let kubeconfig = self.kubeconfig(name, cluster, &json!({ "token": token.trim() }));
        let path = kubeconfig.display().to_string();
        let identity = self.cluster.ok(&["auth", "whoami", "-o", "json", "--kubeconfig", &path]);
        let identity: Value = serde_json::from_str(&identity).unwrap();
        let extra = &identity["status"]["userInfo"]["extra"];
        let credential = extra["authentication.kubernetes.io/credential-id"][0].as_str();
        Account { kubeconfig, credential: credential.expect("a token with an id").to_owned() }
    }

    fn kubeconfig(&self, name: &str, cluster: &Value, user: &Value) -> PathBuf {
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "c", "cluster": cluster }],
            "users": [{ "name": "u", "user": user }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
            "current-context": "c",
        });
        let path = self.machine.home().join(format!("{name}.kubeconfig"));
        fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// A manager, once it is ready.
    pub fn manager(&self, name: &str, args: &[&str]) -> Manager {
        self.manager_as(&self.account(name), name, args)
    }

    /// A manager that has these credentials.
    pub fn manager_as(&self, account: &Account, name: &str, args: &[&str]) -> Manager {
        let mut manager = self.start(account, name, args);
        eventually(&format!("ready {name}"), || {
            manager.process.assert_runs();
            get(manager.probes, "/readyz")
        });
        manager
    }

    /// A manager that may never be ready.
    pub fn start(&self, account: &Account, name: &str, args: &[&str]) -> Manager {
        let (probes, metrics) = (free_port(), free_port());
        let mut command = self.machine.command(self.built.manager.to_str().unwrap());
        command.env("KUBECONFIG", &account.kubeconfig);
        command.env("POD_NAME", name).env("POD_NAMESPACE", NAMESPACE);
        command.arg(format!("--health-probe-bind-address=127.0.0.1:{probes}"));
        command.arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"));
        if !args.contains(&"--metrics-secure") {
            command.arg("--metrics-secure=false");
        }
        command.args(args);
        let log = self.machine.home().join(format!("{name}.log"));
        let process = Background::start(name, command, log);
        let credential = account.credential.clone();
        Manager { name: name.to_owned(), process, probes, metrics, credential }
    }

    /// The lease that the managers hold.
    pub fn lease(&self) -> Value {
        self.cluster.get(&["lease", PROJECT, "-n", NAMESPACE])
    }

    /// Waits until the manager holds the lease. Returns how often it has gone from one to another.
    pub fn led_by(&self, manager: &Manager) -> i64 {
        eventually(&format!("lease of {}", manager.name), || {
            let lease = self.lease();
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            match holder.starts_with(&format!("{}_", manager.name)) {
                true => Ok(lease["spec"]["leaseTransitions"].as_i64().unwrap_or(0)),
                false => Err(lease.to_string()),
            }
        })
    }
}

/// Credentials of the deployed ServiceAccount.
pub struct Account {
    pub kubeconfig: PathBuf,
    /// The id of its token: in the audit log, who has done what.
    pub credential: String,
}

/// A manager of the Memcached project.
pub struct Manager {
    pub name: String,
    pub process: Background,
    pub credential: String,
    probes: u16,
    pub metrics: u16,
}

impl Manager {
    pub fn send(&self, signal: Signal) {
        self.process.send(signal);
    }

    /// All metrics.
    pub fn scrape(&self) -> String {
        self.try_scrape().unwrap()
    }

    /// All metrics, unless the manager is about to start or to end.
    pub fn try_scrape(&self) -> Result<String, String> {
        get(self.metrics, "/metrics")
    }

    /// The sum of the samples of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.scrape();
        let samples = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}
