//! `opctl cluster`: the flags of the local control plane.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::Format;
use crate::cluster::{
    Cluster, ClusterState, ComponentLog, CurrentContext, DEFAULT_NAME, DEFAULT_NODES, Interrupted,
    RunRequest, Signals,
};
use crate::ui::Ui;

/// Run a real control plane on this machine, without Docker
#[derive(Debug, Args)]
#[command(
    long_about = "Run a real control plane on this machine, without Docker.\n\n\
        etcd, kube-apiserver, kube-controller-manager and kube-scheduler run as processes that \
        listen on loopback only. kwok simulates the nodes: pods become Running, but no container \
        runs. It simulates volumes, too: claims are bound, but nothing is stored. Your kubeconfig is \
        never changed.\n\n\
        The cluster runs as you, and Kubernetes deletes the directory of a released hostPath volume \
        with the reclaim policy Delete. The cluster rejects such a volume.\n\n\
        opctl looks for the programs in the directory OPCTL_CLUSTER_ASSETS, in its cache and on \
        PATH. It builds missing ones with Go, once, in about 6 minutes; without Go, kwokctl \
        downloads them and verifies no checksums.",
    after_help = "Examples:\n  \
        opctl cluster run -- kubectl get nodes\n  \
        opctl cluster start\n  \
        opctl cluster stop"
)]
pub(super) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Start the cluster if it is not running, and print the path of its kubeconfig
    #[command(after_help = "Examples:\n  \
        opctl cluster start\n  \
        export KUBECONFIG=$(opctl cluster start --name second --nodes 3)")]
    Start {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        nodes: Nodes,
    },
    /// Stop the cluster and delete its data
    #[command(after_help = "Examples:\n  opctl cluster stop\n  opctl cluster stop --name second")]
    Stop {
        #[command(flatten)]
        name: Name,
    },
    /// Print the status of the cluster; the exit code is 1 if it is not running
    #[command(after_help = "Examples:\n  opctl cluster status\n  opctl cluster status -o json")]
    Status {
        #[command(flatten)]
        name: Name,
        /// Output format
        #[arg(short, long, value_enum, default_value_t = Format::Text)]
        output: Format,
    },
    /// Run a command on the cluster, and start the cluster if it is not running
    #[command(
        long_about = "Run a command on the cluster, and start the cluster if it is not running.\n\n\
            KUBECONFIG, OPCTL_CLUSTER (the name), OPCTL_NAMESPACE (`default`) and OPCTL_AUDIT_LOG \
            (the API server's audit log) are set for the command. opctl exits with the exit code of \
            the command, or with 128 + n if signal n killed it. A cluster that was started for a \
            command is stopped when the last command on it ends; if that fails, opctl prints a \
            warning.",
        after_help = "Examples:\n  \
            opctl cluster run -- kubectl get nodes\n  \
            opctl cluster run --name test -- cargo test\n  \
            opctl cluster run --no-start -- sh -c 'echo $KUBECONFIG'\n  \
            opctl cluster run --prefer-current-context -- kubectl apply -k config/samples"
    )]
    Run {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        nodes: Nodes,
        /// Fail if the cluster is not running
        #[arg(long)]
        no_start: bool,
        /// Run on the cluster of the current kubeconfig context, if there is one
        ///
        /// The context is determined as by kubectl, from the files in KUBECONFIG or from
        /// ~/.kube/config. Its server and name are printed first. For the command only
        /// OPCTL_NAMESPACE is set, to the namespace of the context; a local cluster is not started.
        /// If there is no current context, the command runs on the local cluster.
        #[arg(long)]
        prefer_current_context: bool,
        /// Command and its arguments
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Print the log of a component, or the paths of all logs
    #[command(after_help = "Examples:\n  \
        opctl cluster logs\n  \
        opctl cluster logs apiserver\n  \
        opctl cluster logs audit --follow")]
    Logs {
        #[command(flatten)]
        name: Name,
        /// Follow the log until the cluster is stopped
        #[arg(short, long, requires = "component")]
        follow: bool,
        /// Component to print the log of [default: print the paths of all logs]
        #[arg(value_enum)]
        component: Option<ComponentLog>,
    },
}

#[derive(Debug, Args)]
struct Name {
    /// Name of the cluster; several clusters can run at the same time
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
}

#[derive(Debug, Args)]
struct Nodes {
    /// Number of nodes of a new cluster; each node can run 110 pods
    #[arg(long, default_value_t = DEFAULT_NODES, value_parser = clap::value_parser!(u16).range(1..=1000))]
    nodes: u16,
}

/// Runs the command. An interruption is reported only by the exit code and a note.
pub(super) fn run(args: ClusterArgs, ui: Ui) -> Result<ExitCode> {
    run_command(args.command, ui).or_else(|error| match error.downcast_ref::<Interrupted>() {
        Some(interrupted) => {
            ui.note(interrupted.to_string());
            Ok(interrupted.code().into())
        }
        None => Err(error),
    })
}

fn run_command(command: ClusterCommand, ui: Ui) -> Result<ExitCode> {
    match command {
        ClusterCommand::Start { name, nodes } => {
            let cluster = Cluster::named(&name.name)?;
            let record = cluster.start(ui, &Signals::catch()?, nodes.nodes)?;
            let kubeconfig = record.kubeconfig.display().to_string();
            ui.note(format!("To use it: export KUBECONFIG={kubeconfig}"));
            ui.data(kubeconfig)?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::Stop { name } => {
            let cluster = Cluster::named(&name.name)?;
            let state = if cluster.stop(ui)? { "" } else { ", which was not running" };
            ui.status("Stopped", format!("cluster `{}`{state}", cluster.name()));
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::Status { name, output } => status(&Cluster::named(&name.name)?, output, ui),
        ClusterCommand::Run { name, nodes, no_start, prefer_current_context, command } => {
            if prefer_current_context {
                if let Some(context) = CurrentContext::read()? {
                    ui.note(format!("cluster: {} (context {})", context.server, context.name));
                    let code = context.run(ui, &Signals::catch()?, &command)?;
                    return Ok(ExitCode::from(code));
                }
                let name = &name.name;
                ui.note(format!(
                    "cluster: local cluster `{name}` (kubeconfig has no current context)"
                ));
            }
            let request = RunRequest { command, start: !no_start, nodes: nodes.nodes };
            let code = Cluster::named(&name.name)?.run(ui, &Signals::catch()?, &request)?;
            Ok(ExitCode::from(code))
        }
        ClusterCommand::Logs { name, follow, component } => {
            let cluster = Cluster::named(&name.name)?;
            match component {
                Some(log) => cluster.print_log(ui, log, follow)?,
                None => list_logs(&cluster, ui)?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list_logs(cluster: &Cluster, ui: Ui) -> Result<()> {
    for log in ComponentLog::value_variants() {
        if let Some(value) = log.to_possible_value() {
            ui.data(format!("{:<9} {}", value.get_name(), cluster.log_file(*log).display()))?;
        }
    }
    Ok(())
}

fn status(cluster: &Cluster, output: Format, ui: Ui) -> Result<ExitCode> {
    let state = cluster.state();
    // Checked last, because it only explains why the cluster is not running.
    let changing = !matches!(state, ClusterState::Running(_)) && cluster.is_changing()?;
    let reason = match &state {
        ClusterState::Running(_) => None,
        _ if changing => Some("another opctl command is starting or stopping it".to_owned()),
        ClusterState::Broken(reason) => Some(reason.clone()),
        ClusterState::Stopped => Some("not started".to_owned()),
    };
    match output {
        Format::Json => ui.data(format!("{:#}", as_json(cluster, &state, reason.as_deref())?))?,
        Format::Text => ui.data(as_text(cluster, &state, reason.as_deref()))?,
    }
    if reason.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    if !changing {
        ui.hint(&cluster.start_hint());
    }
    Ok(ExitCode::FAILURE)
}

fn as_json(cluster: &Cluster, state: &ClusterState, reason: Option<&str>) -> Result<Value> {
    let mut value = match state {
        ClusterState::Running(record) => serde_json::to_value(record)?,
        _ => json!({ "reason": reason }),
    };
    value["name"] = json!(cluster.name());
    value["running"] = json!(reason.is_none());
    Ok(value)
}

fn as_text(cluster: &Cluster, state: &ClusterState, reason: Option<&str>) -> String {
    let ClusterState::Running(record) = state else {
        let reason = reason.unwrap_or_default();
        return format!("name        {}\nrunning     no: {reason}", cluster.name());
    };
    let versions = &record.versions;
    let until = if record.stop_when_unused {
        "the last `opctl cluster run` on it ends".to_owned()
    } else {
        format!("`opctl cluster stop --name {}`", cluster.name())
    };
    format!(
        "name        {}\nrunning     yes, until {until}\nserver      {}\nkubeconfig  {}\n\
         audit log   {}\nversions    Kubernetes {}, etcd {}, kwok {}\n\
         nodes       {}, simulated by kwok: pods become Running, but no container runs",
        cluster.name(),
        record.server,
        record.kubeconfig.display(),
        record.audit_log.display(),
        versions.kubernetes,
        versions.etcd,
        versions.kwok,
        record.nodes,
    )
}
