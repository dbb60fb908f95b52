//! Starts a cluster and waits until it works: a new one, or one that was stopped or is broken, with its data.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::fs::Mode;
use rustix::process::umask;
use semver::Version;

use super::binaries::{self, Binaries, Tool};
use super::components::{self, AUDIT_POLICY, COMPONENTS};
use super::exec;
use super::lock::Lock;
use super::ports::Ports;
use super::ready::{self, StartupMonitor};
use super::record::{ClusterRecord, ClusterState, Lifetime, Versions};
use super::signals::{Interrupted, Signals};
use super::stages::{self, PodBehavior};
use super::{Cluster, directories, duration, objects, process};
use crate::ui::Ui;

/// What a cluster is to be like.
#[derive(Debug, Clone, Copy)]
pub struct StartRequest {
    /// The number of nodes of a new cluster.
    pub nodes: u16,
    /// How pods without a label behave [default: as before].
    pub pods: Option<PodBehavior>,
    /// Whether missing programs are downloaded though there is Go.
    pub downloads: bool,
}

/// How often a start is attempted if another program takes one of the chosen ports.
const MAX_ATTEMPTS: u8 = 3;

impl Cluster {
    /// Starts the cluster if it is not running, with the data that it has. It then runs until it is stopped,
    /// even if it was started for a command.
    ///
    /// # Errors
    /// A [`UserError`](crate::error::UserError) with the last lines of a log if the cluster does not become
    /// ready; [`Interrupted`].
    pub fn start(
        &self,
        ui: Ui,
        signals: &Signals,
        request: &StartRequest,
    ) -> Result<ClusterRecord> {
        let _lock = self.lock(ui, || signals.check())?;
        let mut record = self.ensure_running(ui, signals, request, Lifetime::UntilStopped)?;
        if record.lifetime != Lifetime::UntilStopped {
            record.lifetime = Lifetime::UntilStopped;
            record.write(self)?;
        }
        Ok(record)
    }

    /// Starts the cluster for a command if it is not running. The caller holds the lock.
    pub(super) fn start_for_command(
        &self,
        ui: Ui,
        signals: &Signals,
        request: &StartRequest,
    ) -> Result<ClusterRecord> {
        self.ensure_running(ui, signals, request, Lifetime::Temporary)
    }

    /// The caller holds the lock. `lifetime` is that of a new cluster.
    fn ensure_running(
        &self,
        ui: Ui,
        signals: &Signals,
        request: &StartRequest,
        lifetime: Lifetime,
    ) -> Result<ClusterRecord> {
        let start = Start { cluster: self, ui, signals };
        let state = self.state()?;
        // Left behind by an opctl that was killed.
        let is_temporary = |record: &ClusterRecord| record.lifetime == Lifetime::Temporary;
        let is_left = lifetime == Lifetime::Temporary
            && state.record().is_some_and(is_temporary)
            && self.is_unused()?;
        let result = match state {
            _ if is_left => {
                ui.attention("Clearing", format!("cluster `{}`, which nothing uses", self.name()));
                start.create(request, lifetime)
            }
            ClusterState::Running(record) if !changes_pods(&record, request) => {
                if lifetime == Lifetime::UntilStopped {
                    ui.status("Running", format!("cluster `{}` already", self.name()));
                }
                Ok(record)
            }
            ClusterState::Running(record) => {
                let pods = request.pods.unwrap_or_default().name();
                ui.status("Changing", format!("pods of cluster `{}` to `{pods}`", self.name()));
                start.resume(record, request)
            }
            ClusterState::Broken(record, reason) => {
                ui.attention("Repairing", format!("cluster `{}`: {reason}", self.name()));
                start.resume(record, request)
            }
            ClusterState::Stopped(mut record) => {
                if record.lifetime == Lifetime::UntilStopped && lifetime == Lifetime::Temporary {
                    record.lifetime = Lifetime::UntilUnused;
                }
                ui.status("Starting", format!("cluster `{}` with its data", self.name()));
                start.resume(record, request)
            }
            ClusterState::Incomplete(reason) => {
                ui.attention("Clearing", format!("cluster `{}`: {reason}", self.name()));
                start.create(request, lifetime)
            }
            ClusterState::Missing => start.create(request, lifetime),
        };
        if result.is_err() {
            self.discard_if_empty()?;
        }
        result
    }
}

fn changes_pods(record: &ClusterRecord, request: &StartRequest) -> bool {
    request.pods.is_some_and(|pods| pods != record.pods)
}

struct Start<'a> {
    cluster: &'a Cluster,
    ui: Ui,
    signals: &'a Signals,
}

impl Start<'_> {
    /// Creates and starts a new cluster.
    fn create(&self, request: &StartRequest, lifetime: Lifetime) -> Result<ClusterRecord> {
        let cluster = self.cluster;
        let binaries = binaries::resolve(self.ui, self.signals, request.downloads)?;
        cluster.clear()?;
        let _umask = PrivateFiles::new();
        let _lock = lock_ports(cluster, self.signals)?;
        self.ui.status("Starting", format!("cluster `{}`", cluster.name()));
        let start = Instant::now();
        for attempt in 1.. {
            match self.create_once(request, lifetime, &binaries) {
                Ok(record) => {
                    self.report(start);
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

    fn create_once(
        &self,
        request: &StartRequest,
        lifetime: Lifetime,
        binaries: &Binaries,
    ) -> Result<ClusterRecord> {
        let cluster = self.cluster;
        let ports = Ports::free()?;
        let record = ClusterRecord {
            server: components::server(&ports),
            kubeconfig: cluster.kubeconfig(),
            audit_log: cluster.log("audit"),
            nodes: request.nodes,
            pods: request.pods.unwrap_or_default(),
            versions: versions(binaries)?,
            kubectl: binaries.get(Tool::Kubectl).context("kubectl is missing")?.to_owned(),
            lifetime,
            ports,
        };
        cluster.certificates().create()?;
        fs::write(cluster.audit_policy(), AUDIT_POLICY)?;
        let monitor = self.prepare(&record, binaries, &COMPONENTS)?;
        monitor.launch()?;
        ready::create(cluster, &record.kubectl, &objects::initial(record.nodes), self.signals)?;
        monitor.ready(record.nodes.into())?;
        self.finish(&record)?;
        Ok(record)
    }

    /// Starts the processes that do not run, with the data of the cluster.
    fn resume(&self, mut record: ClusterRecord, request: &StartRequest) -> Result<ClusterRecord> {
        let cluster = self.cluster;
        let binaries = binaries::resolve(self.ui, self.signals, request.downloads)?;
        record.kubectl = binaries.get(Tool::Kubectl).context("kubectl is missing")?.to_owned();
        let _umask = PrivateFiles::new();
        let _lock = lock_ports(cluster, self.signals)?;
        let start = Instant::now();
        if changes_pods(&record, request) {
            record.pods = request.pods.unwrap_or_default();
            end(cluster, Tool::Kwok)?;
        }
        let result = self.resume_once(&mut record, &binaries).inspect_err(|_| {
            // Half of a cluster is of no use. The error of the start says more than that of a kill.
            let _ = cluster.kill();
        });
        result?;
        self.report(start);
        Ok(record)
    }

    fn resume_once(&self, record: &mut ClusterRecord, binaries: &Binaries) -> Result<()> {
        let monitor = match self.relaunch(record, binaries)? {
            Some(monitor) => monitor,
            None => self.relaunch_all(record, binaries)?,
        };
        // Without it, a volume could harm the machine.
        ready::apply(self.cluster, &record.kubectl, &objects::policies(), self.signals)?;
        monitor.ready(0)?;
        self.finish(record)
    }

    /// Starts only the components that are absent, unless all are. `None` if that does not help: another
    /// program may have taken a port, or the API server may hang.
    fn relaunch(
        &self,
        record: &ClusterRecord,
        binaries: &Binaries,
    ) -> Result<Option<StartupMonitor<'_>>> {
        let absent = self.cluster.absent();
        if absent.len() == COMPONENTS.len() || !record.ports.are_free(&absent) {
            return Ok(None);
        }
        let monitor = self.prepare(record, binaries, &absent)?;
        monitor.start(&absent)?;
        Ok(monitor.responds()?.then_some(monitor))
    }

    fn relaunch_all(
        &self,
        record: &mut ClusterRecord,
        binaries: &Binaries,
    ) -> Result<StartupMonitor<'_>> {
        self.cluster.kill()?;
        record.versions = versions(binaries)?;
        if !record.ports.are_free(&COMPONENTS) {
            record.ports = Ports::free()?;
            record.server = components::server(&record.ports);
        }
        let monitor = self.prepare(record, binaries, &COMPONENTS)?;
        monitor.launch()?;
        monitor.served()?;
        Ok(monitor)
    }

    /// Writes the configuration for components that are absent.
    fn prepare(
        &self,
        record: &ClusterRecord,
        binaries: &Binaries,
        absent: &[Tool],
    ) -> Result<StartupMonitor<'_>> {
        let cluster = self.cluster;
        directories::create(&cluster.logs())?;
        fs::write(cluster.stages(), stages::config(record.pods)?)?;
        let kubeconfig = components::kubeconfig(cluster, &record.ports);
        fs::write(cluster.own_kubeconfig(), serde_yaml::to_string(&kubeconfig)?)?;
        components::link(cluster, binaries, absent)?;
        StartupMonitor::new(cluster, self.signals, record.ports)
    }

    /// Hands out the kubeconfig. An interruption up to here leaves no new cluster behind.
    fn finish(&self, record: &ClusterRecord) -> Result<()> {
        self.signals.check()?;
        let kubeconfig = self.cluster.directory.join("kubeconfig.new");
        fs::copy(self.cluster.own_kubeconfig(), &kubeconfig)?;
        fs::rename(kubeconfig, &record.kubeconfig)?;
        record.write(self.cluster)
    }

    fn report(&self, start: Instant) {
        let time = duration(start.elapsed());
        self.ui.status("Ready", format!("cluster `{}` in {time}", self.cluster.name()));
        self.ui.note("kwok simulates the nodes: pods become Running, but no container runs");
    }
}

/// Ends one component.
fn end(cluster: &Cluster, component: Tool) -> Result<()> {
    process::kill(|process| cluster.component(process) == Some(component))
}

/// Concurrent starts could choose the same ports.
fn lock_ports(cluster: &Cluster, signals: &Signals) -> Result<Lock> {
    let path = cluster.directory.with_file_name(".ports");
    Lock::exclusive(&path, || signals.check())?
        .with_context(|| format!("`{}` was deleted", path.display()))
}

fn port_was_taken(cluster: &Cluster) -> bool {
    let taken = |log: String| log.contains("address already in use");
    COMPONENTS
        .iter()
        .any(|component| exec::read_lossy(&cluster.log(component.file())).is_ok_and(taken))
}

fn versions(binaries: &Binaries) -> Result<Versions> {
    let version = |tool: Tool| -> Result<&Version> {
        binaries.version(tool).with_context(|| format!("{} reports no version", tool.file()))
    };
    Ok(Versions {
        kubernetes: format!("v{}", version(Tool::ApiServer)?),
        etcd: version(Tool::Etcd)?.to_string(),
        kwok: format!("v{}", version(Tool::Kwok)?),
    })
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
