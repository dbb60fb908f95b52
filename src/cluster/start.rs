//! Starts a cluster and waits until it works.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::fs::Mode;
use rustix::process::umask;
use semver::Version;

use super::binaries::{self, Binaries, Tool};
use super::config;
use super::exec::{self, tail};
use super::lock::Lock;
use super::ports::Ports;
use super::ready::{self, StartupMonitor};
use super::record::{ClusterRecord, ClusterState, Versions};
use super::signals::{Interrupted, Signals};
use super::{COMPONENTS, Cluster, duration, objects};
use crate::error::UserError;
use crate::ui::Ui;

/// How often a start is attempted if another program takes one of the chosen ports.
const MAX_ATTEMPTS: u8 = 3;

/// Creates and starts a cluster. The caller holds its lock and has checked that it is not running.
pub(super) fn start(
    cluster: &Cluster,
    ui: Ui,
    signals: &Signals,
    nodes: u16,
    stop_when_unused: bool,
) -> Result<ClusterRecord> {
    let binaries = binaries::resolve(ui, signals)?;
    if let ClusterState::Broken(reason) = cluster.state() {
        ui.attention("Clearing", format!("broken cluster `{}`: {reason}", cluster.name()));
    }
    cluster.clear()?;

    // kwokctl writes keys that other users can read.
    let _umask = PrivateFiles::new();
    // Concurrent starts could choose the same ports.
    let lock = cluster.directory.with_file_name(".ports");
    let _lock = Lock::exclusive(&lock, || signals.check())?;
    ui.status("Starting", format!("cluster `{}`", cluster.name()));
    let start = Instant::now();
    for attempt in 1.. {
        match create(cluster, signals, &binaries, nodes, stop_when_unused) {
            Ok(record) => {
                let time = duration(start.elapsed());
                ui.status("Ready", format!("cluster `{}` in {time}", cluster.name()));
                ui.note("kwok simulates the nodes: pods become Running, but no container runs");
                return Ok(record);
            }
            Err(_) if attempt < MAX_ATTEMPTS && port_was_taken(cluster) => cluster.clear()?,
            // The logs of a failure stay until the next start; an interrupted start is cleared.
            Err(error) if error.is::<Interrupted>() => {
                cluster.clear()?;
                return Err(error);
            }
            Err(error) => {
                cluster.kill()?;
                return Err(error);
            }
        }
    }
    unreachable!("the last attempt returns")
}

fn create(
    cluster: &Cluster,
    signals: &Signals,
    binaries: &Binaries,
    nodes: u16,
    stop_when_unused: bool,
) -> Result<ClusterRecord> {
    let ports = Ports::free()?;
    fs::write(cluster.audit_policy(), config::AUDIT_POLICY)?;
    fs::write(cluster.volume_stages(), objects::VOLUME_STAGES)?;
    fs::write(cluster.kwokctl_config(), config::kwokctl(cluster, binaries, &ports)?)?;
    let program = binaries.get(Tool::Kwokctl).context("kwokctl is missing")?;
    symlink(program, cluster.kwokctl_link()).context("cannot link kwokctl")?;

    let downloads = !binaries.missing().is_empty();
    let monitor = StartupMonitor::new(cluster, signals, downloads);
    let run = |action: &[&str]| -> Result<()> {
        let outcome = monitor.run(kwokctl(cluster, binaries, action), "kube-apiserver")?;
        if outcome.status.success() {
            return Ok(());
        }
        let error = UserError::failure(format!("kwokctl failed:\n{}", tail(&outcome.output, 8)));
        let hint = "install Go if kwokctl cannot download programs: opctl then builds them";
        Err(if downloads { error.with_hint(hint) } else { error }.into())
    };
    // Programs that used an earlier cluster find the kubeconfig only when this one is ready.
    let kubeconfig = cluster.directory.join("kubeconfig.new");
    let kubeconfig_text =
        kubeconfig.to_str().context("the path of the state directory is not UTF-8")?;
    // Expired leases would delay new pods after a restart. The configuration file does not accept 0.
    run(&[
        "create",
        "cluster",
        "--node-lease-duration-seconds",
        "0",
        "--kubeconfig",
        kubeconfig_text,
    ])?;
    let kubectl = kubectl(cluster, binaries)?;
    monitor.served(&kubectl)?;
    ready::create_objects(cluster, &kubectl, signals)?;
    run(&["scale", "node", "--replicas", &nodes.to_string()])?;
    monitor.ready(&kubectl, nodes, || kwokctl(cluster, binaries, &["start", "cluster"]))?;

    let record = ClusterRecord {
        server: config::server(&ports),
        kubeconfig: cluster.kubeconfig(),
        audit_log: cluster.log("audit"),
        nodes,
        versions: Versions {
            kubernetes: format!("v{}", version(cluster, binaries, Tool::ApiServer)?),
            etcd: version(cluster, binaries, Tool::Etcd)?.to_string(),
            kwok: format!("v{}", version(cluster, binaries, Tool::Kwok)?),
        },
        kubectl,
        stop_when_unused,
    };
    // An interruption up to here leaves no cluster behind.
    signals.check()?;
    fs::rename(kubeconfig, &record.kubeconfig)?;
    record.write(cluster)?;
    Ok(record)
}

/// The umask of a start: only this user can access the new files of opctl and the programs it starts.
struct PrivateFiles(Mode);

impl PrivateFiles {
    fn new() -> Self {
        Self(umask(Mode::RWXG | Mode::RWXO))
    }
}

impl Drop for PrivateFiles {
    fn drop(&mut self) {
        umask(self.0);
    }
}

/// A kwokctl command for this cluster. Its path and its argument `--config` identify it if it outlives
/// opctl.
fn kwokctl(cluster: &Cluster, binaries: &Binaries, action: &[&str]) -> Command {
    let mut command = Command::new(cluster.kwokctl_link());
    // Environment variables override the configuration of kwokctl, and add to the arguments of etcd.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("KWOK_") || name.starts_with("ETCD_") {
            command.env_remove(&*name);
        }
    }
    command.env_remove("KUBECONFIG").env("KUBERC", "off").env("KWOK_WORKDIR", cluster.workdir());
    if let Some(kubectl) = binaries.get(Tool::Kubectl) {
        command.env("KWOK_KUBECTL_BINARY", kubectl);
    }
    command.args(action).args(["--name", cluster.name(), "--config"]).arg(cluster.kwokctl_config());
    command
}

/// The kubectl that was found, or the one that kwokctl downloaded.
fn kubectl(cluster: &Cluster, binaries: &Binaries) -> Result<PathBuf> {
    let downloaded = || Some(cluster.bin().join("kubectl")).filter(|path| path.exists());
    let found = binaries.get(Tool::Kubectl).map(Path::to_owned).or_else(downloaded);
    found.context("kwokctl has not downloaded kubectl")
}

/// The version of a program that was found, or that kwokctl downloaded.
fn version(cluster: &Cluster, binaries: &Binaries, tool: Tool) -> Result<Version> {
    let link = if tool == Tool::Kwok { "kwok-controller" } else { tool.file() };
    let version = binaries.version(tool).cloned();
    version
        .or_else(|| binaries::version_of(&cluster.bin().join(link)))
        .with_context(|| format!("{} reports no version", tool.file()))
}

fn port_was_taken(cluster: &Cluster) -> bool {
    let taken = |log: String| log.contains("address already in use");
    COMPONENTS.iter().any(|component| exec::read_lossy(&cluster.log(component)).is_ok_and(taken))
}
