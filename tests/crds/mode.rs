// A header

//! Mode of `tools.example.org/v1`, an external type. Its CRD is
//! tests/crds/modes.tools.example.org.yaml. To regenerate this file from a newer CRD, run
//! `opctl create api --crd FILE --kind Mode --version v1 --force`.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// All fields besides metadata and status, which are the spec for kube.
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
    /// A value that the CRD does not list.
    #[serde(untagged)]
    Other(String),
}
