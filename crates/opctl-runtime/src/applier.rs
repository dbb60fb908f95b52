//! Writes objects, and only where something is not as desired.

mod drift;
mod once;
mod status;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use kube::api::{Patch, PatchParams};
use kube::runtime::events::EventType;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use self::drift::Change;
pub use self::once::DeletionPolicy;
use self::status::{CONCURRENT_WRITES, Pending};
use crate::error::{Error, Result};
use crate::events::EventRecorder;
use crate::identity::Identity;
use crate::object::{Object, Scope, api, has_dangling_owner, is_controlled};
use crate::store::{ControllerId, Store};
use crate::without_managed_fields::WithoutManagedFields;

/// Writes children and status by server-side apply, under the operator's name as the field manager.
///
/// It sends nothing where the store has the object as desired already; what it writes is in the store
/// before it returns. Clones are the same applier.
///
/// # Example
/// In a reconciler, with stores that its controller owns:
/// ```no_run
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::Service;
/// use opctl_runtime::{Applier, Result, Store};
///
/// async fn apply(
///     applier: &Applier,
///     owner: &Deployment,
///     desired: Service,
///     services: &Store<Service>,
/// ) -> Result<()> {
///     let name = desired.metadata.name.clone();
///     applier.apply(owner, desired, services).await?;
///     for other in services.by_owner(owner) {
///         if other.metadata.name != name {
///             applier.delete(owner, &*other, services).await?;
///         }
///     }
///     Ok(())
/// }
/// ```
///
/// # Caveats
/// A controller needs the permissions to create and patch what it applies. Fields that `desired`
/// leaves out are left alone, but for variables, ports and selectors.
#[derive(Clone)]
pub struct Applier {
    inner: Arc<Inner>,
    /// The controller that reconciles the objects whose status is written.
    controller: Option<ControllerId>,
}

#[derive(Clone)]
struct Inner {
    identity: Identity,
    client: Client,
    events: EventRecorder,
    /// The objects whose status is not written yet, by the uid.
    pending: Arc<Mutex<HashMap<String, Pending>>>,
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Applier {
    /// An applier on a client of its own, as tests have one.
    pub fn new(identity: Identity, client: Client) -> Self {
        let inner = Inner {
            identity,
            events: EventRecorder::new(client.clone(), identity),
            client,
            pending: Arc::default(),
            permits: Arc::new(Semaphore::new(CONCURRENT_WRITES)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        Self {
            inner: Arc::new(inner),
            controller: None,
        }
    }

    /// Tracks in `tasks` what it does in the background, and hurries with it on `stop`.
    pub(crate) fn with_tasks(self, tasks: TaskTracker, stop: CancellationToken) -> Self {
        let inner = Inner {
            tasks,
            stop,
            ..(*self.inner).clone()
        };
        Self {
            inner: Arc::new(inner),
            ..self
        }
    }

    pub(crate) fn of_controller(self, controller: ControllerId) -> Self {
        Self {
            controller: Some(controller),
            ..self
        }
    }

    /// The recorder of the events that it publishes.
    pub fn events(&self) -> &EventRecorder {
        &self.inner.events
    }

    /// Makes the cluster have `desired`, with `owner` as its controller: Kubernetes deletes it with
    /// the owner. The namespace is that of `desired` or, without one, that of the owner. Returns the
    /// object as it is now.
    ///
    /// # Errors
    /// [`Error::NotControlled`] where an object of that name exists that `owner` does not control,
    /// and [`Error::OutOfScope`] for a child that Kubernetes does not let the owner have.
    pub async fn apply<K, O>(&self, owner: &O, mut desired: K, store: &Store<K>) -> Result<Arc<K>>
    where
        K: Object + Serialize,
        O: Object<DynamicType: Default>,
    {
        let owner_type = O::DynamicType::default();
        place(&mut desired, owner, store)?;
        let live = find(&desired, store);
        if let Some(live) = &live {
            if live.meta().deletion_timestamp.is_some()
                || has_dangling_owner(&**live, owner, &owner_type)
            {
                return Ok(Arc::clone(live)); // its deletion comes back to the owner
            }
            if !is_controlled(&**live, owner) {
                return Err(not_controlled(&desired, store));
            }
        }
        let annotation = hash_annotation(O::group(&owner_type).as_ref(), self.inner.identity);
        let (object, note) = self.write(desired, live, &annotation, store).await?;
        if let Some((reason, note)) = note {
            self.report(owner, reason, &note).await;
        }
        Ok(object)
    }

    /// Makes the cluster have `desired` without an owner: nothing deletes it but the operator. For
    /// what the owner cannot control, such as an object in another namespace, together with a
    /// finalizer that deletes it.
    ///
    /// # Errors
    /// [`Error::NotControlled`] where an object of that name exists that this operator has not
    /// applied.
    pub async fn apply_unowned<K>(&self, desired: K, store: &Store<K>) -> Result<Arc<K>>
    where
        K: Object + Serialize,
    {
        let annotation = hash_annotation("", self.inner.identity);
        let live = find(&desired, store);
        if let Some(live) = &live {
            if live.meta().deletion_timestamp.is_some() {
                return Ok(Arc::clone(live));
            }
            if !live.annotations().contains_key(&annotation) {
                return Err(not_controlled(&desired, store));
            }
        }
        let (object, note) = self.write(desired, live, &annotation, store).await?;
        if let Some((_, note)) = note {
            info!("{note}");
        }
        Ok(object)
    }

    /// Applies `desired` if `live` differs. Returns what was done, too.
    async fn write<K>(
        &self,
        mut desired: K,
        live: Option<Arc<K>>,
        annotation: &str,
        store: &Store<K>,
    ) -> Result<(Arc<K>, Option<(&'static str, String)>)>
    where
        K: Object + Serialize,
    {
        let desired_fields = serde_json::to_value(&desired)?;
        let hash = hash(&desired_fields);
        let (changes, prune) = match live {
            None => (None, None),
            Some(live) => {
                let live_fields = serde_json::to_value(&*live)?;
                let changes = drift::changes(&desired_fields, &live_fields);
                if changes.is_empty() && live.annotations().get(annotation) == Some(&hash) {
                    return Ok((live, None));
                }
                (
                    Some(changes),
                    drift::prune_patch(&desired_fields, &live_fields),
                )
            }
        };

        let (kind, name) = (K::kind(store.dyntype()), desired.name_any());
        let annotations = desired.annotations_mut();
        annotations.insert(annotation.to_owned(), hash);
        let objects = self.api(&desired, store);
        if let Some(prune) = prune {
            let params = PatchParams {
                field_manager: Some(self.inner.identity.name().to_owned()),
                ..PatchParams::default()
            };
            let patch = Patch::Strategic(prune);
            let request = objects.patch(&name, &params, &patch);
            store.write(request, None).await?;
        }
        let (params, patch) = (self.params(), Patch::Apply(&desired));
        let request = objects.patch(&name, &params, &patch);
        let applied = store.write(request, None).await?;
        Ok((applied, Some(describe(&kind, &name, changes.as_deref()))))
    }

    /// Logs what was done for `owner`, and publishes it as an event.
    async fn report<O: Resource<DynamicType: Default>>(&self, owner: &O, reason: &str, note: &str) {
        info!("{note}");
        let events = &self.inner.events;
        events.publish(owner, EventType::Normal, reason, note).await;
    }

    /// The objects beside `object`.
    fn api<K: Object>(&self, object: &K, store: &Store<K>) -> kube::Api<WithoutManagedFields<K>> {
        let namespace = object.meta().namespace.as_deref();
        api(&self.inner.client, namespace, store.dyntype())
    }

    fn params(&self) -> PatchParams {
        PatchParams::apply(self.inner.identity.name()).force()
    }
}

/// Puts a child where its owner may have it, with the owner as its controller.
fn place<K, O>(child: &mut K, owner: &O, store: &Store<K>) -> Result<()>
where
    K: Object,
    O: Object<DynamicType: Default>,
{
    let namespace = owner.meta().namespace.as_ref();
    let controller = owner.controller_owner_ref(&O::DynamicType::default());
    let meta = child.meta_mut();
    meta.owner_references = controller.map(|owner| vec![owner]);
    if K::Scope::NAMESPACED != Some(false) && meta.namespace.is_none() {
        meta.namespace = namespace.cloned();
    }
    if namespace.is_none() || meta.namespace.as_ref() == namespace {
        return Ok(());
    }
    Err(Error::OutOfScope {
        kind: K::kind(store.dyntype()).into_owned(),
        name: child.name_any(),
    })
}

/// The stored object of the same name.
fn find<K: Object>(object: &K, store: &Store<K>) -> Option<Arc<K>> {
    store.get(object.meta().namespace.as_deref(), &object.name_any())
}

fn not_controlled<K: Object>(object: &K, store: &Store<K>) -> Error {
    Error::NotControlled {
        kind: K::kind(store.dyntype()).into_owned(),
        name: object.name_any(),
    }
}

/// The annotation that holds the hash of the desired object.
fn hash_annotation(group: &str, identity: Identity) -> String {
    match group {
        "" => format!("{}/desired-hash", identity.name()), // the core group has no name
        group => format!("{group}/desired-hash"),
    }
}

/// A field that is no longer desired looks like a default: the hash of the desired object,
/// kept in an annotation, shows that it has to be applied once more. A standard library that hashes in
/// another way costs one apply.
fn hash(desired: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    desired.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The reason and the note of the event; `changes` is `None` for an object that was missing.
fn describe(kind: &str, name: &str, changes: Option<&[Change]>) -> (&'static str, String) {
    match changes {
        None => ("Created", format!("created {kind} {name}")),
        Some([]) => (
            "Updated",
            format!("updated {kind} {name}: removed what is no longer desired"),
        ),
        Some(changes) => {
            let show = match kind {
                "Secret" => Change::path, // its values are confidential
                _ => Change::to_string,
            };
            let changes: Vec<_> = changes.iter().map(show).collect();
            let changes = changes.join(", ");
            ("Updated", format!("updated {kind} {name}: {changes}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use serde_json::json;

    use super::*;

    const IDENTITY: Identity = Identity::new("test", "1.0.0");

    #[test]
    fn the_annotation_has_a_prefix_for_owners_of_the_core_group() {
        assert_eq!(hash_annotation("apps", IDENTITY), "apps/desired-hash");
        assert_eq!(hash_annotation("", IDENTITY), "test/desired-hash");
    }

    #[test]
    fn the_values_of_a_secret_are_not_shown() {
        let desired = json!({ "data": { "password": "bmV3" }, "type": "Opaque" });
        let live = json!({ "data": { "password": "b2xk" }, "type": "Opaque" });
        let changes = drift::changes(&desired, &live);
        let note = |kind| describe(kind, "a", Some(&changes)).1;
        assert_eq!(note("Secret"), "updated Secret a: data.password");
        assert!(note("ConfigMap").ends_with("data.password b2xk -> bmV3"));
    }

    fn config_map(namespace: Option<&str>) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".to_owned());
        object.metadata.namespace = namespace.map(str::to_owned);
        object
    }

    #[test]
    fn a_child_is_beside_its_owner_unless_the_owner_is_cluster_scoped() {
        let store = Store::from_iter([]);
        let owner = config_map(Some("x"));
        let mut child = config_map(None);
        place(&mut child, &owner, &store).unwrap();
        assert_eq!(child.metadata.namespace.as_deref(), Some("x"));

        let elsewhere = place(&mut config_map(Some("y")), &owner, &store);
        assert!(matches!(elsewhere, Err(Error::OutOfScope { .. })));
        let cluster_scoped =
            place::<Namespace, _>(&mut Namespace::default(), &owner, &Store::from_iter([]));
        assert!(matches!(cluster_scoped, Err(Error::OutOfScope { .. })));

        let mut child = config_map(Some("y"));
        place(&mut child, &Namespace::default(), &store).unwrap();
        assert_eq!(child.metadata.namespace.as_deref(), Some("y"));
    }
}
