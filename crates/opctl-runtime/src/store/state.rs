//! The objects of one kind, as watches and the operator's own writes report them.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::watch::Sender;
use tokio::time::Instant;

use super::objects::{Listed, Objects};
use super::selection::Selection;
use super::stored::{Before, Stored};
use crate::object::{Object, reference};

/// What happened to one object. `before` is `None` for a new object, `after` for a deleted one.
pub(crate) struct Change<'a, K> {
    pub before: Option<&'a Before<K>>,
    pub after: Option<&'a K>,
    pub origin: Origin,
}

impl<K> Clone for Change<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Change<'_, K> {}

/// How the runtime learned of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A new list of all objects.
    List,
    /// A watch.
    Watch,
    /// A write of this process: its answer, or the watch that was faster.
    Write {
        /// The controller that need not reconcile the object again for this change.
        quiet: Option<ControllerId>,
    },
}

/// Identifies a controller of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ControllerId(pub u64);

/// A write under way that changes nothing for the controller that sends it.
pub(crate) struct OwnWrite<K> {
    pub controller: ControllerId,
    /// Whether the object is as the write leaves it, and otherwise as the controller has seen it.
    pub is_result: Box<dyn Fn(&K) -> bool + Send + Sync>,
}

pub(super) type Observer<K> = Box<dyn Fn(Change<'_, K>) + Send + Sync>;

/// A change to call the handlers with once the state is unlocked.
pub(super) struct Notification<K: Object> {
    pub before: Option<Before<K>>,
    after: After<K>,
    origin: Origin,
}

/// The object after a change.
enum After<K: Object> {
    Known(Option<Arc<K>>),
    /// It is packed: all those of a list together would take too much.
    Stored(ObjectRef<K>),
}

impl<K: Object> Notification<K> {
    /// The object after the change, or after a later one.
    pub fn after(&self, objects: &Objects<K>) -> Option<Arc<K>> {
        match &self.after {
            After::Known(object) => object.clone(),
            After::Stored(name) => objects.get(name),
        }
    }

    pub fn change<'a>(&'a self, after: Option<&'a K>) -> Change<'a, K> {
        Change {
            before: self.before.as_ref(),
            after,
            origin: self.origin,
        }
    }
}

/// Puts what is not written yet into an object.
pub(crate) type Overlay<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

/// What one watch of a store reports.
pub(crate) enum Event<K: Object> {
    /// It asks for a list of all objects.
    ListBegins,
    /// All objects as of this resource version.
    Listed {
        objects: Vec<Listed<K>>,
        version: String,
    },
    /// An object was created or changed.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
    /// There is no other change up to this resource version.
    Bookmark { version: String },
    /// It has ended: what it reported is no longer known.
    Ended,
}

pub(super) struct State<K: Object> {
    dyntype: K::DynamicType,
    objects: Objects<K>,
    selection: Sender<Selection>,
    indexers: Vec<Observer<K>>,
    /// Whether somebody wants to know of changes.
    pub is_observed: bool,
    notifications: Vec<Notification<K>>,
    overlays: HashMap<ObjectRef<K>, Overlay<K>>,
    own_writes: HashMap<u64, OwnWrite<K>>,
    writes: u64,
    /// The watches by their namespaces; `None` is all namespaces.
    watches: HashMap<Option<String>, Progress<K>>,
    requests: Requests<K>,
    /// Attempts whose outcome was unknown, and when the object was reported nevertheless.
    attempts: HashMap<ObjectRef<K>, (Attempt, Option<Instant>)>,
}

/// How far a watch has come.
struct Progress<K> {
    /// The watch has reported every change up to this resource version. `None` before the first list,
    /// and where versions are opaque.
    seen: Option<u64>,
    /// The answers to own writes since a list was asked for that has yet to come.
    answers: Option<Vec<K>>,
}

/// An attempt to create an object with a generated name.
#[derive(PartialEq, Eq)]
pub(super) struct Attempt {
    /// The uid.
    pub owner: String,
    pub namespace: Option<String>,
    pub prefix: String,
}

/// The requests under way that write objects, and what the watch has reported meanwhile about objects
/// with opaque versions: it knows their order, which the versions do not tell.
struct Requests<K: Object> {
    under_way: usize,
    /// Counts reports.
    moment: u64,
    reported: HashMap<ObjectRef<K>, u64>,
    listed: u64,
}

impl<K: Object> State<K> {
    pub fn new(objects: Objects<K>, selection: Sender<Selection>, dyntype: K::DynamicType) -> Self {
        Self {
            dyntype,
            objects,
            selection,
            indexers: Vec::new(),
            is_observed: false,
            notifications: Vec::new(),
            overlays: HashMap::new(),
            own_writes: HashMap::new(),
            writes: 0,
            watches: HashMap::new(),
            requests: Requests {
                under_way: 0,
                moment: 0,
                reported: HashMap::new(),
                listed: 0,
            },
            attempts: HashMap::new(),
        }
    }

    /// Keeps an index up to date, beginning with the objects of now.
    pub fn add_indexer(&mut self, indexer: Observer<K>) {
        // One after another: together they may be too many.
        let objects = self.objects.names().into_iter();
        for object in objects.filter_map(|name| self.objects.get(&name)) {
            indexer(Change {
                before: None,
                after: Some(&*object),
                origin: Origin::List,
            });
        }
        self.indexers.push(indexer);
    }

    /// What has changed since the last call.
    pub fn notifications(&mut self) -> Vec<Notification<K>> {
        mem::take(&mut self.notifications)
    }

    /// A request that writes an object is sent. Returns the moment, for [`State::take_answer`].
    pub fn begin_request(&mut self) -> u64 {
        self.requests.under_way += 1;
        self.requests.moment
    }

    /// The request is over.
    pub fn end_request(&mut self) {
        self.requests.under_way -= 1;
        if self.requests.under_way == 0 {
            self.requests.reported.clear();
        }
    }

    /// The outcome of the attempt to create that object is unknown.
    pub fn remember_attempt(&mut self, object: ObjectRef<K>, attempt: Attempt) {
        let reported = self.objects.look(&object, |_| Instant::now());
        self.attempts.insert(object, (attempt, reported));
    }

    /// Forgets an attempt that was made already, and returns the object if its outcome is still unknown.
    ///
    /// # Errors
    /// The name of the object, which was created: as the watch has reported since `begin`.
    pub fn repeat_attempt(
        &mut self,
        attempt: &Attempt,
        begin: Option<Instant>,
    ) -> Result<Option<ObjectRef<K>>, String> {
        loop {
            let mut attempts = self.attempts.iter();
            let Some((object, (_, reported))) = attempts.find(|(_, (other, _))| other == attempt)
            else {
                return Ok(None);
            };
            let (object, reported) = (object.clone(), *reported);
            self.attempts.remove(&object);
            match (reported, begin) {
                (None, _) => return Ok(Some(object)),
                (Some(reported), Some(begin)) if reported < begin => {}
                (Some(_), _) => return Err(object.name),
            }
        }
    }

    /// From now on the result of the write is recognized. Returns what ends that.
    pub fn begin_write(&mut self, write: OwnWrite<K>) -> u64 {
        self.writes += 1;
        self.own_writes.insert(self.writes, write);
        self.writes
    }

    /// The result of the write is no longer recognized.
    pub fn end_write(&mut self, write: u64) {
        self.own_writes.remove(&write);
    }

    /// The controller for which the object is the result of a write of its own.
    fn quiet(&self, object: &K) -> Option<ControllerId> {
        let mut writes = self.own_writes.values();
        let own = writes.find(|write| (write.is_result)(object));
        own.map(|write| write.controller)
    }

    /// Takes in the answer to a write that was sent at `moment`. Where the watch has reported later
    /// changes meanwhile, the object may be gone again: the watch is right.
    /// Returns the object of the answer.
    pub fn take_answer(&mut self, object: K, moment: u64) -> Arc<K> {
        let namespace = &object.meta().namespace;
        let namespace = if self.watches.contains_key(namespace) {
            namespace
        } else {
            &None
        };
        let Some(watch) = self.watches.get_mut(namespace) else {
            return Arc::new(object);
        };
        if let Some(answers) = &mut watch.answers {
            answers.push(object.clone());
        }
        let is_new = match (version(&object), watch.seen) {
            (Some(version), Some(seen)) => version > seen,
            (Some(_), None) => false,
            (None, _) => self.is_unreported(&object, moment),
        };
        if !is_new {
            return Arc::new(object);
        }
        let is_later = |known: &Stored<K>| number(known.resource_version()) > version(&object);
        if self.look(&object, is_later) == Some(true) {
            return Arc::new(object); // the answer to a later write was faster
        }
        let quiet = self.quiet(&object);
        let answer = self.has_overlays().then(|| Arc::new(object.clone()));
        let stored = self.put(object, Origin::Write { quiet });
        answer.unwrap_or(stored)
    }

    /// Whether the watch has said nothing about the object since that moment.
    fn is_unreported(&self, object: &K, moment: u64) -> bool {
        let key = reference(object, &self.dyntype);
        let reported = self.requests.reported.get(&key);
        self.requests.listed <= moment && reported.is_none_or(|reported| *reported <= moment)
    }

    /// Takes in what the watch of `namespace` reports.
    pub fn take(&mut self, namespace: &Option<String>, event: Event<K>) {
        let watch = self
            .watches
            .entry(namespace.clone())
            .or_insert_with(|| Progress {
                seen: None,
                answers: None,
            });
        match event {
            Event::ListBegins => watch.answers = Some(Vec::new()),
            Event::Listed {
                objects,
                version: listed,
            } => {
                let before = mem::replace(&mut watch.seen, listed.parse().ok());
                let seen = watch.seen;
                let mut answers = watch.answers.take().unwrap_or_default();
                answers.retain(|object| {
                    seen.is_some() && version(object) > seen && self.holds(object)
                });
                let restored = seen < before;
                self.relist(namespace.as_deref(), objects, answers, restored);
            }
            Event::Bookmark { version } => watch.see(version.parse().ok()),
            Event::Ended => {
                self.watches.remove(namespace);
                self.relist(namespace.as_deref(), Vec::new(), Vec::new(), false);
            }
            Event::Applied(object) => {
                watch.see(version(&object));
                self.note(&object);
                let is_newer = |known: &Stored<K>| is_newer(&object, known);
                if self.look(&object, is_newer) != Some(false) {
                    // The watch is often faster than the answer.
                    let origin = match self.quiet(&object) {
                        None => Origin::Watch,
                        quiet => Origin::Write { quiet },
                    };
                    self.put(object, origin);
                }
            }
            Event::Deleted(object) => {
                watch.see(version(&object));
                self.note(&object);
                let is_successor = |known: &Stored<K>| is_successor(known, &object);
                if self.look(&object, is_successor) != Some(true) {
                    self.remove(&reference(&object, &self.dyntype), Origin::Watch);
                }
            }
        }
    }

    /// Remembers that the watch has reported something about an object with an opaque version.
    fn note(&mut self, object: &K) {
        if self.requests.under_way > 0 && version(object).is_none() {
            self.requests.moment += 1;
            let key = reference(object, &self.dyntype);
            self.requests.reported.insert(key, self.requests.moment);
        }
    }

    /// Shows readers the object with what is not written yet; the watch does not undo it. `None`
    /// ends that with the next change of the object.
    pub fn set_overlay(&mut self, object: &K, overlay: Option<Overlay<K>>) {
        let key = reference(object, &self.dyntype);
        let Some(overlay) = overlay else {
            self.overlays.remove(&key);
            return;
        };
        self.overlays.insert(key.clone(), overlay);
        if let Some(known) = self.objects.get(&key) {
            let mut overlaid = (*known).clone();
            self.overlay(&mut overlaid);
            let (after, before) = self.objects.put(overlaid);
            let before = before.map(Before::from);
            self.index(before.as_ref(), Some(&after), Origin::Write { quiet: None });
        }
    }

    /// Whether an object is shown with what is not written yet.
    pub fn has_overlays(&self) -> bool {
        !self.overlays.is_empty()
    }

    fn overlay(&self, object: &mut K) {
        if !self.overlays.is_empty()
            && let Some(overlay) = self.overlays.get(&reference(object, &self.dyntype))
        {
            overlay(object);
        }
    }

    /// A new list replaces everything in its namespace but for `answers`, which are later; what has
    /// vanished has no event of its own. A `restored` API server uses versions again: they do not tell
    /// what has changed.
    fn relist(
        &mut self,
        namespace: Option<&str>,
        mut listing: Vec<Listed<K>>,
        mut answers: Vec<K>,
        restored: bool,
    ) {
        self.requests.moment += 1;
        self.requests.listed = self.requests.moment;
        answers.sort_by_key(|object| version(object));
        let latest = answers.into_iter();
        let latest = latest.map(|object| (reference(&object, &self.dyntype), object));
        let answers: HashMap<_, _> = latest.collect();
        if !answers.is_empty() {
            listing.retain(|object| !answers.contains_key(&object.reference(&self.dyntype)));
        }
        let mut vanished: HashSet<_> = self.objects.names().into_iter().collect();
        vanished.retain(|name| namespace.is_none() || name.namespace.as_deref() == namespace);
        if !vanished.is_empty() {
            for object in &listing {
                vanished.remove(&object.reference(&self.dyntype));
            }
            answers.keys().for_each(|name| _ = vanished.remove(name));
        }
        for object in listing {
            self.put_listed(object, restored);
        }
        for object in answers.into_values() {
            self.put_listed(Listed::Whole(Box::new(object)), restored);
        }
        for name in vanished {
            self.remove(&name, Origin::List);
        }
    }

    fn put_listed(&mut self, listed: Listed<K>, restored: bool) {
        let name = listed.reference(&self.dyntype);
        let is_same = |known: &Stored<K>| known.resource_version() == listed.resource_version();
        if !restored && self.objects.look(&name, is_same) == Some(true) {
            return;
        }
        if self.objects.have_room() || self.overlays.contains_key(&name) {
            if let Some(object) = listed.unpack() {
                let (before, after) = self.replace(object);
                self.notify(before, Some(after), Origin::List);
            }
            return;
        }
        // Of thousands most are packed from the first.
        self.report_attempt(&name);
        let after = match self.indexers.is_empty() {
            true => None,
            false => listed.read(),
        };
        let before = self.objects.put_listed(listed).map(Before::from);
        if after.is_some() {
            self.index(before.as_ref(), after.as_ref(), Origin::List);
        }
        self.report(before, After::Stored(name), Origin::List);
    }

    fn remove(&mut self, name: &ObjectRef<K>, origin: Origin) {
        self.overlays.remove(name);
        self.attempts.remove(name);
        if let Some(before) = self.objects.remove(name) {
            self.notify(Some(before.into()), None, origin);
        }
    }

    fn put(&mut self, object: K, origin: Origin) -> Arc<K> {
        if !self.holds(&object) {
            // Its controller has released it.
            self.remove(&reference(&object, &self.dyntype), origin);
            return Arc::new(object);
        }
        let (before, after) = self.replace(object);
        let version = after.meta().resource_version.as_deref();
        let is_same = |before: &Before<K>| before.resource_version() == version;
        if !before.as_ref().is_some_and(is_same) {
            self.notify(before, Some(Arc::clone(&after)), origin);
        }
        after
    }

    /// Returns the object before that, and after it.
    fn replace(&mut self, mut object: K) -> (Option<Before<K>>, Arc<K>) {
        self.overlay(&mut object);
        if !self.attempts.is_empty() {
            self.report_attempt(&reference(&object, &self.dyntype));
        }
        let (after, before) = self.objects.put(object);
        (before.map(Before::from), after)
    }

    /// Notes that the outcome of an attempt is known.
    fn report_attempt(&mut self, name: &ObjectRef<K>) {
        if let Some((_, reported)) = self.attempts.get_mut(name) {
            reported.get_or_insert_with(Instant::now);
        }
    }

    fn notify(&mut self, before: Option<Before<K>>, after: Option<Arc<K>>, origin: Origin) {
        self.index(before.as_ref(), after.as_deref(), origin);
        self.report(before, After::Known(after), origin);
    }

    /// Has the handlers called, if there are any.
    fn report(&mut self, before: Option<Before<K>>, after: After<K>, origin: Origin) {
        if self.is_observed {
            self.notifications.push(Notification {
                before,
                after,
                origin,
            });
        }
    }

    fn index(&self, before: Option<&Before<K>>, after: Option<&K>, origin: Origin) {
        let change = Change {
            before,
            after,
            origin,
        };
        self.indexers.iter().for_each(|indexer| indexer(change));
    }

    fn holds(&self, object: &K) -> bool {
        self.selection.borrow().has(object)
    }

    /// What `look` returns for the stored object of the same name.
    fn look<T>(&self, object: &K, look: impl FnOnce(&Stored<K>) -> T) -> Option<T> {
        self.objects.look(&reference(object, &self.dyntype), look)
    }
}

impl<K> Progress<K> {
    fn see(&mut self, version: Option<u64>) {
        self.seen = self.seen.max(version);
    }
}

/// Resource versions of one kind are comparable integers (KEP-5504). Some aggregated API servers have
/// others, of which only a difference says something.
fn is_newer<K: Object>(object: &K, known: &Stored<K>) -> bool {
    let (version, known) = (&object.meta().resource_version, known.resource_version());
    match (number(version.as_deref()), number(known)) {
        (Some(version), Some(known)) => version > known,
        _ => version.as_deref() != known,
    }
}

/// Whether `known` was created after `deleted` was deleted, with the same name.
fn is_successor<K: Object>(known: &Stored<K>, deleted: &K) -> bool {
    match (number(known.resource_version()), version(deleted)) {
        (Some(known), Some(deleted)) => known > deleted,
        _ => known
            .object()
            .is_some_and(|known| known.meta().uid != deleted.meta().uid),
    }
}

pub(super) fn version<K: Resource>(object: &K) -> Option<u64> {
    number(object.meta().resource_version.as_deref())
}

pub(super) fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

#[cfg(test)]
mod tests;
