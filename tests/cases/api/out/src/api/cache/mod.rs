// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! The API group `cache.example.com`. Written by opctl from PROJECT.

pub mod v1alpha1;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub(super) fn crds(crds: &mut Vec<CustomResourceDefinition>) {
    crds.push(v1alpha1::Memcached::crd());
}
