//! The objects of one kind, as watches and the operator's own writes report them.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use kube::Resource;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;

use crate::object::{Object, reference};

/// What happened to one object. `before` is `None` for a new object, `after` for a deleted one.
pub(crate) struct Change<'a, K> {
    pub before: Option<&'a K>,
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
pub(super) struct Notification<K> {
    pub before: Option<Arc<K>>,
    pub after: Option<Arc<K>>,
    pub origin: Origin,
}

impl<K> Notification<K> {
    pub fn change(&self) -> Change<'_, K> {
        Change {
            before: self.before.as_deref(),
            after: self.after.as_deref(),
            origin: self.origin,
        }
    }
}

/// Puts what is not written yet into an object.
pub(crate) type Overlay<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

pub(super) struct State<K: Object> {
    dyntype: K::DynamicType,
    writer: Writer<K>,
    indexers: Vec<Observer<K>>,
    notifications: Vec<Notification<K>>,
    overlays: HashMap<ObjectRef<K>, Overlay<K>>,
    own_writes: HashMap<u64, OwnWrite<K>>,
    writes: u64,
    /// The watches by their namespaces; `None` is all namespaces.
    watches: HashMap<Option<String>, Progress<K>>,
    lists: u64,
}

/// How far a watch has come.
struct Progress<K> {
    /// What a new list has brought so far.
    listing: Vec<K>,
    /// The watch has reported every change up to this resource version.
    seen: u64,
}

impl<K: Object> State<K> {
    pub fn new(mut writer: Writer<K>, dyntype: K::DynamicType) -> Self {
        // The store is replaced piece by piece: it need not wait for a list of its own.
        writer.apply_watcher_event(&Event::InitDone);
        Self {
            dyntype,
            writer,
            indexers: Vec::new(),
            notifications: Vec::new(),
            overlays: HashMap::new(),
            own_writes: HashMap::new(),
            writes: 0,
            watches: HashMap::new(),
            lists: 0,
        }
    }

    /// Keeps an index up to date, beginning with the objects of now.
    pub fn add_indexer(&mut self, indexer: Observer<K>) {
        for object in self.writer.as_reader().state() {
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

    /// How often a watch has started with a new list.
    pub fn lists(&self) -> u64 {
        self.lists
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

    /// Takes in the answer to a write that was sent when there had been so many `lists`. Where the
    /// watch has reported later changes meanwhile, the object may be gone again: the watch is right.
    pub fn take_answer(&mut self, object: &K, lists: u64) {
        let namespace = &object.meta().namespace;
        let watch = self.watches.get(namespace);
        let watch = watch.or_else(|| self.watches.get(&None));
        if self.lists == lists && watch.is_some_and(|watch| version(object) > Some(watch.seen)) {
            let quiet = self.quiet(object);
            self.put(object.clone(), Origin::Write { quiet });
        }
    }

    /// Takes in what the watch of `namespace` reports.
    pub fn take(&mut self, namespace: &Option<String>, event: Event<K>) {
        let watch = self
            .watches
            .entry(namespace.clone())
            .or_insert_with(|| Progress {
                listing: Vec::new(),
                seen: 0,
            });
        let seen = match &event {
            Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => {
                version(object).unwrap_or(0)
            }
            Event::Init | Event::InitDone => 0,
        };
        watch.seen = watch.seen.max(seen);
        match event {
            Event::Init => watch.listing.clear(),
            Event::InitApply(object) => watch.listing.push(object),
            Event::InitDone => {
                let listing = mem::take(&mut watch.listing);
                self.relist(namespace.as_deref(), listing);
            }
            Event::Apply(object) => {
                let known = self.known(&object);
                if known.is_none_or(|known| is_newer(&object, &known)) {
                    // The watch is often faster than the answer.
                    let origin = match self.quiet(&object) {
                        None => Origin::Watch,
                        quiet => Origin::Write { quiet },
                    };
                    self.put(object, origin);
                }
            }
            Event::Delete(object) => {
                let known = self.known(&object);
                // An opaque version does not say that the object was recreated: the watch decides.
                if known.is_none_or(|known| version(&*known) <= version(&object)) {
                    self.remove(object, Origin::Watch);
                }
            }
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
        self.overlays.insert(key, overlay);
        if let Some(known) = self.known(object) {
            let mut overlaid = (*known).clone();
            self.overlay(&mut overlaid);
            let change = Change {
                before: Some(&*known),
                after: Some(&overlaid),
                origin: Origin::Write { quiet: None },
            };
            self.indexers.iter().for_each(|indexer| indexer(change));
            self.writer.apply_watcher_event(&Event::Apply(overlaid));
        }
    }

    fn overlay(&self, object: &mut K) {
        if !self.overlays.is_empty()
            && let Some(overlay) = self.overlays.get(&reference(object, &self.dyntype))
        {
            overlay(object);
        }
    }

    /// A new list replaces everything in its namespace; what has vanished has no event of its own.
    fn relist(&mut self, namespace: Option<&str>, listing: Vec<K>) {
        self.lists += 1;
        let is_listed = |object: &Arc<K>| {
            namespace.is_none() || object.meta().namespace.as_deref() == namespace
        };
        let before = self.writer.as_reader().state().into_iter();
        let mut vanished: HashMap<_, _> = before
            .filter(is_listed)
            .map(|object| (reference(&*object, &self.dyntype), object))
            .collect();
        for object in listing {
            vanished.remove(&reference(&object, &self.dyntype));
            self.put(object, Origin::List);
        }
        for object in vanished.into_values() {
            self.remove((*object).clone(), Origin::List);
        }
    }

    fn remove(&mut self, object: K, origin: Origin) {
        let known = self.known(&object);
        if !self.overlays.is_empty() {
            self.overlays.remove(&reference(&object, &self.dyntype));
        }
        self.writer.apply_watcher_event(&Event::Delete(object));
        self.notify(known, None, origin);
    }

    fn put(&mut self, mut object: K, origin: Origin) {
        self.overlay(&mut object);
        let before = self.known(&object);
        let key = reference(&object, &self.dyntype);
        self.writer.apply_watcher_event(&Event::Apply(object));
        let after = self.writer.as_reader().get(&key);
        self.notify(before, after, origin);
    }

    fn notify(&mut self, before: Option<Arc<K>>, after: Option<Arc<K>>, origin: Origin) {
        let version = |object: &Option<Arc<K>>| {
            let object = object.as_ref();
            object.map(|object| object.meta().resource_version.clone())
        };
        if version(&before) == version(&after) {
            return;
        }
        let notification = Notification {
            before,
            after,
            origin,
        };
        let change = notification.change();
        self.indexers.iter().for_each(|indexer| indexer(change));
        self.notifications.push(notification);
    }

    fn known(&self, object: &K) -> Option<Arc<K>> {
        let reader = self.writer.as_reader();
        reader.get(&reference(object, &self.dyntype))
    }
}

/// Resource versions of one kind are comparable integers (KEP-5504). Some aggregated API servers have
/// others, of which only a difference says something.
fn is_newer<K: Resource>(object: &K, known: &K) -> bool {
    match (version(object), version(known)) {
        (Some(object), Some(known)) => object > known,
        _ => object.meta().resource_version != known.meta().resource_version,
    }
}

fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;
    use kube::api::ObjectMeta;
    use kube::runtime::reflector::store::{Store, store};

    use super::*;

    /// A ConfigMap with the label `owner`.
    fn object(name: &str, version: u64, owner: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                resource_version: Some(version.to_string()),
                labels: Some([("owner".to_owned(), owner.to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn state() -> (Store<ConfigMap>, State<ConfigMap>) {
        let (store, writer) = store();
        let mut state = State::new(writer, ());
        list(&mut state, &[]);
        (store, state)
    }

    fn list(state: &mut State<ConfigMap>, objects: &[ConfigMap]) {
        state.take(&None, Event::Init);
        for object in objects {
            state.take(&None, Event::InitApply(object.clone()));
        }
        state.take(&None, Event::InitDone);
    }

    /// The owners before and after each change.
    fn changes(state: &mut State<ConfigMap>) -> Vec<String> {
        let owner = |object: &Option<Arc<ConfigMap>>| {
            let object = object.as_ref();
            object.map_or_else(String::new, |object| object.labels()["owner"].clone())
        };
        let notifications = state.notifications();
        let lines = notifications
            .iter()
            .map(|it| format!("{}>{}", owner(&it.before), owner(&it.after)));
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    }

    #[test]
    fn every_change_is_reported_once() {
        let (store, mut state) = state();
        state.take(&None, Event::Apply(object("a", 1, "x")));
        state.take(&None, Event::Apply(object("a", 1, "x")));
        state.take(&None, Event::Apply(object("a", 2, "y")));
        state.take(&None, Event::Delete(object("a", 3, "y")));
        assert_eq!(changes(&mut state), [">x", "x>y", "y>"]);
        assert!(store.is_empty());
    }

    #[test]
    fn a_new_list_reports_what_vanished_and_what_changed() {
        let (store, mut state) = state();
        let first = [
            object("gone", 1, "x"),
            object("same", 2, "y"),
            object("new", 3, "z"),
        ];
        list(&mut state, &first);
        changes(&mut state);
        list(&mut state, &[object("same", 2, "y"), object("new", 4, "z")]);
        assert_eq!(changes(&mut state), ["x>", "z>z"]);
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn a_new_list_of_one_namespace_leaves_the_others_alone() {
        let (store, mut state) = state();
        let [left, right] = ["left", "right"].map(|namespace| {
            let mut object = object("a", 1, namespace);
            object.metadata.namespace = Some(namespace.to_owned());
            object
        });
        for object in [&left, &right] {
            state.take(&object.metadata.namespace, Event::Apply(object.clone()));
        }
        changes(&mut state);
        let namespace = Some("left".to_owned());
        state.take(&namespace, Event::Init);
        state.take(&namespace, Event::InitDone);
        assert_eq!(changes(&mut state), ["left>"]);
        assert_eq!(store.state()[0].metadata, right.metadata);
    }

    #[test]
    fn the_watch_adds_nothing_to_the_answer_of_an_own_write() {
        let (store, mut state) = state();
        state.take_answer(&object("a", 5, "x"), state.lists());
        assert_eq!(changes(&mut state), [">x"]);
        assert_eq!(store.len(), 1);
        for version in [4, 5] {
            state.take(&None, Event::Apply(object("a", version, "x")));
        }
        assert_eq!(changes(&mut state), [""; 0]);
    }

    #[test]
    fn the_result_of_an_own_write_is_recognized_whoever_reports_it_first() {
        let (_, mut state) = state();
        let origins = |state: &mut State<ConfigMap>| -> Vec<_> {
            let notifications = state.notifications().into_iter();
            notifications.map(|change| change.origin).collect()
        };
        let controller = ControllerId(1);
        let write = state.begin_write(OwnWrite {
            controller,
            is_result: Box::new(|object: &ConfigMap| object.labels()["owner"] == "own"),
        });
        let own = Origin::Write {
            quiet: Some(controller),
        };
        state.take(&None, Event::Apply(object("a", 5, "other")));
        state.take(&None, Event::Apply(object("a", 6, "own")));
        state.take_answer(&object("a", 6, "own"), state.lists());
        assert_eq!(origins(&mut state), [Origin::Watch, own]);
        state.take_answer(&object("a", 7, "own"), state.lists());
        state.take(&None, Event::Apply(object("a", 7, "own")));
        assert_eq!(origins(&mut state), [own]);

        state.end_write(write);
        state.take(&None, Event::Apply(object("a", 8, "own")));
        assert_eq!(origins(&mut state), [Origin::Watch]);
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_is_gone() {
        let (store, mut state) = state();
        let lists = state.lists();
        state.take(&None, Event::Apply(object("a", 5, "x")));
        state.take(&None, Event::Delete(object("a", 6, "x")));
        state.take_answer(&object("a", 5, "x"), lists);
        assert!(store.is_empty());

        list(&mut state, &[]);
        state.take_answer(&object("a", 7, "x"), lists);
        assert!(store.is_empty());
    }

    #[test]
    fn versions_that_are_no_numbers_count_as_changes_where_they_differ() {
        let (store, mut state) = state();
        let opaque = |version: &str| {
            let mut object = object("a", 0, "x");
            object.metadata.resource_version = Some(version.to_owned());
            Event::Apply(object)
        };
        for version in ["b", "b", "a"] {
            state.take(&None, opaque(version));
        }
        assert_eq!(changes(&mut state), [">x", "x>x"]);
        let stored = store.state()[0].metadata.resource_version.clone();
        assert_eq!(stored.as_deref(), Some("a"));
    }

    #[test]
    fn an_overlay_survives_the_watch_until_it_is_removed() {
        let (store, mut state) = state();
        state.take(&None, Event::Apply(object("a", 1, "x")));
        let overlay: Overlay<ConfigMap> = Arc::new(|object| object.immutable = Some(true));
        state.set_overlay(&object("a", 1, "x"), Some(overlay));
        assert_eq!(store.state()[0].immutable, Some(true));

        state.take(&None, Event::Apply(object("a", 2, "y")));
        assert_eq!(store.state()[0].immutable, Some(true));
        state.set_overlay(&object("a", 2, "y"), None);
        state.take(&None, Event::Apply(object("a", 3, "z")));
        assert_eq!(store.state()[0].immutable, None);
        assert_eq!(changes(&mut state), [">x", "x>y", "y>z"]);
    }
}
