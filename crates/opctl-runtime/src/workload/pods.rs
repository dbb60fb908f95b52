//! What is wrong with a pod.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::{
    self,
    v1::{ContainerState, ContainerStateTerminated, Pod},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

use crate::Identity;
use crate::object::Object;

/// The reasons for which a container waits that do not pass by themselves, as the kubelet reports them
/// (<https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/images/types.go>,
/// <https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kuberuntime/kuberuntime_container.go>).
const FAILURES: [&str; 8] = [
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];

/// The reason of a container that ends again and again, also while it runs for a moment.
const CRASH_LOOP: &str = "CrashLoopBackOff";

/// For how long a container has to run until the kubelet starts it at once after another crash.
const RECOVERY: SignedDuration = SignedDuration::from_mins(10);

/// The most characters of a termination message that are reported: Kubernetes allows 4096 bytes.
const MESSAGE: usize = 512;

/// Why a container of the pod cannot run, if it cannot: the kubelet's reason, and a message that names
/// the pod and ends with the
/// [termination message](https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/)
/// of its last run. For workloads whose controller does not report it, such as a StatefulSet.
///
/// A container that crashes again and again fails until it is ready, not only while the kubelet waits before
/// the next start.
pub fn container_failure(pod: &Pod) -> Option<(String, String)> {
    let status = pod.status.as_ref()?;
    let containers = [&status.init_container_statuses, &status.container_statuses];
    let containers = containers.into_iter().flatten().flatten();
    let containers = containers.cloned().map(ContainerStatus::from);
    first_failure(&pod.metadata, &containers.collect::<Vec<_>>())
}

fn first_failure(pod: &ObjectMeta, containers: &[ContainerStatus]) -> Option<(String, String)> {
    let now = Timestamp::now();
    containers.iter().find_map(|container| {
        let reason = container.failure(now)?.to_owned();
        let pod = pod.name.as_deref().unwrap_or_default();
        let mut message = format!("container {} of pod {pod}: {reason}", container.name);
        let last = container.last_run().and_then(|run| run.message.as_deref());
        if let Some(last) = last.map(str::trim).filter(|last| !last.is_empty()) {
            message.push_str(": ");
            message.extend(last.chars().take(MESSAGE));
        }
        Some((reason, message))
    })
}

/// A pod of which nothing is known but its metadata and the states of its containers: there are many, and
/// the rest of a pod is most of it.
///
/// # Example
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use opctl_runtime::workload::{PodState, active_pods, has_unavailable_pods};
/// use opctl_runtime::{Controller, Identity, Manager};
///
/// /// Reconciles when a pod begins to fail or fails no more.
/// fn controller(manager: &Manager) -> Controller<ConfigMap> {
///     let controller = Controller::new(manager);
///     let selection = active_pods(Identity::new("operator", "1.0.0"), "Server");
///     let pods = manager.watch().config(selection);
///     let pods = pods.while_any(&controller.owns(), has_unavailable_pods).start();
///     controller.watches_with(&pods, PodState::failure_hash, PodState::failing_owner);
///     controller
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PodState {
    /// The pod's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    status: Containers,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Containers {
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    ready: bool,
    restart_count: i32,
    state: Option<ContainerState>,
    last_state: Option<ContainerState>,
}

impl From<core::v1::ContainerStatus> for ContainerStatus {
    fn from(status: core::v1::ContainerStatus) -> Self {
        Self {
            name: status.name,
            ready: status.ready,
            restart_count: status.restart_count,
            state: status.state,
            last_state: status.last_state,
        }
    }
}

impl ContainerStatus {
    /// The reason for which the container cannot run.
    fn failure(&self, now: Timestamp) -> Option<&str> {
        let waiting = self.state.as_ref().and_then(|state| state.waiting.as_ref());
        let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
        let failure = reason.filter(|reason| FAILURES.contains(reason));
        failure.or_else(|| self.is_crashing(now).then_some(CRASH_LOOP))
    }

    /// Whether the container is between two crashes: it has been started again after a delay, which
    /// the kubelet leaves out the first time, and is not ready yet.
    fn is_crashing(&self, now: Timestamp) -> bool {
        let running = self.state.as_ref().and_then(|state| state.running.as_ref());
        let since = running.and_then(|running| running.started_at.as_ref());
        let is_new = since.is_none_or(|since| now.duration_since(since.0) < RECOVERY);
        let crashed = self.last_run().is_some_and(|run| {
            let times = run.started_at.as_ref().zip(run.finished_at.as_ref());
            times.is_some_and(|(start, end)| end.0.duration_since(start.0) < RECOVERY)
        });
        !self.ready && self.restart_count > 1 && is_new && crashed
    }

    /// How the container ended the last time.
    fn last_run(&self) -> Option<&ContainerStateTerminated> {
        let states = [&self.state, &self.last_state];
        let mut states = states.into_iter().flatten();
        states.find_map(|state| state.terminated.as_ref())
    }
}

impl PodState {
    /// As [`container_failure`]. A pod that is being deleted fails no more.
    pub fn failure(&self) -> Option<(String, String)> {
        if self.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let status = &self.status;
        let init = first_failure(&self.metadata, &status.init_container_statuses);
        init.or_else(|| first_failure(&self.metadata, &status.container_statuses))
    }

    /// The owner whose [`labels`](super::labels) the pod has; none once the pod is being deleted.
    pub fn owner<K: Object<DynamicType = ()>>(&self) -> Option<ObjectRef<K>> {
        if self.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let instance = self.labels().get("app.kubernetes.io/instance")?;
        Some(ObjectRef::new(instance).within(&self.namespace()?))
    }

    /// The [`owner`](Self::owner) of a pod that fails: to most owners their pods say nothing.
    pub fn failing_owner<K: Object<DynamicType = ()>>(&self) -> Option<ObjectRef<K>> {
        self.failure().and_then(|_| self.owner())
    }

    /// Changes with [`failure`](Self::failure): a predicate.
    pub fn failure_hash(&self) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        self.failure().hash(&mut hasher);
        Some(hasher.finish())
    }
}

impl Resource for PodState {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Selects the pods with the [`labels`](super::labels) of this operator and `app` that a Deployment counts:
/// those that have not ended.
pub fn active_pods(identity: Identity, app: &str) -> watcher::Config {
    let operator = identity.name();
    let labels = format!("app.kubernetes.io/name={app},app.kubernetes.io/managed-by={operator}");
    watcher::Config::default()
        .labels(&labels)
        .fields("status.phase!=Failed,status.phase!=Succeeded")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    fn waiting(reason: &str) -> Pod {
        let terminated = json!({ "exitCode": 1, "message": "no space left\n" });
        let last = match reason {
            "CrashLoopBackOff" => json!({ "terminated": terminated }),
            _ => json!({}),
        };
        let container = json!({
            "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": reason } }, "lastState": last,
        });
        let pod = json!({
            "metadata": { "name": "sample-0" },
            "status": { "containerStatuses": [container] },
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_container_that_is_being_created_has_not_failed() {
        assert_eq!(container_failure(&Pod::default()), None);
        assert_eq!(container_failure(&waiting("ContainerCreating")), None);
        let (reason, message) = container_failure(&waiting("ImagePullBackOff")).unwrap();
        assert_eq!(reason, "ImagePullBackOff");
        assert_eq!(message, "container main of pod sample-0: ImagePullBackOff");
    }

    #[test]
    fn a_container_says_why_it_ended() {
        let (_, message) = container_failure(&waiting("CrashLoopBackOff")).unwrap();
        let expected = "container main of pod sample-0: CrashLoopBackOff: no space left";
        assert_eq!(message, expected);
    }

    #[test]
    fn a_container_that_crashes_again_and_again_fails_between_its_crashes() {
        let time = |minute: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute);
        let container = |restarts: i32, ready: bool, last: i64| -> ContainerStatus {
            let terminated = json!({
                "exitCode": 1, "startedAt": time(0), "finishedAt": time(last),
            });
            serde_json::from_value(json!({
                "name": "main", "ready": ready, "restartCount": restarts,
                "state": { "running": { "startedAt": time(20) } },
                "lastState": { "terminated": terminated },
            }))
            .unwrap()
        };
        let crashing = container(2, false, 1);
        assert_eq!(crashing.failure(time(21)), Some("CrashLoopBackOff"));
        assert_eq!(crashing.failure(time(30)), None, "it runs for long");
        assert_eq!(
            container(2, false, 11).failure(time(21)),
            None,
            "it ran for long"
        );
        assert_eq!(
            container(1, false, 1).failure(time(21)),
            None,
            "it crashed once"
        );
        assert_eq!(container(2, true, 1).failure(time(21)), None, "it serves");
    }

    #[test]
    fn a_pod_state_is_what_a_pod_tells() {
        let pod = waiting("CrashLoopBackOff");
        let mut state: PodState =
            serde_json::from_value(serde_json::to_value(&pod).unwrap()).unwrap();
        assert_eq!(state.failure(), container_failure(&pod));
        assert!(state.failure().is_some());
        let failing = state.failure_hash();
        state.metadata.deletion_timestamp = Some(Time(Default::default()));
        assert_eq!(state.failure(), None);
        assert_ne!(state.failure_hash(), failing);
    }
}
