//! The life of an object, with an operator that is killed.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::Stage;
use super::proxy::{Kill, Moment, Proxy};
use super::state::{FOREIGNER, MANAGER, Objects};
use crate::operator::background::Background;
use crate::operator::cluster::free_port;
use crate::operator::everything::Kind;
use crate::operator::project::get;
use crate::operator::wait::PATIENCE;

const NAME: &str = "sample";

/// How long the end of a phase has to last.
const TAIL: Duration = Duration::from_millis(600);

/// What happens to the object.
const PHASES: [Phase; 5] =
    [Phase::Create, Phase::Change, Phase::Drift, Phase::Recreate, Phase::Delete];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Create,
    /// Another size and another image, or another message.
    Change,
    /// Others change the children, and delete some.
    Drift,
    /// Deleted and created at once.
    Recreate,
    Delete,
}

/// When the operator dies.
#[derive(Debug, Clone, Copy)]
pub enum Crash {
    Never,
    /// Once in each phase.
    Once(Kill),
    /// At each write, once the API server has done it.
    Always,
}

impl Crash {
    fn kill(self) -> Option<Kill> {
        match self {
            Self::Never => None,
            Self::Once(kill) => Some(kill),
            Self::Always => Some(Kill { write: 1, moment: Moment::BeforeAnswer }),
        }
    }
}

/// What has come of a life.
pub struct Outcome {
    /// The objects at the end of each phase.
    pub states: Vec<Objects>,
    /// The writes of the last operator in each phase.
    pub writes: Vec<Vec<String>>,
    /// How often it was killed.
    pub kills: usize,
}

pub struct Life<'a> {
    stage: &'a Stage<'a>,
    kind: &'a Kind,
    namespace: String,
    crash: Crash,
    kills: usize,
    proxy: Proxy,
    kubeconfig: PathBuf,
    operator: Background,
    probes: u16,
}

impl<'a> Life<'a> {
    /// Lives the life of an object of that kind in a namespace of its own. Each phase has to end in the
    /// same state as that of an operator that was not killed, if there was one before.
    pub fn live(
        stage: &'a Stage<'a>,
        kind: &'a Kind,
        namespace: &str,
        crash: Crash,
        expected: Option<&Outcome>,
    ) -> Outcome {
        stage.everything.cluster.create(&json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
        }));
        let (proxy, kubeconfig) = stage.proxy(namespace);
        let probes = free_port();
        let operator = stage.everything.launch(namespace, &kubeconfig, probes);
        let mut life = Self {
            stage,
            kind,
            namespace: namespace.to_owned(),
            crash,
            kills: 0,
            proxy,
            kubeconfig,
            operator,
            probes,
        };
        let mut outcome = Outcome { states: Vec::new(), writes: Vec::new(), kills: 0 };
        for (number, phase) in PHASES.into_iter().enumerate() {
            life.proxy.plan(life.operator.pid(), crash.kill());
            life.act(phase);
            let state = life.end(phase, expected.map(|it| &it.states[number]));
            outcome.states.push(state);
            outcome.writes.push(life.proxy.writes());
        }
        life.operator.end(Signal::KILL);
        life.stage.everything.cluster.delete(&["namespace", namespace]);
        outcome.kills = life.kills;
        outcome
    }

    fn act(&mut self, phase: Phase) {
        let cluster = &self.stage.everything.cluster;
        let what = format!("{}/{NAME}", self.kind.plural);
        let object = [&*what, "--namespace", &self.namespace];
        match phase {
            Phase::Create => cluster.create(&self.object(2, 1)),
            Phase::Change => {
                let patch = json!({ "spec": self.kind.spec(3, 2) });
                cluster.patch(&object, "merge", &patch);
            }
            Phase::Drift => {
                let patch = json!({
                    "metadata": { "labels": { MANAGER: FOREIGNER } },
                    "spec": { "replicas": 1 },
                });
                for workload in self.names("deployments,statefulsets") {
                    cluster.patch(&[&workload, "-n", &self.namespace], "strategic", &patch);
                }
                for service in self.names("services") {
                    cluster.delete(&[&service, "-n", &self.namespace]);
                }
            }
            Phase::Recreate => {
                cluster.delete(&object);
                self.until_gone(&what);
                cluster.create(&self.object(2, 1));
            }
            Phase::Delete => cluster.delete(&object),
        }
    }

    /// Waits for the end of an object, which may have a finalizer.
    fn until_gone(&mut self, what: &str) {
        let cluster = &self.stage.everything.cluster;
        let begin = Instant::now();
        while !cluster.get(&[what, "-n", &self.namespace]).is_null() {
            assert!(begin.elapsed() < PATIENCE, "{what} does not go");
            if self.proxy.has_killed() {
                self.restart();
            }
            sleep(Duration::from_millis(20));
        }
    }

    fn object(&self, size: usize, revision: usize) -> Value {
        let mut object = self.kind.object(NAME, size, revision);
        object["metadata"]["namespace"] = json!(self.namespace);
        object
    }

    fn names(&self, kinds: &str) -> Vec<String> {
        let list = self.stage.everything.cluster.get(&[kinds, "-n", &self.namespace]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let name = |it: &Value| format!("{}/{}", text(&it["kind"]), text(&it["metadata"]["name"]));
        list["items"].as_array().unwrap().iter().map(name).collect()
    }

    /// The state at the end of the phase, however often the operator dies on the way to it.
    fn end(&mut self, phase: Phase, expected: Option<&Objects>) -> Objects {
        let (begin, kills) = (Instant::now(), self.kills);
        let mut reached = None;
        loop {
            if self.proxy.has_killed() {
                self.restart();
                reached = None;
            }
            if get(self.probes, "/readyz").is_ok() {
                let state = Objects::of(&self.stage.everything.cluster, &self.namespace);
                let is_end = match (phase, expected) {
                    (_, Some(expected)) => state == *expected,
                    (Phase::Delete, None) => state.is_empty(),
                    (_, None) => state.is_settled(self.kind),
                };
                // What comes after the end may be killed, or undo it.
                let tail = if self.kills == kills { TAIL } else { TAIL / 2 };
                let seen = || expected.map_or(format!("{state:?}"), |it| it.difference(&state));
                assert!(
                    begin.elapsed() < PATIENCE,
                    "{} with {:?} does not end {phase:?} as without: {}",
                    self.kind.name,
                    self.crash,
                    seen()
                );
                let lasts = is_end && reached.get_or_insert_with(Instant::now).elapsed() > tail;
                if lasts {
                    return state;
                }
            }
            self.assert_alive();
            sleep(Duration::from_millis(100));
        }
    }

    fn restart(&mut self) {
        self.operator.wait();
        self.kills += 1;
        let everything = &self.stage.everything;
        self.operator = everything.launch(&self.namespace, &self.kubeconfig, self.probes);
        let kill = self.crash.kill().filter(|_| matches!(self.crash, Crash::Always));
        self.proxy.plan(self.operator.pid(), kill);
    }

    /// It must not die by itself.
    fn assert_alive(&mut self) {
        if !self.proxy.has_killed() {
            self.operator.assert_runs();
        }
    }
}
