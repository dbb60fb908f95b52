//! The images that an operator uses, for clusters that mirror them.

use anyhow::Result;
use serde_json::Value;

use super::csv::RelatedImage;
use super::object::Object;
use crate::error::UserError;

/// The beginning of the names of variables whose values are images.
const VARIABLE: &str = "RELATED_IMAGE_";

/// An image, before its name is unique.
struct Found {
    image: RelatedImage,
    /// Where it was found.
    place: String,
}

/// The images that the user has named, then those of the containers and in their variables, then those in
/// examples.
///
/// # Errors
/// If a variable has no value of its own.
pub fn related(
    written: &[RelatedImage],
    deployments: &[Object],
    examples: &[Value],
) -> Result<Vec<RelatedImage>, UserError> {
    let mut found = Vec::new();
    for deployment in deployments {
        let containers: Vec<&Value> = deployment.containers().collect();
        for container in &containers {
            let place = match containers.len() {
                1 => deployment.name().to_owned(),
                _ => format!("{}-{}", deployment.name(), text(&container["name"])),
            };
            found.extend(of_container(container, &place));
            for variable in container["env"].as_array().into_iter().flatten() {
                found.extend(of_variable(variable, &place)?);
            }
        }
    }
    for example in examples {
        let kind = text(&example["kind"]).to_lowercase();
        if let Some(image) = example.pointer("/spec/image").and_then(Value::as_str) {
            let image = RelatedImage { name: kind.clone(), image: image.to_owned() };
            found.push(Found { image, place: kind });
        }
    }
    let mut images = written.to_vec();
    for Found { mut image, place } in found {
        let is_known = |other: &RelatedImage| other.image == image.image;
        if images.iter().any(is_known) {
            continue;
        }
        if images.iter().any(|other| other.name == image.name) {
            image.name = format!("{place}-{}", image.name);
        }
        images.push(image);
    }
    Ok(images)
}

/// The image of a container, under the name of the container.
fn of_container(container: &Value, place: &str) -> Option<Found> {
    let (name, image) = (text(&container["name"]).to_owned(), container["image"].as_str()?);
    let image = RelatedImage { name, image: image.to_owned() };
    Some(Found { image, place: place.to_owned() })
}

/// Replaces the tags of all images of a deployment by digests, which `resolve` knows.
///
/// # Errors
/// If an image cannot be resolved.
pub fn pin(deployment: &mut Object, resolve: &impl Fn(&str) -> Result<String>) -> Result<()> {
    for container in deployment.containers_mut() {
        replace(container.get_mut("image"), resolve)?;
        let variables = container.get_mut("env").and_then(Value::as_array_mut);
        for variable in variables.into_iter().flatten() {
            if text(&variable["name"]).starts_with(VARIABLE) {
                replace(variable.get_mut("value"), resolve)?;
            }
        }
    }
    Ok(())
}

fn replace(image: Option<&mut Value>, resolve: &impl Fn(&str) -> Result<String>) -> Result<()> {
    if let Some(Value::String(name)) = image {
        *name = resolve(name)?;
    }
    Ok(())
}

/// The image in a variable, under the name of the variable: `RELATED_IMAGE_MY_DB` is `my-db`.
fn of_variable(variable: &Value, place: &str) -> Result<Option<Found>, UserError> {
    let name = text(&variable["name"]);
    let Some(rest) = name.strip_prefix(VARIABLE) else { return Ok(None) };
    let Some(image) = variable["value"].as_str() else {
        return Err(UserError::failure(format!("the variable {name} of {place} has no value"))
            .with_hint(
                "write the image as its `value`: OLM has to know it before it runs anything",
            ));
    };
    let name = rest.to_lowercase().replace('_', "-");
    let image = RelatedImage { name, image: image.to_owned() };
    Ok(Some(Found { image, place: place.to_owned() }))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(name: &str, env: Value) -> Object {
        let pod = json!({ "containers": [{ "name": "manager", "env": env }] });
        Object::new(json!({
            "metadata": { "name": name }, "spec": { "template": { "spec": pod } }
        }))
    }

    #[test]
    fn images_of_variables_and_examples_are_found_once() {
        let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
        let one =
            deployment("one", json!([variable("RELATED_IMAGE_My_DB", "db:1"), variable("X", "y")]));
        let two = deployment(
            "two",
            json!([variable("RELATED_IMAGE_MY_DB", "db:2"), variable("RELATED_IMAGE_DB", "db:1")]),
        );
        let written = RelatedImage { name: "proxy".to_owned(), image: "proxy:1".to_owned() };
        let example = json!({ "kind": "Box", "spec": { "image": "box:1" } });
        let images = related(&[written], &[one, two], &[example]).unwrap();
        let images: Vec<_> =
            images.iter().map(|image| (image.name.as_str(), image.image.as_str())).collect();
        assert_eq!(
            images,
            [("proxy", "proxy:1"), ("my-db", "db:1"), ("two-my-db", "db:2"), ("box", "box:1")]
        );
    }

    #[test]
    fn images_are_pinned_to_digests() {
        let env = json!([{ "name": "RELATED_IMAGE_DB", "value": "db:1" }, { "name": "X", "value": "y:1" }]);
        let mut deployment = deployment("one", env);
        pin(&mut deployment, &|image| Ok(image.replace(':', "@"))).unwrap();
        let env = &deployment.items("/spec/template/spec/containers")[0]["env"];
        assert_eq!((text(&env[0]["value"]), text(&env[1]["value"])), ("db@1", "y:1"));
    }

    #[test]
    fn variable_without_a_value_is_refused() {
        let env = json!([{ "name": "RELATED_IMAGE_DB", "valueFrom": {} }]);
        let error = related(&[], &[deployment("one", env)], &[]).unwrap_err();
        assert_eq!(error.to_string(), "the variable RELATED_IMAGE_DB of one has no value");
    }
}
