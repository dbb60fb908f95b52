//! What the applier remembers of children that do not stay as desired.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::token_bucket::{Bucket, Limit};

/// How often a child is repaired that somebody changes again and again.
const REPAIRS: Limit = Limit {
    burst: 10.0,
    interval: Duration::from_secs(60),
};

/// How long a child is remembered that has caused no write.
const MEMORY: Duration = Duration::from_secs(3600);

/// By the uid. There are none of children that are as desired, which are most.
#[derive(Default)]
pub(super) struct Children(HashMap<String, Child>);

struct Child {
    /// How it differed after the last write, as a hash: applying once more changes nothing.
    accepted: Option<u64>,
    repairs: Bucket,
}

/// What to do about a child that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Apply the desired state.
    Repair,
    /// Leave it: the API server does not make it any more equal.
    Accept,
    /// Leave it for now: somebody else changes it as often as it is repaired.
    Contested,
}

impl Children {
    /// What to do about a child whose specification has been applied, and which differs. It counts as a repair.
    pub fn judge(&mut self, uid: &str, difference: u64, now: Instant) -> Verdict {
        let child = self.entry(uid, now);
        if child.accepted == Some(difference) {
            return Verdict::Accept;
        }
        if child.repairs.take(&REPAIRS, now) {
            Verdict::Repair
        } else {
            Verdict::Contested
        }
    }

    /// Remembers how the child differs from the desired state, if it does, right after a write. Returns
    /// whether that is new.
    pub fn accept(&mut self, uid: &str, difference: Option<u64>, now: Instant) -> bool {
        match difference {
            None => {
                if let Some(child) = self.0.get_mut(uid) {
                    child.accepted = None;
                }
                false
            }
            Some(_) => {
                let child = self.entry(uid, now);
                let is_new = child.accepted != difference;
                child.accepted = difference;
                is_new
            }
        }
    }

    fn entry(&mut self, uid: &str, now: Instant) -> &mut Child {
        if self.0.len() == self.0.capacity() {
            // Before the map grows.
            let is_recent =
                |child: &Child| now.saturating_duration_since(child.repairs.last()) < MEMORY;
            self.0.retain(|_, child| is_recent(child));
        }
        self.0.entry(uid.to_owned()).or_insert_with(|| Child {
            accepted: None,
            repairs: Bucket::full(&REPAIRS, now),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_repaired_in_bursts_and_then_once_a_minute() {
        let (mut children, now) = (Children::default(), Instant::now());
        for difference in 0..REPAIRS.burst as u64 {
            assert_eq!(children.judge("a", difference, now), Verdict::Repair);
        }
        assert_eq!(children.judge("a", 0, now), Verdict::Contested);
        assert_eq!(children.judge("b", 0, now), Verdict::Repair);
        let later = now + REPAIRS.interval;
        assert_eq!(children.judge("a", 0, later), Verdict::Repair);
        assert_eq!(children.judge("a", 0, later), Verdict::Contested);
    }

    #[test]
    fn a_difference_that_stays_is_accepted() {
        let (mut children, now) = (Children::default(), Instant::now());
        assert!(children.accept("a", Some(1), now));
        assert!(!children.accept("a", Some(1), now), "it is reported once");
        assert_eq!(children.judge("a", 1, now), Verdict::Accept);
        assert_eq!(children.judge("a", 2, now), Verdict::Repair);
        assert!(!children.accept("a", None, now));
        assert_eq!(children.judge("a", 1, now), Verdict::Repair);
    }

    #[test]
    fn children_are_forgotten() {
        let (mut children, now) = (Children::default(), Instant::now());
        for uid in 0..1000 {
            children.accept(&uid.to_string(), Some(1), now + uid * MEMORY / 10);
        }
        assert!(children.0.len() < 100);
    }
}
