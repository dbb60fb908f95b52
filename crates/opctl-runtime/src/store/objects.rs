//! The objects of a store: those that have changed or were read lately as they are, and the others packed.
//!
//! An object of k8s-openapi has room for every field that it might have, and each map of labels for
//! eleven of them; few are set. Most objects of a large cluster rest.

use std::collections::{HashMap, VecDeque, hash_map};
use std::mem;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kube::runtime::reflector::ObjectRef;

use super::packed::{Packed, Packer};
use super::stored::Stored;
use crate::object::{Object, reference};

/// How many objects are kept as they are: those of a small cluster, and those that change now of a
/// large one.
const RECENT: usize = 64;

/// Clones are the same objects.
pub(super) struct Objects<K: Object>(Arc<RwLock<Entries<K>>>);

struct Entries<K: Object> {
    dyntype: K::DynamicType,
    by_name: HashMap<ObjectRef<K>, Slot<K>>,
    /// Those that are there as they are, in the order in which they came to be.
    recent: VecDeque<ObjectRef<K>>,
    packer: Packer,
}

struct Slot<K> {
    stored: Stored<K>,
    /// What the last comparison with a desired state depended on, if it found no difference.
    compared: Option<u64>,
}

/// One object of a list.
pub(crate) enum Listed<K: Object> {
    Whole(Box<K>),
    Packed(ObjectRef<K>, Packed),
}

impl<K: Object> Listed<K> {
    pub fn reference(&self, dyntype: &K::DynamicType) -> ObjectRef<K> {
        match self {
            Self::Whole(object) => reference(&**object, dyntype),
            Self::Packed(reference, _) => reference.clone(),
        }
    }

    pub fn resource_version(&self) -> Option<&str> {
        match self {
            Self::Whole(object) => object.meta().resource_version.as_deref(),
            Self::Packed(_, packed) => packed.header.resource_version(),
        }
    }

    pub fn unpack(self) -> Option<K> {
        match self {
            Self::Whole(object) => Some(*object),
            Self::Packed(_, packed) => packed.unpack(),
        }
    }

    /// The object, beside what it was read from.
    pub fn read(&self) -> Option<K> {
        match self {
            Self::Whole(object) => Some((**object).clone()),
            Self::Packed(_, packed) => packed.unpack(),
        }
    }
}

impl<K: Object> Objects<K> {
    pub fn new(dyntype: K::DynamicType) -> Self {
        Self(Arc::new(RwLock::new(Entries {
            dyntype,
            by_name: HashMap::new(),
            recent: VecDeque::new(),
            packer: Packer::default(),
        })))
    }

    /// The object of that name. The namespace of a cluster-scoped one does not count.
    pub fn get(&self, name: &ObjectRef<K>) -> Option<Arc<K>> {
        self.write().get(name)
    }

    /// What `look` returns for the object of that name, which need not be read for that.
    pub fn look<T>(&self, name: &ObjectRef<K>, look: impl FnOnce(&Stored<K>) -> T) -> Option<T> {
        let entries = self.read();
        let slot = entries.by_name.get(name)?;
        Some(look(&slot.stored))
    }

    /// All objects, in no particular order.
    pub fn list(&self) -> Vec<Arc<K>> {
        let entries = self.read();
        let slots = entries.by_name.values();
        slots.filter_map(|slot| slot.stored.object()).collect()
    }

    /// The names of all objects, in no particular order.
    pub fn names(&self) -> Vec<ObjectRef<K>> {
        self.read().by_name.keys().cloned().collect()
    }

    /// Returns the object as it is from now on, and as it was before.
    pub fn put(&self, object: K) -> (Arc<K>, Option<Stored<K>>) {
        self.write().put(object)
    }

    /// An object of a list as it is stored: packed.
    pub fn listed(&self, object: K) -> Listed<K> {
        let entries = self.read();
        match entries.packer.pack(&object) {
            Some(packed) => Listed::Packed(reference(&object, &entries.dyntype), packed),
            None => Listed::Whole(Box::new(object)),
        }
    }

    /// Whether another object would be kept as it is.
    pub fn have_room(&self) -> bool {
        self.read().recent.len() < RECENT
    }

    /// Returns the object as it was before.
    pub fn put_listed(&self, listed: Listed<K>) -> Option<Stored<K>> {
        let mut entries = self.write();
        match listed {
            Listed::Packed(name, packed) => entries.insert(name, Stored::packed(packed)),
            Listed::Whole(object) => entries.put(*object).1,
        }
    }

    /// What the last comparison of the object with a desired state depended on, if it found no difference.
    pub fn compared(&self, name: &ObjectRef<K>) -> Option<u64> {
        self.read().by_name.get(name)?.compared
    }

    pub fn set_compared(&self, name: &ObjectRef<K>, comparison: Option<u64>) {
        if let Some(slot) = self.write().by_name.get_mut(name) {
            slot.compared = comparison;
        }
    }

    /// Returns the object as it was.
    pub fn remove(&self, name: &ObjectRef<K>) -> Option<Stored<K>> {
        let mut entries = self.write();
        let slot = entries.by_name.remove(name)?;
        if entries.by_name.is_empty() {
            entries.by_name.shrink_to_fit(); // it may have been full
        }
        Some(slot.stored)
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries<K>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries<K>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Object> Entries<K> {
    /// Keeps what was read for a while: whoever has asked for it asks again.
    fn get(&mut self, name: &ObjectRef<K>) -> Option<Arc<K>> {
        let Some(slot) = self.by_name.get_mut(name) else {
            name.namespace.as_ref()?;
            let mut name = name.clone();
            name.namespace = None;
            return self.get(&name);
        };
        let is_new = !slot.stored.is_whole();
        let object = slot.stored.keep()?;
        if is_new {
            self.keep(name.clone());
        }
        Some(object)
    }

    fn put(&mut self, object: K) -> (Arc<K>, Option<Stored<K>>) {
        let name = reference(&object, &self.dyntype);
        let object = Arc::new(object);
        let before = self.insert(name.clone(), Stored::whole(Arc::clone(&object)));
        if !before.as_ref().is_some_and(Stored::is_whole) {
            self.keep(name);
        }
        (object, before)
    }

    /// Returns the object as it was before.
    fn insert(&mut self, name: ObjectRef<K>, stored: Stored<K>) -> Option<Stored<K>> {
        match self.by_name.entry(name) {
            hash_map::Entry::Occupied(mut slot) => {
                Some(mem::replace(&mut slot.get_mut().stored, stored))
            }
            hash_map::Entry::Vacant(slot) => {
                let compared = None;
                slot.insert(Slot { stored, compared });
                None
            }
        }
    }

    /// Keeps an object as it is, and packs that which has been kept for the longest.
    fn keep(&mut self, name: ObjectRef<K>) {
        self.recent.push_back(name);
        while self.recent.len() > RECENT {
            let name = self.recent.pop_front();
            if let Some(slot) = name.and_then(|name| self.by_name.get_mut(&name)) {
                slot.stored.pack(&self.packer);
            }
        }
    }
}

impl<K: Object> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use serde_json::json;

    use super::*;

    fn pod(number: usize) -> Pod {
        let pod = json!({
            "metadata": {
                "name": format!("pod-{number}"), "namespace": "x", "resourceVersion": "7",
                "labels": { "app": "a" }, "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": { "containers": [{ "name": "main", "resources": { "limits": { "cpu": "1" } } }] },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        pod.metadata.self_link = Some(format!("kubectl {number}"));
        pod
    }

    fn name(number: usize) -> ObjectRef<Pod> {
        ObjectRef::new(&format!("pod-{number}")).within("x")
    }

    fn packed(objects: &Objects<Pod>) -> usize {
        let entries = objects.read();
        let packed = |slot: &&Slot<Pod>| !slot.stored.is_whole();
        entries.by_name.values().filter(packed).count()
    }

    #[test]
    fn what_rests_is_packed_and_reads_the_same() {
        let objects = Objects::new(());
        let count = 2 * RECENT;
        for number in 0..count {
            objects.put(pod(number));
        }
        assert_eq!(packed(&objects), count - RECENT);
        for number in [0, count - 1] {
            assert_eq!(*objects.get(&name(number)).unwrap(), pod(number));
            let version = objects.look(&name(number), |it| it.resource_version() == Some("7"));
            assert_eq!(version, Some(true));
        }
        assert_eq!(
            (objects.list().len(), objects.names().len()),
            (count, count)
        );

        objects.set_compared(&name(0), Some(1));
        objects.put(pod(0));
        assert_eq!(packed(&objects), count - RECENT, "one for another");
        assert_eq!(objects.compared(&name(0)), Some(1));
        objects.remove(&name(0));
        assert_eq!(objects.compared(&name(0)), None);
        objects.remove(&name(1));
        assert_eq!(objects.get(&name(0)), None);
        assert_eq!(objects.names().len(), count - 2);
    }

    #[test]
    fn what_was_read_stays_for_a_while() {
        let objects = Objects::new(());
        for number in 0..=RECENT {
            objects.put(pod(number));
        }
        let is_whole = |number| objects.look(&name(number), Stored::is_whole);
        assert_eq!([0, 1].map(is_whole), [Some(false), Some(true)]);
        let read = objects.get(&name(0)).unwrap();
        assert!(Arc::ptr_eq(&read, &objects.get(&name(0)).unwrap()));
        assert_eq!([0, 1].map(is_whole), [Some(true), Some(false)]);
        objects.list();
        assert_eq!(packed(&objects), 1, "a list is of all, and keeps none");
    }

    #[test]
    fn a_list_is_packed() {
        let objects = Objects::new(());
        for number in 0..3 {
            objects.put_listed(objects.listed(pod(number)));
        }
        assert_eq!(packed(&objects), 3);
        assert_eq!(*objects.get(&name(2)).unwrap(), pod(2));
    }

    #[test]
    fn the_namespace_of_a_cluster_scoped_object_does_not_count() {
        let objects = Objects::new(());
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".to_owned());
        objects.put(object);
        assert!(objects.get(&ObjectRef::new("a").within("x")).is_some());
    }
}
