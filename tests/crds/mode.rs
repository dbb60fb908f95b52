// A header

//! Mode of `tools.example.org/v1`, which somebody else's CRD defines: it is in
//! tests/crds/modes.tools.example.org.yaml. To write this file anew from a newer one, run
//! `opctl create api --crd FILE --kind Mode --version v1 --force`.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// What an object has beside metadata and status. kube calls it the spec.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "tools.example.org",
    version = "v1",
    kind = "Mode",
    plural = "modes",
    no_spec,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct ModeFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<ModeSpec>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModeSpec {
    pub mode: ModeSpecMode,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ModeSpecMode {
    On,
    Off,
    /// A value that the CRD did not have when this was written.
    #[serde(untagged)]
    Other(String),
}
