//! `opctl cluster`: the flags of the local control plane.

mod status;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use super::Format;
use crate::cluster::{
    Cluster, ComponentLog, CurrentContext, DEFAULT_NAME, DEFAULT_NODES, Interrupted, PodBehavior,
    RunRequest, Signals, StartRequest, StopOutcome,
};
use crate::error::UserError;
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
        PATH. It builds missing ones with Go, once, in about 6 minutes. Without Go, or with --download, it \
        downloads those of the releases and verifies their checksums; OPCTL_CLUSTER_MIRROR is the URL of \
        a mirror.\n\n\
        A cluster keeps its data until it is deleted: `start` continues where `stop`, a killed \
        process or the end of the machine interrupted it.",
    after_help = "Examples:\n  \
        opctl cluster run -- kubectl get nodes\n  \
        opctl cluster start\n  \
        opctl cluster start --pods crash\n  \
        opctl cluster stop\n  \
        opctl cluster list\n  \
        opctl cluster delete"
)]
pub(super) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Start the cluster if it is not running, and print the path of its kubeconfig
    #[command(
        long_about = "Start the cluster if it is not running, and print the path of its kubeconfig.\n\n\
            A stopped cluster is started with its data. If a process of a running cluster ended, it \
            is started again; nothing that was acknowledged is lost.\n\n\
            --pods makes pods behave as they do on a real node, also on a running cluster. The label \
            opctl/pods does so for a single pod: `kubectl label pod NAME opctl/pods=crash`.",
        after_help = "Examples:\n  \
        opctl cluster start\n  \
        opctl cluster start --pods flaky\n  \
        export KUBECONFIG=$(opctl cluster start --name second --nodes 3)"
    )]
    Start {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        start: StartArgs,
    },
    /// Stop the cluster and keep its data
    #[command(
        long_about = "Stop the cluster and keep its data.\n\n\
            A temporary cluster, which `opctl cluster run` has created, is deleted.",
        after_help = "Examples:\n  opctl cluster stop\n  opctl cluster stop --name second"
    )]
    Stop {
        #[command(flatten)]
        name: Name,
    },
    /// Stop the cluster and delete its data
    #[command(
        after_help = "Examples:\n  opctl cluster delete\n  opctl cluster delete --name second"
    )]
    Delete {
        #[command(flatten)]
        name: Name,
    },
    /// List the clusters with their states
    #[command(after_help = "Examples:\n  opctl cluster list\n  opctl cluster list -o json")]
    List {
        /// Output format
        #[arg(short, long, value_enum, default_value_t = Format::Text)]
        output: Format,
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
            the command, or with 128 + n if signal n killed it. A cluster that was created for a \
            command is temporary: it is deleted when the last command on it ends. One that was \
            stopped before is stopped again, and keeps its data.",
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
        start: StartArgs,
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
    /// Say why an image need not be loaded: no container runs on the cluster
    #[command(
        long_about = "Say why an image need not be loaded: no container runs on the cluster.\n\n\
            The nodes are simulated, so that pods become Running whatever their images are. The exit \
            code is 1.",
        after_help = "Example:\n  opctl cluster load registry.example.com/memcached-operator:v1"
    )]
    Load {
        /// Name of the image
        #[arg(value_name = "IMAGE")]
        image: String,
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
struct StartArgs {
    /// Number of nodes of a new cluster; each node can run 110 pods
    #[arg(long, default_value_t = DEFAULT_NODES, value_parser = clap::value_parser!(u16).range(1..=1000))]
    nodes: u16,
    /// How pods behave [default: as before, `ready` in a new cluster]
    #[arg(long, value_enum, value_name = "BEHAVIOR")]
    pods: Option<PodBehavior>,
    /// Download missing programs of the control plane (Linux only) [default: build them if there is Go]
    #[arg(long)]
    download: bool,
}

impl StartArgs {
    fn request(&self) -> StartRequest {
        StartRequest { nodes: self.nodes, pods: self.pods, downloads: self.download }
    }
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
        ClusterCommand::Start { name, start } => {
            let cluster = Cluster::named(&name.name)?;
            let record = cluster.start(ui, &Signals::catch()?, &start.request())?;
            let kubeconfig = record.kubeconfig.display().to_string();
            ui.note(format!("To use it: export KUBECONFIG={kubeconfig}"));
            ui.data(kubeconfig)?;
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::Stop { name } => {
            let cluster = Cluster::named(&name.name)?;
            let name = cluster.name();
            match cluster.stop(ui)? {
                StopOutcome::Stopped => {
                    ui.status("Stopped", format!("cluster `{name}`"));
                    ui.note(format!(
                        "It keeps its data, until `opctl cluster delete --name {name}`"
                    ));
                }
                StopOutcome::Deleted => ui.status("Deleted", format!("temporary cluster `{name}`")),
                StopOutcome::NotRunning => {
                    ui.status("Stopped", format!("cluster `{name}`, which was not running"));
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::Delete { name } => {
            let cluster = Cluster::named(&name.name)?;
            let state = if cluster.delete(ui)? { "" } else { ", which did not exist" };
            ui.status("Deleted", format!("cluster `{}`{state}", cluster.name()));
            Ok(ExitCode::SUCCESS)
        }
        ClusterCommand::List { output } => status::list(output, ui),
        ClusterCommand::Status { name, output } => {
            status::status(&Cluster::named(&name.name)?, output, ui)
        }
        ClusterCommand::Run { name, start, no_start, prefer_current_context, command } => {
            if prefer_current_context {
                if let Some(context) = CurrentContext::read(None)? {
                    ui.note(format!("cluster: {} (context {})", context.server, context.name));
                    let code = context.run(ui, &Signals::catch()?, &command)?;
                    return Ok(ExitCode::from(code));
                }
                let name = &name.name;
                ui.note(format!(
                    "cluster: local cluster `{name}` (kubeconfig has no current context)"
                ));
            }
            let start = (!no_start).then(|| start.request());
            let request = RunRequest { command, start };
            let code = Cluster::named(&name.name)?.run(ui, &Signals::catch()?, &request)?;
            Ok(ExitCode::from(code))
        }
        ClusterCommand::Load { image } => {
            let problem =
                format!("{image} cannot be loaded: no container runs on the local cluster");
            let hint = "deploy it as it is, and run the operator itself with `make run`; to run the image, see \
                        `opctl image build --tarball`";
            Err(UserError::failure(problem).with_hint(hint).into())
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
