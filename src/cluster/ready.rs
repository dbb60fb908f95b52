//! The probes of a start: that a process runs does not mean that it works.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::api_server::ApiServer;
use super::binaries::Tool;
use super::components::{self, COMPONENTS, CRITICAL_COMPONENTS};
use super::exec::{self, POLL_INTERVAL, tail};
use super::ports::{Ports, is_served};
use super::signals::Signals;
use super::{Cluster, duration, objects};
use crate::error::UserError;

/// The maximum duration of a start, which usually takes three seconds.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The time that an API server has to respond before all processes are restarted: it may hang, or try to
/// connect to etcd in long intervals.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// The interval between two checks of the processes.
const PROCESS_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// How often components that ended are restarted. They end if the API server takes more than ten seconds to
/// start.
const MAX_RESTARTS: u8 = 3;

/// Starts components, and monitors a start: its deadline, its processes and signals of the user.
pub struct StartupMonitor<'a> {
    cluster: &'a Cluster,
    signals: &'a Signals,
    ports: Ports,
    api_server: ApiServer,
    start: Instant,
    last_check: Cell<Instant>,
    /// The components that are expected to run.
    started: RefCell<Vec<Tool>>,
    restarts: Cell<u8>,
}

impl<'a> StartupMonitor<'a> {
    /// A monitor of a start that begins now.
    ///
    /// # Errors
    /// If the cluster has no certificates.
    pub fn new(cluster: &'a Cluster, signals: &'a Signals, ports: Ports) -> Result<Self> {
        let now = Instant::now();
        Ok(Self {
            cluster,
            signals,
            ports,
            api_server: ApiServer::new(cluster, &ports)?,
            start: now,
            last_check: Cell::new(now),
            started: RefCell::default(),
            restarts: Cell::new(0),
        })
    }

    /// Starts all components, and waits until the API server takes requests. It does so before it is ready.
    pub fn launch(&self) -> Result<()> {
        self.start(&CRITICAL_COMPONENTS)?;
        // The others would wait for a second after a request that fails.
        self.until("the API server", Tool::ApiServer, || Ok(self.get("/version")?.is_some()))?;
        let is_other = |component: &Tool| !CRITICAL_COMPONENTS.contains(component);
        self.start(&COMPONENTS.into_iter().filter(is_other).collect::<Vec<_>>())
    }

    /// Starts components.
    pub fn start(&self, components: &[Tool]) -> Result<()> {
        for component in components {
            components::spawn(self.cluster, &self.ports, *component)?;
        }
        self.started.borrow_mut().extend(components);
        Ok(())
    }

    /// Waits until the API server is ready.
    pub fn served(&self) -> Result<()> {
        self.until("the API server", Tool::ApiServer, || Ok(self.get("/readyz")?.is_some()))
    }

    /// Whether the API server, whose process may have been running before, becomes ready in time.
    pub fn responds(&self) -> Result<bool> {
        while self.get("/readyz")?.is_none() {
            if self.start.elapsed() > RESPONSE_TIMEOUT {
                return Ok(false);
            }
            self.tick("the API server", Tool::ApiServer)?;
            sleep(POLL_INTERVAL);
        }
        Ok(true)
    }

    /// Waits until the cluster works: the API server is ready, all processes run, the default ServiceAccount
    /// exists, so that pods can be created, there are so many nodes and all are ready, and no volume can be
    /// created that harms the machine.
    pub fn ready(&self, nodes: usize) -> Result<()> {
        self.served()?;
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        self.until("the default ServiceAccount", Tool::ControllerManager, || {
            Ok(self.get(account)?.is_some())
        })?;
        self.until("kwok", Tool::Kwok, || Ok(is_served(self.ports.kwok)))?;
        self.until("every node", Tool::Kwok, || {
            let list = self.get("/api/v1/nodes")?;
            Ok(list.is_some_and(|list| are_ready(&list, nodes)))
        })?;
        self.until("the policy for volumes", Tool::ApiServer, || self.denies_volumes())?;
        self.until("every process", Tool::Scheduler, || Ok(self.cluster.absent().is_empty()))
    }

    fn get(&self, path: &str) -> Result<Option<String>> {
        self.api_server.get(path, || self.signals.check())
    }

    /// Whether the policy for volumes is in force, which it is about a second after its creation.
    fn denies_volumes(&self) -> Result<bool> {
        let (path, volume) = ("/api/v1/persistentvolumes?dryRun=All", objects::denied_volume());
        let answer = self.api_server.post(path, &volume, || self.signals.check())?;
        Ok(answer.is_some_and(|it| !it.is_success && it.text.contains(objects::POLICY)))
    }

    fn until(
        &self,
        subject: &str,
        component: Tool,
        probe: impl Fn() -> Result<bool>,
    ) -> Result<()> {
        while !probe()? {
            self.tick(subject, component)?;
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Fails if the user interrupted opctl, if the time is up, or if the start cannot succeed.
    fn tick(&self, subject: &str, component: Tool) -> Result<()> {
        self.signals.check()?;
        if self.start.elapsed() > START_TIMEOUT {
            let reason = format!("{subject} is not ready after {}", duration(START_TIMEOUT));
            return Err(self.failure(&reason, component));
        }
        if self.last_check.get().elapsed() < PROCESS_CHECK_INTERVAL {
            return Ok(());
        }
        self.last_check.set(Instant::now());
        self.restart()
    }

    /// Restarts the components that ended.
    fn restart(&self) -> Result<()> {
        let mut absent = self.cluster.absent();
        absent.retain(|component| self.started.borrow().contains(component));
        let Some(first) = absent.first() else {
            return Ok(());
        };
        if CRITICAL_COMPONENTS.contains(first) || self.restarts.get() == MAX_RESTARTS {
            return Err(self.failure(&format!("{} ended", first.file()), *first));
        }
        self.restarts.set(self.restarts.get() + 1);
        for component in absent {
            components::spawn(self.cluster, &self.ports, component)?;
        }
        Ok(())
    }

    /// An error with the last lines of the log of a component.
    fn failure(&self, reason: &str, component: Tool) -> anyhow::Error {
        let log = self.cluster.log(component.file());
        let lines = exec::read_lossy(&log).map(|text| tail(&text, 8)).unwrap_or_default();
        let name = self.cluster.name();
        let mut message = format!("cluster `{name}` does not start: {reason}");
        if !lines.is_empty() {
            let component = component.file();
            message.push_str(&format!("; the log of {component} ends with\n{lines}"));
        }
        UserError::failure(message).with_hint(format!("read `{}`", log.display())).into()
    }
}

/// Creates objects.
///
/// # Errors
/// A [`UserError`] if the API server rejects them.
pub fn create(cluster: &Cluster, kubectl: &Path, list: &Value, signals: &Signals) -> Result<()> {
    write(cluster, kubectl, &["create"], list, signals)
}

/// Creates objects, or updates them.
///
/// # Errors
/// A [`UserError`] if the API server rejects them.
pub fn apply(cluster: &Cluster, kubectl: &Path, list: &Value, signals: &Signals) -> Result<()> {
    write(cluster, kubectl, &["apply", "--server-side", "--force-conflicts"], list, signals)
}

fn write(
    cluster: &Cluster,
    kubectl: &Path,
    verb: &[&str],
    list: &Value,
    signals: &Signals,
) -> Result<()> {
    let file = cluster.directory.join("objects.json");
    fs::write(&file, list.to_string())?;
    let mut command = cluster.kubectl(kubectl);
    command.args(verb).args(["--validate=false", "-f"]).arg(&file);
    command.arg("--cache-dir").arg(cluster.kubectl_cache());
    let outcome = exec::run(command, || signals.check())?;
    if outcome.status.success() {
        return Ok(());
    }
    let message = format!("cannot create the first objects: {}", outcome.output.trim());
    Err(UserError::failure(message).into())
}

/// Whether a list contains so many nodes, and no other than ready ones.
fn are_ready(list: &str, count: usize) -> bool {
    let list: Value = serde_json::from_str(list).unwrap_or_default();
    let is_ready = |node: &Value| {
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    list["items"].as_array().is_some_and(|nodes| nodes.len() >= count && nodes.iter().all(is_ready))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_are_ready_if_all_say_so() {
        let node =
            |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let are_ready =
            |nodes: &[Value], count| are_ready(&json!({"items": nodes}).to_string(), count);
        assert!(are_ready(&[node("True"), node("True")], 2));
        assert!(!are_ready(&[node("True")], 2));
        assert!(!are_ready(&[node("True"), node("False")], 1));
        assert!(!are_ready(&[node("True"), json!({})], 1));
        assert!(!super::are_ready("no JSON", 0));
    }
}
