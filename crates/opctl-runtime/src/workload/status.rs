//! Writes a status whose conditions are those of a [`Health`](crate::conditions::Health).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::object::HasStatus;
use kube::runtime::events::EventType;
use serde::Serialize;

use crate::applier::Applier;
use crate::conditions::{became_true, is_significant};
use crate::error::Result;
use crate::object::Object;
use crate::store::Store;

/// Writes the status of an object, and publishes a warning when its condition Degraded becomes true.
/// Pods come up in bursts: changes that are not [significant](is_significant) are gathered, as
/// [`Applier::debounce_status`] does it.
///
/// # Errors
/// The API server refuses the status.
pub async fn write_status<K>(
    applier: &Applier,
    object: &K,
    status: K::Status,
    store: &Store<K>,
    conditions: impl Fn(&K::Status) -> &[Condition],
) -> Result<()>
where
    K: Object<DynamicType = ()>
        + HasStatus<Status: Clone + PartialEq + Serialize + Send + Sync + 'static>,
{
    let previous = object.status().map_or(&[][..], &conditions);
    let degraded = became_true(previous, conditions(&status), "Degraded").cloned();
    let is_significant =
        |old: &K::Status, new: &K::Status| is_significant(conditions(old), conditions(new));
    applier
        .debounce_status(object, status, store, is_significant)
        .await?;
    if let Some(degraded) = degraded {
        let (reason, note) = (&degraded.reason, &degraded.message);
        let events = applier.events();
        events
            .publish(object, EventType::Warning, reason, note)
            .await;
    }
    Ok(())
}
