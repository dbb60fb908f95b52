//! What kube's applier has of an object: its name.
//!
//! It looks up what it reconciles in a reflector's store of its own. With tickets there, the objects themselves can
//! be packed while they rest, as most do.

use std::marker::PhantomData;

use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;

use crate::object::{Object, reference};

/// The name of an object that is to be reconciled.
pub(super) type Ticket<K> = PartialObjectMeta<K>;

fn ticket<K: Object>(object: &ObjectRef<K>) -> Ticket<K> {
    PartialObjectMeta {
        types: None,
        metadata: ObjectMeta {
            name: Some(object.name.clone()),
            namespace: object.namespace.clone(),
            ..ObjectMeta::default()
        },
        _phantom: PhantomData,
    }
}

/// The object of the ticket.
pub(super) fn object<K: Object>(ticket: &Ticket<K>, dyntype: &K::DynamicType) -> ObjectRef<K> {
    reference(ticket, dyntype).into_kind_unchecked(dyntype.clone())
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
        self.0.apply_watcher_event(&Event::Apply(ticket(object)));
    }

    /// The applier no longer has the object.
    pub fn withdraw(&mut self, object: &ObjectRef<K>) {
        self.0.apply_watcher_event(&Event::Delete(ticket(object)));
    }
}
