//! Random numbers, and random changes of an object by the schema of its kind.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// Texts that are valid somewhere: names, quantities, enumerations, paths.
const WORDS: [&str; 24] = [
    "a",
    "b",
    "main",
    "tmp",
    "1",
    "10m",
    "64Mi",
    "Always",
    "Never",
    "IfNotPresent",
    "Recreate",
    "RollingUpdate",
    "ClusterIP",
    "NodePort",
    "Local",
    "TCP",
    "UDP",
    "Memory",
    "/tmp",
    "/data",
    "Parallel",
    "OnDelete",
    "Forbid",
    "* * * * *",
];

/// SplitMix64 (<https://prng.di.unimi.it/splitmix64.c>, public domain): a sequence for each seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ (value >> 31)) % limit as u64) as usize
    }

    pub fn duration(&mut self, longest: Duration) -> Duration {
        Duration::from_millis(self.below(longest.as_millis() as usize + 1) as u64)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// The schemas of an OpenAPI document of the API server.
pub struct Schemas(pub Value);

impl Schemas {
    /// The schema without references.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let inner = schema["allOf"].get(0).unwrap_or(schema);
        match inner["$ref"]
            .as_str()
            .and_then(|path| path.rsplit('/').next())
        {
            Some(name) => &self.0["components"]["schemas"][name],
            None => inner,
        }
    }

    pub fn of(&self, name: &str) -> &Value {
        &self.0["components"]["schemas"][name]
    }

    /// Changes something in `value`: sets a field, adds or removes an item, replaces a text.
    pub fn change(&self, random: &mut Random, value: &mut Value, schema: &Value) {
        let schema = self.resolve(schema);
        match value {
            Value::Object(fields) => self.change_fields(random, fields, schema),
            Value::Array(items) => match random.below(4) {
                0 if !items.is_empty() => _ = items.remove(random.below(items.len())),
                1 => items.push(self.value(random, &schema["items"], 3)),
                _ if !items.is_empty() => {
                    let item = random.below(items.len());
                    self.change(random, &mut items[item], &schema["items"]);
                }
                _ => {}
            },
            value => *value = self.value(random, schema, 3),
        }
    }

    fn change_fields(&self, random: &mut Random, fields: &mut Map<String, Value>, schema: &Value) {
        let names: Vec<_> = match schema["properties"].as_object() {
            Some(properties) => properties.keys().cloned().collect(),
            None => vec!["a".to_owned(), "b".to_owned()],
        };
        let present: Vec<_> = fields.keys().cloned().collect();
        // Most fields are not set: what is there is changed as often as what is not.
        let name = if !present.is_empty() && random.one_in(2) {
            random.pick(&present).clone()
        } else {
            random.pick(&names).clone()
        };
        let property = match schema["properties"].get(&name) {
            Some(property) => property,
            None => &schema["additionalProperties"],
        };
        match fields.get_mut(&name) {
            Some(_) if random.one_in(6) => _ = fields.remove(&name),
            Some(value) => self.change(random, value, property),
            None => _ = fields.insert(name, self.value(random, property, 3)),
        }
    }

    /// A value of the schema, nested at most so deep.
    pub fn value(&self, random: &mut Random, schema: &Value, depth: usize) -> Value {
        let schema = self.resolve(schema);
        match schema["type"].as_str() {
            Some("boolean") => json!(random.one_in(2)),
            Some("integer") => json!(*random.pick(&[0, 1, 2, 8, 80, 443, 600])),
            Some("array") => json!([self.value(random, &schema["items"], depth)]),
            Some("object") if schema["properties"].is_object() => {
                let mut fields = Map::new();
                let properties = schema["properties"].as_object().into_iter().flatten();
                for (name, property) in properties {
                    let required = schema["required"].as_array().into_iter().flatten();
                    let is_required = required.into_iter().any(|it| it == name.as_str());
                    if is_required || (depth > 0 && random.one_in(4)) {
                        let value = self.value(random, property, depth.saturating_sub(1));
                        fields.insert(name.clone(), value);
                    }
                }
                Value::Object(fields)
            }
            Some("object") => json!({ *random.pick(&WORDS): *random.pick(&WORDS) }),
            Some("string") if schema["enum"].is_array() => {
                let values = schema["enum"].as_array().cloned().unwrap_or_default();
                random.pick(&values).clone()
            }
            // An IntOrString or a Quantity has no type.
            None if random.one_in(2) => json!(random.below(100)),
            _ => json!(*random.pick(&WORDS)),
        }
    }
}
