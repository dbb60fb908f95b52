//! Objects that do not simply live as long as their owner: what is created once, what is kept, and
//! what is no longer desired.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryFutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PostParams};
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::json;

use super::drift::{self, Change};
use super::requests::delete_params;
use super::{Applier, find, not_controlled, place};
use crate::error::{Error, Result};
use crate::object::{Object, api, controller_ref, has_dangling_owner, is_controlled};
use crate::store::{Answer, GeneratedName, Overlay, Store};
use crate::without_managed_fields::WithoutManagedFields;

/// What becomes of an object when its owner is deleted.
///
/// # Example
/// ```no_run
/// use std::collections::BTreeMap;
///
/// use k8s_openapi::api::apps::v1::StatefulSet;
/// use k8s_openapi::api::core::v1::PersistentVolumeClaim;
/// use kube::core::PartialObjectMeta;
/// use opctl_runtime::{Applier, DeletionPolicy, Result, Store};
///
/// /// The volume with the data outlives its owner.
/// async fn retain(
///     applier: &Applier,
///     owner: &StatefulSet,
///     claims: &Store<PartialObjectMeta<PersistentVolumeClaim>>,
/// ) -> Result<()> {
///     let policy = DeletionPolicy::Retain;
///     applier.apply_metadata(owner, "data", BTreeMap::new(), policy, claims).await
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeletionPolicy {
    /// It is deleted, too.
    Delete,
    /// It stays.
    Retain,
}

impl Applier {
    /// Creates `object`, with `owner` as its controller, unless the owner has it already. It is never
    /// written again: for Jobs, and other objects that cannot be changed.
    ///
    /// An object with `metadata.generateName` gets a new name at each call. Where the answer to a creation
    /// is lost, the next call for this owner repeats it, so there are never two.
    ///
    /// # Errors
    /// [`Error::NotControlled`] where an object of that name exists that `owner` does not control, and
    /// [`Error::AlreadyCreated`] where it turns out that a lost creation has succeeded.
    pub async fn create<K, O>(&self, owner: &O, mut object: K, store: &Store<K>) -> Result<Arc<K>>
    where
        K: Object + Serialize,
        O: Object<DynamicType: Default>,
    {
        let owner_type = O::DynamicType::default();
        place(&mut object, owner, store)?;
        store.hold(&object).await;
        let generated = store.generate_name(&mut object, &owner.uid().unwrap_or_default());
        let generated = generated.map_err(|name| already_created(name, store))?;
        match find(&object, store) {
            Some(live)
                if is_controlled(&*live, owner)
                    || has_dangling_owner(&*live, owner, &owner_type) =>
            {
                return Ok(live);
            }
            Some(_) => return Err(not_controlled(&object, store)),
            None => {}
        }
        let (objects, params) = (self.api(&object, store), self.post_params());
        let request = WithoutManagedFields(object);
        let creation = objects.create(&params, &request).map_ok(Answer::from);
        let created = store.write(creation, None).await;
        let WithoutManagedFields(object) = &request;
        let created = match created {
            // The answer to an earlier attempt may have been lost.
            Err(error) if already_exists(&error) => {
                let found = self.look_up(object, store).await?;
                let found = found.filter(|found| is_controlled(&**found, owner));
                let is_repeated = generated.as_ref().is_some_and(|it| it.is_repeated);
                settle(generated);
                return match found {
                    Some(_) if is_repeated => Err(already_created(object.name_any(), store)),
                    found => found.ok_or_else(|| not_controlled(object, store)),
                };
            }
            Err(error) => {
                if is_refusal(&error) {
                    settle(generated);
                }
                return Err(error.into());
            }
            Ok(created) => created,
        };
        settle(generated);
        let (kind, name) = (K::kind(store.dyntype()), created.name_any());
        self.report_created(owner, &kind, &name).await;
        Ok(created)
    }

    /// Creates `object` in the namespace of `owner`, without an owner reference: it is never written
    /// again and outlives the owner. [`Applier::apply_metadata`] may change that later.
    ///
    /// # Errors
    /// [`Error::NotControlled`] where an object of that name exists.
    pub async fn create_retained<K, O>(
        &self,
        owner: &O,
        mut object: K,
        store: &Store<PartialObjectMeta<K>>,
    ) -> Result<Arc<PartialObjectMeta<K>>>
    where
        K: Object<DynamicType = ()> + Serialize,
        O: Object<DynamicType: Default>,
    {
        object.meta_mut().namespace = owner.namespace();
        let namespace = owner.namespace();
        let objects = api::<K>(&self.inner.client, namespace.as_deref(), &());
        let params = self.post_params();
        let metadata = object.meta().clone().into_response_partial();
        store.hold(&metadata).await;
        let object = WithoutManagedFields(object);
        let request = async {
            let WithoutManagedFields(created) = objects.create(&params, &object).await?;
            Ok(Answer::Object(
                created.meta().clone().into_response_partial(),
            ))
        };
        let created = store.write(request, None).await;
        let created = created.map_err(|error| match already_exists(&error) {
            true => not_controlled(&metadata, store),
            false => error.into(),
        })?;
        let name = created.name_any();
        self.report_created(owner, &K::kind(&()), &name).await;
        Ok(created)
    }

    /// Makes an object, where it exists, have these labels and this deletion policy. The rest of it is
    /// left alone, and so is an object that a deleted predecessor of `owner` takes with it.
    ///
    /// # Errors
    /// [`Error::NotControlled`] where the object has a controller.
    pub async fn apply_metadata<K, O>(
        &self,
        owner: &O,
        name: &str,
        labels: BTreeMap<String, String>,
        policy: DeletionPolicy,
        store: &Store<PartialObjectMeta<K>>,
    ) -> Result<()>
    where
        K: Object<DynamicType = ()>,
        O: Object<DynamicType: Default>,
    {
        store.hold_all().await; // what has an owner need not have a controller
        let Some(object) = store.get(owner.namespace().as_deref(), name) else {
            return Ok(());
        };
        if has_dangling_owner(&*object, owner, &O::DynamicType::default()) {
            return Ok(());
        }
        if controller_ref(&*object).is_some() {
            return Err(not_controlled(&*object, store));
        }
        let mut owners = object.owner_references().iter();
        let is_owned = owners.any(|reference| Some(&reference.uid) == owner.meta().uid.as_ref());
        let owns = policy == DeletionPolicy::Delete;
        let changes = drift::changes(
            &json!({ "metadata": { "labels": labels } }),
            &json!({ "metadata": { "labels": object.labels() } }),
        );
        let is_deleted = object.meta().deletion_timestamp.is_some();
        if is_deleted || (changes.is_empty() && is_owned == owns) {
            return Ok(());
        }

        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            owner_references: owner
                .owner_ref(&O::DynamicType::default())
                .filter(|_| owns)
                .map(|owner| vec![owner]),
            // Not a new object of the same name.
            uid: object.uid(),
            ..ObjectMeta::default()
        };
        let patch = Patch::Apply(metadata.into_request_partial::<K>());
        let (objects, params) = (self.api(&*object, store), self.params());
        let request = objects.patch(name, &params, &patch).map_ok(Answer::from);
        store.write(request, None).await?;

        let kind = K::kind(&());
        let note = match (is_owned == owns, owns) {
            (true, _) => {
                let changes: Vec<_> = changes.iter().map(Change::to_string).collect();
                format!("updated {kind} {name}: {}", changes.join(", "))
            }
            (false, true) => format!("{kind} {name} is deleted with {}", owner.name_any()),
            (false, false) => format!("{kind} {name} is retained without {}", owner.name_any()),
        };
        self.report(owner, "Updated", &note).await;
        Ok(())
    }

    /// Deletes a child that is no longer desired; nothing where it is being deleted. The store has it
    /// with a deletion timestamp until the watch reports that it is gone.
    ///
    /// # Errors
    /// [`Error::NotControlled`] where `owner` does not control it; the API server refuses. A child that
    /// is gone meanwhile is not an error.
    pub async fn delete<K, O>(&self, owner: &O, child: &K, store: &Store<K>) -> Result<()>
    where
        K: Object,
        O: Object<DynamicType: Default>,
    {
        if child.meta().deletion_timestamp.is_some() {
            return Ok(());
        }
        if !is_controlled(child, owner) {
            return Err(not_controlled(child, store));
        }
        let params = delete_params(child);
        let (objects, name) = (self.api(child, store), child.name_any());
        match objects.delete(&name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(answer)) if answer.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let uid = child.uid();
        let terminating: Overlay<K> = Arc::new(move |object| {
            if object.meta().uid == uid {
                let timestamp = &mut object.meta_mut().deletion_timestamp;
                timestamp.get_or_insert_with(|| Time(Timestamp::now()));
            }
        });
        store.set_overlay(child, Some(terminating));
        let note = format!("deleted {} {name}", K::kind(store.dyntype()));
        self.report(owner, "Deleted", &note).await;
        Ok(())
    }

    async fn report_created<O>(&self, owner: &O, kind: &str, name: &str)
    where
        O: Object<DynamicType: Default>,
    {
        let note = format!("created {kind} {name}");
        self.report(owner, "Created", &note).await;
    }

    fn post_params(&self) -> PostParams {
        PostParams {
            field_manager: Some(self.inner.identity.name().to_owned()),
            ..PostParams::default()
        }
    }
}

fn settle<K: Object>(generated: Option<GeneratedName<'_, K>>) {
    if let Some(generated) = generated {
        generated.settle();
    }
}

fn already_created<K: Object>(name: String, store: &Store<K>) -> Error {
    let kind = K::kind(store.dyntype()).into_owned();
    Error::AlreadyCreated { kind, name }
}

fn already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(answer) if answer.is_already_exists())
}

/// Whether the API server has not done what it was asked for. After a timeout or an error of its own it
/// may have, and after 429 in an attempt before, which the client has repeated.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(answer) if matches!(answer.code, 400..500) && !matches!(answer.code, 408 | 429))
}

#[cfg(test)]
mod tests;
