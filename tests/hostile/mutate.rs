//! Random changes of YAML: of its text, and of its values.

use serde_yaml::value::{Tag, TaggedValue};
use serde_yaml::{Mapping, Value};

use super::random::Random;

/// Text that means something to Rust, YAML, a shell, a terminal or a file system.
const TEXTS: &[&str] = &[
    "",
    "\n",
    "a\npub fn injected() {}\n//",
    "*/ mod x {}",
    "\"; }",
    "r#\"",
    "#[derive(X)]",
    "../../../escaped",
    "/etc/passwd",
    "a/b",
    ".",
    "..",
    "con",
    "\u{1b}[31m",
    "\u{202e}",
    "\u{2028}",
    "\u{200b}",
    "\u{feff}",
    "\u{e0041}",
    "\0",
    "\r",
    "m²",
    "日本",
    "é",
    "$(id)",
    "`id`",
    "<$ owner $>",
    "<% if %>",
    "{{ x }}",
    "- [",
    "# a",
    ": ",
    "---",
    "~",
    "null",
    "true",
    "on",
    "y",
    "0x10",
    "1e3",
    ".nan",
    "2026-01-01",
    "&a",
    "*a",
    "!x",
    "<<",
    "Self",
    "self",
    "crate",
    "async",
    "BTreeMap",
    "Option",
    "CustomResource",
    "Debug",
    "Result",
    "Value",
    "Time",
    "Box",
    "Widget",
    "widgets",
    "a.example.org",
    "example.org",
    "v1",
    "v2alpha1",
    "Namespaced",
    "object",
    "array",
    "string",
    "integer",
    "number",
    "int32",
    "date-time",
    "byte",
    "unknown",
    "kind",
    "metadata",
    "status",
    "spec",
    "apiVersion",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "additionalProperties",
    "nullable",
    "aVeryLongNameThatGoesOnAndOnAndOnUntilNobodyCanReadItAnyMoreAndThenSomeMore",
];

/// Fields that are changed more often than others, because opctl reads them.
const FIELDS: &[&str] = &[
    "group",
    "kind",
    "plural",
    "scope",
    "name",
    "served",
    "storage",
    "type",
    "format",
    "enum",
    "default",
    "required",
    "properties",
    "items",
    "additionalProperties",
    "minItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "description",
    "nullable",
    "domain",
    "version",
    "core",
    "external",
    "controller",
    "api",
    "namespaced",
    "owner",
    "license",
    "recipe",
    "options",
    "image",
    "containerCommand",
    "containerPort",
    "runAsUser",
    "projectName",
    "cliVersion",
    "layout",
    "resources",
    "plugins",
    "crdVersion",
    "multipleOf",
    "exclusiveMinimum",
    "minProperties",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
];

/// A text with some of its values changed or, more rarely, some of its characters.
pub fn mutate(text: &str, random: &mut Random) -> String {
    let value = serde_yaml::from_str(text).unwrap();
    let mut text = if random.below(8) == 0 { text.to_owned() } else { values(value, random) };
    if random.below(4) == 0 {
        for _ in 0..=random.below(3) {
            text = characters(&text, random);
        }
    }
    text
}

fn values(mut value: Value, random: &mut Random) -> String {
    let mut places = Vec::new();
    find(&value, &mut Vec::new(), &mut places);
    let is_field = |place: &Place| {
        place.iter().rev().take(2).any(|step| FIELDS.contains(&step.as_str().unwrap_or_default()))
    };
    // Places near the root are changed as often as those in deep schemas, of which there are many more.
    let near = places.iter().filter(|place| place.len() <= 6 && is_field(place));
    let near: Vec<Place> = near.cloned().collect();
    let fields: Vec<Place> = places.iter().filter(|place| is_field(place)).cloned().collect();
    for _ in 0..=random.below(3) {
        let candidates = *random.choose(&[&near, &fields, &places]);
        let candidates = if candidates.is_empty() { &places } else { candidates };
        let place = random.choose(candidates).clone();
        let other: &Place = random.choose(&places);
        let other = at(&mut value, other).cloned();
        change(&mut value, &place, other, random);
    }
    serde_yaml::to_string(&value).unwrap_or_default()
}

type Place = Vec<Value>;

/// The paths of all values.
fn find(value: &Value, path: &mut Place, places: &mut Vec<Place>) {
    places.push(path.clone());
    let mut step = |key: Value, value| {
        path.push(key);
        find(value, path, places);
        path.pop();
    };
    match value {
        Value::Mapping(fields) => fields.iter().for_each(|(key, value)| step(key.clone(), value)),
        Value::Sequence(items) => items.iter().enumerate().for_each(|(i, v)| step(i.into(), v)),
        _ => {}
    }
}

fn at<'a>(value: &'a mut Value, place: &[Value]) -> Option<&'a mut Value> {
    place.iter().try_fold(value, |value, key| match value {
        Value::Mapping(fields) => fields.get_mut(key),
        Value::Sequence(items) => items.get_mut(usize::try_from(key.as_u64()?).ok()?),
        _ => None,
    })
}

fn change(root: &mut Value, place: &[Value], other: Option<Value>, random: &mut Random) {
    let Some((last, parent)) = place.split_last() else { return };
    match (at(root, parent), random.below(8)) {
        (Some(Value::Mapping(fields)), 0) => {
            fields.remove(last);
        }
        (Some(Value::Mapping(fields)), 1) => {
            let value = fields.remove(last).unwrap_or_default();
            fields.insert((*random.choose(TEXTS)).into(), value);
        }
        (Some(Value::Mapping(fields)), 2) => {
            let keys = if random.below(2) == 0 { TEXTS } else { FIELDS };
            let key = *random.choose(keys);
            fields.insert(key.into(), other.unwrap_or_else(|| hostile(random)));
        }
        (Some(Value::Sequence(items)), 0..3) => {
            items.push(other.unwrap_or_else(|| hostile(random)));
        }
        _ => {
            let Some(value) = at(root, place) else { return };
            *value = match (&*value, random.below(3), other) {
                (Value::String(text), 0, _) => {
                    let end = text.char_indices().map(|(i, _)| i).nth(random.below(8)).unwrap_or(0);
                    format!("{}{}{}", &text[..end], random.choose(TEXTS), &text[end..]).into()
                }
                (_, 1, Some(other)) => other,
                _ => hostile(random),
            };
        }
    }
}

/// A value that is unlikely at any place.
fn hostile(random: &mut Random) -> Value {
    match random.below(16) {
        0 => Value::Null,
        1 => random.below(3).into(),
        2 => (random.next() >> random.below(64)).into(),
        3 => i64::MIN.into(),
        4 => (*random.choose(&[f64::NAN, f64::INFINITY, -1e300, 1e300, 0.5, 1e20, -0.0])).into(),
        5 => (random.below(2) == 0).into(),
        6 => Value::Sequence(Vec::new()),
        7 => Mapping::new().into(),
        8 => (0..random.below(4)).map(|_| hostile(random)).collect::<Vec<_>>().into(),
        9 => "x".repeat(1 << random.below(12)).into(),
        10 => {
            let tag = Tag::new("hostile");
            Value::Tagged(Box::new(TaggedValue { tag, value: hostile(random) }))
        }
        11 => {
            let schema = |inner: Value| {
                Value::from(Mapping::from_iter([
                    ("type".into(), "array".into()),
                    ("minItems".into(), 9.into()),
                    ("items".into(), inner),
                ]))
            };
            (0..random.below(60)).fold(Value::from(Mapping::new()), |inner, _| schema(inner))
        }
        _ => (*random.choose(TEXTS)).into(),
    }
}

/// Changes a few characters.
fn characters(text: &str, random: &mut Random) -> String {
    let place = |random: &mut Random| {
        let mut place = random.below(text.len() + 1);
        while !text.is_char_boundary(place) {
            place -= 1;
        }
        place
    };
    let (a, b) = (place(random), place(random));
    let (start, end) = (a.min(b), a.max(b).min(a.min(b) + 200));
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    match random.below(5) {
        0 => format!("{}{}", &text[..start], &text[end..]),
        1 => format!("{}{}", &text[..end], &text[start..]),
        2 => text[..start].to_owned(),
        3 => format!("{}\n{}{}", &text[..start], " ".repeat(random.below(20)), &text[start..]),
        _ => format!("{}{}{}", &text[..start], random.choose(TEXTS), &text[start..]),
    }
}
