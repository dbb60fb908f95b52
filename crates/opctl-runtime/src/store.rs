//! What the API server has, kept in memory by one watch per kind.
//!
//! Reconcilers read from stores and never from the API server. A store also takes in the answers to
//! the operator's own writes, so that a reconciler sees what it has just written even though the watch
//! has yet to report it. Without that, two quick reconciles of one object would write the same change
//! twice.

mod demand;
mod generated;
mod glance;
mod index;
mod objects;
mod packed;
mod selection;
mod state;
mod stored;
mod sync;
mod watch;

use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::watch::Sender;

pub(crate) use demand::Demand;
pub(crate) use generated::{GeneratedName, in_reconcile};
pub use index::Index;
pub(crate) use selection::Selection;
pub(crate) use state::{Change, ControllerId, Event, Origin, Overlay, OwnWrite};
pub(crate) use stored::Before;
pub(crate) use sync::SyncState;

use self::glance::Glance;
use self::objects::{Listed, Objects};
use self::state::{Observer, State, number};
use self::stored::Stored;
use crate::object::{Object, controller_ref, is_controlled, reference};
use crate::without_managed_fields::WithoutManagedFields;

/// The objects of one kind that the operator watches. Controllers share it; clones are the same store.
///
/// [`Manager::store`](crate::Manager::store) and [`Controller::owns`](crate::Controller::owns) return
/// one that follows the API server. A unit test makes one of objects:
///
/// # Example
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use opctl_runtime::Store;
///
/// let mut settings = ConfigMap::default();
/// settings.metadata.name = Some("settings".to_owned());
/// settings.metadata.namespace = Some("default".to_owned());
/// let store = Store::from_iter([settings]);
/// assert!(store.get(Some("default"), "settings").is_some());
/// ```
///
/// # Caveats
/// A store holds every object that it selects, and one that only [`Controller::owns`](crate::Controller::owns)
/// has asked for those alone that the controller's objects control. Where the metadata is all that a
/// reconciler needs, let it hold `PartialObjectMeta<K>`. It never holds `metadata.managedFields`.
pub struct Store<K: Object>(Arc<Shared<K>>);

struct Shared<K: Object> {
    dyntype: K::DynamicType,
    objects: Objects<K>,
    selection: Sender<Selection>,
    state: Mutex<State<K>>,
    sync: SyncState,
    handlers: RwLock<Vec<Arc<Observer<K>>>>,
    by_owner: OnceLock<Index<K, String>>,
}

impl<K: Object> Store<K> {
    /// A store that will hold the objects of the selection.
    pub(crate) fn empty(dyntype: K::DynamicType, selection: Selection) -> Self {
        let objects = Objects::new(dyntype.clone());
        let selection = Sender::new(selection);
        let state = State::new(objects.clone(), selection.clone(), dyntype.clone());
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            objects,
            selection,
            dyntype,
            sync: SyncState::default(),
            handlers: RwLock::default(),
            by_owner: OnceLock::new(),
        }))
    }

    /// Waits until the store holds a complete list of its objects. Before a controller starts, it waits
    /// for the stores that it has to do with: this is for tasks of your own.
    pub async fn synced(&self) {
        self.0.sync.synced().await;
    }

    /// Holds these objects, too. Until they are listed, the store is not synced.
    pub(crate) fn select(&self, selection: Selection) {
        self.0.selection.send_if_modified(|selected| {
            let is_larger = selected.extend(selection);
            if is_larger {
                self.0.sync.begin_again();
            }
            is_larger
        });
    }

    /// Makes the store one that holds the object, before it is written: the next reconcile has to find it
    /// here.
    pub(crate) async fn hold(&self, object: &K) {
        let is_held = self.0.selection.borrow().has(object);
        if !is_held {
            self.hold_all().await;
        }
    }

    /// As [`Store::hold`], for all objects.
    pub(crate) async fn hold_all(&self) {
        if *self.0.selection.borrow() == Selection::All {
            return;
        }
        self.select(Selection::All);
        self.synced().await;
    }

    /// The object of that name; a cluster-scoped object has no namespace.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<K>> {
        let mut reference = ObjectRef::new_with(name, self.0.dyntype.clone());
        reference.namespace = namespace.map(str::to_owned);
        self.find(&reference)
    }

    /// As [`Store::get`].
    pub(crate) fn find(&self, reference: &ObjectRef<K>) -> Option<Arc<K>> {
        self.0.objects.get(reference)
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.0.objects.list()
    }

    /// The objects that `owner` controls, in no particular order. Those of a deleted object of the
    /// same name are not among them.
    pub fn by_owner(&self, owner: &impl Resource) -> Vec<Arc<K>> {
        let index = self.0.by_owner.get_or_init(|| {
            self.index(|object: &K| controller_ref(object).map(|owner| owner.uid.clone()))
        });
        let uid = owner.meta().uid.as_ref();
        uid.map_or_else(Vec::new, |uid| index.get(uid))
    }

    /// The object of that name that `owner` controls, in the owner's namespace.
    pub fn owned_by(&self, owner: &impl Resource, name: &str) -> Option<Arc<K>> {
        let object = self.get(owner.meta().namespace.as_deref(), name)?;
        is_controlled(&*object, owner).then_some(object)
    }

    /// Indexes the objects by the keys that `keys` returns: none, one (`Option`) or many (`Vec`).
    pub fn index<Key, Keys>(
        &self,
        keys: impl Fn(&K) -> Keys + Send + Sync + 'static,
    ) -> Index<K, Key>
    where
        Key: Eq + Hash + Clone + Send + Sync + 'static,
        Keys: IntoIterator<Item = Key>,
    {
        let index = Index::new(self.0.objects.clone());
        let indexer = index.indexer(self.0.dyntype.clone(), keys);
        self.observe(indexer);
        index
    }

    /// Calls `observer` for each object of now, and from now on for every change before readers see it.
    fn observe(&self, observer: Observer<K>) {
        self.update(|state| state.add_indexer(observer));
    }

    /// Sends a request that writes an object, and takes its answer in. The controller of `own` need not
    /// reconcile the object again for it.
    pub(crate) async fn write(
        &self,
        request: impl Future<Output = kube::Result<Answer<K>>>,
        own: Option<OwnWrite<K>>,
    ) -> kube::Result<Arc<K>> {
        let under_way = self.update(|state| UnderWay {
            store: self,
            moment: state.begin_request(),
            write: own.map(|own| state.begin_write(own)),
        });
        let object = match request.await? {
            Answer::Object(object) => object,
            Answer::Text(text) => {
                if let Some(object) = self.as_seen(&Glance::at_object(&text)) {
                    return Ok(object); // the watch was faster
                }
                let object = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
                let WithoutManagedFields(object) = object;
                object
            }
        };
        Ok(self.update(|state| state.take_answer(object, under_way.moment)))
    }

    /// Calls `handler` for every change from now on.
    pub(crate) fn subscribe(&self, handler: impl Fn(Change<'_, K>) + Send + Sync + 'static) {
        self.update(|state| state.is_observed = true);
        let mut handlers = self.0.handlers.write();
        let handlers = handlers.as_mut().unwrap_or_else(|error| error.get_mut());
        handlers.push(Arc::new(Box::new(handler)));
    }

    pub(crate) fn set_overlay(&self, object: &K, overlay: Option<Overlay<K>>) {
        self.update(|state| state.set_overlay(object, overlay));
    }

    pub(crate) fn sync_state(&self) -> &SyncState {
        &self.0.sync
    }

    pub(crate) fn dyntype(&self) -> &K::DynamicType {
        &self.0.dyntype
    }

    /// What the last comparison of the object with a desired state depended on, if it found no difference.
    pub(crate) fn compared(&self, object: &K) -> Option<u64> {
        let name = reference(object, &self.0.dyntype);
        self.0.objects.compared(&name)
    }

    pub(crate) fn set_compared(&self, object: &K, comparison: Option<u64>) {
        let name = reference(object, &self.0.dyntype);
        self.0.objects.set_compared(&name, comparison);
    }

    /// References to all objects, in no particular order.
    pub(crate) fn references(&self) -> Vec<ObjectRef<K>> {
        self.0.objects.names()
    }

    /// An object of a list, as the store will have it if it holds it.
    pub(crate) fn listed(&self, object: K) -> Option<Listed<K>> {
        let is_held = self.0.selection.borrow().has(&object);
        is_held.then(|| self.0.objects.listed(object))
    }

    /// The object as it was seen, if it is known so, and shown so.
    fn as_seen(&self, seen: &Glance) -> Option<Arc<K>> {
        let is_as_seen = self.has_version(seen, |known| known == Some(&*seen.version))
            && !self.update(|state| state.has_overlays());
        let object = is_as_seen.then(|| self.get(seen.namespace.as_deref(), &seen.name));
        object.flatten()
    }

    /// Whether the object that was seen is known in that version or in a later one.
    fn is_known(&self, seen: &Glance) -> bool {
        let seen_version = number(Some(&*seen.version));
        seen_version.is_some() && self.has_version(seen, |known| number(known) >= seen_version)
    }

    fn has_version(&self, seen: &Glance, condition: impl Fn(Option<&str>) -> bool) -> bool {
        let mut name = ObjectRef::new_with(&seen.name, self.0.dyntype.clone());
        name.namespace.clone_from(&seen.namespace);
        let known = |stored: &Stored<K>| condition(stored.resource_version());
        self.0.objects.look(&name, known) == Some(true)
    }

    pub(crate) fn take(&self, namespace: &Option<String>, event: Event<K>) {
        self.update(|state| state.take(namespace, event));
    }

    /// Changes the state, and calls the handlers once it is unlocked: they are others' code.
    fn update<T>(&self, update: impl FnOnce(&mut State<K>) -> T) -> T {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = update(&mut state);
        let notifications = state.notifications();
        drop(state);
        if !notifications.is_empty() {
            let handlers = self.0.handlers.read();
            let handlers = handlers.unwrap_or_else(PoisonError::into_inner).clone();
            for notification in notifications {
                let after = notification.after(&self.0.objects);
                let change = notification.change(after.as_deref());
                handlers.iter().for_each(|handler| handler(change));
            }
        }
        result
    }
}

/// What the API server answers to a write: an object.
pub(crate) enum Answer<K> {
    Object(K),
    /// As JSON, which need not be read where the watch was faster.
    Text(String),
}

impl<K> From<WithoutManagedFields<K>> for Answer<K> {
    fn from(WithoutManagedFields(object): WithoutManagedFields<K>) -> Self {
        Self::Object(object)
    }
}

/// A request that writes, until its answer is taken in or it is dropped.
struct UnderWay<'a, K: Object> {
    store: &'a Store<K>,
    moment: u64,
    write: Option<u64>,
}

impl<K: Object> Drop for UnderWay<'_, K> {
    fn drop(&mut self) {
        self.store.update(|state| {
            state.end_request();
            if let Some(write) = self.write {
                state.end_write(write);
            }
        });
    }
}

impl<K: Object> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A store of these objects, which no watch changes: for unit tests.
impl<K: Object<DynamicType: Default>> FromIterator<K> for Store<K> {
    fn from_iter<I: IntoIterator<Item = K>>(objects: I) -> Self {
        let store = Self::empty(K::DynamicType::default(), Selection::All);
        let objects: Vec<K> = objects.into_iter().collect();
        let version = objects.iter().filter_map(state::version).max();
        let version = version.unwrap_or_default().to_string();
        let objects = objects.into_iter();
        let objects = objects.filter_map(|it| store.listed(it)).collect();
        store.take(&None, Event::Listed { objects, version });
        store
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::ResourceExt;

    use super::*;

    pub(super) fn owner(uid: &str) -> Secret {
        let mut owner = Secret::default();
        owner.metadata.name = Some("owner".to_owned());
        owner.metadata.uid = Some(uid.to_owned());
        owner
    }

    fn child(name: &str, owner: &Secret) -> ConfigMap {
        let mut child = ConfigMap::default();
        child.metadata.name = Some(name.to_owned());
        child.metadata.owner_references = owner.controller_owner_ref(&()).map(|it| vec![it]);
        child
    }

    #[test]
    fn children_belong_to_the_object_and_not_to_its_name() {
        let (old, new) = (owner("1"), owner("2"));
        let store = Store::from_iter([child("a", &old), child("b", &new)]);
        let names = |owner| -> Vec<_> {
            let children = store.by_owner(owner);
            children.iter().map(|child| child.name_any()).collect()
        };
        assert_eq!(
            (names(&old), names(&new)),
            (vec!["a".to_owned()], vec!["b".to_owned()])
        );
    }

    #[test]
    fn a_name_alone_does_not_make_a_child() {
        let (old, new) = (owner("1"), owner("2"));
        let store = Store::from_iter([child("a", &new), child("b", &new)]);
        let name = |owner, name| store.owned_by(owner, name).map(|child| child.name_any());
        assert_eq!(name(&new, "b").as_deref(), Some("b"));
        assert_eq!(name(&old, "b"), None);
        assert_eq!(name(&new, "c"), None);
    }

    #[test]
    fn an_index_follows_the_objects() {
        let store = Store::from_iter([child("a", &owner("1"))]);
        let by_first_letter = store.index(|object: &ConfigMap| object.name_any().chars().next());
        assert_eq!(by_first_letter.get(&'a').len(), 1);
        let mut deleted = child("a", &owner("1"));
        deleted.metadata.resource_version = Some("2".to_owned());
        store.take(&None, Event::Deleted(deleted));
        assert!(by_first_letter.get(&'a').is_empty());
    }
}
