// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! Certificate of `cert.example.org/v1`, an external type. Its CRD is
//! tests/crds/certificates.cert.example.org.yaml. To regenerate this file from a newer CRD, run
//! `opctl create api --crd FILE --kind Certificate --version v1 --force`.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "cert.example.org",
    version = "v1",
    kind = "Certificate",
    plural = "certificates",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct CertificateSpec {
    pub hosts: String,
}
