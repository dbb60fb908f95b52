//! The requests that bring one object to the desired state.

use std::sync::Arc;

use axum::http;
use futures::TryFutureExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, Request};
use kube::core::request;
use kube::{Api, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

use super::write::{Desired, Note};
use super::{Applier, find};
use crate::client;
use crate::error::{Error, Result};
use crate::object::Object;
use crate::ownership::{self, Claim};
use crate::store::{Answer, Store};
use crate::without_managed_fields::WithoutManagedFields;

/// How often an object is looked up that is not as the store has it.
pub(super) const LOOKUPS: usize = 3;

impl Applier {
    /// The object of this name as the API server has it now; the store has it from then on. It is a
    /// list, which the watch has the permission for.
    pub(super) async fn look_up<K: Object>(
        &self,
        object: &K,
        store: &Store<K>,
    ) -> Result<Option<Arc<K>>> {
        let objects = self.api(object, store);
        match objects.list(&by_name(object)).await?.items.pop() {
            None => Ok(None),
            Some(found) => Ok(Some(store.write(async { Ok(found.into()) }, None).await?)),
        }
    }

    pub(super) async fn send<K: Object + Serialize>(
        &self,
        object: &K,
        store: &Store<K>,
    ) -> Result<Arc<K>> {
        let (params, patch) = (self.params(), Patch::Apply(object));
        let (objects, name) = (self.api(object, store), object.name_any());
        let request = Request::new(objects.resource_url());
        let request = if K::metadata_api() {
            request.patch_metadata(&name, &params, &patch)
        } else {
            request.patch(&name, &params, &patch)
        };
        Ok(store.write(self.answer(request), None).await?)
    }

    /// Sends a request that writes an object.
    pub(super) async fn answer<K>(
        &self,
        request: Result<http::Request<Vec<u8>>, request::Error>,
    ) -> kube::Result<Answer<K>> {
        let answer = client::answer(&self.inner.client, request).await;
        answer.map(Answer::Text)
    }

    /// Makes the fields that others own this operator's, so that an apply removes those that are not
    /// desired. Until it has, the object counts as not applied. `None` where there are no such fields.
    pub(super) async fn claim<K: Object + Serialize>(
        &self,
        desired: &Desired<'_, K>,
        live: &K,
        store: &Store<K>,
    ) -> Result<Option<Claim>> {
        let objects = self.api(live, store);
        let (manager, api_version) = (self.inner.identity.name(), K::api_version(store.dyntype()));
        let (name, params, tolerated) =
            (live.name_any(), self.patch_params(), &self.policy.tolerated);
        let mut lookups = 0;
        loop {
            let found = objects.list_metadata(&by_name(live)).await?.items.pop();
            let Some(metadata) = found
                .map(|object| object.metadata)
                .filter(|metadata| metadata.uid == live.uid())
            else {
                return Ok(None); // it is gone, as the apply finds out
            };
            let entries = metadata.managed_fields.unwrap_or_default();
            let Some(claim) = ownership::claim(entries, manager, &api_version, tolerated) else {
                return Ok(None);
            };
            let patch = Patch::Merge(json!({ "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                "managedFields": claim.managed_fields,
                "annotations": { desired.annotation: null },
            } }));
            let request = objects.patch(&name, &params, &patch);
            let request = request.map_ok(Answer::from);
            match store.write(request, None).await.map_err(Error::from) {
                // Such as by a controller that writes its status.
                Err(error) if is_outdated(&error) && lookups < LOOKUPS => lookups += 1,
                written => return written.map(|_| Some(claim)),
            }
        }
    }

    /// Replaces everything but metadata and status by what is desired. The API server refuses some
    /// changes to an apply: where a default stands for one member of a union, the apply sets another
    /// and cannot remove the default, which nobody owns.
    pub(super) async fn replace<K: Object + Serialize>(
        &self,
        desired: &Desired<'_, K>,
        live: &K,
        store: &Store<K>,
    ) -> Result<()> {
        let live = find(live, store).and_then(|live| live.resource_version());
        let mut operations =
            vec![json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": live })];
        let fields = desired.fields()?.as_object().into_iter().flatten();
        for (name, value) in fields {
            if !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()) {
                let path = format!("/{name}");
                operations.push(json!({ "op": "add", "path": path, "value": value }));
            }
        }
        let patch = Patch::Json::<()>(serde_json::from_value(Value::Array(operations))?);
        let objects = self.api(&desired.object, store);
        let (name, params) = (desired.object.name_any(), self.patch_params());
        let request = objects.patch(&name, &params, &patch);
        store.write(request.map_ok(Answer::from), None).await?;
        Ok(())
    }

    /// Deletes an object that cannot be changed as desired, if that is the policy. One whose desired
    /// state is invalid is kept: its successor would not be created either.
    pub(super) async fn recreate<K: Object + Serialize>(
        &self,
        desired: &Desired<'_, K>,
        live: &K,
        refusal: Error,
        store: &Store<K>,
    ) -> Result<Note> {
        let objects: Api<_> = self.api(live, store);
        let mut object = desired.applied()?;
        object.meta_mut().name = None;
        object.meta_mut().generate_name = Some("recreated-".to_owned());
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        if objects
            .create(&params, &WithoutManagedFields(object))
            .await
            .is_err()
        {
            return Err(refusal);
        }
        let (kind, name) = (K::kind(store.dyntype()).into_owned(), live.name_any());
        if !self.policy.recreates {
            let message = refusal.to_string();
            return Err(Error::Immutable {
                kind,
                name,
                message,
            });
        }
        objects.delete(&name, &delete_params(live)).await?;
        let note = format!("deleted {kind} {name} to recreate it: {refusal}");
        Ok(("Deleted", note))
    }

    fn patch_params(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.inner.identity.name().to_owned()),
            ..PatchParams::default()
        }
    }
}

/// Deletes this very object, and not another one of its name.
pub(super) fn delete_params(object: &impl ResourceExt) -> DeleteParams {
    DeleteParams::background().preconditions(Preconditions {
        uid: object.uid(),
        resource_version: None,
    })
}

fn by_name<K: Object>(object: &K) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={}", object.name_any()))
}

/// Whether the object is not the one that the store has: it is there or gone against expectation, or
/// it was changed or recreated meanwhile.
pub(super) fn is_outdated(error: &Error) -> bool {
    let Error::Kube(kube::Error::Api(status)) = error else {
        return false;
    };
    let details = status.details.iter();
    let mut causes = details.flat_map(|details| &details.causes);
    status.code == 409 || (status.code == 422 && causes.any(|cause| cause.field == "metadata.uid"))
}
