//! `opctl cluster`: the flags of the local control plane.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::cluster::{
    Cluster, ClusterState, ComponentLog, DEFAULT_NAME, DEFAULT_NODES, Interrupted, RunRequest,
    Signals,
};
use crate::ui::Ui;

/// Run a real control plane on this machine, without Docker
#[derive(Debug, Args)]
#[command(
    long_about = "Run a real control plane on this machine, without Docker.\n\n\
        etcd, kube-apiserver, kube-controller-manager and kube-scheduler run as processes that \
        listen on loopback only. kwok plays the nodes: pods become Running though no container \
        runs. Your kubeconfig is never touched.\n\n\
        The programs are looked for in the directory OPCTL_CLUSTER_ASSETS, in opctl's cache and on \
        PATH. What is missing is built with Go, once, in about 6 minutes; without Go, kwokctl \
        downloads it.",
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
    /// Start the cluster, unless it runs already, and print its kubeconfig's path
    #[command(after_help = "Examples:\n  \
        opctl cluster start\n  \
        export KUBECONFIG=$(opctl cluster start --name second --nodes 3)")]
    Start {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        nodes: Nodes,
    },
    /// Stop the cluster and remove its data
    #[command(after_help = "Examples:\n  opctl cluster stop\n  opctl cluster stop --name second")]
    Stop {
        #[command(flatten)]
        name: Name,
    },
    /// Say whether the cluster runs, and where; the exit code is 1 when it does not
    #[command(after_help = "Examples:\n  opctl cluster status\n  opctl cluster status -o json")]
    Status {
        #[command(flatten)]
        name: Name,
        /// The format of the output
        #[arg(short, long, value_enum, default_value_t = Format::Text)]
        output: Format,
    },
    /// Run a command on the cluster, which is started for it if need be
    #[command(
        long_about = "Run a command on the cluster, which is started for it if need be.\n\n\
            KUBECONFIG, OPCTL_CLUSTER (the name) and OPCTL_AUDIT_LOG (the API server's audit log) \
            are set for the command. Its exit code is passed on, 128 + n when signal n killed it. \
            A cluster that was started for a command is stopped when the last command on it ends.",
        after_help = "Examples:\n  \
            opctl cluster run -- kubectl get nodes\n  \
            opctl cluster run --name test -- cargo test\n  \
            opctl cluster run --no-start -- sh -c 'echo $KUBECONFIG'"
    )]
    Run {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        nodes: Nodes,
        /// Fail when the cluster is not running
        #[arg(long)]
        no_start: bool,
        /// The command and its arguments
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Print the log of a component, or where each log is
    #[command(after_help = "Examples:\n  \
        opctl cluster logs\n  \
        opctl cluster logs apiserver\n  \
        opctl cluster logs audit --follow")]
    Logs {
        #[command(flatten)]
        name: Name,
        /// Print what is added, until the cluster is stopped
        #[arg(short, long, requires = "component")]
        follow: bool,
        /// The component; without it the path of each log is printed
        #[arg(value_enum)]
        component: Option<ComponentLog>,
    },
}

#[derive(Debug, Args)]
struct Name {
    /// The cluster; several can run at the same time
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
}

#[derive(Debug, Args)]
struct Nodes {
    /// The nodes of a cluster that is started; each has room for 110 pods
    #[arg(long, default_value_t = DEFAULT_NODES, value_parser = clap::value_parser!(u16).range(1..=1000))]
    nodes: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Runs the command. An interruption is no error to explain: it only has an exit code.
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
            ui.data(kubeconfig);
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::Stop { name } => {
            let cluster = Cluster::named(&name.name)?;
            let was = if cluster.stop(ui)? { "" } else { ", which was not running" };
            ui.status("Stopped", format!("cluster `{}`{was}", cluster.name()));
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::Status { name, output } => status(&Cluster::named(&name.name)?, output, ui),
        ClusterCommand::Run { name, nodes, no_start, command } => {
            let request = RunRequest { command, start: !no_start, nodes: nodes.nodes };
            let code = Cluster::named(&name.name)?.run(ui, &Signals::catch()?, &request)?;
            Ok(ExitCode::from(code))
        }
        ClusterCommand::Logs { name, follow, component } => {
            let cluster = Cluster::named(&name.name)?;
            match component {
                Some(log) => cluster.print_log(ui, log, follow)?,
                None => list_logs(&cluster, ui),
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list_logs(cluster: &Cluster, ui: Ui) {
    for log in ComponentLog::value_variants() {
        let value = log.to_possible_value();
        let name = value.as_ref().map(|value| value.get_name()).unwrap_or_default();
        ui.data(format!("{name:<9} {}", cluster.log_file(*log).display()));
    }
}

fn status(cluster: &Cluster, output: Format, ui: Ui) -> Result<ExitCode> {
    let state = cluster.state();
    // Asked after the state: it is what explains a cluster that does not run.
    let changing = !matches!(state, ClusterState::Running(_)) && cluster.is_changing()?;
    let reason = match &state {
        ClusterState::Running(_) => None,
        _ if changing => Some("another opctl starts or stops it".to_owned()),
        ClusterState::Broken(why) => Some(why.clone()),
        ClusterState::Stopped => Some("it was not started".to_owned()),
    };
    match output {
        Format::Json => ui.data(format!("{:#}", as_json(cluster, &state, reason.as_deref())?)),
        Format::Text => ui.data(as_text(cluster, &state, reason.as_deref())),
    }
    if reason.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    if !changing {
        ui.note(format!("hint: {}", cluster.start_hint()));
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
         nodes       {}, played by kwok: pods become Running though no container runs",
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
