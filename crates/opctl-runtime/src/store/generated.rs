//! The names of objects that are created with `metadata.generateName`.
//!
//! The operator generates them, not the API server. So an attempt to create an object whose outcome is
//! unknown, because the answer was lost, can be repeated: with the same name, it is created once.

use std::hash::{BuildHasher, RandomState};
use std::mem;

use kube::runtime::reflector::ObjectRef;
use tokio::time::Instant;

use super::Store;
use super::state::Attempt;
use crate::object::{Object, reference};

/// The characters, the number of them, and the longest prefix of kube-apiserver
/// (k8s.io/apiserver/pkg/storage/names).
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const RANDOM_LENGTH: usize = 5;
const MAX_PREFIX_LENGTH: usize = 63 - RANDOM_LENGTH;

tokio::task_local! {
    /// When the reconcile began that runs in this task.
    static BEGIN: Instant;
}

/// Runs a reconcile. It knows the objects that a store had before.
pub(crate) fn in_reconcile<F: Future>(
    reconcile: impl FnOnce() -> F,
) -> impl Future<Output = F::Output> {
    let begin = Instant::now();
    BEGIN.scope(begin, reconcile())
}

/// The generated name of an object that is about to be created. The attempt is remembered if this is
/// dropped before the outcome is known.
#[must_use = "the outcome of the attempt is unknown when this is dropped"]
pub(crate) struct GeneratedName<'a, K: Object> {
    store: &'a Store<K>,
    object: ObjectRef<K>,
    /// Whether an earlier attempt may have created the object.
    pub is_repeated: bool,
    attempt: Option<Attempt>,
}

impl<K: Object> Store<K> {
    /// Names an object that wants a generated name: as in an earlier attempt for the object with the uid
    /// `owner` whose outcome is unknown, or with a new name.
    ///
    /// # Errors
    /// The name of an object that an earlier attempt has created, as a watch has reported meanwhile: the
    /// reconciler may not know it yet.
    pub(crate) fn generate_name(
        &self,
        object: &mut K,
        owner: &str,
    ) -> Result<Option<GeneratedName<'_, K>>, String> {
        let meta = object.meta_mut();
        let prefix = meta.generate_name.clone().filter(|_| meta.name.is_none());
        let Some(prefix) = prefix else {
            return Ok(None);
        };
        let attempt = Attempt {
            owner: owner.to_owned(),
            namespace: meta.namespace.clone(),
            prefix,
        };
        let begin = BEGIN.try_with(|begin| *begin).ok();
        let repeated = self.update(|state| state.repeat_attempt(&attempt, begin))?;
        meta.name = Some(match &repeated {
            Some(object) => object.name.clone(),
            None => self.unused_name(&attempt),
        });
        Ok(Some(GeneratedName {
            store: self,
            object: reference(object, self.dyntype()),
            is_repeated: repeated.is_some(),
            attempt: Some(attempt),
        }))
    }

    fn unused_name(&self, attempt: &Attempt) -> String {
        loop {
            let name = random_name(&attempt.prefix);
            if self.get(attempt.namespace.as_deref(), &name).is_none() {
                return name;
            }
        }
    }
}

impl<K: Object> GeneratedName<'_, K> {
    /// The object was created, or this attempt never will create it.
    pub fn settle(mut self) {
        self.attempt = None;
    }
}

impl<K: Object> Drop for GeneratedName<'_, K> {
    fn drop(&mut self) {
        if let Some(attempt) = mem::take(&mut self.attempt) {
            let object = self.object.clone();
            self.store
                .update(|state| state.remember_attempt(object, attempt));
        }
    }
}

fn random_name(prefix: &str) -> String {
    let end = prefix.floor_char_boundary(MAX_PREFIX_LENGTH);
    let mut name = prefix.get(..end).unwrap_or_default().to_owned();
    let mut random = RandomState::new().hash_one(prefix);
    for _ in 0..RANDOM_LENGTH {
        let index = random % ALPHABET.len() as u64;
        random /= ALPHABET.len() as u64;
        name.extend(ALPHABET.get(index as usize).copied().map(char::from));
    }
    name
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;
    use tokio::time::sleep;

    use super::super::Event;
    use super::*;

    fn child() -> ConfigMap {
        let mut child = ConfigMap::default();
        child.metadata.generate_name = Some("child-".to_owned());
        child
    }

    /// Names a child, in an attempt that is lost.
    fn lose(store: &Store<ConfigMap>, owner: &str) -> Result<String, String> {
        let mut child = child();
        drop(store.generate_name(&mut child, owner)?);
        Ok(child.name_any())
    }

    #[test]
    fn names_are_those_of_the_api_server() {
        let name = random_name("a-");
        assert_eq!(name.len(), 7);
        assert!(name.starts_with("a-"));
        assert_ne!(name, random_name("a-"));
        assert_eq!(random_name(&"ä".repeat(40)).len(), 63);
        let store = Store::from_iter([]);
        let mut named = child();
        named.metadata.name = Some("x".to_owned());
        assert!(store.generate_name(&mut named, "1").unwrap().is_none());
    }

    #[test]
    fn an_attempt_is_repeated_for_the_same_owner_until_its_outcome_is_known() {
        let store = Store::from_iter([]);
        let name = lose(&store, "1").unwrap();
        assert_ne!(lose(&store, "2").unwrap(), name);
        assert_eq!(lose(&store, "1").unwrap(), name);
        let mut repeated = child();
        let generated = store.generate_name(&mut repeated, "1").unwrap().unwrap();
        assert!(generated.is_repeated);
        generated.settle();
        assert_eq!(repeated.name_any(), name);
        assert_ne!(lose(&store, "1").unwrap(), name);
    }

    /// A store to which the watch has reported the child of an attempt that was lost.
    fn reported() -> (Store<ConfigMap>, ConfigMap) {
        let (store, mut child) = (Store::from_iter([]), child());
        child.metadata.name = Some(lose(&store, "1").unwrap());
        child.metadata.resource_version = Some("1".to_owned());
        store.take(&None, Event::Applied(child.clone()));
        (store, child)
    }

    #[tokio::test]
    async fn a_reconcile_that_began_before_its_child_came_creates_no_other() {
        let (early, child) = in_reconcile(async || {
            sleep(Duration::from_millis(1)).await;
            let (store, child) = reported();
            let early = lose(&store, "1");
            (early, child)
        })
        .await;
        assert_eq!(early, Err(child.name_any()));
        let (store, child) = reported();
        sleep(Duration::from_millis(1)).await;
        let late = in_reconcile(async || lose(&store, "1")).await.unwrap();
        assert_ne!(late, child.name_any());
    }

    #[test]
    fn outside_a_reconcile_the_child_is_reported_once() {
        let (store, child) = reported();
        assert_eq!(lose(&store, "1"), Err(child.name_any()));
        assert!(lose(&store, "1").is_ok());
    }

    #[test]
    fn a_child_that_came_and_went_is_not_created_again() {
        let (store, child) = reported();
        store.take(&None, Event::Deleted(child.clone()));
        assert_ne!(lose(&store, "1").unwrap(), child.name_any());
    }

    #[test]
    fn attempts_at_the_same_time_have_different_names() {
        let store = Store::from_iter([]);
        let lost = lose(&store, "1").unwrap();
        let (mut left, mut right) = (child(), child());
        let first = store.generate_name(&mut left, "1");
        let second = store.generate_name(&mut right, "1");
        assert_eq!(left.name_any(), lost);
        assert_ne!(left.name_any(), right.name_any());
        drop((first, second));
    }
}
