// A header

//! Route of `net.example.org/v1`, an external type. Its CRD is
//! tests/crds/routes.net.example.org.yaml. To regenerate this file from a newer CRD, run
//! `opctl create api --crd FILE --kind Route --version v1 --force`.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "net.example.org",
    version = "v1",
    kind = "Route",
    plural = "routes",
    namespaced,
    status = "RouteStatus",
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct RouteSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_name: Option<BTreeMap<String, RouteSpecBackend>>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<RouteSpecFallback>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<Vec<RouteSpecBackend>>,

    /// Where requests go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<RouteSpecPrimary>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<RouteSpecProtocol>,

    /// Where requests go if the primary fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secondary: Option<RouteSpecPrimary>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteSpecBackend {
    pub name: String,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<RouteSpecProtocol>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RouteSpecProtocol {
    #[serde(rename = "HTTP")]
    Http,
    #[serde(rename = "TCP")]
    Tcp,
    /// A value that the CRD does not list.
    #[serde(untagged)]
    Other(String),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteSpecFallback {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<RouteSpecProtocol>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteSpecPrimary {
    /// A service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<RouteSpecBackend>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<RouteSpecBackend>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteStatus {
    /// A service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<RouteSpecBackend>,
}
