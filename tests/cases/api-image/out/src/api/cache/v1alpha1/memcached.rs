// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! The API type Memcached: pods of one image.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// Desired state of Memcached.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    plural = "memcacheds",
    namespaced,
    doc = "Pods of one image.",
    status = "MemcachedStatus",
    derive = "PartialEq",
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("the name must have at most 63 characters: it is the value of a label"),
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
    /// Number of desired pods.
    #[schemars(range(min = 0, max = 1000))]
    pub size: i32,

    /// Port that the container listens on. It is probed, and not passed to the container.
    #[serde(default = "default_container_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub container_port: i32,

    /// Image of the container. The operator chooses it if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub image: Option<String>,
}

fn default_container_port() -> i32 {
    11211
}

/// Observed state of Memcached.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
// Until the first reconcile, tools shall not take a new object for one that is ready.
#[schemars(extend("default" = { "observedGeneration": -1 }))]
pub struct MemcachedStatus {
    /// The most recent `metadata.generation` observed by the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Number of pods.
    #[serde(default)]
    pub replicas: i32,

    /// Number of ready pods.
    #[serde(default)]
    pub ready_replicas: i32,

    /// Label selector of the pods, as the scale subresource reports it.
    #[serde(default)]
    pub selector: String,

    /// Conditions of the object. One of the first three is true:
    ///
    /// - Ready: the pods are as specified, and no failure is known.
    /// - Reconciling: the operator is on the way there, or tries again after a failure.
    /// - Stalled: it does not get there unless something is changed: the pods do not become ready
    ///   in time, or the API server rejects them as invalid.
    /// - Available: enough pods are ready to serve, be it in an earlier version.
    /// - Progressing: pods are being created, replaced or deleted, or are not ready.
    /// - Degraded: the last reconcile failed, or pods cannot be created or do not become ready in
    ///   time.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<meta::Condition>,
}
