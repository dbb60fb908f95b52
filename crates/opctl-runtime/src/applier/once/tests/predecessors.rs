//! Objects that a deleted owner takes with it, without an API server.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::super::*;
use crate::Identity;
use crate::testing::recording_client_with;

fn owner(uid: &str) -> Secret {
    let mut owner = Secret::default();
    owner.metadata.name = Some("shop".to_owned());
    owner.metadata.namespace = Some("default".to_owned());
    owner.metadata.uid = Some(uid.to_owned());
    owner
}

/// Requests the deletion of an object with the owner of uid 2. Returns what was written.
async fn written(owners: &[Secret]) -> Vec<String> {
    let mut data = ConfigMap::default();
    data.metadata.name = Some("data".to_owned());
    data.metadata.namespace = Some("default".to_owned());
    data.metadata.uid = Some("3".to_owned());
    data.metadata.resource_version = Some("1".to_owned());
    let references = owners.iter().map(|owner| owner.owner_ref(&()).unwrap());
    data.metadata.owner_references = Some(references.collect());
    let metadata: PartialObjectMeta<ConfigMap> = data.metadata.clone().into_response_partial();

    let (client, requests) = recording_client_with([data]);
    let applier = Applier::new(Identity::new("test", "1.0.0"), client);
    let (store, policy) = (Store::from_iter([metadata]), DeletionPolicy::Delete);
    let owner = owner("2");
    let applied = applier.apply_metadata(&owner, "data", BTreeMap::new(), policy, &store);
    applied.await.unwrap();
    let requests = requests.take();
    let requests = requests.iter().map(ToString::to_string);
    requests.filter(|it| it.contains("configmaps")).collect()
}

#[tokio::test]
async fn what_a_predecessor_takes_with_it_is_left_to_it() {
    assert_eq!(written(&[]).await, ["PATCH configmaps/data"]);
    assert_eq!(written(&[owner("2")]).await, [""; 0]);
    assert_eq!(written(&[owner("1")]).await, [""; 0]);
}
