//! The objects of a store by a key of the user's.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use kube::runtime::reflector::ObjectRef;

use super::objects::Objects;
use super::state::Observer;
use super::stored::Before;
use crate::object::{Object, reference};

/// The objects of a [`Store`](super::Store) by a key, such as a label or a name that their spec
/// refers to. The store keeps it up to date. Clones are the same index.
///
/// # Example
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::ResourceExt;
/// use opctl_runtime::Store;
///
/// let store: Store<Pod> = Store::from_iter([]);
/// let by_node = store.index(|pod: &Pod| pod.spec.clone()?.node_name);
/// assert!(by_node.get(&"node-0".to_owned()).is_empty());
/// ```
pub struct Index<K: Object, Key> {
    objects: Objects<K>,
    entries: Arc<Entries<K, Key>>,
}

/// Most keys have one object.
type Entries<K, Key> = RwLock<HashMap<Key, Vec<ObjectRef<K>>>>;

impl<K: Object, Key: Eq + Hash + Clone + Send + Sync + 'static> Index<K, Key> {
    pub(super) fn new(objects: Objects<K>) -> Self {
        Self {
            objects,
            entries: Arc::default(),
        }
    }

    /// What keeps the index up to date, given the keys of an object.
    pub(super) fn indexer<Keys: IntoIterator<Item = Key>>(
        &self,
        dyntype: K::DynamicType,
        keys: impl Fn(&K) -> Keys + Send + Sync + 'static,
    ) -> Observer<K> {
        let entries = Arc::clone(&self.entries);
        Box::new(move |change| {
            let keys = |object: Option<&K>| -> Vec<Key> {
                object.map_or_else(Vec::new, |object| keys(object).into_iter().collect())
            };
            let before = change.before.and_then(Before::object);
            let (old, new) = (keys(before), keys(change.after));
            if old == new {
                return;
            }
            let mut entries = entries.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(object) = before {
                let object = reference(object, &dyntype);
                for key in old {
                    if let Some(objects) = entries.get_mut(&key) {
                        objects.retain(|other| *other != object);
                        if objects.is_empty() {
                            entries.remove(&key);
                        }
                    }
                }
            }
            if let Some(object) = change.after {
                let object = reference(object, &dyntype);
                for key in new {
                    let objects = entries.entry(key).or_insert_with(|| Vec::with_capacity(1));
                    if !objects.contains(&object) {
                        objects.push(object.clone());
                    }
                }
            }
        })
    }

    /// The objects with that key, in no particular order.
    pub fn get(&self, key: &Key) -> Vec<Arc<K>> {
        let references = self.references(key);
        references
            .iter()
            .filter_map(|object| self.objects.get(object))
            .collect()
    }

    /// References to the objects with that key.
    pub(crate) fn references(&self, key: &Key) -> Vec<ObjectRef<K>> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).cloned().unwrap_or_default()
    }
}

impl<K: Object, Key> Clone for Index<K, Key> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            entries: Arc::clone(&self.entries),
        }
    }
}
