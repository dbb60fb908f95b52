//! Which changes make a controller reconcile which objects.

use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::Predicate;
use kube::runtime::reflector::ObjectRef;
use tracing::info;

use super::queue::Queue;
use crate::object::{Object, controller_ref};
use crate::store::{Before, Change, ControllerId, Origin, Store};

/// What the objects that a mapper returns follow from.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Name,
    Owners,
    Anything,
}

impl Key {
    /// Whether an object that has changed is mapped to what it was mapped to before.
    fn is_same<C: Object>(self, before: &Before<C>, after: &C) -> bool {
        match self {
            Self::Name => true,
            Self::Owners => before.has_owners_of(after),
            Self::Anything => false,
        }
    }
}

/// Adds the objects to the queue that `mapper` returns for what changes in `store`. `controller` is
/// the one that reconciles these very objects.
pub(super) fn subscribe<C: Object, K: Object, I>(
    store: &Store<C>,
    queue: &Arc<Queue<K>>,
    controller: Option<ControllerId>,
    predicate: Option<Box<dyn Predicate<C> + Send + Sync>>,
    key: Key,
    mapper: impl Fn(&C) -> I + Send + Sync + 'static,
) where
    I: IntoIterator<Item = ObjectRef<K>>,
{
    let (queue, dyntype) = (Arc::clone(queue), store.dyntype().clone());
    let cause = queue.causes.of_kind(&C::kind(&dyntype));
    store.subscribe(move |change| {
        if controller.is_some() && change.origin == (Origin::Write { quiet: controller }) {
            return;
        }
        let map = |object: Option<&C>| -> Vec<ObjectRef<K>> {
            object.map_or_else(Vec::new, |object| mapper(object).into_iter().collect())
        };
        let new = map(change.after);
        // Where they were others.
        let old = match (change.before, change.after) {
            (Some(before), Some(after)) if key.is_same(before, after) => None,
            (before, _) => Some(map(before.and_then(Before::object))).filter(|old| *old != new),
        };
        if old.is_none() && is_unchanged(predicate.as_deref(), change) {
            return;
        }
        if predicate.is_none() && !(old.is_none() && new.is_empty()) {
            log(change, &dyntype);
        }
        old.into_iter()
            .flatten()
            .chain(new)
            .for_each(|object| queue.add(object, cause));
    });
}

/// Whether the object was there before, is there after, and has the same property.
fn is_unchanged<C: Object>(
    predicate: Option<&(dyn Predicate<C> + Send + Sync)>,
    change: Change<'_, C>,
) -> bool {
    let (Some(predicate), Some(after)) = (predicate, change.after) else {
        return false;
    };
    let Some(before) = change.before.and_then(Before::object) else {
        return false;
    };
    let property = predicate.hash_property(before);
    property.is_some() && property == predicate.hash_property(after)
}

/// Logs that an object appears, changes its specification, or goes. What has no generation changes
/// too often for that, and a child appears by an own write, which is logged there.
fn log<C: Object>(change: Change<'_, C>, dyntype: &C::DynamicType) {
    if change.origin != Origin::Watch {
        return;
    }
    let (object, verb) = match (change.before, change.after) {
        (None, Some(object)) if controller_ref(object).is_none() => (object, "appeared"),
        (Some(before), Some(after)) if !before.has_generation_of(after) => (after, "was changed"),
        (Some(before), None) => match before.object() {
            Some(object) => (object, "is gone"),
            None => return,
        },
        _ => return,
    };
    let (kind, name, namespace) = (C::kind(dyntype), object.name_any(), object.namespace());
    let generation = object.meta().generation;
    info!(namespace, generation, "{kind} {name} {verb}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{FutureExt, StreamExt};
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::Resource;
    use kube::runtime::controller::Action;

    use super::*;
    use crate::metrics::Metrics;
    use crate::object::controller_of;
    use crate::store::Event;

    fn child(number: usize, version: usize, owner: &str) -> ConfigMap {
        let mut parent = Secret::default();
        parent.metadata.name = Some(owner.to_owned());
        parent.metadata.uid = Some(owner.to_owned());
        let mut child = ConfigMap::default();
        child.metadata.name = Some(number.to_string());
        child.metadata.resource_version = Some(version.to_string());
        child.metadata.owner_references = parent.controller_owner_ref(&()).map(|it| vec![it]);
        child
    }

    #[test]
    fn a_child_that_changes_its_owner_is_a_change_of_both() {
        const COUNT: usize = 100; // the first ones are packed by then
        let store = Store::from_iter((0..COUNT).map(|number| child(number, 1, "x")));
        let (queue, requests) = Queue::<Secret>::new(());
        queue.open(
            Metrics::for_tests().controller("test", 8),
            Duration::ZERO,
            8,
        );
        subscribe(&store, &queue, None, None, Key::Owners, |child| {
            controller_of::<Secret>(child, &())
        });
        let mut requests = requests.map(|request| request.name);
        let mut reconciled = |number, version, owner| {
            store.take(&None, Event::Applied(child(number, version, owner)));
            let mut names = Vec::new();
            while let Some(name) = requests.next().now_or_never().flatten() {
                queue.take(&ObjectRef::new(&name));
                queue.finish(&ObjectRef::new(&name), &Action::await_change());
                names.push(name);
            }
            names
        };
        for number in [0, COUNT - 1] {
            assert_eq!(reconciled(number, 2, "x"), ["x"]);
            assert_eq!(reconciled(number, 3, "y"), ["x", "y"]);
            assert_eq!(reconciled(number, 4, "y"), ["y"]);
        }
    }
}
