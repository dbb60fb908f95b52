//! The logs of a cluster's components.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Cluster;
use crate::error::UserError;
use crate::ui::Ui;

/// How often a followed log is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A log, by the name that a user gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ComponentLog {
    /// The API server
    Apiserver,
    /// etcd
    Etcd,
    /// The controller manager
    Kcm,
    /// The scheduler
    Scheduler,
    /// kwok, which plays the nodes
    Kwok,
    /// Every request to the API server, one JSON object a line
    Audit,
}

impl ComponentLog {
    fn stem(self) -> &'static str {
        match self {
            ComponentLog::Apiserver => "kube-apiserver",
            ComponentLog::Etcd => "etcd",
            ComponentLog::Kcm => "kube-controller-manager",
            ComponentLog::Scheduler => "kube-scheduler",
            ComponentLog::Kwok => "kwok-controller",
            ComponentLog::Audit => "audit",
        }
    }
}

impl Cluster {
    /// Where the log is. A failed start leaves it too.
    pub fn log_file(&self, log: ComponentLog) -> PathBuf {
        self.log(log.stem())
    }

    /// Prints the log, and what is added to it until the cluster is stopped.
    ///
    /// # Errors
    /// A [`UserError`] when there is no such log; when it cannot be read.
    pub fn print_log(&self, ui: Ui, log: ComponentLog, follow: bool) -> Result<()> {
        let path = self.log_file(log);
        if !path.exists() {
            let what = format!("cluster `{}` has no logs", self.name());
            return Err(UserError::failure(what).with_hint(self.start_hint()).into());
        }
        let failed = || format!("cannot read `{}`", path.display());
        let mut reader = BufReader::new(File::open(&path).with_context(failed)?);
        let mut line = Vec::new();
        loop {
            if reader.read_until(b'\n', &mut line).with_context(failed)? == 0 {
                if !follow || !path.exists() {
                    break;
                }
                sleep(POLL_INTERVAL);
            }
            // A line that is still being written is kept until its end is there.
            if line.ends_with(b"\n") {
                line.pop();
                if ui.stream(String::from_utf8_lossy(&line)).is_err() {
                    return Ok(());
                }
                line.clear();
            }
        }
        if !line.is_empty() {
            ui.data(String::from_utf8_lossy(&line));
        }
        Ok(())
    }
}
