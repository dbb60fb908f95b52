//! What an operator does most: an event that concerns none of its objects, a reconcile that finds
//! everything as desired, and one that repairs a drift.

#![allow(clippy::unwrap_used, missing_docs)]

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use criterion::{Criterion, criterion_group, criterion_main};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::Action;
use kube::{Client, client};
use opctl_runtime::testing::recording_client;
use opctl_runtime::{Applier, Controller, Identity, Manager, Options, Result, Store};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tower::service_fn;

const IDENTITY: Identity = Identity::new("bench-operator", "1.0.0");

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn owner() -> ConfigMap {
    let metadata = json!({ "name": "cache", "namespace": "default", "uid": "1", "generation": 1 });
    serde_json::from_value(json!({ "metadata": metadata })).unwrap()
}

/// What a reconciler asks for.
fn desired(replicas: i32) -> Deployment {
    let labels =
        json!({ "app.kubernetes.io/name": "Cache", "app.kubernetes.io/instance": "cache" });
    let container = json!({
        "name": "cache",
        "image": "cache:1.0.0",
        "args": ["--port=11211", "--memory-limit=64"],
        "ports": [{ "name": "cache", "containerPort": 11211 }],
        "livenessProbe": { "tcpSocket": { "port": "cache" } },
        "readinessProbe": { "tcpSocket": { "port": "cache" }, "periodSeconds": 2 },
        "resources": { "requests": { "cpu": "10m", "memory": "96Mi" }, "limits": { "memory": "128Mi" } },
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
    });
    serde_json::from_value(json!({
        "metadata": { "name": "cache", "namespace": "default", "labels": labels },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    }))
    .unwrap()
}

/// A Deployment of nobody, as a watch reports it in this resource version.
fn event(version: u64) -> Bytes {
    let mut object = serde_json::to_value(desired(2)).unwrap();
    let managers = json!([
        { "manager": "helm", "operation": "Apply", "fieldsV1": fields_v1(&object) },
        { "manager": "kube-controller-manager", "operation": "Update", "subresource": "status",
          "fieldsV1": { "f:status": { "f:readyReplicas": {}, "f:replicas": {} } } },
    ]);
    object["apiVersion"] = json!("apps/v1");
    object["kind"] = json!("Deployment");
    object["metadata"]["managedFields"] = managers;
    object["metadata"]["uid"] = json!("2");
    object["metadata"]["generation"] = json!(1);
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    object["status"] = json!({
        "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": version % 3,
    });
    let mut line = json!({ "type": "MODIFIED", "object": object }).to_string();
    line.push('\n');
    line.into()
}

fn fields_v1(value: &Value) -> Value {
    let Value::Object(fields) = value else {
        return json!({});
    };
    let fields = fields.iter();
    fields.map(|(name, value)| (format!("f:{name}"), fields_v1(value))).collect()
}

/// A client of an API server that has no objects, and reports these events of Deployments.
fn reporting(events: UnboundedReceiver<Bytes>) -> Client {
    let mut events = Some(events.map(Ok::<_, Infallible>));
    let service = service_fn(move |request: Request<client::Body>| {
        let uri = request.uri().to_string();
        let body = if !uri.contains("watch=true") {
            let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] });
            Body::from(list.to_string())
        } else if let Some(events) = events.take_if(|_| uri.contains("deployments")) {
            Body::from_stream(events)
        } else {
            Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>())
        };
        ready(Ok::<_, Infallible>(Response::new(body)))
    });
    Client::new(service, "default")
}

fn events(criterion: &mut Criterion) {
    let runtime = runtime();
    let (sender, receiver) = unbounded();
    let deployments: Store<Deployment> = runtime.block_on(async {
        let options = Options::from_flags([""; 0]).unwrap();
        let manager = Manager::new(IDENTITY, reporting(receiver), options);
        let controller = Controller::<ConfigMap>::new(&manager);
        let deployments = controller.owns();
        let reconcile = |_, _| ready(Ok::<_, Infallible>(Action::await_change()));
        controller.run(reconcile, ());
        deployments
    });
    let mut version = 1;
    criterion.bench_function("an event of an object of nobody", |bencher| {
        bencher.iter_batched(
            || {
                version += 1;
                (version.to_string(), event(version))
            },
            |(version, event)| {
                sender.unbounded_send(event).unwrap();
                runtime.block_on(async {
                    let is_stored = || {
                        let object = deployments.get(Some("default"), "cache");
                        object.is_some_and(|it| {
                            it.metadata.resource_version.as_ref() == Some(&version)
                        })
                    };
                    while !is_stored() {
                        yield_now().await;
                    }
                });
            },
            criterion::BatchSize::SmallInput,
        );
    });
}

fn reconciles(criterion: &mut Criterion) {
    let runtime = runtime();
    // A client is a task.
    let (client, requests) = runtime.block_on(async { recording_client() });
    let applier = Applier::new(IDENTITY, client);
    let (owner, deployments) = (owner(), Store::from_iter([]));
    let apply = |replicas| {
        let applied = applier.apply(&owner, desired(replicas), &deployments);
        runtime.block_on(applied).unwrap()
    };
    let first: Arc<Deployment> = apply(2);
    requests.take();

    criterion.bench_function("a reconcile that changes nothing", |bencher| {
        bencher.iter(|| apply(2));
    });
    assert!(requests.take().is_empty(), "nothing should be sent");

    let mut replicas = 2;
    criterion.bench_function("a reconcile of another desired state", |bencher| {
        bencher.iter(|| {
            replicas = 5 - replicas;
            apply(replicas);
            requests.take();
        });
    });
    assert_ne!(first.metadata.resource_version, apply(2).metadata.resource_version);
}

criterion_group! {
    name = hot_paths;
    config = Criterion::default().sample_size(20);
    targets = events, reconciles
}
criterion_main!(hot_paths);
