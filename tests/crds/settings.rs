// A header

//! Settings of `tools.example.org/v1`, an external type. Its CRD is
//! tests/crds/settings.tools.example.org.yaml. To regenerate this file from a newer CRD, run
//! `opctl create api --crd FILE --kind Settings --version v1 --force`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::apimachinery::pkg::util::intstr;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// All fields besides metadata and status, which are the spec for kube.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "tools.example.org",
    version = "v1",
    kind = "Settings",
    plural = "settings",
    namespaced,
    status = "SettingsStatus",
    no_spec,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct SettingsFields {
    pub data: BTreeMap<String, String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<SettingsResources>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<meta::LabelSelector>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<k8s_openapi::api::core::v1::Toleration>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsResources {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, intstr::IntOrString>>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<BTreeMap<String, intstr::IntOrString>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<bool>,
}
