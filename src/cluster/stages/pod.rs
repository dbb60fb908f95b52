//! The stages of pods.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::{LABEL, PodBehavior};

/// A jq program that returns the name of the next stage of a pod.
const NEXT: &str = include_str!("pod.jq");

/// The template of a status.
const STATUS: &str = include_str!("pod.yaml");

/// The stages, where pods without the label have this behavior.
pub(super) fn stages(behavior: PodBehavior) -> Vec<Value> {
    use PodBehavior::{Crash, Flaky, Ready, Restart, Slow};
    let next = next(behavior);
    let stage = |name, seconds, step| stage(&next, name, seconds, step);
    let ready = Status::new("Running", Ready, true);
    let completed =
        Status { reason: "PodCompleted", state: State::Exited(0, "Completed"), ..ready };
    let completed = Status { phase: "Succeeded", ready: false, ..completed };
    let creating = Status { state: State::Creating, ..Status::new("Pending", Slow, false) };
    let crashing = Status::new("Running", Crash, false);
    let back_off = Status { state: State::BackOff, ended: Some((1, "Error")), ..crashing };
    let failed = Status { phase: "Failed", reason: "PodFailed", ..crashing };
    let failed = Status { state: State::Exited(1, "Error"), ..failed };
    let restart = Status::new("Running", Restart, true);
    let killed = Status { restarts: true, ended: Some((137, "OOMKilled")), ..restart };
    vec![
        stage("ready", 0, ready.patch()),
        stage("complete", 0, completed.patch()),
        stage("delete", 0, json!({"delete": true})),
        stage("create-slowly", 0, creating.patch()),
        stage("start-slowly", 2, Status::new("Running", Slow, false).patch()),
        stage("ready-slowly", 3, Status::new("Running", Slow, true).patch()),
        stage("complete-slowly", 3, completed.patch()),
        stage("delete-slowly", 3, json!({"delete": true})),
        stage("crash", 0, crashing.patch()),
        stage("crash-loop", 1, back_off.patch()),
        stage("restart-after-crash", 3, Status { restarts: true, ..crashing }.patch()),
        stage("fail", 1, failed.patch()),
        stage("flaky", 0, Status::new("Running", Flaky, true).patch()),
        stage("fail-probe", 5, Status::new("Running", Flaky, false).patch()),
        stage("pass-probe", 5, Status::new("Running", Flaky, true).patch()),
        stage("restart", 0, restart.patch()),
        stage("restart-again", 5, killed.patch()),
    ]
}

fn next(behavior: PodBehavior) -> String {
    let names = PodBehavior::value_variants().iter().map(|behavior| behavior.name());
    let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    let next = NEXT.replace("<label>", LABEL).replace("<behaviors>", &names.join(", "));
    next.replace("<default>", behavior.name())
}

fn stage(next: &str, name: &str, seconds: u32, step: Value) -> Value {
    json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": format!("pod-{name}")},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {
                "matchExpressions": [{"jq": {"key": next, "operator": "In", "values": [name]}}],
            },
            "delay": {"durationMilliseconds": seconds * 1000},
            "steps": [step],
        },
    })
}

/// The status of a pod. Its containers are all in the same state.
#[derive(Clone, Copy)]
struct Status {
    phase: &'static str,
    /// The behavior that the status shows.
    behavior: PodBehavior,
    ready: bool,
    /// Why it is not ready.
    reason: &'static str,
    state: State,
    /// The exit code and the reason with which the containers have just ended.
    ended: Option<(u8, &'static str)>,
    /// Whether the containers have just been restarted.
    restarts: bool,
}

/// The state of a container.
#[derive(Clone, Copy)]
enum State {
    Creating,
    Running,
    BackOff,
    Exited(u8, &'static str),
}

impl Status {
    /// The status of running containers.
    fn new(phase: &'static str, behavior: PodBehavior, ready: bool) -> Self {
        let reason = if ready { "null" } else { "ContainersNotReady" };
        Self { phase, behavior, ready, reason, state: State::Running, ended: None, restarts: false }
    }

    /// The step that patches the status of a pod.
    fn patch(self) -> Value {
        // Those of pods that are simply ready have none, as with the stages of kwok.
        let id = match self.behavior {
            PodBehavior::Ready => "null".to_owned(),
            other => format!("{}://{{{{ $pod.metadata.uid }}}}", other.name()),
        };
        let is_running = matches!(self.state, State::Running);
        let state = match self.state {
            State::Creating => "{waiting: {reason: ContainerCreating}}".to_owned(),
            State::Running if self.restarts => {
                "{running: {startedAt: {{ $now | Quote }}}}".to_owned()
            }
            State::Running => "{running: {startedAt: {{ $started | Quote }}}}".to_owned(),
            State::BackOff => {
                format!("{{waiting: {{reason: CrashLoopBackOff, message: {BACK_OFF}}}}}")
            }
            State::Exited(code, reason) => terminated(code, reason),
        };
        let last_state = match self.ended {
            Some((code, reason)) => terminated(code, reason),
            None => "{{ or $old.lastState dict | toJson }}".to_owned(),
        };
        let values = [
            ("<phase>", self.phase),
            ("<ready>", if self.ready { "True" } else { "False" }),
            ("<reason>", self.reason),
            ("<is_ready>", &self.ready.to_string()),
            ("<is_started>", &is_running.to_string()),
            ("<restarts>", if self.restarts { "1" } else { "0" }),
            ("<container_id>", &id),
            ("<state>", &state),
            ("<last_state>", &last_state),
        ];
        let fill = |text: String, (name, value): (&str, &str)| text.replace(name, value);
        let template = values.into_iter().fold(STATUS.to_owned(), fill);
        json!({"patch": {"subresource": "status", "root": "status", "template": template}})
    }
}

/// What a kubelet says about a container that it restarts later.
const BACK_OFF: &str = r#"{{ printf "back-off 10s restarting failed container=%s pod=%s_%s(%s)" .name $pod.metadata.name $pod.metadata.namespace $pod.metadata.uid | Quote }}"#;

/// The state of a container that has just ended.
fn terminated(code: u8, reason: &str) -> String {
    format!(
        "{{terminated: {{exitCode: {code}, reason: {reason}, startedAt: {{{{ $started | Quote }}}}, \
         finishedAt: {{{{ $now | Quote }}}}}}}}"
    )
}
