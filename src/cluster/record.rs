//! The state of a cluster: the record of its start, and the state of its processes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Cluster, ready};

/// The properties of a cluster, which are recorded when it is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRecord {
    /// The URL of the API server.
    pub server: String,
    /// The file for `KUBECONFIG`.
    pub kubeconfig: PathBuf,
    /// The audit log: one JSON object per line for each request to the API server.
    pub audit_log: PathBuf,
    /// The number of simulated nodes.
    pub nodes: u16,
    /// The versions of the programs.
    pub versions: Versions,
    /// The path of kubectl.
    pub kubectl: PathBuf,
    /// Whether the last command to end stops the cluster, because it was started for a command.
    pub stop_when_unused: bool,
}

/// The versions that the programs report.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Versions {
    /// The version of the API server.
    pub kubernetes: String,
    /// The version of etcd.
    pub etcd: String,
    /// The version of kwok.
    pub kwok: String,
}

impl ClusterRecord {
    /// Writes the record, which marks the cluster as ready.
    pub(super) fn write(&self, cluster: &Cluster) -> Result<()> {
        let part = tempfile::NamedTempFile::new_in(&cluster.directory)?;
        serde_json::to_writer_pretty(&part, self)?;
        part.persist(file(cluster)).context("cannot write the record of the cluster")?;
        Ok(())
    }

    /// Reads the record, which exists if the cluster was ready.
    pub(super) fn read(cluster: &Cluster) -> Option<Self> {
        serde_json::from_slice(&fs::read(file(cluster)).ok()?).ok()
    }
}

fn file(cluster: &Cluster) -> PathBuf {
    cluster.directory.join("cluster.json")
}

/// The state of a cluster.
#[derive(Debug)]
pub enum ClusterState {
    /// No process runs.
    Stopped,
    /// All processes run, and the API server is ready.
    Running(ClusterRecord),
    /// The cluster does not work, for this reason, but is not stopped.
    Broken(String),
}

impl ClusterState {
    pub(super) fn query(cluster: &Cluster) -> Self {
        let Some(record) = ClusterRecord::read(cluster) else {
            return match cluster.components().len() {
                0 => ClusterState::Stopped,
                n => ClusterState::Broken(format!(
                    "{n} processes of an incomplete start are running"
                )),
            };
        };
        let absent = cluster.absent();
        if absent.len() == super::COMPONENTS.len() {
            return ClusterState::Broken("all processes have ended".to_owned());
        }
        if !absent.is_empty() {
            return ClusterState::Broken(format!("missing processes: {}", absent.join(", ")));
        }
        match ready::raw(cluster, &record.kubectl, "/readyz", || Ok(())) {
            Ok(Some(_)) => ClusterState::Running(record),
            _ => ClusterState::Broken("the API server is not ready".to_owned()),
        }
    }
}
