//! The state of a cluster: the record of its start, and the state of its processes.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Cluster;
use super::api_server::ApiServer;
use super::components::COMPONENTS;
use super::ports::Ports;
use super::stages::PodBehavior;
use crate::error::UserError;

/// The properties of a cluster, which are recorded when it is ready. It then has data that are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRecord {
    /// The URL of the API server.
    pub server: String,
    /// The file for `KUBECONFIG`.
    pub kubeconfig: PathBuf,
    /// The audit log: one JSON object per line for each request to the API server.
    pub audit_log: PathBuf,
    /// The number of nodes that were created with the cluster.
    pub nodes: u16,
    /// How pods without a label behave.
    pub pods: PodBehavior,
    /// The versions of the programs.
    pub versions: Versions,
    /// The path of kubectl.
    pub kubectl: PathBuf,
    /// How long the cluster runs.
    pub lifetime: Lifetime,
    /// The ports of the components.
    pub ports: Ports,
}

/// How long a cluster runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Lifetime {
    /// Until a user stops it.
    UntilStopped,
    /// Until the last command on it ends, because it was stopped before. Its data are kept.
    UntilUnused,
    /// Until the last command on it ends, because it was created for one. It is deleted then.
    Temporary,
}

/// The versions that the programs report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The version of the API server.
    pub kubernetes: String,
    /// The version of etcd.
    pub etcd: String,
    /// The version of kwok.
    pub kwok: String,
}

impl ClusterRecord {
    /// Writes the record, which marks the data of the cluster as worth keeping.
    pub(super) fn write(&self, cluster: &Cluster) -> Result<()> {
        let part = tempfile::NamedTempFile::new_in(&cluster.directory)?;
        serde_json::to_writer_pretty(&part, self)?;
        part.as_file().sync_all()?;
        part.persist(file(cluster)).context("cannot write the record of the cluster")?;
        Ok(())
    }

    /// Reads the record, which exists if the cluster was ever ready.
    ///
    /// # Errors
    /// A [`UserError`] if it cannot be read: without it, the data could be taken for those of a start that
    /// failed.
    pub(super) fn read(cluster: &Cluster) -> Result<Option<Self>> {
        let path = file(cluster);
        let unreadable = |reason: String| {
            let message = format!("cannot read `{}`: {reason}", path.display());
            let hint = format!(
                "run `opctl cluster delete --name {}` if you do not need its data",
                cluster.name()
            );
            UserError::failure(message).with_hint(hint)
        };
        match fs::read(&path) {
            Ok(bytes) => {
                let record = serde_json::from_slice(&bytes);
                Ok(Some(record.map_err(|error| unreadable(error.to_string()))?))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(error.to_string()).into()),
        }
    }
}

fn file(cluster: &Cluster) -> PathBuf {
    cluster.directory.join("cluster.json")
}

/// The state of a cluster.
#[derive(Debug)]
pub enum ClusterState {
    /// There is none, or only the logs of one that did not start.
    Missing,
    /// Processes run, but the cluster was never ready: it has no data worth keeping.
    Incomplete(String),
    /// No process runs. The data are kept.
    Stopped(ClusterRecord),
    /// The cluster does not work, for this reason, but is not stopped.
    Broken(ClusterRecord, String),
    /// All processes run, and the API server is ready.
    Running(ClusterRecord),
}

impl ClusterState {
    /// The record of a cluster that was ever ready.
    pub fn record(&self) -> Option<&ClusterRecord> {
        match self {
            ClusterState::Missing | ClusterState::Incomplete(_) => None,
            ClusterState::Stopped(record)
            | ClusterState::Broken(record, _)
            | ClusterState::Running(record) => Some(record),
        }
    }

    pub(super) fn query(cluster: &Cluster) -> Result<Self> {
        let absent = cluster.absent();
        let Some(record) = ClusterRecord::read(cluster)? else {
            return Ok(match COMPONENTS.len() - absent.len() {
                0 => ClusterState::Missing,
                count => ClusterState::Incomplete(format!(
                    "{count} processes of an incomplete start are running"
                )),
            });
        };
        if absent.len() == COMPONENTS.len() {
            return Ok(ClusterState::Stopped(record));
        }
        if !absent.is_empty() {
            let names: Vec<&str> = absent.iter().map(|component| component.file()).collect();
            let reason = format!("missing processes: {}", names.join(", "));
            return Ok(ClusterState::Broken(record, reason));
        }
        let api_server = ApiServer::new(cluster, &record.ports);
        Ok(match api_server.and_then(|it| it.get("/readyz", || Ok(()))) {
            Ok(Some(_)) => ClusterState::Running(record),
            _ => ClusterState::Broken(record, "the API server is not ready".to_owned()),
        })
    }
}
