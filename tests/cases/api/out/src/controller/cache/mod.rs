// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! The controllers of the group `cache.example.com`. Written by opctl from PROJECT.

pub mod memcached;

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::manager::Manager;

/// Starts the controllers of this group.
pub fn start(manager: &Manager) {
    memcached::start(manager);
}

/// What the controllers of this group may do together.
pub fn rules() -> Vec<PolicyRule> {
    let mut rules = Vec::new();
    rules.extend(memcached::rules());
    rules
}
