//! The objects of every new cluster: volumes that are simulated like the nodes, and the policy that keeps the
//! controller manager away from the files of this machine.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::build;

/// The provisioner of the default StorageClass: kwok, with the stages of `stages/volume.yaml`.
pub const PROVISIONER: &str = "kwok.x-k8s.io/volume";

/// The objects of a new cluster, which are created before the kubeconfig is handed out.
pub fn initial(nodes: u16) -> Value {
    // The policy comes first: it is in force a second later.
    let objects = [policy(), binding(), storage_class()].into_iter();
    list(objects.chain((0..nodes).map(node)))
}

/// The objects without which a cluster could harm the machine.
pub fn policies() -> Value {
    list([policy(), binding()])
}

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": Vec::from_iter(items)})
}

/// A node, which kwok makes ready. Its address is reserved for tests: nothing is routed.
fn node(number: u16) -> Value {
    let name = format!("node-{number:06}");
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 1)) + u32::from(number));
    let pods = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 240, 0, 0)) + (u32::from(number) << 8));
    let version = format!("kwok-{}", build::kwok_version());
    let resources = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node-role.kubernetes.io/agent": "",
                "type": "kwok",
            },
        },
        "spec": {"podCIDR": format!("{pods}/24"), "podCIDRs": [format!("{pods}/24")]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "allocatable": resources,
            "capacity": resources,
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": version,
                "kernelVersion": version,
                "kubeProxyVersion": version,
                "kubeletVersion": version,
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "",
                "systemUUID": "",
            },
        },
    })
}

/// Denies volumes with a directory that the controller manager would delete. It runs as the user, and
/// deletes any directory with `/tmp/` in its path.
fn policy() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["persistentvolumes"],
            }]},
            "validations": [{
                "expression": "!has(object.spec.hostPath) || \
                    !has(object.spec.persistentVolumeReclaimPolicy) || \
                    object.spec.persistentVolumeReclaimPolicy != 'Delete'",
                "message": "the cluster would delete the directory of a hostPath volume from this \
                    machine: set persistentVolumeReclaimPolicy to Retain",
            }],
        },
    })
}

/// The name of the policy and its binding, which is part of the API server's message.
pub const POLICY: &str = "opctl-host-path-volumes";

fn binding() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    })
}

/// A volume that the policy denies.
pub fn denied_volume() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "opctl-probe"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Mi"},
            "hostPath": {"path": "/nonexistent"},
            "persistentVolumeReclaimPolicy": "Delete",
        },
    })
}

/// The default StorageClass.
fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    })
}
