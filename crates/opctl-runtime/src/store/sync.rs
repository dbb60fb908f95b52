//! Whether a store holds a complete list of its objects.

use std::fmt::Display;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch::Sender;

/// The watches of a store that have yet to bring their first complete list. Clones are of the same
/// store.
#[derive(Debug, Clone, Default)]
pub(crate) struct SyncState(Sender<Vec<Pending>>);

#[derive(Debug)]
struct Pending {
    /// The name of the watch.
    name: String,
    /// Why its last attempt failed, if it did.
    error: Option<String>,
}

impl SyncState {
    /// From now on the store also waits for the watch of that name.
    pub fn add(&self, name: String, gauge: Gauge) -> FirstList {
        gauge.set(0);
        let error = None;
        self.0.send_modify(|pending| {
            pending.push(Pending {
                name: name.clone(),
                error,
            })
        });
        let state = self.0.clone();
        FirstList { state, name, gauge }
    }

    /// Waits until every watch has brought a complete list.
    pub async fn synced(&self) {
        let mut pending = self.0.subscribe();
        // The sender is in `self`, so that it cannot be gone.
        let _ = pending.wait_for(Vec::is_empty).await;
    }

    /// What is missing, with the reasons.
    pub fn pending(&self) -> Vec<String> {
        let pending = self.0.borrow();
        let lines = pending.iter().map(|Pending { name, error }| match error {
            None => format!("{name} has no complete list yet"),
            Some(error) => format!("{name} has no complete list yet: {error}"),
        });
        lines.collect()
    }
}

/// What one watch reports until its first list is complete. Nothing waits for a watch that has ended.
pub(crate) struct FirstList {
    state: Sender<Vec<Pending>>,
    name: String,
    /// Becomes 1 with the list.
    gauge: Gauge,
}

impl FirstList {
    pub fn complete(&self) {
        self.gauge.set(1);
        self.state.send_if_modified(|pending| {
            let before = pending.len();
            pending.retain(|watch| watch.name != self.name);
            pending.len() < before
        });
    }

    pub fn is_complete(&self) -> bool {
        let pending = self.state.borrow();
        pending.iter().all(|watch| watch.name != self.name)
    }

    pub fn failed(&self, error: &impl Display) {
        self.state.send_if_modified(|pending| {
            let watch = pending.iter_mut().find(|watch| watch.name == self.name);
            if let Some(watch) = watch {
                watch.error = Some(error.to_string());
            }
            false // nobody waits for that
        });
    }
}

impl Drop for FirstList {
    fn drop(&mut self) {
        self.complete();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_store_is_synced_once_all_its_watches_have_a_list() {
        let state = SyncState::default();
        assert!(state.pending().is_empty(), "nothing watches");
        let gauge = Gauge::default();
        let left = state.add("left".to_owned(), gauge.clone());
        let right = state.add("right".to_owned(), Gauge::default());
        left.complete();
        right.failed(&"forbidden");
        assert_eq!(gauge.get(), 1);
        assert!(left.is_complete() && !right.is_complete());
        assert_eq!(
            state.pending(),
            ["right has no complete list yet: forbidden"]
        );
        assert!(state.synced().now_or_never().is_none());
        right.complete();
        assert!(state.synced().now_or_never().is_some() && state.pending().is_empty());
        right.failed(&"a later failure changes nothing");
        assert!(state.pending().is_empty());
        drop(state.add("ended".to_owned(), Gauge::default()));
        assert!(state.pending().is_empty());
    }
}
