//! Brings one object to the desired state.
//!
//! ```text
//! not in the store   apply as a new object ----------- it exists --> look it up
//! as desired         nothing
//! others' fields     claim them, apply
//! anything else      apply -- 422, or others' fields --> claim, apply
//!                      |
//!                      +----- 422 --> replace, claim, apply -- 422 --> Immutable, or invalid
//! ```

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use kube::ResourceExt;
use serde::Serialize;
use serde_json::Value;
use tracing::warn;

use super::children::{Children, Verdict};
use super::drift::{self, Change};
use super::requests::{LOOKUPS, is_outdated};
use super::{Applier, find, not_controlled};
use crate::error::{Error, Result};
use crate::object::{Object, hash_owners, json_of, tree_of};
use crate::ownership::{self, Claim};
use crate::store::Store;

/// The resource version of an object that must not exist yet. It is that of an empty etcd, so no
/// object has it; where none exists, the API server creates one whatever its version. A POST would not
/// take over an object either, but leaves its fields with a manager that no later apply releases.
const ABSENT: &str = "1";

/// The fields of an object of which the generation counts the changes, or which are compared anyway.
const SPECIFIED: [&str; 4] = ["apiVersion", "kind", "metadata", "spec"];

/// The reason and the note of the event.
pub(super) type Note = (&'static str, String);

/// What may be done with a live object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It is being deleted.
    Leave,
    Write,
    /// As `Write`, even where nothing else differs.
    Adopt,
}

/// The desired state of an object.
pub(super) struct Desired<'a, K> {
    /// Without the annotation.
    pub object: K,
    pub annotation: &'a str,
    /// The hash of the object as it is written. It is of this process: what is in a map without an order
    /// is written in any.
    written: u64,
    tree: OnceLock<Tree>,
}

/// What a comparison needs; it is most of the work.
struct Tree {
    /// As the API server stores them.
    fields: Value,
    /// A field that is no longer desired looks like a default: the hash of the desired object,
    /// kept in an annotation, shows that it has to be applied once more. A standard library that hashes
    /// in another way costs one apply.
    hash: String,
    /// Whether all that is desired is in `metadata` and `spec`.
    is_of_spec: bool,
}

impl<'a, K: Object> Desired<'a, K> {
    pub fn new(mut object: K, annotation: &'a str) -> Result<Self> {
        let metadata = object.meta_mut();
        // Where it was made of a live object.
        metadata.managed_fields = None;
        metadata.self_link = None;
        metadata.resource_version = None;
        metadata.uid = None;
        metadata
            .annotations
            .get_or_insert_default()
            .remove(annotation);
        let written = hash_of(&json_of(&object)?);
        Ok(Self {
            object,
            annotation,
            written,
            tree: OnceLock::new(),
        })
    }

    /// What is applied.
    pub fn applied(&self) -> Result<K> {
        let mut object = self.object.clone();
        let hash = self.tree()?.hash.clone();
        let annotations = object.annotations_mut();
        annotations.insert(self.annotation.to_owned(), hash);
        Ok(object)
    }

    /// As the API server stores them.
    pub fn fields(&self) -> Result<&Value> {
        Ok(&self.tree()?.fields)
    }

    fn tree(&self) -> Result<&Tree> {
        if let Some(tree) = self.tree.get() {
            return Ok(tree);
        }
        let fields = tree_of(&self.object)?;
        let hash = format!("{:016x}", hash_of(&fields));
        let fields = drift::as_stored(fields);
        let mut names = fields.as_object().into_iter().flat_map(|it| it.keys());
        let is_of_spec = names.all(|name| SPECIFIED.contains(&name.as_str()));
        let tree = Tree {
            fields,
            hash,
            is_of_spec,
        };
        Ok(self.tree.get_or_init(|| tree))
    }

    fn is_applied_to(&self, live: &K) -> Result<bool> {
        Ok(live.annotations().get(self.annotation) == Some(&self.tree()?.hash))
    }

    fn changes(&self, live: &K) -> Result<Vec<Change>> {
        Ok(drift::changes(self.fields()?, &tree_of(live)?))
    }

    /// Whether the last comparison with the live object found no difference and nothing has changed since
    /// that it depends on.
    fn is_compared(&self, live: &K, store: &Store<K>) -> bool {
        let compared = store.compared(live);
        let holds = |by_generation| self.comparison(live, by_generation) == compared;
        compared.is_some() && (holds(true) || holds(false))
    }

    /// Remembers that there is no difference.
    fn set_compared(&self, live: &K, store: &Store<K>) -> Result<()> {
        let comparison = self.comparison(live, self.tree()?.is_of_spec);
        store.set_compared(live, comparison);
        Ok(())
    }

    /// What a comparison with the live object depends on, as a hash. The generation stands for the
    /// specification, and not for fields beside it, such as the value of a PriorityClass.
    fn comparison(&self, live: &K, by_generation: bool) -> Option<u64> {
        let (meta, mut hasher) = (live.meta(), DefaultHasher::new());
        (self.written, &meta.uid, by_generation).hash(&mut hasher);
        if !by_generation || meta.generation.is_none() {
            meta.resource_version.as_ref()?.hash(&mut hasher);
            return Some(hasher.finish());
        }
        let desired = self.object.meta();
        (meta.generation, &meta.finalizers, &meta.self_link).hash(&mut hasher);
        for (desired, live) in [
            (&desired.labels, &meta.labels),
            (&desired.annotations, &meta.annotations),
        ] {
            // What others add is not compared, such as the revision of a Deployment.
            for name in desired.iter().flat_map(|it| it.keys()) {
                live.as_ref().and_then(|it| it.get(name)).hash(&mut hasher);
            }
        }
        live.annotations().get(self.annotation).hash(&mut hasher);
        hash_owners(meta, &mut hasher);
        Some(hasher.finish())
    }
}

impl Applier {
    /// Writes the object if it is not as desired. `access` says what may be done with one that
    /// exists; `None` is nothing at all. Returns what was done, too.
    pub(super) async fn converge<K: Object + Serialize>(
        &self,
        desired: &Desired<'_, K>,
        access: impl Fn(&K) -> Option<Access>,
        store: &Store<K>,
    ) -> Result<(Arc<K>, Option<Note>)> {
        store.hold(&desired.object).await;
        let mut live = find(&desired.object, store);
        let mut lookups = 0;
        loop {
            let written = match &live {
                None => self.create_by_apply(desired, store).await,
                Some(live) => match access(live) {
                    None => return Err(not_controlled(&desired.object, store)),
                    Some(Access::Leave) => return Ok((Arc::clone(live), None)),
                    Some(access) => self.update(desired, live, access, store).await,
                },
            };
            match written {
                Err(error) if is_outdated(&error) && lookups < LOOKUPS => {
                    lookups += 1;
                    live = self.look_up(&desired.object, store).await?;
                }
                written => return written,
            }
        }
    }

    async fn create_by_apply<K: Object + Serialize>(
        &self,
        desired: &Desired<'_, K>,
        store: &Store<K>,
    ) -> Result<(Arc<K>, Option<Note>)> {
        let mut object = desired.applied()?;
        object.meta_mut().resource_version = Some(ABSENT.to_owned());
        let created = self.send(&object, store).await?;
        let changes = desired.changes(&created)?;
        self.accept(desired, &*created, &changes, store)?;
        let note = format!(
            "created {} {}",
            K::kind(store.dyntype()),
            created.name_any()
        );
        Ok((created, Some(("Created", note))))
    }

    async fn update<K: Object + Serialize>(
        &self,
        desired: &Desired<'_, K>,
        live: &Arc<K>,
        access: Access,
        store: &Store<K>,
    ) -> Result<(Arc<K>, Option<Note>)> {
        if access == Access::Write && desired.is_compared(live, store) {
            return Ok((Arc::clone(live), None));
        }
        let changes = desired.changes(live)?;
        let others = ownership::of_others(live.meta());
        let mut claimed = None;
        if access == Access::Write && desired.is_applied_to(live)? {
            let Some(difference) = difference(&changes, others) else {
                desired.set_compared(live, store)?;
                return Ok((Arc::clone(live), None));
            };
            let uid = live.uid().unwrap_or_default();
            match self.children().judge(&uid, difference, Instant::now()) {
                Verdict::Repair => {}
                Verdict::Accept => return Ok((Arc::clone(live), None)),
                Verdict::Contested => return Err(contested(&**live, &changes, store)),
            }
            if changes.is_empty() {
                claimed = self.claim(desired, live, store).await?;
                if claimed.is_none() {
                    self.accept(desired, &**live, &changes, store)?;
                    return Ok((Arc::clone(live), None));
                }
            }
        }
        let (applied, claimed) = self.overwrite(desired, live, claimed, store).await?;
        let applied = match applied {
            Err(error) if is_invalid(&error) => {
                let deleted = self.recreate(desired, live, error, store).await?;
                return Ok((Arc::clone(live), Some(deleted)));
            }
            applied => applied?,
        };
        self.accept(desired, &*applied, &desired.changes(&applied)?, store)?;
        let is_written = applied.resource_version() != live.resource_version();
        let note = is_written.then(|| {
            let (kind, name) = (K::kind(store.dyntype()), live.name_any());
            describe(access, &kind, &name, &changes, claimed.as_ref())
        });
        Ok((applied, note))
    }

    /// Applies the desired state, and removes what keeps the object from it. Returns the answer to the
    /// last apply, and what was `claimed` before or in between.
    async fn overwrite<K: Object + Serialize>(
        &self,
        desired: &Desired<'_, K>,
        live: &Arc<K>,
        mut claimed: Option<Claim>,
        store: &Store<K>,
    ) -> Result<(Result<Arc<K>>, Option<Claim>)> {
        let mut object = desired.applied()?;
        object.meta_mut().uid = live.uid(); // not a new object of the same name
        let mut applied = self.send(&object, store).await;
        if claimed.is_none() && is_left_to_others(&applied) {
            claimed = self.claim(desired, live, store).await?;
            if claimed.is_some() {
                applied = self.send(&object, store).await;
            }
        }
        if is_refused(&applied) {
            applied = match self.replace(desired, live, store).await {
                Ok(()) => {
                    claimed = self.claim(desired, live, store).await?.or(claimed);
                    self.send(&object, store).await
                }
                Err(error) => Err(error),
            };
        }
        Ok((applied, claimed))
    }

    /// What still differs right after a write stays so.
    fn accept<K: Object>(
        &self,
        desired: &Desired<'_, K>,
        object: &K,
        changes: &[Change],
        store: &Store<K>,
    ) -> Result<()> {
        let others = ownership::of_others(object.meta());
        let difference = difference(changes, others);
        if difference.is_none() {
            desired.set_compared(object, store)?;
        }
        let uid = object.uid().unwrap_or_default();
        if self.children().accept(&uid, difference, Instant::now()) {
            let (kind, name) = (K::kind(store.dyntype()), object.name_any());
            let changes = drift::paths(changes);
            warn!(
                ?changes,
                others, "{kind} {name} is applied and still differs"
            );
        }
        Ok(())
    }

    fn children(&self) -> MutexGuard<'_, Children> {
        let children = &self.inner.children;
        children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_invalid(error: &Error) -> bool {
    matches!(error, Error::Kube(kube::Error::Api(status)) if status.code == 422)
        && !is_outdated(error)
}

fn is_refused<K>(applied: &Result<Arc<K>>) -> bool {
    applied.as_ref().is_err_and(is_invalid)
}

/// Whether fields of others may be what keeps the object from the desired state.
fn is_left_to_others<K: Object>(applied: &Result<Arc<K>>) -> bool {
    match applied {
        Ok(object) => ownership::of_others(object.meta()).is_some(),
        Err(_) => is_refused(applied),
    }
}

fn contested<K: Object>(live: &K, changes: &[Change], store: &Store<K>) -> Error {
    let mut fields = drift::paths(changes);
    let others = ownership::of_others(live.meta());
    let managers = others.and_then(|others| others.rsplit_once(' '));
    fields.extend(managers.map(|(managers, _)| format!("fields of {managers}")));
    Error::Contested {
        kind: K::kind(store.dyntype()).into_owned(),
        name: live.name_any(),
        fields: fields.join(", "),
    }
}

/// How an object differs, as a hash; `None` where it does not.
fn difference(changes: &[Change], others: Option<&str>) -> Option<u64> {
    if changes.is_empty() && others.is_none() {
        return None;
    }
    let changes = drift::paths(changes);
    Some(hash_of(&(changes, others)))
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn describe(
    access: Access,
    kind: &str,
    name: &str,
    changes: &[Change],
    claim: Option<&Claim>,
) -> Note {
    let (reason, verb) = match access {
        Access::Adopt => ("Adopted", "adopted"),
        Access::Leave | Access::Write => ("Updated", "updated"),
    };
    let mut parts: Vec<_> = changes.iter().map(Change::to_string).collect();
    if let Some(claim) = claim {
        let changed = drift::paths(changes);
        let removed = claim.paths.iter().filter(|path| !changed.contains(path));
        let removed: Vec<_> = removed.map(String::as_str).collect();
        if !removed.is_empty() {
            let managers = claim.managers.join(", ");
            parts.push(format!("reset {} of {managers}", removed.join(", ")));
        }
    }
    if parts.is_empty() {
        return (reason, format!("{verb} {kind} {name}"));
    }
    (
        reason,
        format!("{verb} {kind} {name}: {}", parts.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::scheduling::v1::PriorityClass;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use kube::api::ObjectMeta;
    use serde_json::json;

    use super::*;

    /// Two of the same specification and owners compare the same, whatever their status.
    #[test]
    fn a_comparison_holds_until_something_changes_that_it_depends_on() {
        let desired = |paused: Option<bool>| {
            let mut object = Deployment::default();
            object.spec.get_or_insert_default().paused = paused;
            object.labels_mut().insert("app".into(), "a".into());
            Desired::new(object, "a/desired-hash").unwrap()
        };
        let mut live = desired(None).applied().unwrap();
        live.metadata.uid = Some("1".to_owned());
        assert_eq!(desired(None).comparison(&live, true), None, "no version");
        live.metadata.generation = Some(1);
        live.metadata.resource_version = Some("1".to_owned());
        let comparison = |live: &Deployment| desired(None).comparison(live, true);
        let first = comparison(&live);
        assert!(first.is_some());
        assert_ne!(desired(Some(true)).comparison(&live, true), first);

        let mut counted = live.clone();
        counted.metadata.resource_version = Some("2".to_owned());
        counted.status.get_or_insert_default().replicas = Some(1);
        counted.labels_mut().insert("b".into(), "b".into());
        counted.annotations_mut().insert("b".into(), "b".into());
        assert_eq!(comparison(&counted), first);
        let changes: [fn(&mut ObjectMeta); 6] = [
            |meta| meta.generation = Some(2),
            |meta| meta.uid = Some("2".to_owned()),
            |meta| {
                let labels = meta.labels.get_or_insert_default();
                labels.insert("app".into(), "b".into());
            },
            |meta| meta.annotations = None,
            |meta| meta.self_link = Some("kubectl 1".to_owned()),
            |meta| meta.owner_references = Some(vec![OwnerReference::default()]),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = live.clone();
            change(&mut changed.metadata);
            assert_ne!(comparison(&changed), first, "{number}");
        }

        live.metadata.generation = None;
        let without = comparison(&live);
        live.metadata.resource_version = Some("2".to_owned());
        assert_ne!(comparison(&live), without);
    }

    #[test]
    fn the_generation_stands_for_the_specification_alone() {
        let desired = Desired::new(Deployment::default(), "a/desired-hash").unwrap();
        assert!(desired.tree().unwrap().is_of_spec);
        let object = PriorityClass {
            description: Some("of its own".to_owned()),
            ..PriorityClass::default()
        };
        let desired = Desired::new(object, "a/desired-hash").unwrap();
        assert!(!desired.tree().unwrap().is_of_spec);
        let mut live = desired.applied().unwrap();
        live.metadata.name = Some("a".to_owned());
        live.metadata.generation = Some(1);
        live.metadata.resource_version = Some("1".to_owned());
        let store = Store::from_iter([live.clone()]);
        assert!(!desired.is_compared(&live, &store));
        desired.set_compared(&live, &store).unwrap();
        assert!(desired.is_compared(&live, &store));
        live.metadata.resource_version = Some("2".to_owned());
        assert!(!desired.is_compared(&live, &store));
    }

    #[test]
    fn a_note_says_what_was_repaired_and_whose_fields_were_reset() {
        let desired = json!({ "spec": { "replicas": 3, "args": ["a"] } });
        let live = json!({ "spec": { "replicas": 4, "args": ["b"] } });
        let changes = drift::changes(&desired, &live);
        let claim = Claim {
            managed_fields: Vec::new(),
            managers: vec!["kubectl-edit".to_owned()],
            paths: vec!["spec.replicas".to_owned(), "spec.paused".to_owned()],
        };
        let note =
            |access, changes: &[_], claim| describe(access, "Deployment", "a", changes, claim).1;
        assert_eq!(
            note(Access::Write, &changes, Some(&claim)),
            "updated Deployment a: spec.args[0], spec.replicas 4 -> 3, \
             reset spec.paused of kubectl-edit"
        );
        assert_eq!(note(Access::Write, &[], None), "updated Deployment a");
        assert_eq!(note(Access::Adopt, &[], None), "adopted Deployment a");
    }
}
