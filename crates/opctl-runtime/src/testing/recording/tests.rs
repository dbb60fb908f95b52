use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::{Api, CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::{Applier, Identity, Store};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
#[kube(status = "SiteStatus")]
struct SiteSpec {
    title: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
struct SiteStatus {
    pages: u32,
}

const IDENTITY: Identity = Identity::new("test", "1.0.0");

fn config_map(name: &str, value: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some("default".to_owned());
    object.data = Some([("key".to_owned(), value.to_owned())].into());
    object
}

fn shown(requests: &[Request]) -> Vec<String> {
    requests.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn an_object_is_created_changed_and_deleted() {
    let (client, requests) = recording_client();
    let objects: Api<ConfigMap> = Api::default_namespaced(client);
    let params = PostParams::default();
    let created = objects
        .create(&params, &config_map("a", "1"))
        .await
        .unwrap();
    assert!(created.uid().is_some() && created.resource_version().is_some());
    assert_eq!(created.metadata.generation, Some(1));
    let again = objects.create(&params, &config_map("a", "1")).await;
    assert!(matches!(again, Err(kube::Error::Api(answer)) if answer.is_already_exists()));

    let patch = Patch::Merge(json!({ "data": { "key": "2" } }));
    let patched = objects
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.data, config_map("a", "2").data);
    assert_eq!(
        (patched.uid(), patched.metadata.generation),
        (created.uid(), Some(2))
    );
    let outdated = objects.replace("a", &params, &created).await;
    assert!(matches!(outdated, Err(kube::Error::Api(answer)) if answer.is_conflict()));
    objects.replace("a", &params, &patched).await.unwrap();
    assert_eq!(
        objects.list(&Default::default()).await.unwrap().items,
        [patched]
    );

    objects.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(objects.get_opt("a").await.unwrap().is_none());
    let expected = [
        "POST configmaps",
        "POST configmaps",
        "PATCH configmaps/a",
        "PUT configmaps/a",
        "PUT configmaps/a",
        "GET configmaps",
        "DELETE configmaps/a",
        "GET configmaps/a",
    ];
    assert_eq!(shown(&requests.take()), expected);
    assert!(requests.take().is_empty());
}

#[tokio::test]
async fn an_applier_writes_what_differs() {
    let (client, requests) = recording_client();
    let (applier, store) = (Applier::new(IDENTITY, client), Store::from_iter([]));
    let mut owner = config_map("owner", "");
    owner.metadata.uid = Some("1".to_owned());
    for value in ["1", "1", "2"] {
        let desired = config_map("child", value);
        applier.apply(&owner, desired, &store).await.unwrap();
    }
    assert_eq!(shown(&requests.take()), ["PATCH configmaps/child"; 2]);
    assert_eq!(store.list()[0].data, config_map("child", "2").data);
    let events = requests.take_events();
    let reasons: Vec<_> = events.iter().map(|event| &event.body["reason"]).collect();
    assert_eq!(reasons, ["Created", "Updated"]);

    // The second one finds in the store that the child is being deleted.
    for _ in 0..2 {
        let child = store.list().remove(0);
        applier.delete(&owner, &*child, &store).await.unwrap();
    }
    assert_eq!(shown(&requests.take()), ["DELETE configmaps/child"]);
}

#[tokio::test]
async fn a_status_is_written_to_an_object_that_exists() {
    let title = "Documentation".to_owned();
    let mut site = Site::new("docs", SiteSpec { title });
    site.metadata.namespace = Some("default".to_owned());
    site.metadata.uid = Some("1".to_owned());
    let (client, requests) = recording_client_with([site.clone()]);
    let store = Store::from_iter([site.clone()]);
    let applier = Applier::new(IDENTITY, client);
    for pages in [1, 2] {
        let status = SiteStatus { pages };
        applier.write_status(&site, status, &store).await.unwrap();
    }
    let stored = store.list().remove(0);
    assert_eq!(stored.spec.title, "Documentation");
    assert_eq!(stored.status, Some(SiteStatus { pages: 2 }));
    assert_eq!(shown(&requests.take()), ["PATCH sites/docs/status"; 2]);

    site.metadata.uid = Some("2".to_owned());
    let other = applier
        .write_status(&site, SiteStatus { pages: 3 }, &store)
        .await;
    assert!(other.is_err(), "another object has the name");
}

#[tokio::test]
async fn an_object_ends_with_its_last_finalizer() {
    let mut object = config_map("a", "");
    let (client, requests) = recording_client_with([object.clone()]);
    let objects: Api<ConfigMap> = Api::default_namespaced(client);
    let reconcile = async |object: ConfigMap| {
        let reconcile = async |_: Event<ConfigMap>| Ok::<_, kube::Error>(Action::await_change());
        finalizer(&objects, "example.com/test", object.into(), reconcile).await
    };
    reconcile(object.clone()).await.unwrap();
    object = objects.get("a").await.unwrap();
    assert_eq!(object.finalizers(), ["example.com/test"]);

    object.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2025-01-01T00:00:00Z")).unwrap());
    requests.insert(&object);
    reconcile(object).await.unwrap();
    assert!(objects.get_opt("a").await.unwrap().is_none());
}
