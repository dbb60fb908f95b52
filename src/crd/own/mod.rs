//! Own kinds from an existing CRD: the types that a project defines from now on, as a person would write them
//! for kube's derive, and the CRD that follows from them.
//!
//! A keyword of the schema that the derive macros have no word for is carried over with `extend`, so that
//! the new CRD accepts and defaults what the old one did. [`OwnKind::notes`] lists what cannot be.

mod attributes;
mod docs;
mod fields;
mod manifest;
mod types;
mod write;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::manifest::{LIMIT, manifests};
use super::{Crd, CrdSelector, Source};
use crate::error::UserError;
use crate::project::{ApiRequest, Gvk, NAMESPACED, PLURAL, flag_of};

/// A JSON object, such as a schema.
type Object = serde_json::Map<String, Value>;

/// The annotations of a CRD that are about its making, and not carried over.
const GENERATOR_ANNOTATIONS: &[&str] =
    &["cert-manager.io/", "controller-gen.kubebuilder.io/", "kubectl.kubernetes.io/"];

/// A kind that a CRD defines, for a project that takes its definition over.
#[derive(Debug)]
pub struct OwnKind {
    /// The full name of the API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The plural.
    pub plural: String,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// The versions that are served or stored; the stored one comes first.
    pub versions: Vec<OwnVersion>,
    /// What cannot be carried over, each with its place.
    pub notes: Vec<String>,
    singular: Option<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
}

/// A version of the kind.
#[derive(Debug)]
pub struct OwnVersion {
    /// The name of the version.
    pub name: String,
    /// Its definition, which also has the minimal object.
    pub crd: Crd,
    served: bool,
    deprecated: Option<Option<String>>,
    schema: Object,
    columns: Vec<Object>,
    selectable: Vec<String>,
    scale: Option<Object>,
    has_status: bool,
}

impl OwnKind {
    /// Reads a kind from a file, as [`Crd::open`] does; `-` is stdin. All its served versions are read unless
    /// the selector names one.
    ///
    /// # Errors
    /// Those of [`Crd::open`], and a [`UserError`] for a CRD that kube's derive cannot express.
    pub fn open(path: &Path, selector: CrdSelector<'_>) -> Result<Self, UserError> {
        let (file, text) = Crd::text(path)?;
        Self::read(file.as_str(), &text, selector)
    }

    /// Reads a kind from a text, as [`Crd::read`] does.
    ///
    /// # Errors
    /// Those of [`Crd::read`], and a [`UserError`] for a CRD that kube's derive cannot express.
    pub fn read<'a>(
        source: impl Into<Source<'a>>,
        text: &str,
        selector: CrdSelector<'_>,
    ) -> Result<Self, UserError> {
        let source = source.into();
        let first = Crd::read(source, text, selector)?;
        let invalid = |reason: String| source.error(reason);
        let manifest = LIMIT.parse(&first.manifest).map_err(invalid)?;
        let manifest =
            serde_json::to_value(manifest).map_err(|error| invalid(error.to_string()))?;
        let (metadata, spec) = (&manifest["metadata"], &manifest["spec"]);

        let mut versions = Vec::new();
        for version in manifests(&first.manifest).map_err(invalid)?.remove(0).1.spec.versions {
            let is_wanted = match selector.version {
                Some(name) => version.name == name,
                None => version.served || version.storage,
            };
            let raw = list(&spec["versions"]).iter().find(|raw| raw["name"] == *version.name);
            let Some(raw) = raw.filter(|_| is_wanted) else { continue };
            let crd = Crd::read_version(source, &first.manifest, &version.name)?;
            versions.push((version.storage, OwnVersion::new(raw, crd)));
        }
        versions.sort_by_key(|(storage, _)| !storage);
        let mut kind = Self {
            group: first.group,
            kind: first.kind,
            plural: first.plural,
            namespaced: first.namespaced,
            versions: versions.into_iter().map(|(_, version)| version).collect(),
            notes: Vec::new(),
            singular: text_of(&spec["names"]["singular"]),
            short_names: texts(&spec["names"]["shortNames"]),
            categories: texts(&spec["names"]["categories"]),
            annotations: pairs(&metadata["annotations"]),
            labels: pairs(&metadata["labels"]),
        };
        kind.annotations
            .retain(|name, _| !GENERATOR_ANNOTATIONS.iter().any(|prefix| name.starts_with(prefix)));
        kind.check().map_err(invalid)?;
        kind.take_notes(&spec["conversion"]["strategy"]);
        Ok(kind)
    }

    /// The requests for the versions of this kind in a project with this domain, the stored one first. Their
    /// other fields are those of `request`, which must not contradict the CRD.
    ///
    /// # Errors
    /// If the group is not one of the domain, or if the request contradicts the CRD.
    pub fn versions(
        &self,
        domain: &str,
        request: &ApiRequest,
    ) -> Result<Vec<ApiRequest>, UserError> {
        let Some(group) = self.group.strip_suffix(domain).and_then(|group| group.strip_suffix('.'))
        else {
            let parent = self.group.split_once('.').map_or("DOMAIN", |(_, domain)| domain);
            return Err(UserError::failure(format!(
                "the group `{}` of {} is not in the project's domain `{domain}`",
                self.group, self.kind
            ))
            .with_hint(format!(
                "change the domain with `opctl edit --domain {parent}`, or omit `--own` to use the kind as an external type"
            )));
        };
        let scopes = (request.namespaced.map(|b| b.to_string()), self.namespaced.to_string());
        for (argument, requested, actual) in [
            (PLURAL, request.plural.clone(), self.plural.clone()),
            (NAMESPACED, scopes.0, scopes.1),
        ] {
            if let Some(requested) = requested.filter(|requested| *requested != actual) {
                let reason = format!("the CRD has `{actual}`");
                return Err(UserError::invalid_value(argument, requested, reason)
                    .with_hint(format!("omit `{}`", flag_of(argument))));
            }
        }
        let request = |version: &OwnVersion| ApiRequest {
            gvk: Gvk::new(group, &version.name, &self.kind),
            plural: Some(self.plural.clone()),
            namespaced: Some(self.namespaced),
            ..request.clone()
        };
        Ok(self.versions.iter().map(request).collect())
    }

    /// Refuses what kube's derive has no words for.
    fn check(&self) -> Result<(), String> {
        for version in &self.versions {
            let known = ["apiVersion", "kind", "metadata", "spec", "status"];
            let fields = object(&version.schema, "properties");
            if let Some(name) = fields.keys().find(|name| !known.contains(&name.as_str())) {
                return Err(format!(
                    "{} {} has the field `{name}` beside `spec` and `status`: `--own` supports no others",
                    version.name, self.kind
                ));
            }
            for part in ["spec", "status"] {
                let is_object = |schema: &Value| schema["type"] == "object";
                if !fields.get(part).is_none_or(is_object) {
                    return Err(format!(
                        "{} {}: `{part}` is not an object",
                        version.name, self.kind
                    ));
                }
            }
        }
        Ok(())
    }

    fn take_notes(&mut self, conversion: &Value) {
        if conversion == "Webhook" {
            self.notes.push(format!(
                "{}: the conversion webhook; until there is one, the API server only changes `apiVersion`",
                self.kind
            ));
        }
        for version in &self.versions {
            let place = format!("{} {}", version.name, self.kind);
            let types = version.derive(&self.kind);
            self.notes.extend(types.notes.iter().map(|note| format!("{place}: {note}")));
            if !version.is_spec_required() && !version.spec_has_default() {
                self.notes.push(format!(
                    "{place}: objects without `spec`, which the old CRD accepts, are invalid"
                ));
            }
        }
    }
}

impl OwnVersion {
    fn new(raw: &Value, crd: Crd) -> Self {
        let objects = |value: &Value| {
            list(value).iter().filter_map(|value| value.as_object().cloned()).collect()
        };
        let schema = &raw["schema"]["openAPIV3Schema"];
        let subresources = &raw["subresources"];
        Self {
            name: crd.version.clone(),
            served: raw["served"] == true,
            deprecated: (raw["deprecated"] == true).then(|| text_of(&raw["deprecationWarning"])),
            schema: schema.as_object().cloned().unwrap_or_default(),
            columns: objects(&raw["additionalPrinterColumns"]),
            selectable: list(&raw["selectableFields"])
                .iter()
                .filter_map(|field| text_of(&field["jsonPath"]))
                .collect(),
            scale: subresources["scale"].as_object().cloned(),
            has_status: schema["properties"]["status"].is_object()
                || subresources["status"].is_object(),
            crd,
        }
    }

    /// The schema of `spec` or `status`.
    fn part(&self, name: &str) -> Object {
        let empty = || Object::from_iter([("type".to_owned(), "object".into())]);
        let part = object(&self.schema, "properties").get(name).and_then(Value::as_object).cloned();
        let mut part = part.unwrap_or_else(empty);
        if name == "spec" && !self.is_spec_required() && self.spec_has_default() {
            part.insert("default".to_owned(), Value::Object(Object::new()));
        }
        part
    }

    fn is_spec_required(&self) -> bool {
        texts(get(&self.schema, "required")).iter().any(|name| name == "spec")
    }

    /// Whether an empty `spec` is valid, so that it can be the default of one that is left out: the derive
    /// makes `spec` a required field.
    fn spec_has_default(&self) -> bool {
        let parts = object(&self.schema, "properties");
        let spec = parts.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        let fields = object(&spec, "properties");
        let required = texts(get(&spec, "required"));
        let is_filled =
            |name: &String| fields.get(name).is_some_and(|field| field.get("default").is_some());
        let rules = ["anyOf", "oneOf", "allOf", "not", "minProperties", "x-kubernetes-validations"];
        required.iter().all(is_filled) && !rules.iter().any(|rule| spec.contains_key(*rule))
    }
}

/// The object in a field; empty if there is none.
fn object<'a>(schema: &'a Object, field: &str) -> std::borrow::Cow<'a, Object> {
    use std::borrow::Cow;
    schema.get(field).and_then(Value::as_object).map_or(Cow::Owned(Object::new()), Cow::Borrowed)
}

/// A field, or null.
fn get<'a>(fields: &'a Object, name: &str) -> &'a Value {
    fields.get(name).unwrap_or(&Value::Null)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().filter_map(text_of).collect()
}

fn pairs(value: &Value) -> BTreeMap<String, String> {
    let fields = value.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), text_of(value)?))).collect()
}
