//! What OLM makes of a bundle, by its rules for the installation in one namespace.

use serde_json::Value;

/// The objects that OLM creates in a namespace for a bundle.
pub fn installed(objects: &[Value], namespace: &str) -> Vec<Value> {
    let csv = objects.iter().find(|object| object["kind"] == "ClusterServiceVersion").unwrap();
    let strategy = &csv["spec"]["install"]["spec"];
    let mut made = vec![serde_json::json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
    })];
    let others = objects.iter().filter(|object| object["kind"] != "ClusterServiceVersion");
    made.extend(others.cloned());
    for (list, kind) in [("permissions", "Role"), ("clusterPermissions", "ClusterRole")] {
        for entry in items(&strategy[list]) {
            let account = &entry["serviceAccountName"];
            let api = "rbac.authorization.k8s.io";
            let metadata = serde_json::json!({ "name": format!("olm-{list}").to_lowercase() });
            made.push(serde_json::json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": account },
            }));
            made.push(serde_json::json!({
                "apiVersion": format!("{api}/v1"), "kind": kind, "metadata": metadata,
                "rules": entry["rules"],
            }));
            made.push(serde_json::json!({
                "apiVersion": format!("{api}/v1"), "kind": format!("{kind}Binding"),
                "metadata": metadata,
                "roleRef": { "apiGroup": api, "kind": kind, "name": metadata["name"] },
                "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
            }));
        }
    }
    for deployment in items(&strategy["deployments"]) {
        made.push(serde_json::json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": deployment["name"], "labels": deployment["label"] },
            "spec": deployment["spec"],
        }));
    }
    for object in &mut made {
        let kind = text(&object["kind"]).to_owned();
        let is_global = ["Namespace", "CustomResourceDefinition"].contains(&kind.as_str());
        if !is_global && !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = namespace.into();
        }
    }
    made
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
