//! Changes, without watches.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::*;
use crate::store::tests::owner;

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

fn state() -> (Objects<ConfigMap>, State<ConfigMap>) {
    let store = Objects::new(());
    let selection = Sender::new(Selection::All);
    let mut state = State::new(store.clone(), selection, ());
    state.is_observed = true;
    list(&mut state, &[]);
    (store, state)
}

/// A list as of the latest change of its objects.
fn list(state: &mut State<ConfigMap>, objects: &[ConfigMap]) {
    let version = objects.iter().filter_map(version).max().unwrap_or(0);
    list_at(state, version, objects);
}

fn list_at(state: &mut State<ConfigMap>, version: u64, objects: &[ConfigMap]) {
    state.take(&None, Event::ListBegins);
    state.take(&None, listed(version, objects));
}

fn listed(version: u64, objects: &[ConfigMap]) -> Event<ConfigMap> {
    Event::Listed {
        objects: objects
            .iter()
            .map(|it| Listed::Whole(Box::new(it.clone())))
            .collect(),
        version: version.to_string(),
    }
}

/// The owners before and after each change.
fn changes(state: &mut State<ConfigMap>) -> Vec<String> {
    let owner = |object: Option<&ConfigMap>| {
        object.map_or_else(String::new, |object| object.labels()["owner"].clone())
    };
    let notifications = state.notifications();
    let lines = notifications.iter().map(|it| {
        let after = it.after(&state.objects);
        format!(
            "{}>{}",
            owner(it.before.as_ref().and_then(Before::object)),
            owner(after.as_deref())
        )
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

#[test]
fn every_change_is_reported_once() {
    let (store, mut state) = state();
    state.take(&None, Event::Applied(object("a", 1, "x")));
    state.take(&None, Event::Applied(object("a", 1, "x")));
    state.take(&None, Event::Applied(object("a", 2, "y")));
    state.take(&None, Event::Deleted(object("a", 3, "y")));
    assert_eq!(changes(&mut state), [">x", "x>y", "y>"]);
    assert!(store.names().is_empty());
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
    assert_eq!(store.names().len(), 2);
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
        state.take(&object.metadata.namespace, Event::Applied(object.clone()));
    }
    changes(&mut state);
    let namespace = Some("left".to_owned());
    state.take(&namespace, listed(2, &[]));
    assert_eq!(changes(&mut state), ["left>"]);
    assert_eq!(store.list()[0].metadata, right.metadata);
}

#[test]
fn what_nobody_has_asked_for_is_not_held() {
    let (store, mut state) = state();
    let children = Selection::controlled_by::<Secret>(&());
    state.selection.send_replace(children);
    let child = |version| {
        let mut child = object("child", version, "x");
        let owner = owner("1").controller_owner_ref(&());
        child.metadata.owner_references = owner.map(|it| vec![it]);
        child
    };
    state.take(&None, Event::Applied(object("other", 1, "y")));
    let answer = state.take_answer(object("other", 2, "y"), 0);
    assert_eq!(answer.labels()["owner"], "y");
    state.take(&None, Event::Applied(child(3)));
    assert_eq!(changes(&mut state), [">x"]);
    assert_eq!(store.names().len(), 1);

    // Its owner has released it.
    state.take(&None, Event::Applied(object("child", 4, "x")));
    assert_eq!(changes(&mut state), ["x>"]);
    assert!(store.names().is_empty());
    state.take(&None, Event::Deleted(object("child", 5, "x")));
    assert!(changes(&mut state).is_empty());
}

#[test]
fn the_watch_adds_nothing_to_the_answer_of_an_own_write() {
    let (store, mut state) = state();
    state.take_answer(object("a", 5, "x"), 0);
    assert_eq!(changes(&mut state), [">x"]);
    assert_eq!(store.names().len(), 1);
    for version in [4, 5] {
        state.take(&None, Event::Applied(object("a", version, "x")));
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
    state.take(&None, Event::Applied(object("a", 5, "other")));
    state.take(&None, Event::Applied(object("a", 6, "own")));
    state.take_answer(object("a", 6, "own"), 0);
    assert_eq!(origins(&mut state), [Origin::Watch, own]);
    state.take_answer(object("a", 7, "own"), 0);
    state.take(&None, Event::Applied(object("a", 7, "own")));
    assert_eq!(origins(&mut state), [own]);

    state.end_write(write);
    state.take(&None, Event::Applied(object("a", 8, "own")));
    assert_eq!(origins(&mut state), [Origin::Watch]);
}

#[test]
fn a_late_answer_does_not_bring_back_what_is_gone() {
    let (store, mut state) = state();
    state.take(&None, Event::Applied(object("a", 5, "x")));
    state.take(&None, Event::Deleted(object("a", 6, "x")));
    state.take_answer(object("a", 5, "x"), 0);
    assert!(store.names().is_empty());

    list_at(&mut state, 8, &[]);
    state.take_answer(object("a", 7, "x"), 0);
    assert!(store.names().is_empty());
}

#[test]
fn versions_that_are_no_numbers_count_as_changes_where_they_differ() {
    let (store, mut state) = state();
    let opaque = |version: &str| {
        let mut object = object("a", 0, "x");
        object.metadata.resource_version = Some(version.to_owned());
        Event::Applied(object)
    };
    for version in ["b", "b", "a"] {
        state.take(&None, opaque(version));
    }
    assert_eq!(changes(&mut state), [">x", "x>x"]);
    let stored = store.list()[0].metadata.resource_version.clone();
    assert_eq!(stored.as_deref(), Some("a"));
}

#[test]
fn an_overlay_survives_the_watch_until_it_is_removed() {
    let (store, mut state) = state();
    state.take(&None, Event::Applied(object("a", 1, "x")));
    let overlay: Overlay<ConfigMap> = Arc::new(|object| object.immutable = Some(true));
    state.set_overlay(&object("a", 1, "x"), Some(overlay));
    assert_eq!(store.list()[0].immutable, Some(true));

    state.take(&None, Event::Applied(object("a", 2, "y")));
    assert_eq!(store.list()[0].immutable, Some(true));
    state.set_overlay(&object("a", 2, "y"), None);
    state.take(&None, Event::Applied(object("a", 3, "z")));
    assert_eq!(store.list()[0].immutable, None);
    assert_eq!(changes(&mut state), [">x", "x>y", "y>z"]);
}

#[test]
fn after_a_restore_the_same_version_may_be_another_object() {
    let (_, mut state) = state();
    list_at(&mut state, 9, &[object("a", 5, "old")]);
    changes(&mut state);
    list_at(&mut state, 6, &[object("a", 5, "new")]);
    assert_eq!(changes(&mut state), ["old>new"]);
    list_at(&mut state, 6, &[object("a", 5, "new")]);
    assert_eq!(changes(&mut state), [""; 0]);
}

#[test]
fn of_a_long_list_the_changes_are_reported_and_most_objects_packed() {
    let (store, mut state) = state();
    let count = 1000;
    let name = |number: usize| format!("object-{number}");
    let list: Vec<_> = (0..count)
        .map(|number| store.listed(object(&name(number), 1, "x")))
        .collect();
    state.take(&None, Event::ListBegins);
    state.take(
        &None,
        Event::Listed {
            objects: list,
            version: "1".to_owned(),
        },
    );
    let notifications = state.notifications();
    let whole = notifications
        .iter()
        .filter(|it| matches!(it.after, After::Known(_)));
    assert!(whole.count() < count / 10);
    let last = notifications.last().unwrap();
    let after = last.after(&store).unwrap();
    assert_eq!(after.labels()["owner"], "x");
    assert_eq!(last.change(Some(&after)).origin, Origin::List);
    assert_eq!(notifications.len(), count);
    assert_eq!(store.get(&ObjectRef::new(&name(count - 1))).unwrap(), after);
}
