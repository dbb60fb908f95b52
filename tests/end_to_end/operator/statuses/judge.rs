//! Compares what a status says, over time, with how the pods are.
//!
//! A status necessarily follows the pods: the judge begins to count when the controller of the pods
//! (that of Deployments, say) reports that they are not as specified, because the operator cannot know
//! before, and lets [`GRACE`] pass.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::history::{Event, World};
use super::kstatus::{Kstatus, Verdict};
use crate::operator::everything::KINDS;

/// How far a status may lag behind: the operator writes all children before it. 0.2 s are usual, and 1.2 s
/// were seen on a machine with six times as much to do as it can.
const GRACE: Duration = Duration::from_secs(2);

/// How long a status may be that of an object on its way, though all is as specified.
const LATE: Duration = Duration::from_secs(5);

/// What is known of a custom resource.
struct Subject {
    verdict: Verdict,
    object: Value,
    /// Since when the pods are not as specified, and are reported so.
    unsettled: Option<Instant>,
    /// Since when the status is wrong.
    premature: Option<Instant>,
    late: Option<Instant>,
}

/// The result, with the longest time that a status was wrong.
#[derive(Debug, Default)]
pub struct Judgement {
    /// How many published statuses were taken for what.
    pub verdicts: BTreeMap<String, usize>,
    pub premature: Duration,
    pub late: Duration,
    pub violations: BTreeSet<String>,
}

impl Judgement {
    /// Judges the whole history.
    pub fn of(history: &[Event], kstatus: &Kstatus) -> Self {
        let is_custom = |event: &&Event| {
            KINDS.iter().any(|kind| event.object["kind"] == kind.name) && !event.is_deletion
        };
        let published: Vec<_> = history.iter().filter(is_custom).collect();
        let objects: Vec<_> = published.iter().map(|event| &event.object).collect();
        let verdicts = kstatus.judge(&objects);
        let mut verdicts = verdicts.into_iter();

        let mut judgement = Self::default();
        let (mut world, mut subjects) = (World::default(), BTreeMap::new());
        for event in history {
            let root = world.take(event);
            if is_custom(&event) {
                let verdict = verdicts.next().unwrap();
                *judgement.verdicts.entry(format!("{verdict:?}")).or_default() += 1;
                judgement.publish(&mut subjects, &root, event, verdict);
            }
            match world.get(&root) {
                Some(_) => judgement.update(&world, &mut subjects, &root, event.at),
                None => drop(subjects.remove(&root)),
            }
        }
        judgement
    }

    /// Whether each object ended as specified, and its status says so.
    pub fn assert_settled(history: &[Event], kstatus: &Kstatus) -> Result<(), String> {
        let mut world = World::default();
        history.iter().for_each(|event| drop(world.take(event)));
        let objects: Vec<_> = world.custom().collect();
        let verdicts = kstatus.judge(&objects);
        for (object, verdict) in objects.iter().zip(verdicts) {
            if object["kind"] != "Thing" && (verdict != Verdict::Current || !world.has_pods(object))
            {
                let pods = world.pods(object);
                let pods: Vec<_> = pods.iter().map(|pod| format!("{}", pod["status"])).collect();
                return Err(format!("{verdict:?}: {object} with the pods {pods:?}"));
            }
        }
        Ok(())
    }

    fn publish(
        &mut self,
        subjects: &mut BTreeMap<String, Subject>,
        uid: &str,
        event: &Event,
        verdict: Verdict,
    ) {
        let object = event.object.clone();
        let subject = subjects.entry(uid.to_owned()).or_insert_with(|| Subject {
            verdict,
            object: object.clone(),
            unsettled: Some(event.at),
            premature: None,
            late: None,
        });
        let is_late = subject.unsettled.is_none_or(|since| event.at - since < GRACE);
        if verdict == Verdict::Current && subject.verdict != verdict && !is_late {
            self.violations.insert(format!("published as Current: {object}"));
        }
        if verdict == Verdict::Failed {
            self.violations.insert(format!("Failed: {object}"));
        }
        (subject.verdict, subject.object) = (verdict, object);
    }

    fn update(
        &mut self,
        world: &World,
        subjects: &mut BTreeMap<String, Subject>,
        uid: &str,
        now: Instant,
    ) {
        let Some(subject) = subjects.get_mut(uid) else {
            return; // not of a custom resource
        };
        let object = &subject.object;
        let (has_pods, is_reported) = (world.has_pods(object), world.is_reported(object));
        since(&mut subject.unsettled, !has_pods && !is_reported, now);

        let is_premature = subject.unsettled.is_some() && subject.verdict == Verdict::Current;
        if let Some(duration) = since(&mut subject.premature, is_premature, now) {
            self.premature = self.premature.max(duration);
            if duration > GRACE {
                self.violations.insert(format!("Current for {duration:.1?}: {object}"));
            }
        }
        let is_late = has_pods && is_reported && subject.verdict == Verdict::InProgress;
        if let Some(duration) = since(&mut subject.late, is_late, now) {
            self.late = self.late.max(duration);
            if duration > LATE {
                self.violations.insert(format!("InProgress for {duration:.1?}: {object}"));
            }
        }
    }
}

/// Keeps the time since when something holds. Returns for how long it has held where it has ended.
fn since(begin: &mut Option<Instant>, holds: bool, now: Instant) -> Option<Duration> {
    match (*begin, holds) {
        (None, true) => *begin = Some(now),
        (Some(_), false) => return begin.take().map(|begin| now - begin),
        _ => {}
    }
    None
}
