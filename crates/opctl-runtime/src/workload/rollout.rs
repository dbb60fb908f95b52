//! The rollout of a Deployment, as the conditions of its owner report it.

use std::fmt::Display;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::conditions::{ConditionUpdate, find, is_true};

/// How far the pods of a Deployment are.
///
/// # Example
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use opctl_runtime::Error;
/// use opctl_runtime::conditions::{is_true, set_conditions};
/// use opctl_runtime::workload::Rollout;
///
/// let rollout = Rollout::of(Some(&Deployment::default()), 3);
/// let conditions = set_conditions(&[], Some(1), &rollout.conditions(None::<&Error>));
/// assert!(is_true(&conditions, "Progressing") && !is_true(&conditions, "Available"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rollout {
    /// The desired number of pods is ready.
    pub available: bool,
    /// Every pod is up to date, and there are no others.
    pub complete: bool,
    /// The Deployment has waited for longer than its `progressDeadlineSeconds`.
    pub stuck: bool,
}

impl Rollout {
    /// The rollout of a Deployment with so many desired replicas.
    pub fn of(deployment: Option<&Deployment>, replicas: i32) -> Self {
        let observed = deployment
            .and_then(|deployment| deployment.status.clone())
            .unwrap_or_default();
        let generation = deployment.and_then(|deployment| deployment.metadata.generation);
        let is_desired = |count: Option<i32>| count.unwrap_or_default() == replicas;

        let available =
            deployment.is_some() && observed.available_replicas.unwrap_or_default() >= replicas;
        let complete = observed.observed_generation >= generation
            && is_desired(observed.updated_replicas)
            && is_desired(observed.replicas)
            && available;
        let stuck = observed
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.reason.as_deref() == Some("ProgressDeadlineExceeded"));
        Self {
            available,
            complete,
            stuck,
        }
    }

    /// The conditions Available, Progressing and Degraded; `error` is that of the last reconcile.
    pub fn conditions(self, error: Option<&impl Display>) -> Vec<ConditionUpdate> {
        let stuck = self.stuck && !self.complete;
        let available = if self.available {
            ("PodsReady", "the desired number of pods is ready")
        } else {
            ("PodsNotReady", "fewer pods than desired are ready")
        };
        let progressing = if self.complete {
            ("Complete", "every pod is up to date")
        } else if stuck {
            ("Stuck", "the pods do not become ready")
        } else {
            ("RollingOut", "pods are being replaced")
        };
        let degraded = match error {
            Some(error) => {
                ConditionUpdate::new("Degraded", true, "ReconcileFailed", error.to_string())
            }
            None if stuck => {
                ConditionUpdate::new("Degraded", true, "Stuck", "the pods do not become ready")
            }
            None => ConditionUpdate::new("Degraded", false, "AsExpected", "nothing is wrong"),
        };
        let is_progressing = !self.complete && !stuck;
        vec![
            ConditionUpdate::new("Available", self.available, available.0, available.1),
            ConditionUpdate::new("Progressing", is_progressing, progressing.0, progressing.1),
            degraded,
        ]
    }
}

/// Whether the change of these conditions must be seen at once: for
/// [`Applier::debounce_status`](crate::Applier::debounce_status). That something starts to progress
/// can wait, since it is over before anybody looks after a repair. Its end cannot, nor what degrades,
/// nor the first conditions of a generation.
pub fn is_significant(old: &[Condition], new: &[Condition]) -> bool {
    let starts_to_progress = |condition: &Condition| {
        let is_same_generation =
            |before: &Condition| before.observed_generation == condition.observed_generation;
        condition.type_ == "Progressing"
            && condition.status == "True"
            && find(old, "Progressing").is_some_and(is_same_generation)
    };
    let mut changed = new.iter().filter(|condition| !old.contains(condition));
    is_true(new, "Degraded")
        || old.len() != new.len()
        || changed.any(|condition| !starts_to_progress(condition))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus};

    use super::*;
    use crate::conditions::{ConditionStatus, set_conditions};

    /// A Deployment with three pods, of which so many are up to date and ready.
    fn observed(updated: i32, ready: i32) -> Deployment {
        Deployment {
            status: Some(DeploymentStatus {
                replicas: Some(3),
                updated_replicas: Some(updated),
                ready_replicas: Some(ready),
                available_replicas: Some(ready),
                ..DeploymentStatus::default()
            }),
            ..Deployment::default()
        }
    }

    /// Available, Progressing and Degraded, with three desired pods.
    fn statuses(deployment: Option<&Deployment>, error: Option<&str>) -> Vec<bool> {
        let conditions = Rollout::of(deployment, 3).conditions(error.as_ref());
        let statuses = conditions.iter();
        statuses
            .map(|condition| condition.status == ConditionStatus::True)
            .collect()
    }

    #[test]
    fn the_conditions_follow_the_pods() {
        assert_eq!(statuses(None, None), [false, true, false]);
        for (updated, ready, expected) in [
            (3, 2, [false, true, false]),
            (1, 3, [true, true, false]),
            (3, 3, [true, false, false]),
        ] {
            let deployment = observed(updated, ready);
            assert_eq!(statuses(Some(&deployment), None), expected);
        }
    }

    #[test]
    fn a_change_that_the_deployment_has_not_seen_is_not_complete() {
        let mut deployment = observed(3, 3);
        deployment.metadata.generation = Some(2);
        assert_eq!(statuses(Some(&deployment), None), [true, true, false]);
    }

    #[test]
    fn a_stuck_rollout_and_an_error_degrade() {
        let mut stuck = observed(1, 1);
        stuck.status.as_mut().unwrap().conditions = Some(vec![DeploymentCondition {
            reason: Some("ProgressDeadlineExceeded".to_owned()),
            ..DeploymentCondition::default()
        }]);
        assert_eq!(statuses(Some(&stuck), None), [false, false, true]);
        assert_eq!(
            statuses(Some(&observed(3, 3)), Some("refused")),
            [true, false, true]
        );
    }

    fn conditions(generation: i64, available: bool, progressing: bool) -> Vec<Condition> {
        let updates = [("Available", available), ("Progressing", progressing)]
            .map(|(type_, status)| ConditionUpdate::new(type_, status, "Because", ""));
        let mut conditions = set_conditions(&[], Some(generation), &updates);
        for condition in &mut conditions {
            condition.last_transition_time.0 = Default::default();
        }
        conditions
    }

    #[test]
    fn the_start_of_progress_can_wait_and_its_end_cannot() {
        let settled = conditions(1, true, false);
        let progressing = conditions(1, true, true);
        assert!(!is_significant(&settled, &settled));
        assert!(!is_significant(&settled, &progressing));
        assert!(is_significant(&progressing, &settled));
    }

    #[test]
    fn another_generation_and_another_condition_are_significant() {
        let settled = conditions(1, true, false);
        for news in [conditions(2, true, true), conditions(1, false, true)] {
            assert!(is_significant(&settled, &news));
        }
        assert!(is_significant(&[], &settled));
    }
}
