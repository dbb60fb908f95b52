//! The objects of every new cluster: volumes that are simulated like the nodes, and the policy that keeps the
//! controller manager away from the files of this machine.

use serde_json::{Value, json};

/// The provisioner of the default StorageClass: [`VOLUME_STAGES`].
pub const PROVISIONER: &str = "kwok.x-k8s.io/volume";

/// How kwok provisions the volume of a claim and deletes it after its claim. A volume has no directory,
/// because no container runs. The controller manager binds it, but does not delete it, because it has an
/// external provisioner.
pub const VOLUME_STAGES: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: claim-provision
spec:
  resourceRef: {apiGroup: v1, kind: PersistentVolumeClaim}
  selector:
    matchAnnotations:
      volume.kubernetes.io/storage-provisioner: kwok.x-k8s.io/volume
    matchExpressions:
    - jq: {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - jq: {key: .spec.volumeName, operator: DoesNotExist}
  steps:
  - apply:
      template: |
        apiVersion: v1
        kind: PersistentVolume
        metadata:
          name: pvc-{{ .metadata.uid }}
          annotations:
            pv.kubernetes.io/provisioned-by: kwok.x-k8s.io/volume
        spec:
          accessModes:
          {{ YAML .spec.accessModes 2 }}
          capacity:
            storage: {{ .spec.resources.requests.storage | Quote }}
          persistentVolumeReclaimPolicy: Delete
          storageClassName: {{ .spec.storageClassName | Quote }}
          volumeMode: {{ .spec.volumeMode | Quote }}
          claimRef:
            apiVersion: v1
            kind: PersistentVolumeClaim
            name: {{ .metadata.name | Quote }}
            namespace: {{ .metadata.namespace | Quote }}
            uid: {{ .metadata.uid | Quote }}
          csi:
            driver: kwok.x-k8s.io
            volumeHandle: pvc-{{ .metadata.uid }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: volume-delete
spec:
  resourceRef: {apiGroup: v1, kind: PersistentVolume}
  selector:
    matchAnnotations:
      pv.kubernetes.io/provisioned-by: kwok.x-k8s.io/volume
    matchExpressions:
    - jq: {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - jq: {key: .spec.persistentVolumeReclaimPolicy, operator: In, values: [Delete]}
    - jq: {key: .status.phase, operator: In, values: [Released]}
  steps:
  - delete: true
"#;

/// The objects that are created before the kubeconfig is handed out.
pub fn initial() -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": [policy(), binding(), storage_class()]})
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_are_for_volumes_of_the_default_storage_class() {
        let documents = VOLUME_STAGES.split("\n---\n");
        let stages: Vec<Value> =
            documents.map(|document| serde_yaml::from_str(document).unwrap()).collect();
        let selectors = stages.iter().map(|stage| &stage["spec"]["selector"]["matchAnnotations"]);
        for selector in selectors {
            let provisioners: Vec<&Value> = selector.as_object().unwrap().values().collect();
            assert_eq!(provisioners, [&storage_class()["provisioner"]]);
        }
        assert_eq!(stages.len(), 2);
    }
}
