//! Where the tests run `opctl cluster`, and what they need of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::operator::client::Client;
use crate::operator::machine::install;

pub use crate::operator::cluster::text;

pub const OPCTL: &str = env!("CARGO_BIN_EXE_opctl");

/// A state directory of its own, whose clusters are stopped at the end of the test.
pub struct Sandbox(pub TempDir);

impl Sandbox {
    pub fn new() -> Self {
        let sandbox = Self(tempfile::tempdir().unwrap());
        sandbox.kubectl_program();
        sandbox
    }

    /// The path of kubectl. On a new machine, the first call builds the control plane, which takes minutes,
    /// for which no test that waits is patient enough.
    pub fn kubectl_program(&self) -> &'static str {
        static KUBECTL: OnceLock<String> = OnceLock::new();
        KUBECTL.get_or_init(|| {
            let find = ["run", "--nodes", "1", "--", "sh", "-c", "command -v kubectl"];
            self.ok(&find).trim().to_owned()
        })
    }

    /// `opctl cluster`. The kubeconfig of the user is one that must never appear.
    pub fn cluster(&self, args: &[&str]) -> Command {
        let mut command = Command::new(OPCTL);
        command.arg("cluster").args(args).stdin(Stdio::null());
        command.env("OPCTL_STATE_DIR", self.state()).env("KUBECONFIG", self.users_kubeconfig());
        command
    }

    pub fn output(&self, args: &[&str]) -> Output {
        self.cluster(args).output().unwrap()
    }

    /// The stdout of a command that must succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub fn code(&self, args: &[&str]) -> Option<i32> {
        self.output(args).status.code()
    }

    /// The state of a cluster in JSON.
    pub fn status(&self, name: &str) -> Value {
        let output = self.output(&["status", "--name", name, "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The kubectl of a running cluster.
    pub fn kubectl(&self, name: &str) -> Kubectl {
        let kubeconfig = self.status(name)["kubeconfig"].as_str().unwrap().to_owned();
        Kubectl { program: self.kubectl_program(), kubeconfig, client: OnceLock::new() }
    }

    pub fn spawn(&self, args: &[&str]) -> Child {
        self.cluster(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    pub fn state(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("state")
    }

    /// The directory of the cluster with the default name.
    pub fn directory(&self) -> PathBuf {
        self.state().join("clusters/opctl")
    }

    pub fn users_kubeconfig(&self) -> PathBuf {
        self.0.path().join("users-kubeconfig")
    }

    /// The processes whose command line contains the state directory.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let state = self.state().display().to_string();
        let process = |entry: fs::DirEntry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            line.contains(&state).then_some((pid, line.replace('\0', " ")))
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(process).collect()
    }
}

/// A client of a cluster.
pub struct Kubectl {
    program: &'static str,
    kubeconfig: String,
    client: OnceLock<Client>,
}

impl Kubectl {
    pub fn output(&self, args: &[&str]) -> Output {
        let mut command = Command::new(self.program);
        command.args(args).env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// The stdout of a command that must succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// An object or a list, by the arguments of `kubectl get`; null if it does not exist.
    pub fn get(&self, args: &[&str]) -> Value {
        self.client.get_or_init(|| Client::new(self.kubeconfig.as_ref())).get(args).unwrap()
    }
}

/// A process that has nothing to do with opctl, and is killed at the end of the test.
pub struct Bystander(pub Child);

impl Bystander {
    pub fn new(command: &mut Command) -> Self {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(quiet.spawn().unwrap())
    }

    pub fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.state().join("clusters")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if entry.path().is_dir() {
                self.ok(&["delete", "--name", name.to_str().unwrap()]);
            }
        }
        if !std::thread::panicking() {
            // A kubectl that a killed opctl had called ends by itself.
            eventually("the end of every process", || self.processes().is_empty());
            assert!(!self.users_kubeconfig().exists(), "the user's kubeconfig was touched");
        }
    }
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come about");
        sleep(Duration::from_millis(50));
    }
}

pub fn send(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

pub fn script(directory: &Path, name: &str, body: &str) {
    install(&directory.join(name), &format!("#!/bin/sh\n{body}\n"));
}

/// The command lines of a process's children.
pub fn children(parent: u32) -> Vec<String> {
    let command = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok();
    let commands = children_of(parent).into_iter().filter_map(command);
    commands.map(|command| command.replace('\0', " ")).collect()
}

pub fn children_of(parent: u32) -> Vec<u32> {
    let child = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent_of_process: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        (parent_of_process == parent).then_some(entry.file_name().to_str()?.parse().ok()?)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(child).collect()
}
