//! Writes a status whose conditions are those of a [`Health`](crate::conditions::Health).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::object::HasStatus;
use kube::runtime::events::EventType;
use serde::Serialize;

use crate::applier::Applier;
use crate::conditions::{became_true, is_significant};
use crate::error::Result;
use crate::fields::Fields;
use crate::object::Object;
use crate::store::Store;

/// Writes the status of an object, and publishes a warning when its condition Degraded becomes true.
/// Pods come up in bursts: other counts, other lists, such as addresses, and conditions that are not
/// [significant](is_significant) are gathered, as [`Applier::debounce_status`] does it. Everything else
/// is written at once.
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
    let is_urgent = |old: &K::Status, new: &K::Status| {
        is_significant(conditions(old), conditions(new)) || !differs_in_counts_at_most(old, new)
    };
    applier
        .debounce_status(object, status, store, is_urgent)
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

/// Whether the fields of two statuses that are neither numbers nor lists are equal.
fn differs_in_counts_at_most(old: &impl Serialize, new: &impl Serialize) -> bool {
    let (Ok(old), Ok(new)) = (serde_json::to_string(old), serde_json::to_string(new)) else {
        return false;
    };
    let (Ok(old), Ok(new)) = (Fields::parse(&old), Fields::parse(&new)) else {
        return false;
    };
    old.without_counts_and_lists() == new.without_counts_and_lists()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_and_lists_can_wait_and_what_runs_cannot() {
        let status = json!({ "version": "17.6", "readyReplicas": 1, "addresses": ["a"] });
        let counted = json!({ "version": "17.6", "readyReplicas": 2, "addresses": ["a", "b"] });
        let updated = json!({ "version": "17.7", "readyReplicas": 1, "addresses": ["a"] });
        assert!(differs_in_counts_at_most(&status, &counted));
        assert!(!differs_in_counts_at_most(&status, &updated));
    }
}
