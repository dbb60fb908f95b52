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

/// Why a container of the pod cannot run, if it cannot: the kubelet's reason, and a message that names
/// the pod. For workloads whose controller does not report it, such as a StatefulSet.
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
        let message = format!("container {} of pod {pod}: {reason}", container.name);
        Some((reason, message))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting(reason: &str) -> Pod {
        let container = json!({
            "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": reason } },
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
}
