//! A child stays as desired whatever others do with it, and an object that is not one stays theirs.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use opctl_runtime::testing::eventually;
use opctl_runtime::{Error, Object, Store, workload};
use serde_json::{Value, json};

use crate::api::Probe;
use crate::cluster::IDENTITY;
use crate::family::{Family, create, from};

fn deployment() -> Value {
    json!({
        "metadata": { "name": "child", "labels": { "app.kubernetes.io/managed-by": "runtime-tests" } },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": {
                    "containers": [{
                        "name": "main",
                        "image": "an/image:1",
                        "args": ["--verbose"],
                        "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
                        "readinessProbe": { "tcpSocket": { "port": 80 } },
                        "resources": { "requests": { "cpu": "100m" } },
                        "securityContext": { "allowPrivilegeEscalation": false },
                    }],
                    "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
                    "volumes": [{ "name": "tmp", "emptyDir": {} }],
                },
            },
        },
    })
}

/// A store that has heard of nothing yet.
fn behind<K: Object<DynamicType = ()>>() -> Store<K> {
    Store::from_iter([])
}

#[tokio::test]
async fn an_object_that_the_store_does_not_know_is_not_taken_over() {
    let family = Family::<Deployment>::new().await;
    let theirs = create(&family.children, deployment()).await;
    let (applier, owner) = (&family.applier, &family.owner);
    let applied = applier
        .apply(owner, from::<Deployment>(deployment()), &behind())
        .await;
    assert!(
        matches!(applied, Err(Error::NotControlled { .. })),
        "{applied:?}"
    );
    let created = applier
        .create(owner, from::<Deployment>(deployment()), &behind())
        .await;
    assert!(
        matches!(created, Err(Error::NotControlled { .. })),
        "{created:?}"
    );
    let mut desired = from::<Deployment>(deployment());
    desired.metadata.namespace = theirs.namespace();
    let unowned = applier.apply_unowned(desired, &behind()).await;
    assert!(matches!(unowned, Err(Error::NotControlled { .. })));
    let live = family.children.get("child").await.unwrap();
    assert_eq!(live.spec, theirs.spec);
    let entries = live.metadata.managed_fields.iter().flatten();
    let managers = entries.filter(|entry| entry.subresource.is_none());
    assert_eq!(managers.count(), 1, "theirs");
    assert!(live.metadata.owner_references.is_none());
}

#[tokio::test]
async fn the_store_may_have_an_object_that_was_recreated_by_another() {
    let family = Family::<Deployment>::new().await;
    let ours = family.apply(deployment()).await.unwrap();
    let outdated = Store::from_iter([Deployment::clone(&ours)]);
    family
        .children
        .delete("child", &DeleteParams::default())
        .await
        .unwrap();
    let mut desired = deployment();
    desired["spec"]["replicas"] = json!(2);
    let (applier, owner) = (&family.applier, &family.owner);
    let recreated = applier
        .apply(owner, from(desired.clone()), &outdated)
        .await
        .unwrap();
    assert_ne!(
        recreated.uid(),
        ours.uid(),
        "it was deleted, so it is created"
    );

    family
        .children
        .delete("child", &DeleteParams::default())
        .await
        .unwrap();
    create(&family.children, deployment()).await;
    let outdated = Store::from_iter([Deployment::clone(&ours)]);
    let applied = applier.apply(owner, from(desired), &outdated).await;
    assert!(
        matches!(applied, Err(Error::NotControlled { .. })),
        "{applied:?}"
    );
    assert_eq!(family.live("child").await["spec"]["replicas"], 1);
}

#[tokio::test]
async fn an_answer_that_was_lost_does_not_make_a_child_anothers() {
    let family = Family::<Deployment>::new().await;
    let ours = family.apply(deployment()).await.unwrap();
    let (applier, owner) = (&family.applier, &family.owner);
    for _ in 0..2 {
        let applied = applier
            .apply(owner, from::<Deployment>(deployment()), &behind())
            .await
            .unwrap();
        assert_eq!(applied.uid(), ours.uid());
        let created = applier
            .create(owner, from::<Deployment>(deployment()), &behind())
            .await
            .unwrap();
        assert_eq!(created.uid(), ours.uid());
    }
}

#[tokio::test]
async fn what_others_do_to_a_deployment_is_undone() {
    let family = Family::<Deployment>::new().await;
    family.apply(deployment()).await.unwrap();
    let desired = family.live("child").await["spec"].clone();
    let container = "/spec/template/spec/containers/0";
    let set = |path: &str, value: Value| {
        let op = if path.ends_with('0') {
            "replace"
        } else {
            "add"
        };
        json!([{ "op": op, "path": path, "value": value }])
    };
    let below = |path: &str, value: Value| set(&format!("{container}/{path}"), value);
    let edits = [
        set("/spec/paused", json!(true)),
        set("/spec/replicas", json!(5)),
        set("/spec/minReadySeconds", json!(9)),
        set("/spec/strategy", json!({ "type": "Recreate" })),
        set("/spec/template/spec/hostNetwork", json!(true)),
        set(
            "/spec/template/spec/containers/-",
            json!({ "name": "sidecar", "image": "b" }),
        ),
        set(
            "/spec/template/spec/volumes/0",
            json!({ "name": "tmp", "hostPath": { "path": "/" } }),
        ),
        set(
            "/spec/template/spec/securityContext/seccompProfile",
            json!({ "type": "Localhost", "localhostProfile": "a" }),
        ),
        below("image", json!("another:1")),
        below("command", json!(["sh"])),
        below("args", json!(["--quiet"])),
        below("args/-", json!("--quiet")),
        below("envFrom", json!([{ "configMapRef": { "name": "a" } }])),
        below("env/-", json!({ "name": "B", "value": "b" })),
        below("env/0", json!({ "name": "A", "value": "a" })),
        below(
            "lifecycle",
            json!({ "preStop": { "sleep": { "seconds": 9 } } }),
        ),
        below("readinessProbe", json!({ "exec": { "command": ["true"] } })),
        below("readinessProbe", json!({ "httpGet": { "port": 80 } })),
        below(
            "resources",
            json!({ "limits": { "cpu": "50m" }, "requests": { "cpu": "10m" } }),
        ),
        below("securityContext", json!({ "privileged": true })),
        below(
            "securityContext/capabilities",
            json!({ "add": ["SYS_ADMIN"] }),
        ),
        json!([{ "op": "remove", "path": format!("{container}/readinessProbe") }]),
        json!([{ "op": "remove", "path": format!("{container}/env") }]),
    ];
    for edit in edits {
        let patch = Patch::Json(from(edit.clone()));
        family.edit("child", patch).await;
        let applier = family.new_applier();
        let applied = family.apply_with(&applier, deployment()).await;
        applied.unwrap_or_else(|error| panic!("{edit}: {error}"));
        assert_eq!(family.live("child").await["spec"], desired, "{edit}");
        let patches = family.patches();
        family.apply(deployment()).await.unwrap();
        assert_eq!(family.patches(), patches, "{edit}");
    }
}

#[tokio::test]
async fn what_others_do_to_a_service_is_undone() {
    let family = Family::<Service>::new().await;
    let service = json!({
        "metadata": { "name": "child" },
        "spec": { "selector": { "app": "a" }, "ports": [{ "name": "http", "port": 80 }] },
    });
    family.apply(service.clone()).await.unwrap();
    let desired = family.live("child").await["spec"].clone();
    for edit in [
        json!({ "type": "NodePort" }),
        json!({ "externalIPs": ["192.0.2.1"] }),
        json!({ "selector": { "more": "so" } }),
        json!({ "publishNotReadyAddresses": true }),
        json!({ "ports": [{ "name": "http", "port": 81 }, { "name": "more", "port": 82 }] }),
    ] {
        family
            .edit("child", Patch::Merge(json!({ "spec": edit.clone() })))
            .await;
        family.apply(service.clone()).await.unwrap();
        assert_eq!(family.live("child").await["spec"], desired, "{edit}");
    }
}

#[tokio::test]
async fn what_others_do_to_a_custom_resource_and_a_secret_is_undone() {
    let family = Family::<Probe>::new().await;
    let probe = json!({
        "apiVersion": "runtime.example.com/v1", "kind": "Probe", "metadata": { "name": "child" },
        "spec": { "selector": { "a": "b" }, "env": ["c"] },
    });
    family.apply(probe.clone()).await.unwrap();
    for edit in [
        json!({ "selector": { "more": "so" } }),
        json!({ "env": ["c", "d"] }),
        json!({ "paused": true }),
    ] {
        family
            .edit("child", Patch::Merge(json!({ "spec": edit.clone() })))
            .await;
        family.apply(probe.clone()).await.unwrap();
        assert_eq!(family.live("child").await["spec"], probe["spec"], "{edit}");
    }

    let family = Family::<Secret>::new().await;
    let secret = json!({ "metadata": { "name": "child" }, "stringData": { "a": "new" } });
    family.apply(secret.clone()).await.unwrap();
    for edit in [
        json!({ "a": "b2xk" }),
        json!({ "b": "b2xk" }),
        json!({ "a": null }),
    ] {
        family
            .edit("child", Patch::Merge(json!({ "data": edit.clone() })))
            .await;
        family.apply(secret.clone()).await.unwrap();
        assert_eq!(
            family.live("child").await["data"],
            json!({ "a": "bmV3" }),
            "{edit}"
        );
    }
}

#[tokio::test]
async fn a_service_account_that_another_client_applies_is_removed() {
    let family = Family::<Deployment>::new().await;
    family.apply(deployment()).await.unwrap();
    let desired = family.live("child").await["spec"].clone();
    let pod = json!({ "serviceAccountName": "admin" });
    let patch = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "spec": { "template": { "spec": pod } },
    });
    let params = PatchParams::apply("another");
    let patched = family
        .children
        .patch("child", &params, &Patch::Apply(patch))
        .await;
    family.reported(&patched.unwrap()).await;
    family.apply(deployment()).await.unwrap();
    assert_eq!(family.live("child").await["spec"], desired);
}

#[tokio::test]
async fn what_others_may_set_stays() {
    let family = Family::<Deployment>::new().await;
    let mut desired = deployment();
    desired["spec"].as_object_mut().unwrap().remove("replicas");
    family.apply(desired.clone()).await.unwrap();
    let annotation = json!({ "metadata": { "annotations": { "restartedAt": "now" } } });
    let edits = json!({
        "metadata": { "labels": { "team": "a" }, "annotations": { "b": "c" } },
        "spec": { "replicas": 3, "template": annotation, "revisionHistoryLimit": 3 },
    });
    family.edit("child", Patch::Merge(edits)).await;
    let applier = family
        .applier
        .clone()
        .tolerating(["spec.revisionHistoryLimit"]);
    let patches = family.patches();
    for _ in 0..3 {
        family.apply_with(&applier, desired.clone()).await.unwrap();
    }
    assert_eq!(family.patches(), patches);
    let live = family.live("child").await;
    assert_eq!(live["metadata"]["labels"]["team"], "a");
    assert_eq!(
        (
            &live["spec"]["replicas"],
            &live["spec"]["revisionHistoryLimit"]
        ),
        (&json!(3), &json!(3))
    );
    assert_eq!(
        live["spec"]["template"]["metadata"]["annotations"]["restartedAt"],
        "now"
    );
}

#[tokio::test]
async fn a_value_that_is_stored_in_another_way_is_applied_once() {
    let family = Family::<Deployment>::new().await;
    let mut desired = deployment();
    desired["spec"]["paused"] = json!(false);
    desired["spec"]["minReadySeconds"] = json!(0);
    desired["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({ "limits": { "cpu": "1000m", "memory": "1024Mi" } });
    let patches = family.patches();
    for _ in 0..10 {
        family.apply(desired.clone()).await.unwrap();
    }
    assert_eq!(family.patches(), patches + 1);
}

#[tokio::test]
async fn another_member_of_a_union_replaces_a_default() {
    let family = Family::<Deployment>::new().await;
    family.apply(deployment()).await.unwrap();
    let mut desired = deployment();
    desired["spec"]["strategy"] = json!({ "type": "Recreate" });
    desired["spec"]["replicas"] = json!(2);
    family.apply(desired.clone()).await.unwrap();
    let live = family.live("child").await;
    assert_eq!(live["spec"]["strategy"], json!({ "type": "Recreate" }));
    assert_eq!(live["spec"]["replicas"], 2);

    // The strategy is this operator's alone: without it the default is back.
    family.apply(deployment()).await.unwrap();
    let live = family.live("child").await;
    assert_eq!(live["spec"]["strategy"]["type"], "RollingUpdate");
}

#[tokio::test]
async fn an_immutable_field_is_reported_or_the_object_recreated() {
    let family = Family::<Deployment>::new().await;
    let first = family.apply(deployment()).await.unwrap();
    let mut desired = deployment();
    for path in [
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        *desired.pointer_mut(path).unwrap() = json!({ "app": "b" });
    }
    let applied = family.apply(desired.clone()).await;
    let error = applied.unwrap_err();
    assert!(matches!(error, Error::Immutable { .. }), "{error}");
    assert!(error.to_string().contains("field is immutable"), "{error}");

    let mut invalid = deployment();
    invalid["spec"]["replicas"] = json!(-1);
    let applier = family.applier.clone().recreating();
    let refused = family.apply_with(&applier, invalid).await;
    assert!(matches!(refused, Err(Error::Kube(_))), "{refused:?}");
    assert_eq!(
        family.live("child").await["metadata"]["uid"],
        json!(first.uid())
    );

    let recreated = async || {
        let applied = family.apply_with(&applier, desired.clone()).await;
        let applied = applied.unwrap();
        (applied.uid() != first.uid()).then_some(())
    };
    eventually("another Deployment", recreated).await;
}

#[tokio::test]
async fn an_orphan_is_adopted_where_that_is_asked_for() {
    let family = Family::<Deployment>::new().await;
    let first = family.apply(deployment()).await.unwrap();
    let orphan = json!({ "metadata": { "ownerReferences": null } });
    family.edit("child", Patch::Merge(orphan)).await;
    let applied = family.apply(deployment()).await;
    assert!(matches!(applied, Err(Error::NotControlled { .. })));

    let applier = family
        .applier
        .clone()
        .adopting(workload::managed_by(IDENTITY));
    let adopted = family.apply_with(&applier, deployment()).await.unwrap();
    assert_eq!(adopted.uid(), first.uid());
    let owners = adopted.owner_references();
    assert_eq!(owners[0].uid, family.owner.uid().unwrap());

    let other = json!({ "metadata": {
        "ownerReferences": null,
        "labels": { "app.kubernetes.io/managed-by": "another" },
    } });
    family.edit("child", Patch::Merge(other)).await;
    let applied = family.apply_with(&applier, deployment()).await;
    assert!(
        matches!(applied, Err(Error::NotControlled { .. })),
        "its labels do not match"
    );
}

#[tokio::test]
async fn a_field_that_another_client_sets_again_and_again_is_contested() {
    let family = Family::<Deployment>::new().await;
    family.apply(deployment()).await.unwrap();
    let mut contested = None;
    for paused in 0..20 {
        let edit = json!({ "spec": { "paused": true, "minReadySeconds": paused } });
        family.edit("child", Patch::Merge(edit)).await;
        contested = family.apply(deployment()).await.err();
        if contested.is_some() {
            break;
        }
    }
    let error = contested.expect("the repairs should stop");
    assert!(matches!(error, Error::Contested { .. }), "{error}");
    // What the owner specifies still arrives.
    let mut desired = deployment();
    desired["spec"]["replicas"] = json!(2);
    family.apply(desired).await.unwrap();
    let live = family.live("child").await;
    assert_eq!(
        (&live["spec"]["replicas"], &live["spec"]["paused"]),
        (&json!(2), &Value::Null)
    );
}
