//! What kube's applier has of an object: its name.
//!
//! It looks up what it reconciles in a reflector's store of its own. With tickets there, the objects themselves can
//! be packed while they rest, as most do.

use std::borrow::Cow;
use std::marker::PhantomData;

use kube::Resource;
use kube::api::ObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;

use crate::object::Object;

/// An object that is to be reconciled.
#[derive(Debug, Clone)]
pub(super) struct Ticket<K> {
    metadata: ObjectMeta,
    kind: PhantomData<fn() -> K>,
}

impl<K: Object> Ticket<K> {
    fn new(object: &ObjectRef<K>) -> Self {
        Self {
            metadata: ObjectMeta {
                name: Some(object.name.clone()),
                namespace: object.namespace.clone(),
                ..ObjectMeta::default()
            },
            kind: PhantomData,
        }
    }

    pub fn object(&self, dyntype: &K::DynamicType) -> ObjectRef<K> {
        ObjectRef::from_obj_with(self, dyntype.clone()).into_kind_unchecked(dyntype.clone())
    }
}

impl<K: Object> Resource for Ticket<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The tickets of the objects that the applier has.
pub(super) struct Tickets<K: Object>(Writer<Ticket<K>>);

impl<K: Object> Tickets<K> {
    pub fn new(dyntype: K::DynamicType) -> Self {
        let mut writer = Writer::new(dyntype);
        // The applier does not wait for a list.
        writer.apply_watcher_event(&Event::InitDone);
        Self(writer)
    }

    pub fn reader(&self) -> Store<Ticket<K>> {
        self.0.as_reader()
    }

    /// The applier gets the object.
    pub fn issue(&mut self, object: &ObjectRef<K>) {
        self.0
            .apply_watcher_event(&Event::Apply(Ticket::new(object)));
    }

    /// The applier no longer has the object.
    pub fn withdraw(&mut self, object: &ObjectRef<K>) {
        self.0
            .apply_watcher_event(&Event::Delete(Ticket::new(object)));
    }
}
