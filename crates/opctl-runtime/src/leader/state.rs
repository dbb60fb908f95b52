//! Whether this process may reconcile and write.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

/// Whether this process may reconcile. Clones are the same state.
#[derive(Clone)]
pub(crate) struct LeaderState(Arc<watch::Sender<Role>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Standby,
    Leader {
        until: Instant,
    },
    /// Leader election is off.
    Alone,
}

impl LeaderState {
    pub fn without_election() -> Self {
        Self(Arc::new(watch::Sender::new(Role::Alone)))
    }

    /// From now on this process leads, until then at most.
    pub fn hold(&self, until: Instant) {
        self.0.send_replace(Role::Leader { until });
    }

    pub fn give_up(&self) {
        self.0.send_replace(Role::Standby);
    }

    /// Whether this process leads now.
    pub fn is_held(&self) -> bool {
        match *self.0.borrow() {
            Role::Standby => false,
            Role::Leader { until } => Instant::now() < until,
            Role::Alone => true,
        }
    }

    /// Waits until this process leads.
    pub async fn acquired(&self) {
        let mut role = self.0.subscribe();
        // The sender is in `self`, so that it cannot be gone.
        let _ = role.wait_for(|role| *role != Role::Standby).await;
    }
}

impl Default for LeaderState {
    /// That of a standby.
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Role::Standby)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn leadership_ends_by_itself() {
        let state = LeaderState::default();
        assert!(!state.is_held());
        state.hold(Instant::now() + Duration::from_secs(10));
        state.acquired().await;
        assert!(state.is_held());
        state.hold(Instant::now());
        assert!(!state.is_held());
    }
}
