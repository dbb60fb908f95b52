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

/// The interval at which a followed log is read.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The log of a component, or the audit log.
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
    /// kwok, which simulates the nodes
    Kwok,
    /// All requests to the API server, one JSON object per line
    Audit,
}

impl ComponentLog {
    fn stem(self) -> &'static str {
        match self {
            ComponentLog::Apiserver => "kube-apiserver",
            ComponentLog::Etcd => "etcd",
            ComponentLog::Kcm => "kube-controller-manager",
            ComponentLog::Scheduler => "kube-scheduler",
            ComponentLog::Kwok => "kwok",
            ComponentLog::Audit => "audit",
        }
    }
}

impl Cluster {
    /// The path of a log. A failed start also leaves its logs.
    pub fn log_file(&self, log: ComponentLog) -> PathBuf {
        self.log(log.stem())
    }

    /// Prints a log and, with `follow`, its new lines until the cluster is stopped.
    ///
    /// # Errors
    /// A [`UserError`] if the log does not exist, and another error if it cannot be read.
    pub fn print_log(&self, ui: Ui, log: ComponentLog, follow: bool) -> Result<()> {
        let path = self.log_file(log);
        if !path.exists() {
            let message = format!("cluster `{}` has no logs", self.name());
            return Err(UserError::failure(message).with_hint(self.start_hint()).into());
        }
        let context = || format!("cannot read `{}`", path.display());
        let mut reader = BufReader::new(File::open(&path).with_context(context)?);
        let mut line = Vec::new();
        loop {
            if reader.read_until(b'\n', &mut line).with_context(context)? == 0 {
                if !follow || !path.exists() {
                    break;
                }
                sleep(POLL_INTERVAL);
            }
            // An incomplete line is kept until it is complete.
            if line.ends_with(b"\n") {
                line.pop();
                if ui.stream(String::from_utf8_lossy(&line)).is_err() {
                    return Ok(());
                }
                line.clear();
            }
        }
        if !line.is_empty() {
            ui.data(String::from_utf8_lossy(&line))?;
        }
        Ok(())
    }
}
