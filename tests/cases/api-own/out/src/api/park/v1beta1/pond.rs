// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! The API type Pond.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "park.example.com",
    version = "v1beta1",
    kind = "Pond",
    plural = "ponds",
    namespaced,
    shortname = "pd",
    doc = "An object of kind Pond.",
    derive = "PartialEq"
)]
#[schemars(extend("default" = {}))]
pub struct PondSpec {
    #[serde(default = "default_depth")]
    #[schemars(range(min = 1))]
    pub depth: i32,
}

fn default_depth() -> i32 {
    2
}
