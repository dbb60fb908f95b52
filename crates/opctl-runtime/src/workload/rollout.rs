//! The rollout of a Deployment, as the conditions of its owner report it.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};

use super::PodState;
use crate::conditions::Health;

/// Whether the Deployment has pods that are not available. Why they are not is for them to tell.
pub fn has_unavailable_pods(deployment: &Deployment) -> bool {
    let status = deployment.status.as_ref();
    status.is_some_and(|status| {
        status.replicas.unwrap_or_default() > status.available_replicas.unwrap_or_default()
    })
}

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
/// let health = rollout.health().reconciled(None::<&Error>);
/// let conditions = set_conditions(&[], Some(1), &health.conditions());
/// assert!(is_true(&conditions, "Progressing") && !is_true(&conditions, "Available"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rollout {
    /// As many pods are available as the Deployment requires during a rollout: its own condition
    /// Available, which `spec.strategy` defines.
    pub available: bool,
    /// Every pod is up to date and available, and there are no others.
    pub complete: bool,
    /// The Deployment controller has seen the latest change of the Deployment.
    pub observed: bool,
    /// The Deployment has waited for longer than its `progressDeadlineSeconds`.
    pub stuck: bool,
    /// Why pods cannot be created or deleted, such as an exceeded quota: the message of the
    /// Deployment's condition ReplicaFailure.
    pub failure: Option<String>,
    /// Why a container of a pod cannot run: a reason and a message.
    pub container_failure: Option<(String, String)>,
    /// What goes on until it is complete.
    pub step: Step,
}

/// What a Deployment, or another workload, does until it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Its first pods are created.
    Creating,
    /// Its pods are replaced, since their specification has changed.
    Updating,
    /// It has more or fewer pods than desired.
    Scaling,
    /// It has all of its pods, but waits for them.
    Waiting,
}

impl Step {
    /// The reason and the message of the condition Progressing.
    pub fn progress(self) -> (&'static str, &'static str) {
        match self {
            Self::Creating => ("Creating", "the first pods are being created"),
            Self::Updating => ("Updating", "pods are being replaced"),
            Self::Scaling => ("Scaling", "pods are being created or deleted"),
            Self::Waiting => ("PodsNotReady", "pods are not ready"),
        }
    }
}

impl Rollout {
    /// The rollout of a Deployment with so many desired replicas.
    pub fn of(deployment: Option<&Deployment>, replicas: i32) -> Self {
        // A Deployment that is being deleted is as good as gone.
        let deployment = deployment.filter(|it| it.metadata.deletion_timestamp.is_none());
        let generation = deployment.and_then(|deployment| deployment.metadata.generation);
        let status = deployment
            .and_then(|deployment| deployment.status.clone())
            .unwrap_or_default();
        let has_only = |count: Option<i32>| count.unwrap_or_default() == replicas;
        // What the controller says of an earlier generation is not said of this one.
        let observed = status.observed_generation >= generation;
        let stuck = condition(&status, "Progressing")
            .filter(|it| it.reason.as_deref() == Some("ProgressDeadlineExceeded"));
        let failure =
            condition(&status, "ReplicaFailure").filter(|condition| condition.status == "True");
        let complete = has_only(status.replicas)
            && has_only(status.updated_replicas)
            && has_only(status.available_replicas);
        Self {
            available: condition(&status, "Available").is_some_and(|it| it.status == "True"),
            complete: deployment.is_some() && complete,
            observed,
            stuck: observed && stuck.is_some(),
            failure: failure
                .filter(|_| observed)
                .and_then(|failure| failure.message.clone()),
            container_failure: None,
            step: step(deployment, &status, replicas),
        }
    }

    /// The same with what its pods tell. A Deployment reports only after its progress deadline, of
    /// 10 minutes, that a container cannot run.
    #[must_use]
    pub fn with_pods(self, pods: &[Arc<PodState>]) -> Self {
        let failing = pods.iter().filter_map(|pod| pod.failure());
        Self {
            // Always the same one of many.
            container_failure: failing.min_by(|one, other| one.1.cmp(&other.1)),
            ..self
        }
    }

    /// What the owner's conditions say, unless its reconciler knows more.
    pub fn health(&self) -> Health {
        let health = if self.available {
            Health::new(true, "PodsAvailable", "enough pods are available")
        } else {
            Health::new(false, "PodsNotAvailable", "too few pods are available")
        };
        if self.complete && self.observed {
            return health;
        }
        if self.complete {
            return health.awaiting("the Deployment controller has yet to see a change");
        }
        let (reason, message) = self.step.progress();
        let health = health.progressing(reason, message);
        let replicas = self.failure.clone();
        let failure = replicas
            .map(|message| ("ReplicaFailure".to_owned(), message))
            .or_else(|| self.container_failure.clone());
        match (self.stuck, failure) {
            (false, None) => health,
            (false, Some((reason, message))) => health.failing(reason, message),
            (true, failure) => {
                let timeout = "the pods do not become ready in time".to_owned();
                let message = failure.map_or(timeout, |(_, message)| message);
                health.stalled("ProgressDeadlineExceeded", message)
            }
        }
    }
}

/// What a Deployment does that is not complete.
fn step(deployment: Option<&Deployment>, status: &DeploymentStatus, replicas: i32) -> Step {
    // The annotation counts the specifications of pods that a Deployment has had, and the reason stays once
    // all pods have the latest one.
    let annotations = deployment.and_then(|it| it.metadata.annotations.as_ref());
    let revision = annotations.and_then(|it| it.get("deployment.kubernetes.io/revision"));
    let progress = condition(status, "Progressing").and_then(|it| it.reason.as_deref());
    if progress == Some("NewReplicaSetAvailable") {
        if status.replicas.unwrap_or_default() == replicas {
            Step::Waiting
        } else {
            Step::Scaling
        }
    } else if revision.is_none_or(|revision| revision == "1") {
        Step::Creating
    } else {
        Step::Updating
    }
}

fn condition<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conditions::ConditionStatus;

    /// A Deployment with three pods, of which so many are up to date and available.
    fn observed(updated: i32, available: i32) -> Deployment {
        let is_available = if available >= 2 { "True" } else { "False" };
        let status = DeploymentStatus {
            replicas: Some(3),
            updated_replicas: Some(updated),
            available_replicas: Some(available),
            ..DeploymentStatus::default()
        };
        let deployment = Deployment {
            status: Some(status),
            ..Deployment::default()
        };
        with_condition(deployment, "Available", is_available, "")
    }

    fn with_condition(
        mut deployment: Deployment,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> Deployment {
        let condition = DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some("exceeded quota".to_owned()),
            ..DeploymentCondition::default()
        };
        let observed = deployment.status.as_mut().unwrap();
        observed.conditions.get_or_insert_default().push(condition);
        deployment
    }

    /// The conditions that are true, with three desired pods.
    fn holding(deployment: Option<&Deployment>) -> Vec<String> {
        let updates = Rollout::of(deployment, 3).health().conditions();
        let holding = updates
            .into_iter()
            .filter(|update| update.status == ConditionStatus::True);
        holding.map(|update| update.type_.into_owned()).collect()
    }

    #[test]
    fn the_conditions_follow_the_pods() {
        assert_eq!(holding(None), ["Reconciling", "Progressing"]);
        for (updated, available, expected) in [
            (3, 1, &["Reconciling", "Progressing"][..]),
            (3, 2, &["Reconciling", "Available", "Progressing"]),
            (1, 3, &["Reconciling", "Available", "Progressing"]),
            (3, 3, &["Ready", "Available"]),
        ] {
            assert_eq!(holding(Some(&observed(updated, available))), expected);
        }
    }

    #[test]
    fn pods_are_unavailable_while_there_are_more_of_them() {
        assert!(has_unavailable_pods(&observed(3, 2)));
        assert!(!has_unavailable_pods(&observed(2, 3)));
        assert!(!has_unavailable_pods(&Deployment::default()));
        let mut none = observed(3, 3);
        none.status.as_mut().unwrap().available_replicas = None; // as it tells 0
        assert!(has_unavailable_pods(&none));
    }

    #[test]
    fn a_change_that_the_deployment_has_not_seen_is_not_complete() {
        let mut deployment = observed(3, 3);
        deployment.metadata.generation = Some(2);
        let rollout = Rollout::of(Some(&deployment), 3);
        assert!(rollout.complete && !rollout.observed);
        let expected = ["Reconciling", "Available", "Progressing"];
        assert_eq!(holding(Some(&deployment)), expected);
    }

    #[test]
    fn a_deployment_that_is_being_deleted_does_not_count() {
        let mut deployment = observed(3, 3);
        deployment.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
            ));
        assert_eq!(holding(Some(&deployment)), holding(None));
    }

    #[test]
    fn created_replaced_and_scaled_pods_are_told_apart() {
        let step = |revision: &str, reason: &str, replicas: i32| {
            let mut deployment = with_condition(observed(1, 1), "Progressing", "True", reason);
            let revision = (
                "deployment.kubernetes.io/revision".to_owned(),
                revision.to_owned(),
            );
            deployment.metadata.annotations = Some([revision].into());
            Rollout::of(Some(&deployment), replicas).step
        };
        assert_eq!(Rollout::of(None, 3).step, Step::Creating);
        assert_eq!(Rollout::of(Some(&observed(1, 1)), 3).step, Step::Creating);
        assert_eq!(step("1", "ReplicaSetUpdated", 3), Step::Creating);
        assert_eq!(step("2", "ReplicaSetUpdated", 3), Step::Updating);
        assert_eq!(step("2", "NewReplicaSetAvailable", 5), Step::Scaling);
        assert_eq!(step("1", "NewReplicaSetAvailable", 3), Step::Waiting);
    }

    #[test]
    fn pods_that_cannot_be_created_degrade() {
        let deployment = with_condition(observed(1, 1), "ReplicaFailure", "True", "FailedCreate");
        let expected = ["Reconciling", "Progressing", "Degraded"];
        assert_eq!(holding(Some(&deployment)), expected);
        let degraded = Rollout::of(Some(&deployment), 3).health().conditions();
        assert_eq!(degraded[0].message, "exceeded quota");
    }

    #[test]
    fn a_rollout_beyond_its_deadline_is_stalled() {
        let reason = "ProgressDeadlineExceeded";
        let mut stuck = with_condition(observed(1, 1), "Progressing", "False", reason);
        assert_eq!(holding(Some(&stuck)), ["Stalled", "Degraded"]);
        // The change that may end it.
        stuck.metadata.generation = Some(2);
        assert_eq!(holding(Some(&stuck)), ["Reconciling", "Progressing"]);
    }

    #[test]
    fn a_container_that_cannot_run_degrades_an_unfinished_rollout() {
        let pod = |name: &str, reason: &str| {
            let state = json!({ "waiting": { "reason": reason } });
            let pod = json!({
                "metadata": { "name": name },
                "status": { "containerStatuses": [{ "name": "main", "state": state }] },
            });
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        let pods = [
            pod("b", "ImagePullBackOff"),
            pod("a", "CrashLoopBackOff"),
            pod("0", "ContainerCreating"),
        ];
        let degraded = |rollout: Rollout| {
            let degraded = rollout.with_pods(&pods).health().conditions().remove(5);
            (degraded.status == ConditionStatus::True, degraded.reason)
        };
        let rollout = Rollout::of(Some(&observed(1, 2)), 3);
        assert_eq!(degraded(rollout), (true, "CrashLoopBackOff".into()));
        let complete = Rollout::of(Some(&observed(3, 3)), 3);
        assert!(
            !degraded(complete).0,
            "a pod that a watch has yet to remove"
        );
        let stuck = Rollout {
            stuck: true,
            ..Rollout::of(Some(&observed(1, 2)), 3)
        };
        assert_eq!(degraded(stuck), (true, "ProgressDeadlineExceeded".into()));
    }
}
