// Copyright Example, Inc
// SPDX-License-Identifier: Apache-2.0

//! The API type Pond.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// spec defines the desired state of Pond
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "park.example.com",
    version = "v1",
    kind = "Pond",
    plural = "ponds",
    namespaced,
    doc = "Pond is the Schema for the ponds API",
    status = "PondStatus",
    derive = "PartialEq"
)]
pub struct PondSpec {
    /// depth in meters
    #[schemars(range(min = 1))]
    pub depth: i32,
}

#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PondStatus {}
