//! A real control plane on this machine.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler run as plain processes that listen on
//! loopback only; kwok simulates the nodes, so that pods become Running, but no container runs, and the
//! volumes, in which nothing is stored. The components run as the user: what they could do to the files of
//! the user is prevented by [`objects`], and what others could do through them by [`config`]. kwokctl
//! creates the cluster and starts the processes. The probes of [`ready`] check that they work, and
//! [`process`] finds the processes of a cluster, so that nothing depends on the orderly end of a process.
//!
//! Each cluster has a directory in the state directory. A command that starts or stops the cluster holds
//! the lock of the file `lock`, and a command that runs on it a shared lock of the file `users`. The system
//! releases both when a process ends.

mod binaries;
mod build;
mod config;
mod directories;
mod exec;
mod kubeconfig;
mod lock;
mod logs;
mod objects;
mod ports;
mod process;
mod ready;
mod record;
mod run;
mod signals;
mod start;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

pub use kubeconfig::CurrentContext;
pub use logs::ComponentLog;
pub use record::{ClusterRecord, ClusterState, Versions};
pub use run::RunRequest;
pub use signals::{Interrupted, Signals};

use crate::error::UserError;
use crate::ui::Ui;
use lock::Lock;
use process::Process;

/// The default name of a cluster.
pub const DEFAULT_NAME: &str = "opctl";

/// The default number of nodes. Each runs up to 110 pods, so that there is room for more than 2,000.
pub const DEFAULT_NODES: u16 = 20;

/// The maximum length of a name, because kwokctl adds a prefix.
const MAX_NAME: usize = 50;

/// The processes of a running cluster, by the names of their programs and log files.
const COMPONENTS: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller"];

/// A cluster, which may be running or not.
#[derive(Debug)]
pub struct Cluster {
    name: String,
    directory: PathBuf,
}

impl Cluster {
    /// The cluster with this name.
    ///
    /// # Errors
    /// A [`UserError`] if the name is not a DNS label of at most 50 characters, or if there is no home
    /// directory.
    pub fn named(name: &str) -> Result<Self> {
        check_name(name)?;
        let directory = directories::state()?.join("clusters").join(name);
        // The processes of the cluster are identified by its real path.
        Ok(Self { name: name.to_owned(), directory: directories::real(&directory)? })
    }

    /// The name of the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file for `KUBECONFIG`, which exists while the cluster is running.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Starts the cluster if it is not running. It then runs until it is stopped, even if it was started for
    /// a command.
    ///
    /// # Errors
    /// A [`UserError`] with the last lines of a log if the cluster does not become ready; [`Interrupted`].
    pub fn start(&self, ui: Ui, signals: &Signals, nodes: u16) -> Result<ClusterRecord> {
        let _lock = self.lock(ui, || signals.check())?;
        match self.state() {
            ClusterState::Running(mut record) => {
                if record.stop_when_unused {
                    record.stop_when_unused = false;
                    record.write(self)?;
                }
                ui.status("Running", format!("cluster `{}` already", self.name));
                Ok(record)
            }
            _ => start::start(self, ui, signals, nodes, false),
        }
    }

    /// Stops the cluster and deletes its data. Returns whether it was running.
    ///
    /// # Errors
    /// If a process cannot be stopped or a file cannot be deleted.
    pub fn stop(&self, ui: Ui) -> Result<bool> {
        // The processes outlive the removal of the state directory.
        if !self.exists() && self.components().is_empty() {
            return Ok(false);
        }
        let _lock = self.lock(ui, || Ok(()))?;
        if Lock::try_exclusive(&self.users_file())?.is_none() {
            ui.attention("Stopping", format!("cluster `{}` under a running command", self.name));
        }
        self.remove()
    }

    /// The hint for a cluster that is not running.
    pub fn start_hint(&self) -> String {
        format!("run `opctl cluster start --name {}`", self.name)
    }

    /// Clears the cluster and returns whether it was running. The caller holds the lock.
    fn remove(&self) -> Result<bool> {
        let has_run = !self.components().is_empty() || ClusterRecord::read(self).is_some();
        self.clear()?;
        Ok(has_run)
    }

    /// Whether the cluster was ever started.
    fn exists(&self) -> bool {
        self.directory.exists()
    }

    /// The current state of the cluster, from its processes and its API server.
    pub fn state(&self) -> ClusterState {
        ClusterState::query(self)
    }

    /// Whether another opctl is starting or stopping the cluster.
    ///
    /// # Errors
    /// If the lock file cannot be opened.
    pub fn is_changing(&self) -> Result<bool> {
        Ok(self.exists() && Lock::try_exclusive(&self.lock_file())?.is_none())
    }

    /// Waits for the lock for starting or stopping the cluster.
    fn lock(&self, ui: Ui, tick: impl Fn() -> Result<()>) -> Result<Lock> {
        directories::create_private(&self.directory)?;
        let mut is_reported = false;
        Lock::exclusive(&self.lock_file(), || {
            if !is_reported {
                let message = format!("for another opctl to start or stop `{}`", self.name);
                ui.status("Waiting", message);
                is_reported = true;
            }
            tick()
        })
    }

    /// Kills all processes and removes all files except for the lock files.
    fn clear(&self) -> Result<()> {
        self.kill()?;
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path == self.lock_file() || path == self.users_file() {
                continue;
            }
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
        Ok(())
    }

    /// Kills the components, and every kwokctl, which could start more of them.
    fn kill(&self) -> Result<()> {
        process::kill(|process| self.is_kwokctl(process) || self.component(process).is_some())
    }

    /// The components that are running.
    fn components(&self) -> Vec<&'static str> {
        process::all().iter().filter_map(|process| self.component(process)).collect()
    }

    /// The components that are not running.
    fn absent(&self) -> Vec<&'static str> {
        let running = self.components();
        COMPONENTS.into_iter().filter(|component| !running.contains(component)).collect()
    }

    /// The component that a process is: it runs the program under its link in the cluster, with a path in
    /// the cluster as an argument. With `--version`, which kwokctl calls first, it is not a component.
    fn component(&self, process: &Process) -> Option<&'static str> {
        let home = self.home();
        let is_in_cluster = |argument: &OsString| {
            let value = argument.to_str().and_then(|argument| argument.split_once('='));
            value.is_some_and(|(_, value)| Path::new(value).starts_with(&home))
        };
        let is_component = |component: &&str| process.runs(&self.bin().join(component));
        let component = COMPONENTS.into_iter().find(is_component)?;
        process.arguments.iter().any(is_in_cluster).then_some(component)
    }

    fn is_kwokctl(&self, process: &Process) -> bool {
        let config = self.kwokctl_config();
        let has_config = |pair: &[OsString]| pair[0] == "--config" && pair[1] == *config;
        process.runs(&self.kwokctl_link()) && process.arguments.windows(2).any(has_config)
    }

    /// A kubectl command that uses only this cluster.
    fn kubectl(&self, kubectl: &Path) -> Command {
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(self.own_kubeconfig()).arg("--request-timeout=5s");
        command.env_remove("KUBECONFIG");
        // The user's preferences can change the defaults of any flag.
        command.env("KUBERC", "off");
        command
    }

    fn lock_file(&self) -> PathBuf {
        self.directory.join("lock")
    }

    fn users_file(&self) -> PathBuf {
        self.directory.join("users")
    }

    fn kwokctl_config(&self) -> PathBuf {
        self.directory.join("kwokctl.yaml")
    }

    /// The link by which kwokctl is started, and identified if it outlives opctl.
    fn kwokctl_link(&self) -> PathBuf {
        self.directory.join("kwokctl")
    }

    fn audit_policy(&self) -> PathBuf {
        self.directory.join("audit-policy.yaml")
    }

    /// A configuration file of kwok.
    fn volume_stages(&self) -> PathBuf {
        self.directory.join("volumes.yaml")
    }

    /// The directory of kwokctl; one per cluster, so that clusters cannot affect each other.
    fn workdir(&self) -> PathBuf {
        self.directory.join("kwok")
    }

    /// The discovery cache of kubectl.
    fn kubectl_cache(&self) -> PathBuf {
        self.directory.join("kubectl")
    }

    /// The directory in which kwokctl keeps the cluster.
    fn home(&self) -> PathBuf {
        self.workdir().join("clusters").join(&self.name)
    }

    /// The kubeconfig of the components.
    fn own_kubeconfig(&self) -> PathBuf {
        self.home().join("kubeconfig.yaml")
    }

    /// Links to the programs, by which the processes of the cluster are identified.
    fn bin(&self) -> PathBuf {
        self.home().join("bin")
    }

    /// The CA of the cluster, and the certificate and key of all components.
    fn certificates(&self) -> (PathBuf, PathBuf, PathBuf) {
        let pki = self.home().join("pki");
        (pki.join("ca.crt"), pki.join("admin.crt"), pki.join("admin.key"))
    }

    fn log(&self, component: &str) -> PathBuf {
        self.home().join("logs").join(format!("{component}.log"))
    }
}

/// A duration in a readable form.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

fn check_name(name: &str) -> Result<()> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let outer = |c: char| inner(c) && c != '-';
    let valid = name.len() <= MAX_NAME
        && name.starts_with(outer)
        && name.ends_with(outer)
        && name.chars().all(inner);
    if valid {
        return Ok(());
    }
    let reason = format!(
        "must be at most {MAX_NAME} lower-case letters, digits and `-`, with a letter or digit at both ends"
    );
    Err(UserError::invalid_value("--name <NAME>", name, reason).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_a_short_dns_label() {
        for good in ["opctl", "a", "0", "a-1", &"x".repeat(50)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "../a", "a/b", "ä", &"x".repeat(51)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_readable() {
        assert_eq!(duration(Duration::from_millis(3149)), "3.1 s");
        assert_eq!(duration(Duration::from_secs(202)), "3 min 22 s");
    }
}
