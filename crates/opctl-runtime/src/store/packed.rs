//! Objects at rest: JSON, compressed.
//!
//! The objects of a kind have most of their text in common. LZ4 refers to one of them for that, which
//! leaves about a tenth of a Deployment.

use std::sync::{Arc, OnceLock};

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};

use crate::object::Object;
use crate::without_managed_fields::WithoutManagedFields;

/// How far back LZ4 refers, in bytes
/// (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>).
const WINDOW: usize = 64 << 10;

/// The text that the objects of a store refer to: the first one that is packed. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Dictionary(Arc<OnceLock<Box<[u8]>>>);

/// An object as compressed JSON.
pub(crate) struct Packed {
    text: Box<[u8]>,
    dictionary: Dictionary,
    version: Option<Box<str>>,
    /// The summary of its managed fields.
    others: Option<Box<str>>,
}

impl Packed {
    /// `None` where the object cannot be written.
    pub(super) fn new<K: Object>(object: &K, dictionary: &Dictionary) -> Option<Self> {
        let meta = object.meta();
        let text = serde_json::to_vec(object).ok()?;
        let common = dictionary
            .0
            .get_or_init(|| text[..text.len().min(WINDOW)].into());
        Some(Self {
            text: compress_prepend_size_with_dict(&text, common).into(),
            dictionary: dictionary.clone(),
            version: meta.resource_version.as_deref().map(Into::into),
            others: meta.self_link.as_deref().map(Into::into),
        })
    }

    pub(super) fn resource_version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// `None` where the object cannot be read again, which it could be when it came.
    pub(super) fn unpack<K: Object>(&self) -> Option<K> {
        let common = self.dictionary.0.get()?;
        let text = decompress_size_prepended_with_dict(&self.text, common).ok()?;
        // As everywhere: what reads all types from bytes, too, would be half a megabyte of code.
        let text = String::from_utf8(text).ok()?;
        let WithoutManagedFields(mut object) = serde_json::from_str(&text).ok()?;
        let meta = K::meta_mut(&mut object);
        meta.self_link = self.others.as_deref().map(str::to_owned);
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    use super::*;

    fn object(name: &str, value: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some([("key".to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        }
    }

    /// Text that does not repeat.
    fn noise(size: usize) -> String {
        let numbers =
            std::iter::successors(Some(1_u32), |it| Some(it.wrapping_mul(747_796_405) + 1));
        let letters = numbers.map(|number| char::from(b'a' + (number >> 24) as u8 % 26));
        letters.take(size).collect()
    }

    #[test]
    fn objects_that_are_alike_take_little() {
        let dictionary = Dictionary::default();
        let common = noise(2000);
        for name in ["first", "second"] {
            let object = object(name, &common);
            let packed = Packed::new(&object, &dictionary).unwrap();
            assert!(packed.text.len() < 200, "{}", packed.text.len());
            assert_eq!(packed.unpack(), Some(object));
        }
    }

    #[test]
    fn objects_of_any_size_are_the_same_again() {
        let dictionary = Dictionary::default();
        let sizes = [3 * WINDOW, 0, WINDOW, 1, 10 * WINDOW];
        for object in sizes.map(|size| object("x", &noise(size))) {
            let packed = Packed::new(&object, &dictionary).unwrap();
            assert_eq!(packed.unpack(), Some(object));
        }
    }
}
