//! External types: reads a CRD from a file, and generates its Rust types and an object for tests.
//!
//! kopium, kube's generator, is not used, because it depends on kube's client and tokio, and because its
//! output needs chrono, an `allow` and rustfmt.

mod check;
mod manifest;
mod object;
mod rust;
mod schema;
mod types;

use std::fs::File;
use std::io;
use std::path::Path;

use crate::error::UserError;
use crate::project::{ApiRequest, ExternalType, Gvk, Origin};
use crate::text::one_line;
use manifest::{CrdManifest, CrdVersion, LIMIT, manifests, titles};
pub use object::{MinimalObject, minimal_object};
use schema::Schema;

/// The argument that names the file, as clap displays it.
const ARGUMENT: &str = "--crd <FILE>";

/// One version of an external type, as its CRD defines it.
#[derive(Debug)]
pub struct Crd {
    /// The full name of the API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The plural.
    pub plural: String,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// The manifest of the CRD.
    pub manifest: String,
    schema: Schema,
}

/// Selects a type in a file that may define several.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrdSelector<'a> {
    /// The API group, with or without its domain.
    pub group: Option<&'a str>,
    /// The version; by default the storage version.
    pub version: Option<&'a str>,
    /// The kind.
    pub kind: Option<&'a str>,
}

impl Crd {
    /// Reads a CRD from a file, like [`Crd::read`]; `-` is stdin.
    ///
    /// # Errors
    /// A [`UserError`] if the file cannot be read or is too large, and those of [`Crd::read`].
    pub fn open(path: &Path, selector: CrdSelector<'_>) -> Result<Self, UserError> {
        let file = path.display().to_string();
        let text = match file.as_str() {
            "-" => LIMIT.read(io::stdin()),
            _ => File::open(path).and_then(|source| LIMIT.read(source)),
        };
        let text = text.map_err(|error| UserError::invalid_value(ARGUMENT, &file, error))?;
        Self::read(&file, &text, selector)
    }

    /// Reads a CRD from a text with one or more manifests, of which those of other kinds are ignored.
    /// `file` names the source in errors.
    ///
    /// # Errors
    /// A [`UserError`] if not exactly one CRD matches the selector, if the CRD does not serve the version, or
    /// if a name or a size in it is out of bounds.
    pub fn read(file: &str, text: &str, selector: CrdSelector<'_>) -> Result<Self, UserError> {
        let error = |reason: String| UserError::invalid_value(ARGUMENT, file, reason);
        let all = manifests(text).map_err(error)?;
        if all.is_empty() {
            return Err(error("it contains no CustomResourceDefinition".to_owned())
                .with_hint("get one with `kubectl get crd NAME -o yaml`"));
        }
        let is_selected = |(_, CrdManifest { spec }): &&(String, CrdManifest)| {
            selector.kind.is_none_or(|kind| kind == spec.names.kind)
                && selector.group.is_none_or(|group| {
                    group == spec.group || spec.group.split('.').next() == Some(group)
                })
        };
        let (text, CrdManifest { spec }) =
            match *all.iter().filter(is_selected).collect::<Vec<_>>() {
                [one] => one,
                [] => {
                    return Err(error("the file does not define the requested kind".to_owned())
                        .with_hint(format!("it defines {}", titles(&all))));
                }
                _ => {
                    return Err(error("the file defines several kinds".to_owned()).with_hint(
                        format!("select one with `--kind` and `--group`: {}", titles(&all)),
                    ));
                }
            };
        let is_version = |version: &CrdVersion| match selector.version {
            Some(name) => version.name == name && version.served,
            None => version.storage,
        };
        let versions = spec.versions.iter().enumerate();
        let Some((place, version)) = versions.clone().find(|(_, version)| is_version(version))
        else {
            let served = spec.versions.iter().filter(|version| version.served);
            let served: Vec<&str> = served.map(|version| version.name.as_str()).collect();
            let missing = match selector.version {
                Some(version) => format!("served version `{version}`"),
                None => "storage version".to_owned(),
            };
            let reason = format!("{} has no {missing}", spec.names.kind);
            return Err(error(one_line(&reason).into_owned())
                .with_hint(format!("served versions: {}", one_line(&served.join(", ")))));
        };
        check::names(spec, place).map_err(error)?;
        check::schema(&version.schema.schema).map_err(error)?;
        Ok(Self {
            group: spec.group.clone(),
            version: version.name.clone(),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
            namespaced: spec.scope == "Namespaced",
            manifest: text.clone(),
            schema: version.schema.schema.clone(),
        })
    }

    /// A request for this type, with the other fields of `request`.
    pub fn request(&self, request: ApiRequest) -> ApiRequest {
        let (group, domain) = self.group.split_once('.').unwrap_or((&self.group, ""));
        ApiRequest {
            gvk: Gvk::new(group, &self.version, &self.kind),
            external: Some(ExternalType {
                origin: Origin::Crd,
                domain: domain.to_owned(),
                plural: self.plural.clone(),
                namespaced: self.namespaced,
            }),
            ..request
        }
    }
}
