//! The probes of a start. kwokctl reports only that processes exist, and exits with 0 even if they do not.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::exec::{self, POLL_INTERVAL, tail};
use super::signals::Signals;
use super::{COMPONENTS, Cluster, duration, objects};
use crate::error::UserError;

/// The maximum duration of a start, which usually takes three seconds.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The maximum duration of a start for which kwokctl downloads programs.
const START_TIMEOUT_WITH_DOWNLOADS: Duration = Duration::from_secs(1200);

/// The interval between two checks of the processes.
const PROCESS_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// How often components that ended are restarted. They end if the API server takes more than ten seconds to
/// start.
const MAX_RESTARTS: u8 = 3;

/// The components on which all others depend.
const CRITICAL_COMPONENTS: [&str; 2] = ["etcd", "kube-apiserver"];

/// Monitors a start: its deadline, its processes and signals of the user.
pub struct StartupMonitor<'a> {
    cluster: &'a Cluster,
    signals: &'a Signals,
    start: Instant,
    limit: Duration,
    last_check: Cell<Instant>,
    running: RefCell<Vec<&'static str>>,
    restarts: Cell<u8>,
}

impl<'a> StartupMonitor<'a> {
    /// A monitor of a start that begins now.
    pub fn new(cluster: &'a Cluster, signals: &'a Signals, downloads: bool) -> Self {
        let now = Instant::now();
        let limit = if downloads { START_TIMEOUT_WITH_DOWNLOADS } else { START_TIMEOUT };
        Self {
            cluster,
            signals,
            start: now,
            limit,
            last_check: Cell::new(now),
            running: RefCell::default(),
            restarts: Cell::new(0),
        }
    }

    /// Runs a program and fails as soon as etcd or the API server ends.
    pub fn run(&self, command: Command, component: &str) -> Result<exec::Outcome> {
        exec::run(command, || self.tick("kwokctl", component))
    }

    /// Waits until the API server serves requests.
    pub fn served(&self, kubectl: &Path) -> Result<()> {
        self.until("the API server", "kube-apiserver", || {
            Ok(self.raw(kubectl, "/readyz")?.is_some())
        })
    }

    /// Waits until the cluster works: all processes run, the default ServiceAccount exists, so that pods can
    /// be created, the nodes are ready, and no volume can be created that harms the machine.
    pub fn ready(&self, kubectl: &Path, nodes: u16, restart: impl Fn() -> Command) -> Result<()> {
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        self.until("the default ServiceAccount", "kube-controller-manager", || {
            self.restart(&restart)?;
            Ok(self.raw(kubectl, account)?.is_some())
        })?;
        self.until("every node", "kwok-controller", || {
            self.restart(&restart)?;
            let list = self.raw(kubectl, "/api/v1/nodes")?;
            Ok(list.is_some_and(|list| ready_nodes(&list) >= nodes.into()))
        })?;
        self.until("the policy for volumes", "kube-apiserver", || {
            denies_volumes(self.cluster, kubectl, self.signals)
        })?;
        self.until("every process", "kube-scheduler", || {
            self.restart(&restart)?;
            Ok(self.cluster.absent().is_empty())
        })
    }

    fn raw(&self, kubectl: &Path, path: &str) -> Result<Option<String>> {
        raw(self.cluster, kubectl, path, || self.signals.check())
    }

    fn until(
        &self,
        subject: &str,
        component: &str,
        probe: impl Fn() -> Result<bool>,
    ) -> Result<()> {
        while !probe()? {
            self.tick(subject, component)?;
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Fails if the user interrupted opctl, if the time is up, or if the start cannot succeed.
    fn tick(&self, subject: &str, component: &str) -> Result<()> {
        self.signals.check()?;
        if self.start.elapsed() > self.limit {
            let reason = format!("{subject} is not ready after {}", duration(self.limit));
            return Err(self.failure(&reason, component));
        }
        if self.last_check.get().elapsed() < PROCESS_CHECK_INTERVAL {
            return Ok(());
        }
        self.last_check.set(Instant::now());
        let absent = self.cluster.absent();
        let mut running = self.running.borrow_mut();
        if let Some(dead) =
            running.iter().find(|c| CRITICAL_COMPONENTS.contains(c) && absent.contains(c))
        {
            return Err(self.failure(&format!("{dead} ended"), dead));
        }
        *running = COMPONENTS.into_iter().filter(|component| !absent.contains(component)).collect();
        Ok(())
    }

    /// Restarts the components that ended. Their pid files are removed, because kwokctl regards zombies as
    /// running.
    fn restart(&self, restart: impl Fn() -> Command) -> Result<()> {
        let absent = self.cluster.absent();
        let Some(first) = absent.first() else {
            return Ok(());
        };
        if CRITICAL_COMPONENTS.contains(first) || self.restarts.get() == MAX_RESTARTS {
            return Err(self.failure(&format!("{first} ended"), first));
        }
        self.restarts.set(self.restarts.get() + 1);
        for component in &absent {
            let _ =
                fs::remove_file(self.cluster.home().join("pids").join(format!("{component}.pid")));
        }
        self.run(restart(), first).map(drop)
    }

    /// An error with the last lines of the log of a component.
    pub fn failure(&self, reason: &str, component: &str) -> anyhow::Error {
        let log = self.cluster.log(component);
        let lines = exec::read_lossy(&log).map(|text| tail(&text, 8)).unwrap_or_default();
        let name = self.cluster.name();
        let mut message = format!("cluster `{name}` does not start: {reason}");
        if !lines.is_empty() {
            message.push_str(&format!("; the log of {component} ends with\n{lines}"));
        }
        UserError::failure(message).with_hint(format!("read `{}`", log.display())).into()
    }
}

/// The response of the API server to a GET request, or `None` if the request fails.
///
/// # Errors
/// If kubectl cannot be started, and the errors of `tick`.
pub fn raw(
    cluster: &Cluster,
    kubectl: &Path,
    path: &str,
    tick: impl Fn() -> Result<()>,
) -> Result<Option<String>> {
    let mut command = cluster.kubectl(kubectl);
    command.args(["get", "--raw", path]);
    let outcome = exec::run(command, tick)?;
    Ok(outcome.status.success().then_some(outcome.output))
}

/// Creates the first objects of a cluster.
///
/// # Errors
/// A [`UserError`] if the API server rejects them.
pub fn create_objects(cluster: &Cluster, kubectl: &Path, signals: &Signals) -> Result<()> {
    let file = cluster.directory.join("objects.json");
    fs::write(&file, objects::initial().to_string())?;
    let mut command = cluster.kubectl(kubectl);
    command.args(["create", "--validate=false", "-f"]).arg(&file);
    command.arg("--cache-dir").arg(cluster.kubectl_cache());
    let outcome = exec::run(command, || signals.check())?;
    if outcome.status.success() {
        return Ok(());
    }
    let message = format!("cannot create the first objects: {}", outcome.output.trim());
    Err(UserError::failure(message).into())
}

/// Whether the policy for volumes is in force, which it is about a second after its creation.
///
/// # Errors
/// If kubectl cannot be started, and if opctl was interrupted.
fn denies_volumes(cluster: &Cluster, kubectl: &Path, signals: &Signals) -> Result<bool> {
    let file = cluster.directory.join("denied-volume.json");
    fs::write(&file, objects::denied_volume().to_string())?;
    let mut command = cluster.kubectl(kubectl);
    command.args(["create", "--raw", "/api/v1/persistentvolumes?dryRun=All", "-f"]).arg(&file);
    let outcome = exec::run(command, || signals.check())?;
    Ok(!outcome.status.success() && outcome.output.contains(objects::POLICY))
}

fn ready_nodes(list: &str) -> usize {
    let list: Value = serde_json::from_str(list).unwrap_or_default();
    let is_ready = |node: &&Value| {
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    list["items"].as_array().into_iter().flatten().filter(is_ready).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn node_counts_if_its_ready_condition_is_true() {
        let node =
            |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let list = json!({"items": [node("True"), node("False"), {}, node("True")]});
        assert_eq!(ready_nodes(&list.to_string()), 2);
        assert_eq!(ready_nodes("no JSON"), 0);
    }
}
