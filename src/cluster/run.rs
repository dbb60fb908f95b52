//! Runs a command on a cluster, which is started if it is not running.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};

use super::Cluster;
use super::binaries::path_directories;
use super::kubeconfig::{CurrentContext, DEFAULT_NAMESPACE};
use super::lock::Lock;
use super::record::{ClusterRecord, ClusterState};
use super::signals::Signals;
use super::start::StartRequest;
use crate::error::UserError;
use crate::ui::Ui;

/// A command to run on a cluster.
#[derive(Debug)]
pub struct RunRequest {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What to start if the cluster is not running, or to fail.
    pub start: Option<StartRequest>,
}

/// The exit codes of a shell for a command that was not found or could not be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

impl Cluster {
    /// Runs a command with `KUBECONFIG`, `OPCTL_CLUSTER`, `OPCTL_NAMESPACE` and `OPCTL_AUDIT_LOG` set,
    /// forwards signals to it and returns its exit code, or 128 + n if signal n killed it. A cluster that
    /// was created for a command is deleted when the last command on it ends; if that fails, it is a warning.
    ///
    /// # Errors
    /// A [`UserError`] if the cluster is not running and is not started, or if its start fails.
    pub fn run(&self, ui: Ui, signals: &Signals, request: &RunRequest) -> Result<u8> {
        if request.start.is_none() && !self.exists() {
            return Err(self.not_running().into());
        }
        let lock = self.lock(ui, || signals.check())?;
        let record = match &request.start {
            Some(start) => self.start_for_command(ui, signals, start)?,
            None => match self.state()? {
                ClusterState::Running(record) => record,
                _ => return Err(self.not_running().into()),
            },
        };
        // Taken before the lock is released, so that another opctl does not find the cluster unused.
        let user = Lock::shared_with_children(&self.users_file())?;
        drop(lock);
        let code = local_command(self, &record, &request.command)
            .and_then(|command| execute(ui, signals, command));
        drop(user);
        if let Err(error) = self.leave(ui, signals) {
            ui.warning(format!("cluster `{}` is not stopped: {error:#}", self.name()));
        }
        code
    }

    /// The error for a command that needs a running cluster.
    fn not_running(&self) -> UserError {
        UserError::failure(format!("cluster `{}` is not running", self.name()))
            .with_hint(self.start_hint())
    }
}

impl CurrentContext {
    /// Runs a command on the cluster of the context. Of the environment only `OPCTL_NAMESPACE` is set.
    /// Signals and exit codes are those of [`Cluster::run`].
    ///
    /// # Errors
    /// If there is no command.
    pub fn run(&self, ui: Ui, signals: &Signals, words: &[OsString]) -> Result<u8> {
        let mut command = command(words)?;
        command.env("OPCTL_NAMESPACE", &self.namespace);
        // opctl may run inside `opctl cluster run`, on that cluster or, with another KUBECONFIG, elsewhere.
        if !is_local(env::var_os("OPCTL_CLUSTER"), env::var_os("KUBECONFIG")) {
            command.env_remove("OPCTL_CLUSTER").env_remove("OPCTL_AUDIT_LOG");
        }
        execute(ui, signals, command)
    }
}

/// Whether the kubeconfig is that of the local cluster of this name.
fn is_local(name: Option<OsString>, kubeconfig: Option<OsString>) -> bool {
    let cluster = name.and_then(|name| Cluster::named(name.to_str()?).ok());
    cluster.is_some_and(|cluster| kubeconfig == Some(cluster.kubeconfig().into_os_string()))
}

fn command(words: &[OsString]) -> Result<Command> {
    let [program, args @ ..] = words else {
        return Err(UserError::usage("no command to run").into());
    };
    let mut command = Command::new(program);
    command.args(args);
    Ok(command)
}

/// The command with the environment for a local cluster.
fn local_command(cluster: &Cluster, record: &ClusterRecord, words: &[OsString]) -> Result<Command> {
    let mut command = command(words)?;
    command.env("KUBECONFIG", &record.kubeconfig).env("OPCTL_CLUSTER", cluster.name());
    command.env("OPCTL_NAMESPACE", DEFAULT_NAMESPACE).env("OPCTL_AUDIT_LOG", &record.audit_log);
    // kubectl caches the discovery of a server by its address, which another cluster may have used before.
    command.env("KUBECACHEDIR", cluster.kubectl_cache());
    if let Some(path) = path_with(&record.kubectl) {
        command.env("PATH", path);
    }
    Ok(command)
}

fn execute(ui: Ui, signals: &Signals, mut command: Command) -> Result<u8> {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let is_missing = error.kind() == ErrorKind::NotFound;
            ui.error(&cannot_run(command.get_program(), &error).into());
            return Ok(if is_missing { NOT_FOUND } else { NOT_EXECUTABLE });
        }
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    loop {
        // Checked before the first wait: the child may already have ended.
        if let Some(status) = child.try_wait()? {
            return Ok(exit_code(status));
        }
        for signal in signals.wait() {
            // The child has not been reaped, so no other process has its pid.
            let signal = Signal::from_named_raw(signal);
            let _ = pid.zip(signal).map(|(pid, signal)| kill_process(pid, signal));
        }
    }
}

fn cannot_run(program: &OsStr, reason: &io::Error) -> UserError {
    let error = UserError::failure(format!("cannot run `{}`: {reason}", program.display()));
    // On a local cluster kubectl is always found: see `path_with`.
    if program == "kubectl" && reason.kind() == ErrorKind::NotFound {
        return error.with_hint("install kubectl: https://kubernetes.io/docs/tasks/tools/");
    }
    error
}

/// `PATH` with the directory of kubectl appended; `None` if `PATH` already has a kubectl.
fn path_with(kubectl: &Path) -> Option<OsString> {
    let mut directories = path_directories();
    if directories.iter().any(|directory| directory.join("kubectl").is_file()) {
        return None;
    }
    directories.push(kubectl.parent()?.to_owned());
    env::join_paths(directories).ok()
}

/// The exit code that a shell would report.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::error::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(255 << 8)), 255);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    }
}
