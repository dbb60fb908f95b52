// A header

//! Box of `async.example.org/v1`, an external type. Its CRD is
//! tests/crds/boxes.async.example.org.yaml. To regenerate this file from a newer CRD, run
//! `opctl create api --crd FILE --kind Box --version v1 --force`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::apimachinery::pkg::util::intstr;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Spec is what is asked for: `a_b` and \*c\*, see \<https://example.org/a_b#c\> or \[d\], \_e\_.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "async.example.org",
    version = "v1",
    kind = "Box",
    plural = "boxes",
    namespaced,
    status = "BoxStatus",
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct BoxSpec {
    #[serde(rename = "$ref", skip_serializing_if = "Option::is_none")]
    pub r#ref: Option<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub _1st: Option<String>,

    #[serde(rename = "Self", skip_serializing_if = "Option::is_none")]
    pub self_: Option<String>,

    /// The URL.
    #[serde(rename = "URL", skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_property_whose_name_is_too_long_for_the_name_of_a_type_of_a_rust_struct: Option<BoxSpec2>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub anything: Option<serde_json::Value>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#async: Option<bool>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<k8s_openapi::ByteString>,

    #[serde(rename = "clusterIPs", skip_serializing_if = "Option::is_none")]
    pub cluster_ips: Option<Vec<String>>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub crate_: Option<bool>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub foo_bar: Option<String>,

    #[serde(rename = "foo_bar", skip_serializing_if = "Option::is_none")]
    pub foo_bar_2: Option<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<i64>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Vec<Vec<f64>>>,

    /// Mode is one of a few. The list is long enough that it does not fit on one line of the
    /// generated file, which is a hundred wide.
    pub mode: BoxSpecMode,

    pub name: String,

    pub nothing: Option<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub nowhere: Option<BoxSpecNowhere>,

    pub open: BoxSpecOpen,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<BTreeMap<String, BoxSpecParts>>,

    #[serde(rename = "podCIDR", skip_serializing_if = "Option::is_none")]
    pub pod_cidr: Option<String>,

    pub port: intstr::IntOrString,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,

    #[serde(rename = "self", skip_serializing_if = "Option::is_none")]
    pub self_2: Option<String>,

    pub since: meta::Time,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<BTreeMap<String, serde_json::Value>>,

    /// \- A list, or not? 1. No.
    pub r#type: String,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_fields: Option<String>,

    pub weights: Vec<i32>,

    #[serde(rename = "x-y", skip_serializing_if = "Option::is_none")]
    pub x_y: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoxSpec2 {}

/// Mode is one of a few. The list is long enough that it does not fit on one line of the generated
/// file, which is a hundred wide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BoxSpecMode {
    ReadWriteOnce,
    #[serde(rename = "read-only")]
    ReadOnly,
    Other,
    #[serde(rename = "v1.2")]
    V12,
    /// A value that the CRD does not list.
    #[serde(untagged)]
    Unknown(String),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoxSpecNowhere {}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoxSpecOpen {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<bool>,

    /// Fields that the CRD does not describe.
    #[serde(flatten)]
    pub unknown_fields: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoxSpecParts {
    pub kind: BoxSpecPartsKind,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution:
        Option<Vec<BoxSpecPartsRequiredDuringSchedulingIgnoredDuringExecution>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BoxSpecPartsKind {
    Lid,
    Side,
    /// A value that the CRD does not list.
    #[serde(untagged)]
    Other(String),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoxSpecPartsRequiredDuringSchedulingIgnoredDuringExecution {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_during_scheduling_ignored_during_execution:
        Option<BoxSpecPreferredDuringSchedulingIgnoredDuringExecution>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoxSpecPreferredDuringSchedulingIgnoredDuringExecution {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoxStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<meta::Condition>>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<BoxStatusPhases>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoxStatusPhases {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<meta::Time>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
