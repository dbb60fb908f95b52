//! The pod that this process runs in, if it does.

use std::{env, fs};

/// Where Kubernetes mounts the namespace of the pod's service account.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The namespace of the pod; `None` outside of one.
pub(super) fn namespace() -> Option<String> {
    let namespace = env::var("POD_NAMESPACE").or_else(|_| fs::read_to_string(NAMESPACE));
    let namespace = namespace.ok()?.trim().to_owned();
    Some(namespace).filter(|namespace| !namespace.is_empty())
}

/// The name of the pod or, outside of one, of the process.
pub(super) fn name() -> String {
    env::var("POD_NAME").unwrap_or_else(|_| format!("process-{}", std::process::id()))
}
