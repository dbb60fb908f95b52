//! What is wrong with a pod.

use k8s_openapi::api::core::v1::Pod;

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

/// The most characters of a termination message that are reported: Kubernetes allows 4096 bytes.
const MESSAGE: usize = 512;

/// Why a container of the pod cannot run, if it cannot: the kubelet's reason, and a message that names
/// the pod and ends with the
/// [termination message](https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/)
/// of its last run. For workloads whose controller does not report it, such as a StatefulSet.
pub fn container_failure(pod: &Pod) -> Option<(String, String)> {
    let status = pod.status.as_ref()?;
    let containers = [&status.init_container_statuses, &status.container_statuses];
    let mut containers = containers.into_iter().flatten().flatten();
    containers.find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting
            .reason
            .clone()
            .filter(|it| FAILURES.contains(&it.as_str()))?;
        let pod = pod.metadata.name.as_deref().unwrap_or_default();
        let mut message = format!("container {} of pod {pod}: {reason}", container.name);
        let last = container.last_state.as_ref();
        let last = last.and_then(|state| state.terminated.as_ref()?.message.as_deref());
        if let Some(last) = last.map(str::trim).filter(|last| !last.is_empty()) {
            message.push_str(": ");
            message.extend(last.chars().take(MESSAGE));
        }
        Some((reason, message))
    })
}

#[cfg(test)]
mod tests {
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
}
