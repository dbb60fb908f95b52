//! The kinds of these tests.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A namespaced kind. What its objects mean is up to the test.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "runtime.example.com", version = "v1", kind = "Backup")]
#[kube(namespaced, status = "BackupStatus")]
pub struct BackupSpec {
    pub copies: u32,
}

/// A status without conditions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct BackupStatus {
    pub copies: u32,
}

/// A cluster-scoped kind.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "runtime.example.com", version = "v1", kind = "Tenant")]
#[serde(rename_all = "camelCase")]
pub struct TenantSpec {
    /// Where its ConfigMap is.
    pub namespace: String,
}

/// A kind whose fields have names that mean something else in core types.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "runtime.example.com", version = "v1", kind = "Probe")]
#[kube(namespaced)]
pub struct ProbeSpec {
    pub selector: BTreeMap<String, String>,
    pub env: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// A kind whose CRD is not installed.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "runtime.example.com", version = "v1", kind = "Missing")]
#[kube(namespaced)]
pub struct MissingSpec {}
