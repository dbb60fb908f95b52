//! The conditions that people and tools look for, as one consistent set.

use std::borrow::Cow;
use std::error::Error;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::Status;

use super::{ConditionUpdate, find};

/// The reason of progress that nobody sees: see [`Health::awaiting`].
const AWAITING: &str = "AwaitingObservation";

/// What a reconciler knows about its object, from which all of its conditions follow.
///
/// | Condition | True while |
/// |---|---|
/// | `Ready` | the desired state is reached, and nothing is known to be wrong |
/// | `Reconciling` | the operator is on the way to it, or tries again after a failure |
/// | `Stalled` | the operator cannot get there unless somebody changes something |
/// | `Available` | the object does its work, be it in an earlier version |
/// | `Progressing` | a change is being rolled out |
/// | `Degraded` | something is wrong |
///
/// Exactly one of `Ready`, `Reconciling` and `Stalled` is true. These three are what `helm --wait`
/// and Flux look for (kstatus,
/// <https://github.com/fluxcd/cli-utils/blob/main/pkg/kstatus/README.md>), and `Ready` is for
/// `kubectl wait --for=condition=Ready` and health checks of Argo CD. The other three are those of
/// Deployments and of OpenShift's operators. A condition that does not hold is written as `False`, so
/// that the set of types that belong to the operator never changes.
///
/// # Example
/// ```
/// use opctl_runtime::conditions::{Health, is_true, set_conditions};
///
/// let health = Health::new(true, "Serving", "the server answers").progressing("Updating", "");
/// let conditions = set_conditions(&[], Some(1), &health.conditions());
/// assert!(is_true(&conditions, "Available") && is_true(&conditions, "Reconciling"));
/// assert!(!is_true(&conditions, "Ready") && !is_true(&conditions, "Stalled"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    is_available: bool,
    availability: Cause,
    progress: Option<Cause>,
    failure: Option<Cause>,
    is_stalled: bool,
}

/// A reason for programs, and a message for people.
type Cause = (Cow<'static, str>, Cow<'static, str>);

impl Health {
    /// An object whose desired state is reached, as long as it is available.
    pub fn new(
        is_available: bool,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            is_available,
            availability: (reason.into(), message.into()),
            progress: None,
            failure: None,
            is_stalled: false,
        }
    }

    /// A part that the object cannot work without is missing.
    #[must_use]
    pub fn unavailable(
        self,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            is_available: false,
            availability: (reason.into(), message.into()),
            ..self
        }
    }

    /// A change is being rolled out.
    #[must_use]
    pub fn progressing(
        self,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            progress: Some((reason.into(), message.into())),
            ..self
        }
    }

    /// Everything is in place, but the controller of a child has yet to confirm that it has seen the
    /// latest change. That takes milliseconds: see [`is_significant`].
    #[must_use]
    pub fn awaiting(self, message: impl Into<Cow<'static, str>>) -> Self {
        self.progressing(AWAITING, message)
    }

    /// Something is wrong. It may heal by itself or by another attempt.
    #[must_use]
    pub fn failing(
        self,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            failure: Some((reason.into(), message.into())),
            is_stalled: false,
            ..self
        }
    }

    /// Something is wrong, and stays so until somebody changes something.
    #[must_use]
    pub fn stalled(
        self,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            is_stalled: true,
            ..self.failing(reason, message)
        }
    }

    /// The outcome of the last reconcile. An error prevails over what was wrong before. The object is
    /// failing, or stalled where another attempt would end in the same error: the API server rejects
    /// what the reconcile writes as invalid.
    #[must_use]
    pub fn reconciled<E: Error + 'static>(self, error: Option<&E>) -> Self {
        match error {
            None => self,
            Some(error) if is_permanent(error) => self.stalled("Invalid", error.to_string()),
            Some(error) => self.failing("ReconcileFailed", error.to_string()),
        }
    }

    /// The updates of all six conditions, for [`set_conditions`](super::set_conditions).
    pub fn conditions(self) -> Vec<ConditionUpdate> {
        let complete = ("Complete".into(), "the desired state is reached".into());
        let expected = ("AsExpected".into(), "no failure is known".into());
        let is_progressing = self.progress.is_some() && !self.is_stalled;
        let is_degraded = self.failure.is_some();
        let is_ready = self.is_available && self.progress.is_none() && !is_degraded;

        let obstacle = self.failure.clone().or_else(|| self.progress.clone());
        let summary = obstacle.unwrap_or_else(|| match is_ready {
            true => Cause::clone(&complete),
            false => self.availability.clone(),
        });
        let progress = match self.is_stalled {
            true => self.failure.clone(),
            false => self.progress,
        };
        let update = |type_: &'static str, holds: bool, (reason, message): Cause| {
            ConditionUpdate::new(type_, holds, reason, message)
        };
        vec![
            update("Ready", is_ready, summary.clone()),
            update(
                "Reconciling",
                !is_ready && !self.is_stalled,
                summary.clone(),
            ),
            update("Stalled", self.is_stalled, summary),
            update("Available", self.is_available, self.availability),
            update("Progressing", is_progressing, progress.unwrap_or(complete)),
            update("Degraded", is_degraded, self.failure.unwrap_or(expected)),
        ]
    }
}

/// Whether another attempt ends in the same error: the desired object breaks a rule.
fn is_permanent(error: &(dyn Error + 'static)) -> bool {
    use crate::Error::{Immutable, OutOfScope};

    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.any(|cause| {
        let answer = cause.downcast_ref::<Box<Status>>();
        let own = cause.downcast_ref::<crate::Error>();
        answer.is_some_and(|answer| is_invalid(answer))
            || matches!(own, Some(Immutable { .. } | OutOfScope { .. }))
    })
}

/// Whether the API server rejects an object as invalid. That another one has its name by now is no
/// such answer: it is a conflict.
fn is_invalid(answer: &Status) -> bool {
    let causes = answer.details.iter().flat_map(|details| &details.causes);
    let mut fields = causes.map(|cause| cause.field.as_str());
    answer.code == 422 && !fields.any(|field| field == "metadata.uid")
}

/// Whether the change of these conditions must be seen at once: for
/// [`Applier::debounce_status`](crate::Applier::debounce_status). Only [`Health::awaiting`] can wait,
/// since it is over before anybody looks. Conditions of other controllers do not count.
pub fn is_significant(old: &[Condition], new: &[Condition]) -> bool {
    let can_wait = |condition: &Condition, before: &Condition| {
        condition.reason == AWAITING
            && condition.observed_generation == before.observed_generation
            && ["Ready", "Reconciling", "Stalled", "Progressing"].contains(&&*condition.type_)
    };
    let is_news = |condition: &Condition| match find(old, &condition.type_) {
        None => true,
        Some(before) => before != condition && !can_wait(condition, before),
    };
    new.iter().any(is_news)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::{ConditionStatus, set_conditions};

    /// The types that are true.
    fn holding(health: Health) -> Vec<String> {
        let updates = health.conditions().into_iter();
        let holding = updates.filter(|update| update.status == ConditionStatus::True);
        holding.map(|update| update.type_.into_owned()).collect()
    }

    fn serving() -> Health {
        Health::new(true, "Serving", "")
    }

    #[test]
    fn an_object_is_ready_reconciling_or_stalled() {
        for (health, expected) in [
            (serving(), &["Ready", "Available"][..]),
            (
                serving().progressing("Updating", ""),
                &["Reconciling", "Available", "Progressing"],
            ),
            (
                serving().failing("QuotaExceeded", ""),
                &["Reconciling", "Available", "Degraded"],
            ),
            (
                serving().progressing("Updating", "").stalled("Refused", ""),
                &["Stalled", "Available", "Degraded"],
            ),
            (serving().unavailable("NoService", ""), &["Reconciling"]),
        ] {
            assert_eq!(holding(health), expected);
        }
    }

    #[test]
    fn ready_reports_what_is_in_the_way() {
        let summary = |health: Health| health.conditions().remove(0).reason;
        let progressing = serving().progressing("Updating", "");
        assert_eq!(summary(serving()), "Complete");
        assert_eq!(summary(progressing.clone()), "Updating");
        assert_eq!(summary(progressing.failing("Full", "")), "Full");
        assert_eq!(summary(serving().unavailable("NoService", "")), "NoService");
    }

    fn refused(code: u16) -> crate::Error {
        let answer = Status {
            code,
            ..Status::default()
        };
        kube::Error::Api(answer.boxed()).into()
    }

    #[test]
    fn an_error_is_tried_again_unless_the_object_is_invalid() {
        let of = |code| holding(serving().reconciled(Some(&refused(code))));
        assert_eq!(of(403), ["Reconciling", "Available", "Degraded"]);
        assert_eq!(of(422), ["Stalled", "Available", "Degraded"]);
        let immutable = crate::Error::Immutable {
            kind: "Deployment".to_owned(),
            name: "sample".to_owned(),
            message: "field is immutable".to_owned(),
        };
        let health = serving().reconciled(Some(&immutable));
        assert!(holding(health).contains(&"Stalled".to_owned()));
    }

    #[test]
    fn a_new_object_of_the_same_name_is_not_invalid() {
        let answer = serde_json::json!({
            "code": 422,
            "details": { "causes": [{ "field": "metadata.uid" }] },
        });
        let answer: Status = serde_json::from_value(answer).unwrap();
        let error = crate::Error::from(kube::Error::Api(answer.boxed()));
        let health = serving().reconciled(Some(&error));
        assert!(holding(health).contains(&"Reconciling".to_owned()));
    }

    #[test]
    fn an_error_of_the_operators_own_may_wrap_the_answer() {
        #[derive(Debug, thiserror::Error)]
        enum Own {
            #[error(transparent)]
            Runtime(#[from] crate::Error),
            #[error("cannot apply")]
            Wrapped(#[source] crate::Error),
        }
        for error in [Own::Runtime(refused(422)), Own::Wrapped(refused(422))] {
            assert!(holding(serving().reconciled(Some(&error))).contains(&"Stalled".to_owned()));
        }
    }

    #[test]
    fn another_attempt_may_end_what_was_stalled() {
        let health = serving().stalled("Refused", "").failing("Full", "");
        assert!(!holding(health).contains(&"Stalled".to_owned()));
    }

    fn conditions(generation: i64, health: Health) -> Vec<Condition> {
        let mut conditions = set_conditions(&[], Some(generation), &health.conditions());
        for condition in &mut conditions {
            condition.last_transition_time.0 = Default::default();
        }
        conditions
    }

    #[test]
    fn only_an_observation_can_wait() {
        let settled = conditions(1, serving());
        let awaiting = conditions(1, serving().awaiting(""));
        assert!(!is_significant(&settled, &settled));
        assert!(!is_significant(&settled, &awaiting));
        assert!(is_significant(&awaiting, &settled));
        for health in [
            serving().progressing("Updating", ""),
            serving().awaiting("").failing("Full", ""),
            serving().awaiting("").unavailable("NoPods", ""),
        ] {
            assert!(is_significant(&settled, &conditions(1, health)));
        }
        let generation = conditions(2, serving().awaiting(""));
        assert!(is_significant(&settled, &generation));
        assert!(is_significant(&[], &settled));
    }

    #[test]
    fn conditions_of_other_controllers_are_not_significant() {
        let settled = conditions(1, serving());
        let other = ConditionUpdate::new("Paused", true, "Because", "");
        let mut with_other = set_conditions(&[], Some(1), &[other]);
        with_other.extend(settled.clone());
        assert!(!is_significant(&with_other, &settled));
    }
}
