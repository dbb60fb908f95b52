//! A real control plane on this machine.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler run as plain processes that
//! listen on loopback only; kwok plays the nodes, so that pods become Running though no container
//! runs. kwokctl lays the cluster out and starts the processes. Whether they work is for
//! [`ready`]'s own probes to say, which processes belong to a cluster for [`process`]; so nothing
//! depends on a process having ended in an orderly way.
//!
//! Each cluster has a folder in the state folder. Who starts or stops it holds the file `lock`, who
//! runs a command on it a share of the file `users`; the system releases both when a process dies.

mod binaries;
mod build;
mod config;
mod directories;
mod exec;
mod lock;
mod logs;
mod process;
mod ready;
mod record;
mod run;
mod signals;
mod start;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

pub use logs::ComponentLog;
pub use record::{ClusterRecord, ClusterState, Versions};
pub use run::RunRequest;
pub use signals::{Interrupted, Signals};

use crate::error::UserError;
use crate::ui::Ui;
use lock::Lock;

/// The name of a cluster that was not given one.
pub const DEFAULT_NAME: &str = "opctl";

/// Nodes of a new cluster. One holds 110 pods, so these have room for more than 2,000.
pub const DEFAULT_NODES: u16 = 20;

/// The longest name: kwokctl puts it behind a prefix into names of its own.
const LONGEST_NAME: usize = 50;

/// The processes of a running cluster: the names of their programs and log files.
const COMPONENTS: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller"];

/// A cluster by its name, whether or not it runs.
#[derive(Debug)]
pub struct Cluster {
    name: String,
    directory: PathBuf,
}

impl Cluster {
    /// The cluster of that name.
    ///
    /// # Errors
    /// A [`UserError`] when the name is not a DNS label of at most 50 characters; when the state
    /// folder cannot be made.
    pub fn named(name: &str) -> Result<Self> {
        check_name(name)?;
        let directory = directories::create(&directories::state()?.join("clusters").join(name))?;
        Ok(Self { name: name.to_owned(), directory })
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file for `KUBECONFIG`. It is there while the cluster runs.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Starts the cluster, or does nothing when it works already. It then runs until it is
    /// stopped, even if it was started for the time of a command.
    ///
    /// # Errors
    /// A [`UserError`] with the log's last lines when it does not become ready; [`Interrupted`].
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

    /// Stops the cluster and removes its data. Returns whether there was anything to stop.
    ///
    /// # Errors
    /// When processes cannot be stopped or files not be removed.
    pub fn stop(&self, ui: Ui) -> Result<bool> {
        let _lock = self.lock(ui, || Ok(()))?;
        if Lock::try_exclusive(&self.users_file())?.is_none() {
            ui.attention("Stopping", format!("cluster `{}` under a running command", self.name));
        }
        self.remove()
    }

    /// What to do about a cluster that does not run.
    pub fn start_hint(&self) -> String {
        format!("run `opctl cluster start --name {}`", self.name)
    }

    /// Clears the cluster and the folders of its volumes. The caller holds the lock.
    fn remove(&self) -> Result<bool> {
        let state = self.state();
        if let ClusterState::Running(record) = &state {
            ready::remove_volumes(self, &record.kubectl);
        }
        self.clear()?;
        Ok(!matches!(state, ClusterState::Stopped))
    }

    /// What the cluster is like now, by looking at its processes and asking its API server.
    pub fn state(&self) -> ClusterState {
        ClusterState::of(self)
    }

    /// Whether another opctl is starting or stopping the cluster.
    ///
    /// # Errors
    /// When the lock file cannot be opened.
    pub fn is_changing(&self) -> Result<bool> {
        Ok(Lock::try_exclusive(&self.lock_file())?.is_none())
    }

    /// Waits for the right to start or stop the cluster.
    fn lock(&self, ui: Ui, tick: impl Fn() -> Result<()>) -> Result<Lock> {
        let mut told = false;
        Lock::exclusive(&self.lock_file(), || {
            if !told {
                let what = format!("for another opctl that starts or stops `{}`", self.name);
                ui.status("Waiting", what);
                told = true;
            }
            tick()
        })
    }

    /// Kills what runs and removes everything but the lock files.
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

    fn kill(&self) -> Result<()> {
        process::kill(&self.bin(), &self.kwokctl_config())
    }

    /// The components that do not run.
    fn absent(&self) -> Vec<&'static str> {
        let running = process::components(&self.bin());
        let runs = |component: &str| {
            let program = self.bin().join(component).display().to_string();
            // kwokctl asks the programs for their versions first.
            let is_component = |args: &str| args.starts_with(' ') && args != " --version";
            running.iter().any(|it| it.command.strip_prefix(&program).is_some_and(is_component))
        };
        COMPONENTS.into_iter().filter(|component| !runs(component)).collect()
    }

    /// A kubectl that knows this cluster and nothing else.
    fn kubectl(&self, kubectl: &Path) -> Command {
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(self.kubeconfig()).arg("--request-timeout=5s");
        command.env_remove("KUBECONFIG");
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

    /// kwokctl's own folder; one for each cluster, so that none can spoil another.
    fn workdir(&self) -> PathBuf {
        self.directory.join("kwok")
    }

    /// Where kubectl caches what the cluster's API server knows.
    fn kubectl_cache(&self) -> PathBuf {
        self.directory.join("kubectl")
    }

    /// Where kwokctl keeps the cluster.
    fn home(&self) -> PathBuf {
        self.workdir().join("clusters").join(&self.name)
    }

    /// Links to the programs, by which a cluster's processes are told.
    fn bin(&self) -> PathBuf {
        self.home().join("bin")
    }

    fn log(&self, component: &str) -> PathBuf {
        self.home().join("logs").join(format!("{component}.log"))
    }
}

/// A time for a person.
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
    let valid = name.len() <= LONGEST_NAME
        && name.starts_with(outer)
        && name.ends_with(outer)
        && name.chars().all(inner);
    if valid {
        return Ok(());
    }
    let what = format!("`{name}` cannot be the name of a cluster");
    let hint =
        "use at most 50 lowercase letters, digits and `-`, with a letter or digit at both ends";
    Err(UserError::usage(what).with_hint(hint).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_short_dns_label() {
        for good in ["opctl", "a", "0", "a-1", &"x".repeat(50)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "../a", "a/b", "ä", &"x".repeat(51)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(Duration::from_millis(3149)), "3.1 s");
        assert_eq!(duration(Duration::from_secs(202)), "3 min 22 s");
    }
}
