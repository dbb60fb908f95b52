//! Writes status: at once, or gathered where the caller says that a change can wait.

use std::any::Any;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{ObjectMeta, Patch};
use kube::core::object::HasStatus;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::warn;

use super::Applier;
use crate::error::{Error, Result};
use crate::object::Object;
use crate::store::{OwnWrite, Store};

/// How long a change of a status may wait that is not significant. Counts and names change with every
/// pod that comes up: they are written together.
const STATUS_BATCH_WINDOW: Duration = Duration::from_secs(10);

/// A status that is not written yet, and which one of those that were to be.
pub(super) struct Pending {
    status: Arc<dyn Any + Send + Sync>,
    revision: u64,
}

impl Applier {
    /// Makes the object have `status`. Sends nothing where it has it already.
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
        let is_pending = self.forget_pending(object);
        if object.status() == Some(&status) && !is_pending {
            return Ok(());
        }
        store.set_overlay(object, None);
        self.send_status(object, &status, store).await
    }

    /// As [`Applier::write_status`], but a change that `is_significant(old, new)` denies is written
    /// within 10 s, together with those that follow until then. Nothing is lost: reconcilers see the
    /// new status at once, and it is written even if the object is not reconciled again.
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
        match object.status() {
            // Written, or to be written by the task of before.
            Some(old) if *old == status => Ok(()),
            Some(old) if !is_significant(old, &status) => {
                self.write_later(object, status, store);
                Ok(())
            }
            _ => self.write_status(object, status, store).await,
        }
    }

    fn write_later<K>(&self, object: &K, status: K::Status, store: &Store<K>)
    where
        K: Object + HasStatus<Status: Clone + PartialEq + Serialize + Send + Sync + 'static>,
    {
        let overlay = status.clone();
        let uid = object.uid();
        store.set_overlay(
            object,
            Some(Arc::new(move |object: &mut K| {
                if object.meta().uid == uid {
                    *object.status_mut() = Some(overlay.clone());
                }
            })),
        );
        let uid = object.uid().unwrap_or_default();
        let mut pending = self.pending();
        let waiting = pending.get(&uid).map(|pending| pending.revision);
        let revision = waiting.map_or(0, |revision| revision + 1);
        let status = Arc::new(status);
        pending.insert(uid, Pending { status, revision });
        if waiting.is_none() {
            let (applier, object, store) = (self.clone(), object.clone(), store.clone());
            let work = async move { applier.write_pending(object, store).await };
            self.inner.tasks.spawn(work);
        }
    }

    /// Writes what is pending at the end of the window, or when the process is asked to stop.
    async fn write_pending<K>(self, object: K, store: Store<K>)
    where
        K: Object + HasStatus<Status: PartialEq + Serialize + Send + Sync + 'static>,
    {
        loop {
            let stopping = tokio::select! {
                () = sleep(STATUS_BATCH_WINDOW) => false,
                () = self.inner.stop.cancelled() => true,
            };
            let Some((status, revision)) = self.find_pending::<K>(&object) else {
                return; // something significant was written meanwhile
            };
            match self.send_status(&object, &status, &store).await {
                Err(error) if !stopping && !is_replaced(&error) => {
                    warn!(%error, "cannot write a status, trying again");
                }
                _ if stopping
                    || self
                        .find_pending::<K>(&object)
                        .is_none_or(|it| it.1 == revision) =>
                {
                    self.forget_pending(&object);
                    store.set_overlay(&object, None);
                    return;
                }
                _ => {} // it has changed meanwhile
            }
        }
    }

    async fn send_status<K>(&self, object: &K, status: &K::Status, store: &Store<K>) -> Result<()>
    where
        K: Object + HasStatus<Status: PartialEq + Serialize>,
    {
        let (api_version, kind) = (K::api_version(store.dyntype()), K::kind(store.dyntype()));
        let status = serde_json::to_value(status)?;
        let patch = Patch::Apply(json!({
            "apiVersion": api_version,
            "kind": kind,
            // The uid keeps the status from a new object of the same name.
            "metadata": { "name": object.name_any(), "uid": object.uid() },
            "status": status,
        }));
        let (objects, params, name) = (self.api(object, store), self.params(), object.name_any());
        let request = objects.patch_status(&name, &params, &patch);
        let own = self.controller.map(|controller| OwnWrite {
            controller,
            is_result: Box::new(is_status_of(object.meta().clone(), status)),
        });
        let written = store.write(request, own).await;
        match written {
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()), // it was deleted
            written => Ok(written.map(drop)?),
        }
    }

    fn find_pending<K>(&self, object: &K) -> Option<(Arc<K::Status>, u64)>
    where
        K: Object + HasStatus<Status: Send + Sync + 'static>,
    {
        let pending = self.pending();
        let pending = pending.get(&object.uid()?)?;
        let status = Arc::clone(&pending.status).downcast().ok()?;
        Some((status, pending.revision))
    }

    /// Whether there was a pending status.
    fn forget_pending(&self, object: &impl ResourceExt) -> bool {
        let uid = object.uid();
        uid.is_some_and(|uid| self.pending().remove(&uid).is_some())
    }

    fn pending(&self) -> MutexGuard<'_, std::collections::HashMap<String, Pending>> {
        let pending = &self.inner.pending;
        pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether another object has the name now: the uid does not match.
fn is_replaced(error: &Error) -> bool {
    matches!(error, Error::Kube(kube::Error::Api(answer)) if matches!(answer.code, 409 | 422))
}

/// Whether an object is that of `before` with this status.
fn is_status_of<K>(before: ObjectMeta, status: Value) -> impl Fn(&K) -> bool
where
    K: Object + HasStatus<Status: Serialize>,
{
    move |object| {
        is_same(&before, object.meta())
            && object
                .status()
                .and_then(|status| serde_json::to_value(status).ok())
                .is_some_and(|found| found == status)
    }
}

/// Whether the status is all that may differ: the generation stands for the spec.
fn is_same(before: &ObjectMeta, after: &ObjectMeta) -> bool {
    before.uid == after.uid
        && before.generation == after.generation
        && before.deletion_timestamp == after.deletion_timestamp
        && before.labels == after.labels
        && before.annotations == after.annotations
        && before.finalizers == after.finalizers
        && before.owner_references == after.owner_references
}
