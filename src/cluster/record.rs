//! What is known of a cluster: what its starter wrote down, and what a look at it says.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Cluster, process, ready};

/// What the starter of a cluster wrote down once it was ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRecord {
    /// The URL of the API server.
    pub server: String,
    /// The file for `KUBECONFIG`.
    pub kubeconfig: PathBuf,
    /// One JSON object a line for each request to the API server.
    pub audit_log: PathBuf,
    /// How many nodes kwok plays.
    pub nodes: u16,
    /// What runs.
    pub versions: Versions,
    /// The kubectl that asked for the cluster's health.
    pub kubectl: PathBuf,
    /// Started for the time of a command: the last command to end stops it.
    pub stop_when_unused: bool,
}

/// The releases of the programs, as they give them themselves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Versions {
    /// The API server's release.
    pub kubernetes: String,
    /// etcd's release.
    pub etcd: String,
    /// kwok's release.
    pub kwok: String,
}

impl ClusterRecord {
    /// Writes the record: the cluster is now one that was ready.
    pub(super) fn write(&self, cluster: &Cluster) -> Result<()> {
        let part = tempfile::NamedTempFile::new_in(&cluster.directory)?;
        serde_json::to_writer_pretty(&part, self)?;
        part.persist(file(cluster)).context("cannot write the cluster's record")?;
        Ok(())
    }

    /// The record, unless the cluster was never ready.
    pub(super) fn read(cluster: &Cluster) -> Option<Self> {
        serde_json::from_slice(&fs::read(file(cluster)).ok()?).ok()
    }
}

fn file(cluster: &Cluster) -> PathBuf {
    cluster.directory.join("cluster.json")
}

/// What a cluster is like.
#[derive(Debug)]
pub enum ClusterState {
    /// Nothing of it runs.
    Stopped,
    /// All of it runs, and its API server says that it is ready.
    Running(ClusterRecord),
    /// Something is left of it that does not work; why.
    Broken(String),
}

impl ClusterState {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let Some(record) = ClusterRecord::read(cluster) else {
            return match process::components(&cluster.bin()).len() {
                0 => ClusterState::Stopped,
                n => ClusterState::Broken(format!(
                    "{n} processes of a start that did not finish run"
                )),
            };
        };
        let absent = cluster.absent();
        if absent.len() == super::COMPONENTS.len() {
            return ClusterState::Broken("none of its processes runs any more".to_owned());
        }
        if !absent.is_empty() {
            return ClusterState::Broken(format!("it lacks {}", absent.join(", ")));
        }
        match ready::raw(cluster, &record.kubectl, "/readyz", || Ok(())) {
            Ok(Some(_)) => ClusterState::Running(record),
            _ => ClusterState::Broken("its API server is not ready".to_owned()),
        }
    }
}
