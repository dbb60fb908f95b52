//! One object of a store.

use std::cell::OnceCell;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use kube::api::ObjectMeta;

use super::packed::{Packed, Packer};
use crate::object::{Object, hash_owners};

/// It is there as it came, packed, or both.
pub(super) struct Stored<K> {
    whole: Option<Arc<K>>,
    packed: Option<Packed>,
}

/// What is asked of a packed object so often that it need not be read for that.
pub(super) struct Header {
    version: Option<Box<str>>,
    /// 0 is none.
    generation: i64,
    /// A hash.
    owners: u64,
    /// The summary of its managed fields.
    pub others: Option<Box<str>>,
}

impl Header {
    pub fn of(meta: &ObjectMeta) -> Self {
        Self {
            version: meta.resource_version.as_deref().map(Into::into),
            generation: generation(meta),
            owners: owners(meta),
            others: meta.self_link.as_deref().map(Into::into),
        }
    }

    pub fn resource_version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

fn generation(meta: &ObjectMeta) -> i64 {
    meta.generation.unwrap_or_default()
}

fn owners(meta: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_owners(meta, &mut hasher);
    hasher.finish()
}

impl<K: Object> Stored<K> {
    /// The object as it came.
    pub fn whole(object: Arc<K>) -> Self {
        Self {
            whole: Some(object),
            packed: None,
        }
    }

    pub fn packed(packed: Packed) -> Self {
        Self {
            whole: None,
            packed: Some(packed),
        }
    }

    pub fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// `None` where it can no longer be read.
    pub fn object(&self) -> Option<Arc<K>> {
        self.whole.clone().or_else(|| {
            let packed = self.packed.as_ref();
            packed.and_then(Packed::unpack).map(Arc::new)
        })
    }

    /// As [`Stored::object`], which is there from then on.
    pub fn keep(&mut self) -> Option<Arc<K>> {
        if self.whole.is_none() {
            self.whole = self.object();
        }
        self.whole.clone()
    }

    pub fn pack(&mut self, packer: &Packer) {
        if self.packed.is_none() {
            self.packed = self
                .whole
                .as_ref()
                .and_then(|object| packer.pack(&**object));
        }
        if self.packed.is_some() {
            self.whole = None;
        }
    }

    pub fn resource_version(&self) -> Option<&str> {
        match &self.packed {
            Some(packed) => packed.header.resource_version(),
            None => self.whole.as_ref()?.meta().resource_version.as_deref(),
        }
    }

    /// What the header tells, or the metadata.
    fn told<T>(&self, header: fn(&Header) -> T, meta: fn(&ObjectMeta) -> T) -> Option<T> {
        match &self.packed {
            Some(packed) => Some(header(&packed.header)),
            None => self.whole.as_ref().map(|object| meta(object.meta())),
        }
    }
}

/// An object before a change. It is read when somebody asks for it: few do.
pub(crate) struct Before<K> {
    stored: Stored<K>,
    object: OnceCell<Option<Arc<K>>>,
}

impl<K> From<Stored<K>> for Before<K> {
    fn from(stored: Stored<K>) -> Self {
        let object = OnceCell::new();
        Self { stored, object }
    }
}

impl<K: Object> Before<K> {
    pub fn object(&self) -> Option<&K> {
        self.object.get_or_init(|| self.stored.object()).as_deref()
    }

    pub fn resource_version(&self) -> Option<&str> {
        self.stored.resource_version()
    }

    /// Whether its specification was that of the object.
    pub fn has_generation_of(&self, object: &K) -> bool {
        self.stored.told(|header| header.generation, generation) == Some(generation(object.meta()))
    }

    /// Whether its owners were those of the object.
    pub fn has_owners_of(&self, object: &K) -> bool {
        self.stored.told(|header| header.owners, owners) == Some(owners(object.meta()))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Resource;

    use super::*;
    use crate::store::tests::owner;

    fn object(generation: i64, owner_uid: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.resource_version = Some("7".to_owned());
        object.metadata.generation = Some(generation);
        object.metadata.owner_references = owner(owner_uid)
            .controller_owner_ref(&())
            .map(|it| vec![it]);
        object
    }

    #[test]
    fn a_packed_object_tells_as_much_as_a_whole_one() {
        let mut stored = Stored::whole(Arc::new(object(1, "x")));
        for is_packed in [false, true] {
            if is_packed {
                stored.pack(&Packer::default());
            }
            assert_eq!(stored.is_whole(), !is_packed);
            let before = Before::from(stored);
            assert_eq!(before.resource_version(), Some("7"));
            for (generation, owner, is_same) in [
                (1, "x", [true, true]),
                (2, "x", [false, true]),
                (1, "y", [true, false]),
            ] {
                let after = object(generation, owner);
                let told = [
                    before.has_generation_of(&after),
                    before.has_owners_of(&after),
                ];
                assert_eq!(told, is_same, "{generation} {owner}");
            }
            assert_eq!(before.object(), Some(&object(1, "x")));
            stored = before.stored;
        }
    }
}
