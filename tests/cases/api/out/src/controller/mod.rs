// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! The controllers. Written by opctl from PROJECT.

pub mod cache;

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::manager::Manager;

/// Starts every controller.
pub fn start(manager: &Manager) {
    cache::start(manager);
}

/// What the controllers may do together.
pub fn rules() -> Vec<PolicyRule> {
    let mut rules = Vec::new();
    rules.extend(cache::rules());
    rules
}
