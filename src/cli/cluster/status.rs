//! What `opctl cluster status` and `list` print.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::Format;
use crate::cluster::{Cluster, ClusterState, Lifetime};
use crate::ui::Ui;

/// Prints the state of a cluster. The exit code is 1 if it is not running.
pub(super) fn status(cluster: &Cluster, output: Format, ui: Ui) -> Result<ExitCode> {
    let state = cluster.state()?;
    let is_running = matches!(state, ClusterState::Running(_));
    // Checked last, because it only explains why the cluster is not running.
    let changing = !is_running && cluster.is_changing()?;
    let reason = if changing {
        Some("another opctl command is starting or stopping it".to_owned())
    } else {
        reason(&state)
    };
    match output {
        Format::Json => ui.data(format!("{:#}", as_json(cluster, &state, reason.as_deref())?))?,
        Format::Text => ui.data(as_text(cluster, &state, reason.as_deref()))?,
    }
    if is_running {
        return Ok(ExitCode::SUCCESS);
    }
    if !changing {
        ui.hint(&cluster.start_hint());
    }
    Ok(ExitCode::FAILURE)
}

/// Prints the clusters that exist.
pub(super) fn list(output: Format, ui: Ui) -> Result<ExitCode> {
    let mut clusters = Vec::new();
    for cluster in Cluster::all()? {
        match cluster.state() {
            Ok(ClusterState::Missing) => {}
            Ok(state) => clusters.push((cluster, state)),
            // The others are listed all the same.
            Err(error) => ui.warning(format!("{error:#}")),
        }
    }
    if output == Format::Json {
        let json = |(cluster, state): &(Cluster, ClusterState)| {
            as_json(cluster, state, reason(state).as_deref())
        };
        let json: Vec<Value> = clusters.iter().map(json).collect::<Result<_>>()?;
        ui.data(format!("{:#}", Value::Array(json)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = clusters.iter().map(|(cluster, _)| cluster.name().len()).max().unwrap_or_default();
    for (cluster, state) in &clusters {
        let (name, text) = (cluster.name(), state_name(state));
        let rest = match (state.record(), reason(state)) {
            (Some(record), None) => record.server.clone(),
            (_, reason) => reason.unwrap_or_default(),
        };
        ui.data(format!("{name:width$}  {text:<10}  {rest}"))?;
    }
    if clusters.is_empty() {
        ui.note("There are no clusters");
    }
    Ok(ExitCode::SUCCESS)
}

/// The state in one word.
fn state_name(state: &ClusterState) -> &'static str {
    match state {
        ClusterState::Missing => "missing",
        ClusterState::Incomplete(_) => "incomplete",
        ClusterState::Stopped(_) => "stopped",
        ClusterState::Broken(..) => "broken",
        ClusterState::Running(_) => "running",
    }
}

/// Why a cluster is not running.
fn reason(state: &ClusterState) -> Option<String> {
    match state {
        ClusterState::Running(_) => None,
        ClusterState::Missing => Some("not started".to_owned()),
        ClusterState::Stopped(_) => Some("stopped, with its data".to_owned()),
        ClusterState::Incomplete(reason) | ClusterState::Broken(_, reason) => Some(reason.clone()),
    }
}

fn as_json(cluster: &Cluster, state: &ClusterState, reason: Option<&str>) -> Result<Value> {
    let mut value = match state.record() {
        Some(record) => serde_json::to_value(record)?,
        None => json!({}),
    };
    value["name"] = json!(cluster.name());
    value["state"] = json!(state_name(state));
    value["running"] = json!(matches!(state, ClusterState::Running(_)));
    if let Some(reason) = reason {
        value["reason"] = json!(reason);
    }
    Ok(value)
}

fn as_text(cluster: &Cluster, state: &ClusterState, reason: Option<&str>) -> String {
    let name = cluster.name();
    let ClusterState::Running(record) = state else {
        let reason = reason.unwrap_or_default();
        return format!("name        {name}\nrunning     no: {reason}");
    };
    let versions = &record.versions;
    let until = match record.lifetime {
        Lifetime::UntilStopped => format!("`opctl cluster stop --name {name}`"),
        Lifetime::UntilUnused => "the last `opctl cluster run` on it ends".to_owned(),
        Lifetime::Temporary => {
            "the last `opctl cluster run` on it ends, which deletes it".to_owned()
        }
    };
    format!(
        "name        {name}\nrunning     yes, until {until}\nserver      {}\nkubeconfig  {}\n\
         audit log   {}\nversions    Kubernetes {}, etcd {}, kwok {}\n\
         nodes       {}, simulated by kwok: pods become Running, but no container runs\n\
         pods        {}",
        record.server,
        record.kubeconfig.display(),
        record.audit_log.display(),
        versions.kubernetes,
        versions.etcd,
        versions.kwok,
        record.nodes,
        record.pods.name(),
    )
}
