//! Runs a command on a cluster, which is started for it if need be.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};

use super::binaries::path_directories;
use super::lock::Lock;
use super::record::{ClusterRecord, ClusterState};
use super::signals::Signals;
use super::{Cluster, start};
use crate::error::UserError;
use crate::ui::Ui;

/// A command to run on a cluster.
#[derive(Debug)]
pub struct RunRequest {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Whether a cluster that does not run is started.
    pub start: bool,
    /// The nodes of a cluster that is started.
    pub nodes: u16,
}

/// The exit codes by which a shell says that a command was not found, or could not be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

impl Cluster {
    /// Runs the command with `KUBECONFIG` and `OPCTL_CLUSTER` set, passes signals on to it and
    /// returns its exit code, 128 + n when signal n killed it. A cluster that was started for a
    /// command is stopped when the last command on it ends.
    ///
    /// # Errors
    /// A [`UserError`] when the cluster does not run and is not to be started, or does not start.
    pub fn run(&self, ui: Ui, signals: &Signals, request: &RunRequest) -> Result<u8> {
        let lock = self.lock(ui, || signals.check())?;
        let record = match self.state() {
            ClusterState::Running(record) => record,
            _ if request.start => start::start(self, ui, signals, request.nodes, true)?,
            _ => return Err(self.not_running().into()),
        };
        // Taken before the lock is given back, so that nobody finds the cluster without a user.
        let user = Lock::shared(&self.users_file())?;
        drop(lock);
        let code = execute(self, ui, signals, &record, &request.command);
        drop(user);
        self.leave(ui)?;
        code
    }

    /// The refusal of what needs a running cluster.
    fn not_running(&self) -> UserError {
        UserError::failure(format!("cluster `{}` is not running", self.name()))
            .with_hint(self.start_hint())
    }

    /// Stops the cluster if it is to end with its last user, and there is none left.
    fn leave(&self, ui: Ui) -> Result<()> {
        let _lock = self.lock(ui, || Ok(()))?;
        let unwanted = ClusterRecord::read(self).is_none_or(|record| record.stop_when_unused);
        if unwanted && Lock::try_exclusive(&self.users_file())?.is_some() {
            self.remove()?;
            ui.status("Stopped", format!("cluster `{}`", self.name()));
        }
        Ok(())
    }
}

fn execute(
    cluster: &Cluster,
    ui: Ui,
    signals: &Signals,
    record: &ClusterRecord,
    words: &[OsString],
) -> Result<u8> {
    let [program, args @ ..] = words else {
        return Err(UserError::usage("there is no command to run").into());
    };
    let mut command = Command::new(program);
    command.args(args).env("KUBECONFIG", &record.kubeconfig).env("OPCTL_CLUSTER", cluster.name());
    command.env("OPCTL_AUDIT_LOG", &record.audit_log);
    // kubectl remembers for hours what a server knows, by its address: another cluster's ports.
    command.env("KUBECACHEDIR", cluster.kubectl_cache());
    if let Some(path) = path_with(&record.kubectl) {
        command.env("PATH", path);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let missing = error.kind() == ErrorKind::NotFound;
            let what = format!("cannot run `{}`", program.display());
            ui.error(&anyhow::Error::new(error).context(what));
            return Ok(if missing { NOT_FOUND } else { NOT_EXECUTABLE });
        }
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    loop {
        // Looked at first: the child may have ended before anyone slept.
        if let Some(status) = child.try_wait()? {
            return Ok(exit_code(status));
        }
        for signal in signals.wait() {
            // The child has not been waited for, so its number is still its own.
            let signal = Signal::from_named_raw(signal);
            let _ = pid.zip(signal).map(|(pid, signal)| kill_process(pid, signal));
        }
    }
}

/// `PATH` with kubectl's folder at its end, when there is no kubectl on it.
fn path_with(kubectl: &Path) -> Option<OsString> {
    let mut directories = path_directories();
    if directories.iter().any(|directory| directory.join("kubectl").is_file()) {
        return None;
    }
    directories.push(kubectl.parent()?.to_owned());
    env::join_paths(directories).ok()
}

/// What a shell makes of a status.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::error::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_becomes_what_a_shell_reports() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(255 << 8)), 255);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    }
}
