//! Objects without what no reconciler reads. It is skipped while it is read: otherwise most of what
//! an API server sends would be parsed and then dropped.

use std::borrow::Cow;
use std::fmt;

use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::DynamicResourceScope;
use kube::runtime::watcher::Event;
use serde::de::value::CowStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};

/// An object without its managed fields, which are half of it or more.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct WithoutManagedFields<K>(pub K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for WithoutManagedFields<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        K::deserialize(Filter(deserializer)).map(Self)
    }
}

impl<K: Resource> Resource for WithoutManagedFields<K> {
    type DynamicType = K::DynamicType;
    // `Api` takes a namespace at run time for this scope alone; `object::api` knows the real one.
    type Scope = DynamicResourceScope;

    fn metadata_api() -> bool {
        K::metadata_api()
    }

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
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// The watch event with the objects themselves.
pub(crate) fn unwrapped<K>(event: Event<WithoutManagedFields<K>>) -> Event<K> {
    match event {
        Event::Apply(WithoutManagedFields(object)) => Event::Apply(object),
        Event::Delete(WithoutManagedFields(object)) => Event::Delete(object),
        Event::Init => Event::Init,
        Event::InitApply(WithoutManagedFields(object)) => Event::InitApply(object),
        Event::InitDone => Event::InitDone,
    }
}

/// Passes on what it wraps, but for the field `managedFields` of an object and of its `metadata`.
struct Filter<T>(T);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Filter<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Filter(visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Filter<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Fields { map, inner: false })
    }
}

/// The fields of a map; `inner` is whether the last one was `metadata`.
struct Fields<A> {
    map: A,
    inner: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        while let Some(Key(key)) = self.map.next_key()? {
            if key == "managedFields" {
                self.map.next_value::<IgnoredAny>()?;
                continue;
            }
            self.inner = key == "metadata";
            return seed.deserialize(CowStrDeserializer::new(key)).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        match self.inner {
            true => self.map.next_value_seed(Filter(seed)),
            false => self.map.next_value_seed(seed),
        }
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Filter<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Filter(deserializer))
    }
}

/// Borrowed where it can be.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube::core::PartialObjectMeta;
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_lost_but_the_managed_fields() {
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "x", "labels": { "managedFields": "y" }, "generation": 1 },
            "data": { "metadata": "z", "managedFields": "z" },
        });
        let whole: ConfigMap = serde_json::from_value(object.clone()).unwrap();
        object["metadata"]["managedFields"] =
            json!([{ "manager": "x", "fieldsV1": { "f:x": {} } }]);
        let WithoutManagedFields(trimmed) = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!(whole, trimmed);
    }

    #[test]
    fn of_metadata_nothing_else_is_asked_for() {
        assert!(WithoutManagedFields::<PartialObjectMeta<Pod>>::metadata_api());
        assert!(!WithoutManagedFields::<Pod>::metadata_api());
    }
}
