// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! Memcached: so many containers of one image.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    plural = "memcacheds",
    namespaced,
    doc = "So many containers of one image.",
    status = "MemcachedStatus",
    derive = "PartialEq",
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("the name is the value of a label: at most 63 characters"),
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct MemcachedSpec {
    /// How many containers run.
    #[schemars(range(min = 0))]
    pub size: i32,

    /// The port that the container listens on. It is not told to the container, but probed.
    #[serde(default = "default_container_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub container_port: i32,

    /// The container's image; the manager's default if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub image: Option<String>,
}

fn default_container_port() -> i32 {
    11211
}

/// What the operator has observed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedStatus {
    /// The `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How many pods there are, for the scale subresource.
    #[serde(default)]
    pub replicas: i32,

    /// How many pods are ready.
    #[serde(default)]
    pub ready_replicas: i32,

    /// The label selector of the pods, for the scale subresource.
    #[serde(default)]
    pub selector: String,

    /// Available, Progressing and Degraded.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<meta::Condition>,
}
