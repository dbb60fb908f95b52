//! What has been published lately, so that an object that is in trouble does not flood its namespace.
//!
//! The limits are those of client-go's `EventCorrelator` (tools/record/events_cache.go). It keeps whole
//! events; here hashes decide, so that an event costs some 200 bytes for ten minutes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::EventType;

use crate::token_bucket::{Bucket, Limit};

/// How long after the last time the same event is a repetition: as long as client-go takes it for
/// one (`finishTime` in tools/events).
const SERIES: Duration = Duration::from_secs(6 * 60);

/// How many notes of one reason an object may have, before they are combined in one event
/// (`defaultAggregateMaxEvents`).
const MAX_NOTES: usize = 10;

/// For how long notes count as similar (`defaultAggregateIntervalInSeconds`).
const SIMILAR: Duration = Duration::from_secs(600);

/// How many events an object may have (`defaultSpamBurst` and `defaultSpamQPS`).
const LIMIT: Limit = Limit {
    burst: 25.0,
    interval: Duration::from_secs(300),
};

/// How often what is too old to matter is dropped.
const SWEEP: Duration = Duration::from_secs(60);

/// What has been published.
#[derive(Debug)]
pub(super) struct History {
    series: HashMap<u64, (Series, Instant)>,
    similar: HashMap<u64, Similar>,
    buckets: HashMap<u64, Bucket>,
    swept: Instant,
}

/// An event that has been published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Series {
    pub event: String,
    pub count: i32,
}

/// How an event is to be published.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Publication {
    /// What makes two events the same.
    pub key: u64,
    /// Whether it stands for others that only the note tells apart.
    pub is_combined: bool,
    /// The event that it repeats.
    pub series: Option<Series>,
}

/// The notes of one reason.
#[derive(Debug)]
struct Similar {
    notes: Vec<u64>,
    last: Instant,
}

impl History {
    pub fn new(now: Instant) -> Self {
        Self {
            series: HashMap::new(),
            similar: HashMap::new(),
            buckets: HashMap::new(),
            swept: now,
        }
    }

    /// How this event is to be published; `None` if the object has had too many.
    pub fn observe(
        &mut self,
        regarding: &ObjectReference,
        type_: EventType,
        reason: &str,
        note: &str,
        now: Instant,
    ) -> Option<Publication> {
        self.sweep(now);
        let object = hash(&(&regarding.uid, type_));
        let group = hash(&(object, reason));
        let key = hash(&(group, note));
        let is_combined = self.is_one_of_many(group, key, now);
        let key = if is_combined { group } else { key };
        let publication = Publication {
            key,
            is_combined,
            series: self.repeated(key, now),
        };
        let bucket = self.buckets.entry(object);
        let bucket = bucket.or_insert_with(|| Bucket::full(&LIMIT, now));
        bucket.take(&LIMIT, now).then_some(publication)
    }

    /// Keeps what has been published, so that the next of the same key repeats it.
    pub fn insert(&mut self, key: u64, series: Series, now: Instant) {
        self.series.insert(key, (series, now));
    }

    fn is_one_of_many(&mut self, group: u64, note: u64, now: Instant) -> bool {
        let new = || Similar {
            notes: Vec::new(),
            last: now,
        };
        let similar = self.similar.entry(group).or_insert_with(new);
        if now - similar.last > SIMILAR {
            *similar = new();
        }
        similar.last = now;
        if similar.notes.contains(&note) {
            return false;
        }
        // A note more would make it one too many, so it is not kept.
        let is_full = similar.notes.len() + 1 >= MAX_NOTES;
        if !is_full {
            similar.notes.push(note);
        }
        is_full
    }

    fn repeated(&self, key: u64, now: Instant) -> Option<Series> {
        let (series, last) = self.series.get(&key)?;
        (now - *last < SERIES).then(|| series.clone())
    }

    /// Drops what makes no difference any more.
    fn sweep(&mut self, now: Instant) {
        if now - self.swept < SWEEP {
            return;
        }
        self.swept = now;
        self.series.retain(|_, (_, last)| now - *last < SERIES);
        self.similar
            .retain(|_, similar| now - similar.last <= SIMILAR);
        self.buckets
            .retain(|_, bucket| !bucket.is_full(&LIMIT, now));
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How events with these notes are published at that moment.
    fn observe(history: &mut History, now: Instant, notes: &[&str]) -> Vec<Option<Publication>> {
        let object = ObjectReference {
            uid: Some("1".to_owned()),
            ..ObjectReference::default()
        };
        notes
            .iter()
            .map(|note| history.observe(&object, EventType::Normal, "Updated", note, now))
            .collect()
    }

    #[test]
    fn a_burst_is_refilled_one_by_one() {
        let begin = Instant::now();
        let mut history = History::new(begin);
        let published = observe(&mut history, begin, &["note"; 40]);
        assert_eq!(published.iter().flatten().count(), 25);
        let soon = begin + LIMIT.interval - Duration::from_secs(1);
        assert_eq!(observe(&mut history, soon, &["note"]), [None]);
        let later = begin + 3 * LIMIT.interval;
        let published = observe(&mut history, later, &["note"; 40]);
        assert_eq!(published.iter().flatten().count(), 3);
    }

    #[test]
    fn an_event_is_repeated_for_six_minutes() {
        let begin = Instant::now();
        let mut history = History::new(begin);
        let first = observe(&mut history, begin, &["note"]).remove(0).unwrap();
        assert_eq!((first.is_combined, first.series), (false, None));
        let series = Series {
            event: "x.1".to_owned(),
            count: 1,
        };
        history.insert(first.key, series.clone(), begin);
        let again = observe(&mut history, begin + SERIES / 2, &["note"]).remove(0);
        assert_eq!(again.unwrap().series, Some(series));
        let again = observe(&mut history, begin + SERIES, &["note"]).remove(0);
        assert_eq!(again.unwrap().series, None);
    }

    #[test]
    fn notes_are_combined_until_none_has_come_for_ten_minutes() {
        let begin = Instant::now();
        let mut history = History::new(begin);
        let notes: Vec<_> = (0..12).map(|number| number.to_string()).collect();
        let notes: Vec<_> = notes.iter().map(String::as_str).collect();
        let published = observe(&mut history, begin, &notes);
        let published: Vec<_> = published.into_iter().flatten().collect();
        let combined: Vec<_> = published.iter().map(|event| event.is_combined).collect();
        assert_eq!(combined, [[false; 9].as_slice(), &[true; 3]].concat());
        assert_eq!(published[9].key, published[11].key);

        // A note that is known has an event of its own.
        let known = observe(&mut history, begin, &["3"]).remove(0).unwrap();
        assert_eq!((known.key, known.is_combined), (published[3].key, false));

        let later = begin + SIMILAR + Duration::from_secs(1);
        let fresh = observe(&mut history, later, &["12"]).remove(0).unwrap();
        assert!(!fresh.is_combined);
    }

    #[test]
    fn nothing_is_kept_for_good() {
        let begin = Instant::now();
        let mut history = History::new(begin);
        for uid in 0..1000 {
            let object = ObjectReference {
                uid: Some(uid.to_string()),
                ..ObjectReference::default()
            };
            let event = history.observe(&object, EventType::Normal, "Created", "it", begin);
            let series = Series {
                event: "x.1".to_owned(),
                count: 1,
            };
            history.insert(event.unwrap().key, series, begin);
        }
        history.sweep(begin + SIMILAR + Duration::from_secs(1));
        assert!(history.series.is_empty() && history.similar.is_empty());
        assert!(history.buckets.is_empty());
    }
}
