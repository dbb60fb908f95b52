// A header

//! Settings of `tools.example.org/v1`, which somebody else's CRD defines: it is in
//! tests/crds/settings.tools.example.org.yaml. To write this file anew from a newer one, run
//! `opctl create api --crd FILE --kind Settings --version v1 --force`.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// What an object has beside metadata and status. kube calls it the spec.
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
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<bool>,
}
