// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! The API groups. Written by opctl from PROJECT.

pub mod cert;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The CRD of every version of every kind, of each kind the stored version first.
pub fn crds() -> Vec<CustomResourceDefinition> {
    Vec::new()
}
