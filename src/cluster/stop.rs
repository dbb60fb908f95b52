//! Ends a cluster: stops it and keeps its data, or deletes it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context, Result};

use super::Cluster;
use super::record::{ClusterRecord, Lifetime};
use super::signals::Signals;
use crate::ui::Ui;

/// What became of a cluster that was to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    /// It was not running.
    NotRunning,
    /// It is stopped, and a start continues with its data.
    Stopped,
    /// It is deleted, because it was started for commands only.
    Deleted,
}

impl Cluster {
    /// Stops the cluster. Its data stay, unless it is a temporary one.
    ///
    /// # Errors
    /// If a process cannot be stopped, or if the data cannot be written to the disk.
    pub fn stop(&self, ui: Ui) -> Result<StopOutcome> {
        // The processes outlive the removal of the state directory.
        if !self.exists() && self.components().is_empty() {
            return Ok(StopOutcome::NotRunning);
        }
        let _lock = self.lock(ui, || Ok(()))?;
        let was_running = !self.components().is_empty();
        self.report_users(ui)?;
        match ClusterRecord::read(self)? {
            Some(record) if record.lifetime != Lifetime::Temporary => {
                self.halt()?;
                Ok(if was_running { StopOutcome::Stopped } else { StopOutcome::NotRunning })
            }
            record => {
                self.discard()?;
                let has_run = was_running || record.is_some();
                Ok(if has_run { StopOutcome::Deleted } else { StopOutcome::NotRunning })
            }
        }
    }

    /// Stops the cluster and deletes its data. Returns whether there was one.
    ///
    /// # Errors
    /// If a process cannot be stopped or a file cannot be deleted.
    pub fn delete(&self, ui: Ui) -> Result<bool> {
        if !self.exists() && self.components().is_empty() {
            return Ok(false);
        }
        let _lock = self.lock(ui, || Ok(()))?;
        self.report_users(ui)?;
        self.discard()?;
        Ok(true)
    }

    /// Ends the cluster if it was started for a command and no other command uses it.
    pub(super) fn leave(&self, ui: Ui, signals: &Signals) -> Result<()> {
        if !self.exists() {
            return Ok(());
        }
        let _lock = self.lock(ui, || signals.check())?;
        if !self.is_unused()? {
            return Ok(());
        }
        match ClusterRecord::read(self)?.map(|record| record.lifetime) {
            Some(Lifetime::UntilStopped) => return Ok(()),
            Some(Lifetime::UntilUnused) => {
                self.halt()?;
                ui.status("Stopped", format!("cluster `{}`", self.name()));
            }
            Some(Lifetime::Temporary) | None => {
                self.discard()?;
                ui.status("Deleted", format!("temporary cluster `{}`", self.name()));
            }
        }
        Ok(())
    }

    fn report_users(&self, ui: Ui) -> Result<()> {
        if !self.is_unused()? {
            ui.attention("Stopping", format!("cluster `{}` under a running command", self.name()));
        }
        Ok(())
    }

    /// Ends all processes and keeps the data, also if the machine loses its power afterwards. The caller
    /// holds the lock.
    pub(super) fn halt(&self) -> Result<()> {
        self.kill()?;
        // Programs that used the cluster find the kubeconfig again when it is ready.
        let kubeconfig = self.kubeconfig();
        if kubeconfig.exists() {
            fs::remove_file(&kubeconfig)?;
        }
        let data = self.data();
        sync(&data).with_context(|| format!("cannot write `{}` to the disk", data.display()))
    }

    /// Ends all processes and deletes the directory with all data. The caller holds the lock, which ends to
    /// exist.
    pub(super) fn discard(&self) -> Result<()> {
        self.kill()?;
        let context = || format!("cannot delete `{}`", self.directory.display());
        fs::remove_dir_all(&self.directory).with_context(context)
    }

    /// Ends all processes and deletes everything but the locks, which the caller holds.
    pub(super) fn clear(&self) -> Result<()> {
        self.kill()?;
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if self.is_lock(&path) {
                continue;
            }
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| format!("cannot delete `{}`", path.display()))?;
        }
        Ok(())
    }

    /// Deletes the directory if it contains nothing but the locks, which the caller holds: a cluster that
    /// could not be created leaves nothing but its logs.
    pub(super) fn discard_if_empty(&self) -> Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            if !self.is_lock(&entry?.path()) {
                return Ok(());
            }
        }
        Ok(fs::remove_dir_all(&self.directory)?)
    }

    fn is_lock(&self, path: &Path) -> bool {
        path == self.lock_file() || path == self.users_file()
    }
}

/// Writes a directory with all files to the disk.
fn sync(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { sync(&path)? } else { File::open(&path)?.sync_all()? }
    }
    File::open(directory)?.sync_all()
}
