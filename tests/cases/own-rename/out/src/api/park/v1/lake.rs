// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! The API type Lake.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// What is desired.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "park.example.com",
    version = "v1",
    kind = "Lake",
    plural = "lakes",
    namespaced,
    shortname = "pd",
    doc = "Pond is a pond of a park.",
    status = "LakeStatus",
    derive = "PartialEq",
    printcolumn(name = "Depth", type_ = "integer", json_path = ".spec.depth")
)]
pub struct LakeSpec {
    /// Depth in meters.
    #[schemars(range(min = 1))]
    pub depth: i32,

    /// The fish in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fish: Vec<PondFish>,
}

/// A fish.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PondFish {
    #[serde(default)]
    pub species: PondSpecies,
}

#[derive(schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum PondSpecies {
    #[serde(rename = "carp")]
    #[default]
    Carp,
    #[serde(rename = "pike")]
    Pike,
}

#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LakeStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<bool>,
}
