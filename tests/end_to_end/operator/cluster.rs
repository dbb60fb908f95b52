//! A running cluster as its user sees it.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};

use kube::api::Patch;
use serde_json::Value;

use super::client::Client;
use super::machine::Machine;

#[derive(Clone)]
pub struct Cluster {
    pub kubectl: PathBuf,
    pub kubeconfig: PathBuf,
    pub audit_log: PathBuf,
    client: Arc<OnceLock<Client>>,
}

impl Cluster {
    /// The cluster of this name, which runs.
    pub fn running(machine: &Machine, name: &str) -> Self {
        let status = machine.status(name);
        let path = |field: &str| match status[field].as_str() {
            Some(path) => PathBuf::from(path),
            None => panic!("cluster `{name}` does not run: {status}"),
        };
        Self::new(path("kubectl"), path("kubeconfig"), path("auditLog"))
    }

    pub fn new(kubectl: PathBuf, kubeconfig: PathBuf, audit_log: PathBuf) -> Self {
        Self { kubectl, kubeconfig, audit_log, client: Arc::default() }
    }

    /// Starts a cluster of this name.
    pub fn start(machine: &Machine, name: &str) -> Self {
        let output = machine.cluster(&["start", "--name", name]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        Self::running(machine, name)
    }

    /// For what is asked again and again.
    pub fn client(&self) -> &Client {
        self.client.get_or_init(|| Client::new(&self.kubeconfig))
    }

    pub fn kubectl(&self, args: &[&str]) -> Output {
        self.with_input(args, "")
    }

    /// The output of a kubectl that must succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        succeeded(args, &self.kubectl(args))
    }

    /// An object or a list, by the arguments of `kubectl get`; null if it is not there.
    pub fn get(&self, args: &[&str]) -> Value {
        self.client().get(args).unwrap_or_else(|error| panic!("get {args:?}: {error}"))
    }

    /// Creates an object, or those of a list.
    pub fn create(&self, object: &Value) {
        self.client().create(object).unwrap_or_else(|error| panic!("{error}: {object}"));
    }

    /// Fails the test if the API server would not take an object.
    pub fn takes(&self, object: &Value) {
        let args = ["create", "--dry-run=server", "-f", "-"];
        succeeded(&args, &self.with_input(&args, &object.to_string()));
    }

    /// Why the API server does not take an object.
    pub fn refusal(&self, object: &Value) -> String {
        let output = self.with_input(&["create", "-f", "-"], &object.to_string());
        assert!(!output.status.success(), "the API server takes {object}");
        text(&output.stderr)
    }

    /// Changes an object by a strategic merge patch, or by a merge patch where there is no other.
    pub fn patch(&self, object: &[&str], type_: &str, patch: &Value) {
        let patch = match type_ {
            "strategic" => Patch::Strategic(patch),
            _ => Patch::Merge(patch),
        };
        let result = self.client().patch(object, &patch);
        result.unwrap_or_else(|error| panic!("patch {object:?}: {error}"));
    }

    /// Asks for the deletion of an object, and waits for nothing.
    pub fn delete(&self, object: &[&str]) {
        let result = self.client().delete(object);
        result.unwrap_or_else(|error| panic!("delete {object:?}: {error}"));
    }

    /// Changes the size of an object.
    pub fn scale(&self, object: &[&str], size: usize) {
        let result = self.client().scale(object, size);
        result.unwrap_or_else(|error| panic!("scale {object:?}: {error}"));
    }

    fn with_input(&self, args: &[&str], input: &str) -> Output {
        let mut command = Command::new(&self.kubectl);
        command.args(args).env("KUBECONFIG", &self.kubeconfig);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

fn succeeded(args: &[&str], output: &Output) -> String {
    assert!(output.status.success(), "kubectl {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The status of an object's condition.
pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a str {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut of_type = conditions.filter(|condition| condition["type"] == type_);
    of_type.next().and_then(|condition| condition["status"].as_str()).unwrap_or("Unknown")
}

/// A port that nothing listens on, and that neither a connection nor a cluster gets before it is used: systems give
/// higher ones to both.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that start together have ids that are next to each other.
    let first = (std::process::id().wrapping_mul(211) % 6_000) as u16;
    loop {
        let port = 10_000 + first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
