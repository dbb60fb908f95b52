//! What an event or an object is about, without reading the rest.
//!
//! A write is told of twice: by its answer and by the watch. The second time there is nothing to read.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::ownership::Key;

/// The type of an event, and the name and the version of its object. What is missing is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Glance {
    pub type_: String,
    pub name: String,
    pub namespace: Option<String>,
    pub version: String,
}

impl Glance {
    /// At an event of a watch, which is JSON.
    pub fn at_event(json: &str) -> Self {
        Self::at(json, Level::Event)
    }

    /// At an object, which is JSON.
    pub fn at_object(json: &str) -> Self {
        Self::at(json, Level::Object)
    }

    fn at(json: &str, level: Level) -> Self {
        let mut glance = Self::default();
        let look = Look {
            glance: &mut glance,
            level,
            is_last: level == Level::Object,
        };
        // Once there is nothing more to see, it ends with an error.
        let _ = look.deserialize(&mut serde_json::Deserializer::from_str(json));
        glance
    }
}

/// The object of an event.
#[derive(Deserialize)]
pub(super) struct Holder<T> {
    pub object: T,
}

struct Look<'a> {
    glance: &'a mut Glance,
    level: Level,
    /// Whether the metadata is the last thing to see.
    is_last: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Event,
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let glance = self.glance;
        while let Some(Key(key)) = map.next_key()? {
            let below = match (self.level, &*key) {
                (Level::Event, "type") => {
                    glance.type_ = map.next_value()?;
                    continue;
                }
                (Level::Event, "object") => Level::Object,
                (Level::Object, "metadata") => Level::Metadata,
                (Level::Metadata, "name") => {
                    glance.name = map.next_value()?;
                    continue;
                }
                (Level::Metadata, "namespace") => {
                    glance.namespace = Some(map.next_value()?);
                    continue;
                }
                // It comes after the others, whether the fields are in the order of Go's type or sorted.
                (Level::Metadata, "resourceVersion") => {
                    glance.version = map.next_value()?;
                    if self.is_last {
                        return Err(A::Error::custom("there is nothing more to see"));
                    }
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let is_last = self.is_last || !glance.type_.is_empty();
            map.next_value_seed(Look {
                glance: &mut *glance,
                level: below,
                is_last,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = r#"{"kind":"ConfigMap","metadata":{"managedFields":[{"name":"no"}],"name":"a",
        "namespace":"x","resourceVersion":"7","uid":"1"},"data":{"a":"b"}}"#;

    fn seen(type_: &str) -> Glance {
        Glance {
            type_: type_.to_owned(),
            name: "a".to_owned(),
            namespace: Some("x".to_owned()),
            version: "7".to_owned(),
        }
    }

    #[test]
    fn an_event_has_a_type_and_an_object_whatever_comes_first() {
        assert_eq!(Glance::at_object(OBJECT), seen(""));
        for event in [
            format!(r#"{{"type":"DELETED","object":{OBJECT}}}"#),
            format!(r#"{{"object":{OBJECT},"type":"DELETED"}}"#),
        ] {
            assert_eq!(Glance::at_event(&event), seen("DELETED"));
        }
    }

    #[test]
    fn the_rest_need_not_be_there() {
        let cut = &OBJECT[..OBJECT.find(r#","uid""#).unwrap()];
        assert_eq!(Glance::at_object(cut), seen(""));
        assert_eq!(Glance::at_object(&cut[..cut.len() - 1]).version, "");
    }

    #[test]
    fn what_is_missing_is_empty() {
        for json in ["", "null", "[]", "{}", r#"{"metadata":{}}"#] {
            assert_eq!(Glance::at_object(json), Glance::default(), "{json}");
        }
    }
}
