//! A real control plane on this machine.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler run as plain processes that listen on
//! loopback only; kwok simulates the nodes, so that pods become Running, but no container runs, and the
//! volumes, in which nothing is stored. The components run as the user: what they could do to the files of
//! the user is prevented by [`objects`], and what others could do through them by [`components`]. The probes
//! of [`ready`] check that they work, and [`process`] finds the processes of a cluster, so that nothing
//! depends on the orderly end of a process.
//!
//! Each cluster has a directory in the state directory, with all data. It exists until the cluster is
//! deleted: whatever ends a process, a start begins where it ended. A command that changes the cluster holds
//! the lock of the file `lock`, and a command that runs on it a shared lock of the file `users`. The system
//! releases both when a process ends.

mod api_server;
mod binaries;
mod build;
mod cache;
mod certificates;
mod components;
mod directories;
mod download;
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
mod stages;
mod start;
mod stop;

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

pub use kubeconfig::CurrentContext;
pub use logs::ComponentLog;
pub use record::{ClusterRecord, ClusterState, Lifetime, Versions};
pub use run::RunRequest;
pub use signals::{Interrupted, Signals};
pub use stages::PodBehavior;
pub use start::StartRequest;
pub use stop::StopOutcome;

use crate::error::UserError;
use crate::ui::Ui;
use binaries::Tool;
use certificates::Certificates;
use components::COMPONENTS;
use lock::Lock;
use process::Process;

/// The default name of a cluster.
pub const DEFAULT_NAME: &str = "opctl";

/// The default number of nodes. Each runs up to 110 pods, so that there is room for more than 2,000.
pub const DEFAULT_NODES: u16 = 20;

/// The maximum length of a name, which is part of names in kubeconfigs.
const MAX_NAME: usize = 50;

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

    /// The hint for a cluster that is not running.
    pub fn start_hint(&self) -> String {
        format!("run `opctl cluster start --name {}`", self.name)
    }

    /// The clusters of this user, by name.
    ///
    /// # Errors
    /// If the state directory cannot be read.
    pub fn all() -> Result<Vec<Self>> {
        let clusters = directories::state()?.join("clusters");
        let context = || format!("cannot read `{}`", clusters.display());
        let entries = match fs::read_dir(&clusters) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(context),
        };
        let mut all = Vec::new();
        for entry in entries {
            let name = entry.with_context(context)?.file_name();
            // Other files are not those of a cluster, such as the lock of the ports.
            all.extend(name.to_str().and_then(|name| Self::named(name).ok()));
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Whether the cluster has a directory.
    fn exists(&self) -> bool {
        self.directory.exists()
    }

    /// The current state of the cluster, from its processes and its API server.
    ///
    /// # Errors
    /// A [`UserError`] if its record cannot be read.
    pub fn state(&self) -> Result<ClusterState> {
        ClusterState::query(self)
    }

    /// Whether another opctl is starting or stopping the cluster.
    ///
    /// # Errors
    /// If the lock file cannot be opened.
    pub fn is_changing(&self) -> Result<bool> {
        Ok(self.exists() && Lock::try_exclusive(&self.lock_file())?.is_none())
    }

    /// Whether no command runs on the cluster. The caller holds the lock.
    fn is_unused(&self) -> Result<bool> {
        Ok(Lock::try_exclusive(&self.users_file())?.is_some())
    }

    /// Waits for the lock for changing the cluster, whose directory is created.
    fn lock(&self, ui: Ui, tick: impl Fn() -> Result<()>) -> Result<Lock> {
        let mut is_reported = false;
        let mut tick = || {
            if !is_reported {
                let message = format!("for another opctl to start or stop `{}`", self.name);
                ui.status("Waiting", message);
                is_reported = true;
            }
            tick()
        };
        loop {
            directories::create_private(&self.directory)?;
            // The other opctl may delete the directory.
            if let Some(lock) = Lock::exclusive(&self.lock_file(), &mut tick)? {
                return Ok(lock);
            }
        }
    }

    /// Kills the components.
    fn kill(&self) -> Result<()> {
        process::kill(|process| self.component(process).is_some())
    }

    /// The components that are running.
    fn components(&self) -> Vec<Tool> {
        process::all().iter().filter_map(|process| self.component(process)).collect()
    }

    /// The components that are not running.
    fn absent(&self) -> Vec<Tool> {
        let running = self.components();
        COMPONENTS.into_iter().filter(|component| !running.contains(component)).collect()
    }

    /// The component that a process is: it runs the program under its link in the cluster, with a path in
    /// the cluster as an argument.
    fn component(&self, process: &Process) -> Option<Tool> {
        let is_in_cluster = |argument: &OsString| {
            let value = argument.to_str().and_then(|argument| argument.split_once('='));
            value.is_some_and(|(_, value)| Path::new(value).starts_with(&self.directory))
        };
        let is_component = |component: &Tool| process.runs(&self.link(*component));
        let component = COMPONENTS.into_iter().find(is_component)?;
        process.arguments.iter().any(is_in_cluster).then_some(component)
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

    fn audit_policy(&self) -> PathBuf {
        self.directory.join("audit-policy.yaml")
    }

    /// The configuration file of kwok.
    fn stages(&self) -> PathBuf {
        self.directory.join("kwok.yaml")
    }

    /// The data of etcd.
    fn data(&self) -> PathBuf {
        self.directory.join("etcd")
    }

    /// The discovery cache of kubectl.
    fn kubectl_cache(&self) -> PathBuf {
        self.directory.join("kubectl")
    }

    /// The kubeconfig of the components.
    fn own_kubeconfig(&self) -> PathBuf {
        self.directory.join("components.kubeconfig")
    }

    fn bin(&self) -> PathBuf {
        self.directory.join("bin")
    }

    /// The link by which a component is started and identified.
    fn link(&self, component: Tool) -> PathBuf {
        self.bin().join(component.file())
    }

    fn certificates(&self) -> Certificates {
        Certificates::in_directory(&self.directory.join("pki"))
    }

    fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
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
