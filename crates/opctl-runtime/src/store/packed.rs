//! Objects at rest: JSON, compressed.
//!
//! The objects of a kind have most of their text in common. LZ4 refers to one of them for that, which
//! leaves about a tenth of a Deployment.

use std::sync::{Arc, Mutex, PoisonError};

use lz4_flex::block::{compress_into_with_dict, decompress_with_dict, get_maximum_output_size};

use super::stored::Header;
use crate::object::Object;
use crate::without_managed_fields::WithoutManagedFields;

/// How far back LZ4 refers, in bytes
/// (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>).
const WINDOW: usize = 64 << 10;

/// An object that takes more than this part of its text has little in common with the dictionary.
const PART: usize = 8;

/// For how many objects a dictionary is kept at least.
const TERM: usize = 64;

/// Packs the objects of a store.
#[derive(Default)]
pub(super) struct Packer(Mutex<Workspace>);

#[derive(Default)]
struct Workspace {
    dictionary: Dictionary,
    /// How many objects have been packed with it.
    packed: usize,
    /// Both are used again and again: what is packed lasts, and would lie between the gaps that they leave.
    text: Vec<u8>,
    compressed: Vec<u8>,
}

/// The text of an object that others refer to.
type Dictionary = Arc<Box<[u8]>>;

/// An object as compressed JSON.
pub(crate) struct Packed {
    text: Box<[u8]>,
    /// How long the text is when it is not compressed.
    size: usize,
    dictionary: Dictionary,
    pub(super) header: Header,
}

impl Packer {
    /// `None` where the object cannot be written.
    pub fn pack<K: Object>(&self, object: &K) -> Option<Packed> {
        let mut workspace = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workspace.pack(object)
    }
}

impl Workspace {
    fn pack<K: Object>(&mut self, object: &K) -> Option<Packed> {
        self.text.clear();
        serde_json::to_writer(&mut self.text, object).ok()?;
        let size = self.text.len();
        let mut length = self.compress()?;
        let is_first = self.dictionary.is_empty();
        if is_first || (length * PART > size && self.packed >= TERM) {
            // Objects may have grown since then, such as by a status.
            self.dictionary = Arc::new(self.text[..size.min(WINDOW)].into());
            self.packed = 0;
            length = self.compress()?;
        }
        self.packed += 1;
        let packed = Packed {
            text: self.compressed[..length].into(),
            size,
            dictionary: Arc::clone(&self.dictionary),
            header: Header::of(object.meta()),
        };
        for buffer in [&mut self.text, &mut self.compressed] {
            buffer.clear(); // else it would keep its capacity
            buffer.shrink_to(WINDOW);
        }
        Some(packed)
    }

    /// Returns the length of what is compressed.
    fn compress(&mut self) -> Option<usize> {
        self.compressed.clear();
        self.compressed
            .resize(get_maximum_output_size(self.text.len()), 0);
        compress_into_with_dict(&self.text, &mut self.compressed, &self.dictionary).ok()
    }
}

impl Packed {
    /// `None` where the object cannot be read again, which it could be when it came.
    pub(super) fn unpack<K: Object>(&self) -> Option<K> {
        let text = decompress_with_dict(&self.text, self.size, &self.dictionary).ok()?;
        // As everywhere: what reads all types from bytes, too, would be half a megabyte of code.
        let text = String::from_utf8(text).ok()?;
        let WithoutManagedFields(mut object) = serde_json::from_str(&text).ok()?;
        let meta = K::meta_mut(&mut object);
        meta.self_link = self.header.others.as_deref().map(str::to_owned);
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
        let packer = Packer::default();
        let common = noise(2000);
        for name in ["first", "second"] {
            let object = object(name, &common);
            let packed = packer.pack(&object).unwrap();
            assert!(packed.text.len() < 200, "{}", packed.text.len());
            assert_eq!(packed.unpack(), Some(object));
        }
    }

    #[test]
    fn objects_of_any_size_are_the_same_again() {
        let packer = Packer::default();
        let sizes = [3 * WINDOW, 0, WINDOW, 1, 10 * WINDOW];
        for object in sizes.map(|size| object("x", &noise(size))) {
            let packed = packer.pack(&object).unwrap();
            assert_eq!(packed.unpack(), Some(object));
        }
    }

    #[test]
    fn buffers_of_large_objects_are_not_kept() {
        let packer = Packer::default();
        packer.pack(&object("x", &noise(10 * WINDOW))).unwrap();
        let workspace = packer.0.lock().unwrap();
        let kept = workspace.text.capacity() + workspace.compressed.capacity();
        assert!(kept <= 2 * WINDOW, "{kept}");
    }

    #[test]
    fn objects_that_have_grown_have_another_dictionary() {
        let packer = Packer::default();
        let text = noise(2000);
        let pack = |name: &str, size| {
            let object = object(name, &text[..size]);
            let packed = packer.pack(&object).unwrap();
            assert_eq!(packed.unpack(), Some(object));
            packed
        };
        let first: Vec<_> = (0..TERM).map(|it| pack(&it.to_string(), 10)).collect();
        let sizes = ["a", "b", "c"].map(|name| pack(name, text.len()).text.len());
        assert!(sizes.iter().all(|size| *size < 200), "{sizes:?}");
        assert_eq!(first[1].unpack(), Some(object("1", &text[..10])));

        // Those that have nothing in common do not have one each.
        let text = noise(200 * 1000);
        let unlike = |start: usize| object("x", &text[start..start + 1000]);
        let starts = (0..text.len()).step_by(1000);
        let packed = starts.map(|start| packer.pack(&unlike(start)).unwrap());
        let mut dictionaries: Vec<_> = packed.map(|it| it.dictionary.to_vec()).collect();
        dictionaries.dedup();
        assert!(
            dictionaries.len() <= 1 + 200 / TERM,
            "{}",
            dictionaries.len()
        );
    }
}
