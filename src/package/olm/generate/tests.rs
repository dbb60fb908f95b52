//! Tests of bundles as a whole.

use super::*;
use crate::package::olm::{BundleDirectory, Selector, scorecard, validate};

/// The manifests of a case, of which the first one is a Namespace.
fn manifests() -> Vec<Object> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/generate-bundle/manifests.yaml");
    Object::parse_all(&std::fs::read_to_string(path).unwrap(), path).unwrap()
}

/// The JSON pointers of all values in a value.
fn pointers(value: &Value, path: &str, all: &mut Vec<String>) {
    all.push(path.to_owned());
    let add = |(key, value): (String, &Value)| {
        let key = key.replace('~', "~0").replace('/', "~1");
        pointers(value, &format!("{path}/{key}"), all);
    };
    match value {
        Value::Object(fields) => fields.iter().map(|(k, v)| (k.clone(), v)).for_each(add),
        Value::Array(items) => {
            items.iter().enumerate().map(|(i, v)| (i.to_string(), v)).for_each(add);
        }
        _ => {}
    }
}

#[test]
fn any_value_in_any_place_is_handled() {
    let request = BundleRequest {
        package: "box".to_owned(),
        version: Some("1.2.3".to_owned()),
        ..BundleRequest::default()
    };
    let objects = manifests();
    // One in each place, in turns: all of them take too long.
    let values = [json!(1), json!("x"), json!([1]), json!({ "a": 1 }), json!(null)];
    let mut values = values.iter().cycle();
    let (mut bundles, mut errors) = (0, 0);
    for (position, object) in objects.iter().enumerate() {
        let mut all = Vec::new();
        pointers(object.value(), "", &mut all);
        for pointer in &all[1..] {
            let mut value = object.value().clone();
            values.next().unwrap().clone_into(value.pointer_mut(pointer).unwrap());
            let mut objects = objects.clone();
            objects[position] = Object::new(value);
            if objects[position].check().is_err() {
                continue; // and is refused when it is read
            }
            let Ok(bundle) = generate(objects, &request) else {
                errors += 1;
                continue;
            };
            bundles += 1;
            let manifests = bundle.manifests.values();
            let objects = manifests.flat_map(|text| Object::parse_all(text, "x").unwrap());
            let bundle = BundleDirectory::of(objects);
            validate::all(&bundle);
            scorecard::list(&bundle, None, &Selector::default()).unwrap().run(&bundle);
        }
    }
    assert!(bundles > 200 && errors > 20, "{bundles} bundles, {errors} errors");
}

#[test]
fn texts_stay_texts_for_readers_of_yaml_1_1() {
    let texts = ["y", "No", "on", "OFF", "True", "null", "~", "1_000", "0x1f", "010", "0o7", "1e3"];
    let dates = ["1:30", "2001-01-01", ".5", "+1", ".inf", "NaN", "=", "<<", ""];
    for text in texts.into_iter().chain(dates) {
        let yaml = to_yaml(&Object::new(json!({ "key": text }))).unwrap();
        assert_eq!(yaml, format!("{MARK}key: \"{text}\"\n"));
    }
}
