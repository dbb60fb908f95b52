//! Status conditions, by the Kubernetes API conventions
//! (<https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#typical-status-properties>).

mod health;

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

pub use health::{Health, is_significant};

/// How many characters the API server takes as a message.
pub(crate) const MAX_MESSAGE_LENGTH: u16 = 32_768;

/// The desired content of one condition.
///
/// # Example
/// ```
/// use opctl_runtime::conditions::{ConditionUpdate, set_conditions, is_true};
///
/// let ready = ConditionUpdate::new("Ready", true, "JobSucceeded", "the last job succeeded");
/// let conditions = set_conditions(&[], Some(1), &[ready]);
/// assert!(is_true(&conditions, "Ready"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// The aspect of the object, such as `Available`.
    pub type_: Cow<'static, str>,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// The cause as one UpperCamelCase word, for programs.
    pub reason: Cow<'static, str>,
    /// The cause in words, for people. Leave out counts: they change more often than a condition
    /// should. The end of a message that is too long for the API server is left out.
    pub message: Cow<'static, str>,
}

impl ConditionUpdate {
    /// A condition of that type. `status` may be a `bool`.
    pub fn new(
        type_: impl Into<Cow<'static, str>>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// The controller cannot decide.
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        })
    }
}

/// The conditions that `updates` make of `previous`, at the object's `generation`. The transition
/// time of a condition moves only when its status does, so that equal updates make equal conditions.
///
/// Conditions of other types are left out, since they belong to other controllers: server-side apply
/// keeps them where `conditions` is a list-map by `type`. So pass all updates of the operator each
/// time, and write a condition that has ended as false.
pub fn set_conditions(
    previous: &[Condition],
    generation: Option<i64>,
    updates: &[ConditionUpdate],
) -> Vec<Condition> {
    let updates = updates.iter();
    updates
        .map(|update| condition(previous, generation, update))
        .collect()
}

fn condition(
    previous: &[Condition],
    generation: Option<i64>,
    update: &ConditionUpdate,
) -> Condition {
    let status = update.status.to_string();
    let unchanged = find(previous, &update.type_).filter(|old| old.status == status);
    let now = || Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default());
    Condition {
        type_: update.type_.clone().into_owned(),
        status,
        reason: update.reason.clone().into_owned(),
        message: update
            .message
            .chars()
            .take(MAX_MESSAGE_LENGTH.into())
            .collect(),
        observed_generation: generation,
        last_transition_time: unchanged.map_or_else(now, |old| old.last_transition_time.clone()),
    }
}

/// The condition of that type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type is `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// The condition of that type, if it is `True` in `current` and was not in `previous`: the moment to
/// publish an event.
pub fn became_true<'a>(
    previous: &[Condition],
    current: &'a [Condition],
    type_: &str,
) -> Option<&'a Condition> {
    find(current, type_).filter(|_| is_true(current, type_) && !is_true(previous, type_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn available(status: bool) -> ConditionUpdate {
        ConditionUpdate::new("Available", status, "Because", "")
    }

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let epoch = Time(Timestamp::UNIX_EPOCH);
        let mut first = set_conditions(&[], Some(1), &[available(true)]);
        first[0].last_transition_time = epoch.clone();

        let unchanged = set_conditions(&first, Some(2), &[available(true)]);
        assert_eq!(unchanged[0].last_transition_time, epoch);
        assert_eq!(unchanged[0].observed_generation, Some(2));

        let changed = set_conditions(&first, Some(2), &[available(false)]);
        assert_ne!(changed[0].last_transition_time, epoch);
    }

    #[test]
    fn a_message_is_as_long_as_the_api_server_takes() {
        let update = ConditionUpdate::new("Degraded", true, "Because", "é".repeat(40_000));
        let conditions = set_conditions(&[], None, &[update]);
        assert_eq!(conditions[0].message, "é".repeat(32_768));
    }

    #[test]
    fn conditions_of_other_controllers_are_left_to_them() {
        let other = ConditionUpdate::new("Paused", ConditionStatus::Unknown, "Because", "");
        let before = set_conditions(&[], Some(1), &[other]);
        assert_eq!(before[0].status, "Unknown");
        let after = set_conditions(&before, Some(2), &[available(true)]);
        assert_eq!(find(&after, "Paused"), None);
    }

    #[test]
    fn a_condition_becomes_true_once() {
        let off = set_conditions(&[], None, &[available(false)]);
        let on = set_conditions(&off, None, &[available(true)]);
        assert!(became_true(&off, &on, "Available").is_some());
        assert!(became_true(&on, &on, "Available").is_none());
        assert!(became_true(&on, &off, "Available").is_none());
    }
}
