// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! Deployment of `apps/v1` on a real API server. `make test` runs it.

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use common::{Operator, eventually, operator};
use k8s_openapi::api::apps::v1;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tracing::Level;

const CONTROLLER: &str = "deployment.apps";

/// The object that the test makes; `$NAMESPACE` stands for the test's own namespace.
const OBJECT: &str = include_str!("objects/apps_deployment.yaml");

#[tokio::test]
async fn an_object_is_reconciled() {
    let Operator {
        client, namespace, ..
    } = operator().await;
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{namespace}.log"));
    tracing_subscriber::fmt()
        .json()
        .with_max_level(Level::DEBUG)
        .with_writer(Arc::new(File::create(&log).expect("a file")))
        .init();

    let objects: Api<v1::Deployment> = Api::namespaced(client, &namespace);
    let object = object(&namespace);
    let name = object.name_any();
    let created = objects.create(&PostParams::default(), &object).await;
    created.expect("the API server takes the object below tests/objects");

    eventually("a reconcile", async || {
        let log = fs::read_to_string(&log).expect("the log");
        log.lines().find(|line| tells_of(line, &name)).map(drop)
    })
    .await;
    objects
        .delete(&name, &DeleteParams::default())
        .await
        .expect("deleted");
}

fn object(namespace: &str) -> v1::Deployment {
    let manifest = OBJECT.replace("$NAMESPACE", namespace);
    serde_saphyr::from_str(&manifest).expect("an object")
}

/// Whether a line of the log says that the object was reconciled.
fn tells_of(line: &str, name: &str) -> bool {
    // The last line may still be being written.
    let event: Value = serde_json::from_str(line).unwrap_or_default();
    event["fields"]["message"] == "reconciled"
        && event["span"]["controller"] == CONTROLLER
        && event["span"]["object"] == name
}
