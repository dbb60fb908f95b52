//! Whether a store holds a complete list of its objects.

use std::fmt::Display;
use std::mem;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch::Sender;

/// The watches of a store, and whether they have brought complete lists. Clones are of the same store.
#[derive(Debug, Clone, Default)]
pub(crate) struct SyncState(Sender<Vec<Watch>>);

#[derive(Debug)]
struct Watch {
    name: String,
    /// Whether it has brought its first complete list.
    is_complete: bool,
    /// Why its last attempt failed, if it did.
    error: Option<String>,
}

impl SyncState {
    /// From now on the store also waits for the watch of that name.
    pub fn add(&self, name: String, gauge: Gauge) -> FirstList {
        gauge.set(0);
        self.0.send_modify(|watches| {
            watches.push(Watch {
                name: name.clone(),
                is_complete: false,
                error: None,
            })
        });
        let state = self.0.clone();
        FirstList { state, name, gauge }
    }

    /// Waits until every watch has brought a complete list.
    pub async fn synced(&self) {
        let mut watches = self.0.subscribe();
        let are_complete = |watches: &Vec<Watch>| watches.iter().all(|watch| watch.is_complete);
        // The sender is in `self`, so that it cannot be gone.
        let _ = watches.wait_for(are_complete).await;
    }

    /// Waits for another list of every watch.
    pub fn begin_again(&self) {
        self.0.send_modify(|watches| {
            for watch in watches {
                watch.is_complete = false;
                watch.error = None;
            }
        });
    }

    /// What is missing, with the reasons.
    pub fn pending(&self) -> Vec<String> {
        let watches = self.0.borrow();
        let pending = watches.iter().filter(|watch| !watch.is_complete);
        let lines = pending.map(|Watch { name, error, .. }| match error {
            None => format!("{name} has no complete list yet"),
            Some(error) => format!("{name} has no complete list yet: {error}"),
        });
        lines.collect()
    }
}

/// What one watch reports until its first list is complete. Nothing waits for a watch that has ended.
pub(crate) struct FirstList {
    state: Sender<Vec<Watch>>,
    name: String,
    /// Becomes 1 with the list.
    gauge: Gauge,
}

impl FirstList {
    pub fn complete(&self) {
        self.gauge.set(1);
        self.state.send_if_modified(|watches| {
            let watch = self.find(watches);
            watch.is_some_and(|watch| !mem::replace(&mut watch.is_complete, true))
        });
    }

    pub fn is_complete(&self) -> bool {
        let watches = self.state.borrow();
        let mut watches = watches.iter();
        watches.all(|watch| watch.is_complete || watch.name != self.name)
    }

    pub fn failed(&self, error: &impl Display) {
        self.state.send_if_modified(|watches| {
            if let Some(watch) = self.find(watches) {
                watch.error = Some(error.to_string());
            }
            false // nobody waits for that
        });
    }

    fn find<'a>(&self, watches: &'a mut [Watch]) -> Option<&'a mut Watch> {
        watches.iter_mut().find(|watch| watch.name == self.name)
    }
}

impl Drop for FirstList {
    fn drop(&mut self) {
        self.gauge.set(1);
        self.state
            .send_modify(|watches| watches.retain(|watch| watch.name != self.name));
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
        state.begin_again();
        assert!(state.pending().len() == 2 && !left.is_complete());
        let has_error = |line: &String| !line.ends_with("no complete list yet");
        assert!(!state.pending().iter().any(has_error), "it was of before");
        left.complete();
        drop(right);
        assert!(state.synced().now_or_never().is_some());
        drop(state.add("ended".to_owned(), Gauge::default()));
        assert!(state.pending().is_empty());
    }
}
