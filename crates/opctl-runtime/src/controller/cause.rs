//! Why an object is reconciled, for the log: a set, since the changes of a burst are one reconcile.

use std::sync::{Mutex, PoisonError};

/// A set of causes. It has the size of a number, since many objects wait at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Causes(u32);

impl Causes {
    /// The controller has started.
    pub const START: Self = Self(1);
    /// The period of a resync is over.
    pub const RESYNC: Self = Self(1 << 1);
    /// A source of the controller's own, such as an external system.
    pub const SOURCE: Self = Self(1 << 2);

    /// Whether nothing is known to have changed.
    pub fn is_backlog(self) -> bool {
        self.0 & !(Self::START.0 | Self::RESYNC.0) == 0
    }

    pub fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The names of the causes of one controller.
pub(super) struct CauseNames(Mutex<Vec<String>>);

impl Default for CauseNames {
    fn default() -> Self {
        let known = ["start", "resync", "source"].map(str::to_owned);
        Self(Mutex::new(known.into()))
    }
}

impl CauseNames {
    /// A change of an object of this kind. Kinds beyond the 29th share a cause.
    pub fn of_kind(&self, kind: &str) -> Causes {
        const LAST: usize = u32::BITS as usize - 1;
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = names.iter().position(|name| name == kind);
        let index = known.unwrap_or_else(|| {
            if names.len() == LAST {
                names.push("others".to_owned());
            } else if names.len() < LAST {
                names.push(kind.to_owned());
            }
            names.len() - 1
        });
        Causes(1 << index)
    }

    /// The names of these, such as `Deployment, Pod`. What comes without one, comes after a delay: the
    /// reconciler has asked for it, or has failed.
    pub fn describe(&self, causes: Option<Causes>) -> String {
        let Some(Causes(causes)) = causes else {
            return "delay".to_owned();
        };
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let names = names.iter().enumerate();
        let names: Vec<_> = names
            .filter(|(index, _)| causes & (1 << index) != 0)
            .map(|(_, name)| name.as_str())
            .collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_a_set() {
        let names = CauseNames::default();
        let mut causes = names.of_kind("Pod");
        causes.insert(names.of_kind("Deployment"));
        causes.insert(names.of_kind("Pod"));
        assert_eq!(names.describe(Some(causes)), "Pod, Deployment");
        causes.insert(Causes::START);
        assert_eq!(names.describe(Some(causes)), "start, Pod, Deployment");
        assert_eq!(names.describe(None), "delay");
    }

    #[test]
    fn there_may_be_more_kinds_than_causes() {
        let names = CauseNames::default();
        for kind in 0..100 {
            names.of_kind(&kind.to_string());
        }
        assert_eq!(names.describe(Some(names.of_kind("0"))), "0");
        assert_eq!(names.describe(Some(names.of_kind("99"))), "others");
    }
}
