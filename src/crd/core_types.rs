//! Types of Kubernetes that are written out in a CRD, such as a pod template, recognized by their fields.

use serde_json::Value;

use super::schema::Schema;

/// A schema with properties.
pub trait Properties: Sized {
    /// The names of the properties.
    fn names(&self) -> Vec<&str>;

    /// The schema of a property.
    fn property(&self, name: &str) -> Option<&Self>;
}

impl Properties for serde_json::Map<String, Value> {
    fn names(&self) -> Vec<&str> {
        let properties = self.get("properties").and_then(Value::as_object);
        properties
            .into_iter()
            .flat_map(|properties| properties.keys())
            .map(String::as_str)
            .collect()
    }

    fn property(&self, name: &str) -> Option<&Self> {
        self.get("properties")?.get(name)?.as_object()
    }
}

impl Properties for Schema {
    fn names(&self) -> Vec<&str> {
        self.properties.keys().map(String::as_str).collect()
    }

    fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(name)
    }
}

/// A type of k8s-openapi.
struct CoreType {
    path: &'static str,
    /// The fields that the schema must have.
    required: &'static [&'static str],
    /// The fields that it may have besides. Without them, it may have any: the required ones say enough.
    optional: Option<&'static [&'static str]>,
}

/// The path of the type of conditions, which has no default.
pub const CONDITION: &str = "meta::Condition";
const CONDITION_FIELDS: &[&str] = &["lastTransitionTime", "message", "reason", "status", "type"];

const TYPES: &[CoreType] = &[
    CoreType {
        path: "k8s_openapi::api::core::v1::ObjectReference",
        required: &[
            "apiVersion",
            "fieldPath",
            "kind",
            "name",
            "namespace",
            "resourceVersion",
            "uid",
        ],
        optional: Some(&[]),
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::PodSpec",
        required: &[
            "containers",
            "initContainers",
            "restartPolicy",
            "volumes",
            "serviceAccountName",
        ],
        optional: None,
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::Container",
        required: &["image", "imagePullPolicy", "livenessProbe", "name", "terminationMessagePath"],
        optional: None,
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::Volume",
        required: &["configMap", "emptyDir", "hostPath", "name", "persistentVolumeClaim", "secret"],
        optional: None,
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::Affinity",
        required: &["nodeAffinity", "podAffinity", "podAntiAffinity"],
        optional: Some(&[]),
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::Toleration",
        required: &["effect", "key", "operator", "tolerationSeconds", "value"],
        optional: Some(&[]),
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::TopologySpreadConstraint",
        required: &["labelSelector", "maxSkew", "topologyKey", "whenUnsatisfiable"],
        optional: None,
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::ResourceRequirements",
        required: &["limits", "requests"],
        optional: Some(&["claims"]),
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::PodSecurityContext",
        required: &["fsGroup", "runAsUser", "supplementalGroups", "sysctls"],
        optional: None,
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::SecurityContext",
        required: &["allowPrivilegeEscalation", "capabilities", "procMount", "runAsUser"],
        optional: None,
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::Probe",
        required: &["exec", "failureThreshold", "httpGet", "periodSeconds", "tcpSocket"],
        optional: None,
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::EnvVar",
        required: &["name", "value", "valueFrom"],
        optional: Some(&[]),
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::EnvFromSource",
        required: &["configMapRef", "prefix", "secretRef"],
        optional: Some(&[]),
    },
    CoreType {
        path: "k8s_openapi::api::core::v1::PersistentVolumeClaimSpec",
        required: &["accessModes", "resources", "storageClassName", "volumeMode", "volumeName"],
        optional: None,
    },
    CoreType {
        path: "meta::LabelSelector",
        required: &["matchExpressions", "matchLabels"],
        optional: Some(&[]),
    },
    CoreType {
        path: CONDITION,
        required: CONDITION_FIELDS,
        optional: Some(&["observedGeneration"]),
    },
];

/// Templates: the path, and the type that their field `spec` must have.
const TEMPLATES: &[(&str, &str)] =
    &[("k8s_openapi::api::core::v1::PodTemplateSpec", "k8s_openapi::api::core::v1::PodSpec")];

/// The path of the type that has this schema.
pub fn find(schema: &impl Properties) -> Option<&'static str> {
    let fields = schema.names();
    let has = |names: &[&str]| names.iter().all(|name| fields.contains(name));
    let is_known = |type_: &CoreType, name: &str| {
        type_.required.contains(&name)
            || type_.optional.is_none_or(|optional| optional.contains(&name))
    };
    let matches =
        |type_: &&CoreType| has(type_.required) && fields.iter().all(|n| is_known(type_, n));
    if let Some(type_) = TYPES.iter().find(matches) {
        return Some(type_.path);
    }
    let is_template = has(&["metadata", "spec"]) && fields.len() == 2;
    let spec = schema.property("spec").filter(|_| is_template)?;
    let spec_type = find(spec);
    let template = TEMPLATES.iter().find(|(_, inner)| Some(*inner) == spec_type);
    if let Some((path, _)) = template {
        return Some(path);
    }
    // A Job's template has a pod's.
    let is_job = ["backoffLimit", "completions", "parallelism", "template"];
    let inner = spec.names();
    let is_job = is_job.iter().all(|name| inner.contains(name));
    is_job.then_some("k8s_openapi::api::batch::v1::JobTemplateSpec")
}

/// The path of the type that any object with this schema can be read as. That of a quantity is no number, which
/// the schema permits: a container with `cpu: 1` could not be read.
pub fn find_readable(schema: &Schema) -> Option<&'static str> {
    let path = find(schema).filter(|_| schema.is_object())?;
    let is_readable = match path {
        CONDITION => CONDITION_FIELDS.iter().all(|name| schema.is_required(name)),
        _ => !schema.preserves_unknown_fields && !schema.has_quantity(),
    };
    is_readable.then_some(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_found_by_their_fields() {
        let of = |fields: &[&str]| {
            let fields: serde_json::Map<String, Value> =
                fields.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
            let schema = json!({ "type": "object", "properties": fields });
            find(schema.as_object().unwrap())
        };
        assert_eq!(of(&["limits", "requests"]), Some(TYPES[7].path));
        assert_eq!(of(&["limits", "requests", "mine"]), None);
        assert_eq!(of(&["name", "value", "valueFrom"]).map(|p| p.ends_with("EnvVar")), Some(true));
        assert_eq!(of(&["name", "value"]), None);
        assert_eq!(of(&["metadata", "spec"]), None);
        assert_eq!(of(&[]), None);
    }
}
