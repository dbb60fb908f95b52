//! Random edits of every kind of child that recipes have: they end in the desired state, and then in
//! silence.

use std::time::{Duration, Instant};
use std::{env, fmt::Debug};

use axum::http::Request;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use opctl_runtime::testing::eventually;
use opctl_runtime::{Error, Object};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::family::Family;
use crate::random::{Random, Schemas};

/// How many edits of each kind there are, unless `OPCTL_EDITS` says more.
const EDITS: usize = 25;

/// How long the edits of one kind may take.
const BUDGET: Duration = Duration::from_secs(60);

/// What others may set, or what the API server allocates and keeps.
const LEFT_ALONE: [&str; 7] = [
    "/spec/template/metadata",
    "/spec/jobTemplate/metadata",
    "/spec/jobTemplate/spec/template/metadata",
    "/spec/clusterIP",
    "/spec/clusterIPs",
    "/spec/ipFamilies",
    "/spec/ipFamilyPolicy",
];

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

async fn edit<K>(desired: Value)
where
    K: Object<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Debug,
{
    let family = Family::<K>::new().await;
    let seed = number("OPCTL_SEED").unwrap_or(1);
    let edits = number("OPCTL_EDITS").map_or(EDITS, |edits| edits as usize);
    let budget = BUDGET.mul_f64((edits as f64 / EDITS as f64).max(1.0));
    let (group, version, kind) = (K::group(&()), K::version(&()), K::kind(&()));
    let (document, group) = match &*group {
        "" => (format!("/openapi/v3/api/{version}"), "core"),
        group => (format!("/openapi/v3/apis/{group}/{version}"), group),
    };
    let request = Request::get(&document).body(Vec::new());
    let request = request.expect("the path should be valid");
    let schemas = family.operator.client.request(request).await;
    let schemas = Schemas(schemas.expect("the API server should have an OpenAPI document"));
    let schema = schemas.of(&format!("io.k8s.api.{group}.{version}.{kind}"));
    assert!(
        schema["properties"].is_object(),
        "{document} should have the schema"
    );

    family
        .apply(desired.clone())
        .await
        .expect("a child should be created");
    let baseline = comparable(family.live("child").await);
    let (mut random, start) = (Random(seed), Instant::now());
    let (mut done, mut refused, mut immutable) = (0, 0, 0);
    while done < edits && start.elapsed() < budget {
        let state = random.0;
        let mut object = family.live("child").await;
        for _ in 0..=random.below(3) {
            change(&schemas, &mut random, &mut object, schema);
        }
        if !send(&family, &mut random, object.clone()).await {
            refused += 1;
            continue;
        }
        done += 1;
        let applier = family.new_applier();
        let applied = family.apply_with(&applier, desired.clone()).await;
        match applied {
            // Somebody has made it immutable: that is reported, and a person has to delete it.
            Err(Error::Immutable { .. }) if object["immutable"] == true => {
                immutable += 1;
                delete(&family).await;
                family.apply(desired.clone()).await.expect("a new child");
                continue;
            }
            applied => {
                _ = applied.unwrap_or_else(|error| panic!("state {state}: {error}\n{object}"))
            }
        }
        let live = comparable(family.live("child").await);
        assert_eq!(live, baseline, "state {state}\n{object}");
        let patches = family.patches();
        let again = family.apply_with(&applier, desired.clone());
        again.await.expect("nothing should be left to do");
        assert_eq!(family.patches(), patches, "state {state}\n{object}");
    }
    println!(
        "{}: {done} edits, {immutable} cannot be undone, {refused} refused, {:?}",
        kind,
        start.elapsed()
    );
    assert!(done >= 5, "{done} edits with {refused} refused");
}

/// Changes a field that is neither metadata nor status.
fn change(schemas: &Schemas, random: &mut Random, object: &mut Value, schema: &Value) {
    let fixed = ["apiVersion", "kind", "metadata", "status"];
    let properties = schema["properties"].as_object().into_iter().flatten();
    let names: Vec<_> = properties
        .filter(|(name, _)| !fixed.contains(&name.as_str()))
        .collect();
    let (name, property) = names[random.below(names.len())];
    match object.get_mut(name) {
        Some(value) => schemas.change(random, value, property),
        None => object[name] = schemas.value(random, property, 3),
    }
}

async fn delete<K>(family: &Family<K>)
where
    K: Object<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Debug,
{
    let deleted = family
        .children
        .delete("child", &DeleteParams::default())
        .await;
    deleted.expect("the child should be deleted");
    eventually("the end of the child", async || {
        let namespace = &family.operator.namespace;
        family
            .store
            .get(Some(namespace), "child")
            .is_none()
            .then_some(())
    })
    .await;
}

/// Writes the object as another client. Returns whether the API server accepts it, and changes anything.
async fn send<K>(family: &Family<K>, random: &mut Random, mut object: Value) -> bool
where
    K: Object<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Debug,
{
    let before = object["metadata"]["resourceVersion"].clone();
    let Ok(typed) = serde_json::from_value::<K>(object.clone()) else {
        return false;
    };
    let written = if random.below(3) == 0 {
        let metadata = json!({ "name": "child" });
        object["metadata"] = metadata;
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        let params = PatchParams::apply("another").force();
        family
            .children
            .patch("child", &params, &Patch::Apply(object))
            .await
    } else {
        family
            .children
            .replace("child", &PostParams::default(), &typed)
            .await
    };
    let Ok(written) = written else { return false };
    family.reported(&written).await;
    written.meta().resource_version.as_deref() != before.as_str()
}

/// The object without what others may set.
fn comparable(mut object: Value) -> Value {
    for path in LEFT_ALONE {
        if let Some(value) = object.pointer_mut(path) {
            *value = Value::Null;
        }
    }
    // It means the same: the default of a StatefulSet without a strategy is spelled out.
    let strategy = &mut object["spec"]["updateStrategy"];
    if strategy["rollingUpdate"] == json!({ "partition": 0 }) {
        *strategy = json!({ "type": strategy["type"] });
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("metadata");
        fields.remove("status");
    }
    object
}

fn pod(restart_policy: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "a" } },
        "spec": {
            "restartPolicy": restart_policy,
            "containers": [{
                "name": "main",
                "image": "an/image:1",
                "args": ["--verbose"],
                "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
                "ports": [{ "name": "http", "containerPort": 80 }],
                "readinessProbe": { "tcpSocket": { "port": 80 } },
                "resources": { "requests": { "cpu": "1000m" }, "limits": { "memory": "1024Mi" } },
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
                "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp" }],
            }],
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "volumes": [{ "name": "tmp", "emptyDir": {} }],
        },
    })
}

#[tokio::test]
async fn of_a_deployment() {
    let desired = json!({
        "metadata": { "name": "child" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": "a" } },
            "template": pod("Always"),
        },
    });
    edit::<Deployment>(desired).await;
}

#[tokio::test]
async fn of_a_stateful_set() {
    let desired = json!({
        "metadata": { "name": "child" },
        "spec": {
            "replicas": 0,
            "serviceName": "child",
            "selector": { "matchLabels": { "app": "a" } },
            "template": pod("Always"),
        },
    });
    edit::<StatefulSet>(desired).await;
}

#[tokio::test]
async fn of_a_cron_job() {
    let desired = json!({
        "metadata": { "name": "child" },
        "spec": {
            "schedule": "0 0 1 1 *",
            "jobTemplate": { "spec": { "template": pod("Never") } },
        },
    });
    edit::<CronJob>(desired).await;
}

#[tokio::test]
async fn of_a_service() {
    let desired = json!({
        "metadata": { "name": "child" },
        "spec": {
            "selector": { "app": "a" },
            "ports": [{ "name": "http", "port": 80 }, { "name": "dns", "port": 53, "protocol": "UDP" }],
        },
    });
    edit::<Service>(desired).await;
}

#[tokio::test]
async fn of_a_config_map_and_a_secret() {
    let desired = json!({ "metadata": { "name": "child" }, "data": { "main": "b" } });
    edit::<ConfigMap>(desired).await;
    let desired = json!({ "metadata": { "name": "child" }, "stringData": { "main": "b" } });
    edit::<Secret>(desired).await;
}
