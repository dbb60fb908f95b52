//! Objects without what no reconciler reads. It is summarized while it is read: otherwise most of what
//! an API server sends would be parsed and then dropped.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::DynamicResourceScope;
use serde::de::value::CowStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor,
};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};

use crate::ownership::{Key, summarize};

/// An object without its managed fields, which are half of it or more; their summary is in
/// `metadata.selfLink` ([`ownership::of_others`](crate::ownership::of_others)).
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct WithoutManagedFields<K>(pub K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for WithoutManagedFields<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Filter {
            inner: deserializer,
            level: Level::Object,
        };
        K::deserialize(object).map(Self)
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

/// Passes on what it wraps, but for the field `managedFields` of an object's `metadata`.
struct Filter<T> {
    inner: T,
    level: Level,
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Object,
    Metadata,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Filter<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(Filter {
            inner: visitor,
            level: self.level,
        })
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
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Fields {
            map,
            level: self.level,
            is_metadata: false,
            summary: None,
        })
    }
}

/// The fields of an object or of its metadata.
struct Fields<A> {
    map: A,
    level: Level,
    /// Whether the last field of an object was `metadata`.
    is_metadata: bool,
    /// The summary of the managed fields, until it is passed on.
    summary: Option<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        while let Some(Key(key)) = self.map.next_key()? {
            match (self.level, &*key) {
                (Level::Metadata, "selfLink") => _ = self.map.next_value::<IgnoredAny>()?,
                (Level::Metadata, "managedFields") => {
                    Summary(self.summary) = self.map.next_value()?;
                    if self.summary.is_some() {
                        let key = CowStrDeserializer::new(Cow::Borrowed("selfLink"));
                        return seed.deserialize(key).map(Some);
                    }
                }
                (level, name) => {
                    self.is_metadata = level == Level::Object && name == "metadata";
                    return seed.deserialize(CowStrDeserializer::new(key)).map(Some);
                }
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        if let Some(summary) = self.summary.take() {
            return seed.deserialize(Present(summary, PhantomData));
        }
        if self.is_metadata {
            let level = Level::Metadata;
            return self.map.next_value_seed(Filter { inner: seed, level });
        }
        self.map.next_value_seed(seed)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Filter<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Filter {
            inner: deserializer,
            level: self.level,
        })
    }
}

/// An optional text that is there.
struct Present<E>(String, PhantomData<E>);

impl<'de, E: Error> Deserializer<'de> for Present<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_some(self.0.into_deserializer())
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// What is left of the managed fields.
#[derive(Deserialize)]
struct Summary(#[serde(deserialize_with = "summarize")] Option<String>);

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use kube::core::PartialObjectMeta;
    use serde_json::json;

    use super::*;
    use crate::ownership::of_others;

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
    fn an_applied_object_says_that_others_own_fields_of_it() {
        let own = json!({ "f:metadata": { "f:annotations": { "f:a/desired-hash": {} } } });
        let entries = json!([
            { "manager": "operator", "operation": "Apply", "fieldsV1": own },
            { "manager": "kubectl", "operation": "Update", "fieldsV1": { "f:data": { "f:a": {} } } },
        ]);
        let object = json!({ "metadata": { "managedFields": entries, "name": "x" }, "data": {} });
        let WithoutManagedFields::<ConfigMap>(object) =
            serde_json::from_str(&object.to_string()).unwrap();
        let others = of_others(&object.metadata).unwrap();
        assert!(others.starts_with("kubectl "), "{others}");
        assert_eq!(object.metadata.name.as_deref(), Some("x"));
    }

    #[test]
    fn of_metadata_nothing_else_is_asked_for() {
        assert!(WithoutManagedFields::<PartialObjectMeta<Pod>>::metadata_api());
        assert!(!WithoutManagedFields::<Pod>::metadata_api());
    }
}
