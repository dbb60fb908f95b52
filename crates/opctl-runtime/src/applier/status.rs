//! Writes status: at once, or gathered where the caller says that a change can wait.

mod compare;

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{ObjectMeta, Patch, Request};
use kube::core::object::HasStatus;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::sleep;
use tracing::warn;

use self::compare::Comparable;
use super::Applier;
use crate::error::{Error, Result};
use crate::object::Object;
use crate::store::{Overlay, OwnWrite, Store};

/// How long a change of a status may wait that is not significant. Counts and names change with every
/// pod that comes up: they are written together.
const STATUS_BATCH_WINDOW: Duration = Duration::from_secs(10);

/// How many gathered statuses are written at a time: each request under way has a connection.
pub(super) const CONCURRENT_WRITES: usize = 8;

/// That the status which the store shows for an object is not written yet.
pub(super) struct Pending {
    /// The status that the API server has, an `Option<K::Status>`; `None` while that is not known.
    written: Arc<dyn Any + Send + Sync>,
    /// Counts the changes since then.
    revision: u64,
    /// Is locked while it is written.
    turn: Arc<Mutex<()>>,
}

impl Applier {
    /// Makes the object have `status`. Sends nothing where it has it already. Conditions that other
    /// controllers have written stay as they are.
    ///
    /// # Errors
    /// The API server refuses the status. An object that is gone meanwhile is not an error.
    pub async fn write_status<K>(
        &self,
        object: &K,
        status: K::Status,
        store: &Store<K>,
    ) -> Result<()>
    where
        K: Object + HasStatus<Status: PartialEq + Serialize>,
    {
        let pending = self.forget_pending(object);
        let old = object.status().filter(|_| pending.is_none());
        if old == Some(&status) {
            return Ok(());
        }
        let text = to_raw_value(&status)?;
        if let Some(old) = old
            && comparable(&to_raw_value(old)?)?.has(&comparable(&text)?)
        {
            return Ok(());
        }
        self.write_now(object, text, pending, store).await
    }

    /// Writes the status, instead of one that is pending.
    async fn write_now<K>(
        &self,
        object: &K,
        status: Box<RawValue>,
        pending: Option<Pending>,
        store: &Store<K>,
    ) -> Result<()>
    where
        K: Object + HasStatus<Status: Serialize>,
    {
        store.set_overlay(object, None);
        if let Some(Pending { turn, .. }) = pending {
            drop(turn.lock().await); // else the earlier one might arrive later
        }
        self.send_status(object, status, store).await
    }

    /// As [`Applier::write_status`], but a change that `is_significant(written, new)` denies is written
    /// within 10 s, together with those that follow until then. Nothing is lost: reconcilers see the
    /// new status at once, and it is written even if the object is not reconciled again. What is as
    /// before by then, but for transition times, is not written.
    ///
    /// Use it where a status counts what changes in bursts, such as pods. The first status of an
    /// object is always significant.
    ///
    /// # Errors
    /// As [`Applier::write_status`]; what fails later is logged and tried again.
    pub async fn debounce_status<K>(
        &self,
        object: &K,
        status: K::Status,
        store: &Store<K>,
        is_significant: impl FnOnce(&K::Status, &K::Status) -> bool,
    ) -> Result<()>
    where
        K: Object + HasStatus<Status: Clone + PartialEq + Serialize + Send + Sync + 'static>,
    {
        let Some(old) = object.status() else {
            return self.write_status(object, status, store).await;
        };
        if *old == status {
            return Ok(()); // written, or pending
        }
        let text = to_raw_value(&status)?;
        let desired = comparable(&text)?;
        if comparable(&to_raw_value(old)?)?.has(&desired) {
            return Ok(());
        }
        let written = self.written_status(object);
        let written = written.as_deref().and_then(Option::as_ref);
        if let Some(written) = written
            && comparable(&to_raw_value(written)?)?.has_but_for_times(&desired)
        {
            // What began is over before it was written.
            self.forget_pending(object);
            show(object, Some(written.clone()), store);
            store.set_overlay(object, None);
            return Ok(());
        }
        if is_significant(written.unwrap_or(old), &status) {
            let pending = self.forget_pending(object);
            return self.write_now(object, text, pending, store).await;
        }
        self.write_later(object, status, store);
        Ok(())
    }

    fn write_later<K>(&self, object: &K, status: K::Status, store: &Store<K>)
    where
        K: Object + HasStatus<Status: Clone + PartialEq + Serialize + Send + Sync + 'static>,
    {
        show(object, Some(status), store);
        let uid = object.uid().unwrap_or_default();
        match self.pending().entry(uid.clone()) {
            Entry::Occupied(mut pending) => pending.get_mut().revision += 1,
            Entry::Vacant(pending) => {
                let written = Arc::new(object.status().cloned());
                pending.insert(Pending {
                    written,
                    revision: 0,
                    turn: Arc::default(),
                });
                let (namespace, name) = (object.namespace(), object.name_any());
                let (applier, store) = (self.clone(), store.clone());
                self.inner.tasks.spawn(async move {
                    let find = || {
                        let object = store.get(namespace.as_deref(), &name)?;
                        (object.uid().as_ref() == Some(&uid)).then_some(object)
                    };
                    applier.write_pending(&uid, find, &store).await;
                });
            }
        }
    }

    /// Writes what is pending at the end of the window, or when the process is asked to stop. `find`
    /// returns the object as the store shows it.
    async fn write_pending<K>(&self, uid: &str, find: impl Fn() -> Option<Arc<K>>, store: &Store<K>)
    where
        K: Object + HasStatus<Status: Clone + PartialEq + Serialize + Send + Sync + 'static>,
    {
        loop {
            let stopping = tokio::select! {
                () = sleep(STATUS_BATCH_WINDOW) => false,
                () = self.inner.stop.cancelled() => true,
            };
            let _permit = self.inner.permits.acquire().await;
            let Some((revision, _turn)) = self.begin_pending::<K>(uid) else {
                return; // something significant was written meanwhile
            };
            let Some(object) = find() else {
                self.pending().remove(uid);
                return; // it was deleted
            };
            let Some(status) = object.status() else {
                return;
            };
            let send = async {
                self.send_status(&*object, to_raw_value(status)?, store)
                    .await
            };
            // In a box, which a request takes only while it is under way: hundreds of these wait.
            match Box::pin(send).await {
                Err(error) if !stopping && !is_replaced(&error) => {
                    warn!(%error, "cannot write a status, trying again");
                }
                _ if stopping || self.revision(uid).is_none_or(|it| it == revision) => {
                    self.pending().remove(uid);
                    store.set_overlay(&*object, None);
                    return;
                }
                // It has changed meanwhile.
                written => {
                    let written = written.ok().map(|()| status.clone());
                    self.set_written::<K>(uid, written);
                }
            }
        }
    }

    async fn send_status<K>(
        &self,
        object: &K,
        status: Box<RawValue>,
        store: &Store<K>,
    ) -> Result<()>
    where
        K: Object + HasStatus<Status: Serialize>,
    {
        let (api_version, kind) = (K::api_version(store.dyntype()), K::kind(store.dyntype()));
        let patch = Patch::Apply(StatusOf {
            api_version: &api_version,
            kind: &kind,
            // The uid keeps the status from a new object of the same name.
            metadata: ObjectMeta {
                name: Some(object.name_any()),
                uid: object.uid(),
                ..ObjectMeta::default()
            },
            status: &status,
        });
        let (objects, params, name) = (self.api(object, store), self.params(), object.name_any());
        let request = Request::new(objects.resource_url());
        let request = request.patch_subresource("status", &name, &params, &patch);
        let own = self.controller.map(|controller| OwnWrite {
            controller,
            is_result: Box::new(is_status_of(object.meta().clone(), status)),
        });
        let written = store.write(self.answer(request), own).await;
        match written {
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()), // it was deleted
            written => Ok(written.map(drop)?),
        }
    }

    /// The status that the API server has, if the store shows a later one.
    fn written_status<K>(&self, object: &K) -> Option<Arc<Option<K::Status>>>
    where
        K: Object + HasStatus<Status: Send + Sync + 'static>,
    {
        let pending = self.pending();
        let pending = pending.get(&object.uid()?)?;
        Arc::clone(&pending.written).downcast().ok()
    }

    /// What is pending is about to be written, unless there is nothing, or another task does it. Returns its
    /// revision, and what later writes wait for.
    fn begin_pending<K>(&self, uid: &str) -> Option<(u64, OwnedMutexGuard<()>)>
    where
        K: HasStatus<Status: Send + Sync + 'static>,
    {
        let mut pending = self.pending();
        let pending = pending.get_mut(uid)?;
        let turn = Arc::clone(&pending.turn).try_lock_owned().ok()?;
        pending.written = Arc::new(None::<K::Status>);
        Some((pending.revision, turn))
    }

    fn set_written<K>(&self, uid: &str, status: Option<K::Status>)
    where
        K: HasStatus<Status: Send + Sync + 'static>,
    {
        if let Some(pending) = self.pending().get_mut(uid) {
            pending.written = Arc::new(status);
        }
    }

    fn revision(&self, uid: &str) -> Option<u64> {
        self.pending().get(uid).map(|pending| pending.revision)
    }

    fn forget_pending(&self, object: &impl ResourceExt) -> Option<Pending> {
        self.pending().remove(&object.uid()?)
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<String, Pending>> {
        let pending = &self.inner.pending;
        pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object of which nothing is applied but the status.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusOf<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: ObjectMeta,
    status: &'a RawValue,
}

/// Makes the store show the object with this status until it is written.
fn show<K>(object: &K, status: Option<K::Status>, store: &Store<K>)
where
    K: Object + HasStatus<Status: Clone + Send + Sync + 'static>,
{
    let uid = object.uid();
    let overlay: Overlay<K> = Arc::new(move |object| {
        if object.meta().uid == uid {
            object.status_mut().clone_from(&status);
        }
    });
    store.set_overlay(object, Some(overlay));
}

fn comparable(status: &RawValue) -> Result<Comparable<'_>> {
    Comparable::parse(status.get())
}

/// Whether another object has the name now: the uid does not match.
fn is_replaced(error: &Error) -> bool {
    matches!(error, Error::Kube(kube::Error::Api(answer)) if matches!(answer.code, 409 | 422))
}

/// Whether an object is that of `before` with this status.
fn is_status_of<K>(before: ObjectMeta, status: Box<RawValue>) -> impl Fn(&K) -> bool
where
    K: Object + HasStatus<Status: Serialize>,
{
    let has_status = move |found: &K::Status| {
        let found = to_raw_value(found)?;
        let is_same = found.get() == status.get();
        Ok::<_, Error>(is_same || comparable(&found)?.has(&comparable(&status)?))
    };
    move |object| {
        let found = || has_status(object.status()?).ok();
        is_same(&before, object.meta()) && found() == Some(true)
    }
}

/// Whether the status is all that may differ: the generation stands for the spec. Kinds without one may
/// have changed.
fn is_same(before: &ObjectMeta, after: &ObjectMeta) -> bool {
    before.uid == after.uid
        && before.generation.is_some()
        && before.generation == after.generation
        && before.deletion_timestamp == after.deletion_timestamp
        && before.labels == after.labels
        && before.annotations == after.annotations
        && before.finalizers == after.finalizers
        && before.owner_references == after.owner_references
}

#[cfg(test)]
mod tests;
