//! Writes objects, and only where something is not as desired.

mod children;
mod drift;
mod once;
mod policy;
mod requests;
mod status;
mod write;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kube::api::PatchParams;
use kube::runtime::events::EventType;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use self::children::Children;
pub use self::once::DeletionPolicy;
use self::policy::Policy;
use self::status::{CONCURRENT_WRITES, Pending};
use self::write::{Access, Desired};
use crate::error::{Error, Result};
use crate::events::EventRecorder;
use crate::identity::Identity;
use crate::object::{Object, Scope, api, has_dangling_owner, is_controlled};
use crate::ownership::DESIRED_HASH;
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
/// # What is repaired
/// Fields that `desired` sets, and fields that others have added: a variable, a sidecar, a capability,
/// `paused: true`. What the API server itself sets, such as defaults, is left alone, and others may set:
/// labels and annotations (also those of templates), the status and what goes through a subresource,
/// `spec.replicas` where `desired` has none, `caBundle`, `spec.volumeName`, the secrets of a
/// ServiceAccount, and what [`Applier::tolerating`] names. An object that somebody else changes again
/// and again is [`Error::Contested`].
///
/// # Caveats
/// A controller needs the permissions to list, create and patch what it applies.
#[derive(Clone)]
pub struct Applier {
    inner: Arc<Inner>,
    policy: Arc<Policy>,
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
    children: Arc<Mutex<Children>>,
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
            children: Arc::default(),
            permits: Arc::new(Semaphore::new(CONCURRENT_WRITES)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        Self {
            inner: Arc::new(inner),
            policy: Arc::default(),
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
    /// [`Error::OutOfScope`] for a child that Kubernetes does not let the owner have,
    /// [`Error::Immutable`] for one that cannot be changed as desired, and [`Error::Contested`] for one
    /// that another client keeps changing.
    pub async fn apply<K, O>(&self, owner: &O, mut desired: K, store: &Store<K>) -> Result<Arc<K>>
    where
        K: Object + Serialize,
        O: Object<DynamicType: Default>,
    {
        let owner_type = O::DynamicType::default();
        place(&mut desired, owner, store)?;
        let annotation = hash_annotation(O::group(&owner_type).as_ref(), self.inner.identity);
        let desired = Desired::new(desired, &annotation)?;
        let access = |live: &K| {
            let is_ending = live.meta().deletion_timestamp.is_some()
                || has_dangling_owner(live, owner, &owner_type);
            if is_ending {
                Some(Access::Leave) // its deletion comes back to the owner
            } else if is_controlled(live, owner) {
                Some(Access::Write)
            } else {
                self.adopts(live).then_some(Access::Adopt)
            }
        };
        let (object, note) = self.converge(&desired, access, store).await?;
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
    /// applied, and those of [`Applier::apply`].
    pub async fn apply_unowned<K>(&self, desired: K, store: &Store<K>) -> Result<Arc<K>>
    where
        K: Object + Serialize,
    {
        let annotation = hash_annotation("", self.inner.identity);
        let desired = Desired::new(desired, &annotation)?;
        let access = |live: &K| {
            if live.meta().deletion_timestamp.is_some() {
                Some(Access::Leave)
            } else if live.annotations().contains_key(&annotation) {
                Some(Access::Write)
            } else {
                self.adopts(live).then_some(Access::Adopt)
            }
        };
        let (object, note) = self.converge(&desired, access, store).await?;
        if let Some((_, note)) = note {
            info!("{note}");
        }
        Ok(object)
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
        "" => format!("{}/{DESIRED_HASH}", identity.name()), // the core group has no name
        group => format!("{group}/{DESIRED_HASH}"),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    const IDENTITY: Identity = Identity::new("test", "1.0.0");

    #[test]
    fn the_annotation_has_a_prefix_for_owners_of_the_core_group() {
        assert_eq!(hash_annotation("apps", IDENTITY), "apps/desired-hash");
        assert_eq!(hash_annotation("", IDENTITY), "test/desired-hash");
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
