//! External types: reads a CRD from a file, and generates its Rust types and an object for tests.
//!
//! kopium, kube's generator, is not used, because it depends on kube's client and tokio, and because its
//! output needs chrono, an `allow` and rustfmt.

mod check;
mod core_types;
mod manifest;
mod object;
mod own;
mod rust;
mod schema;
mod types;

use std::fs::File;
use std::io;
use std::path::Path;

use crate::error::UserError;
use crate::project::{ApiRequest, ExternalType, Gvk, Origin};
use crate::text::one_line;
use manifest::{CrdManifest, CrdSpec, CrdVersion, LIMIT, manifests, titles};
pub use object::{MinimalObject, minimal_object};
pub use own::{OwnKind, OwnVersion};
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

/// Where a text comes from, for errors.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The argument that names it, as clap displays it.
    pub argument: &'a str,
    /// The name of the file.
    pub file: &'a str,
}

impl<'a> From<&'a str> for Source<'a> {
    /// The file of `--crd`.
    fn from(file: &'a str) -> Self {
        Self { argument: ARGUMENT, file }
    }
}

impl Source<'_> {
    fn error(self, reason: impl std::fmt::Display) -> UserError {
        UserError::invalid_value(self.argument, self.file, reason)
    }
}

/// The full group and the kind of each CRD in a text.
///
/// # Errors
/// A phrase, if the text is not YAML or has an invalid CRD.
pub fn kinds(text: &str) -> Result<Vec<(String, String)>, String> {
    let name = |(_, CrdManifest { spec }): (String, CrdManifest)| (spec.group, spec.names.kind);
    Ok(manifests(text)?.into_iter().map(name).collect())
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
        let (file, text) = Self::text(path)?;
        Self::read(file.as_str(), &text, selector)
    }

    /// The name and the text of a file; `-` is stdin.
    fn text(path: &Path) -> Result<(String, String), UserError> {
        let file = path.display().to_string();
        let text = match file.as_str() {
            "-" => LIMIT.read(io::stdin()),
            _ => File::open(path).and_then(|source| LIMIT.read(source)),
        };
        let text = text.map_err(|error| UserError::invalid_value(ARGUMENT, &file, error))?;
        Ok((file, text))
    }

    /// Reads a CRD from a text with one or more manifests, of which those of other kinds are ignored.
    ///
    /// # Errors
    /// A [`UserError`] if not exactly one CRD matches the selector, if the CRD does not serve the version, or
    /// if a name or a size in it is out of bounds.
    pub fn read<'a>(
        source: impl Into<Source<'a>>,
        text: &str,
        selector: CrdSelector<'_>,
    ) -> Result<Self, UserError> {
        let source = source.into();
        let error = |reason: String| source.error(reason);
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
        let Some((place, _)) = versions.clone().find(|(_, version)| is_version(version)) else {
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
        Self::of_version(text, spec, place).map_err(error)
    }

    /// A version of a manifest with one CRD, whether it is served or not.
    fn read_version(source: Source<'_>, text: &str, version: &str) -> Result<Self, UserError> {
        let error = |reason: String| source.error(reason);
        let all = manifests(text).map_err(error)?;
        let found = all.iter().find_map(|(text, CrdManifest { spec })| {
            let place = spec.versions.iter().position(|other| other.name == version)?;
            Some((text, spec, place))
        });
        let (text, spec, place) = found.ok_or_else(|| error(format!("no version `{version}`")))?;
        Self::of_version(text, spec, place).map_err(error)
    }

    /// The version at this place, after its checks.
    fn of_version(text: &str, spec: &CrdSpec, place: usize) -> Result<Self, String> {
        let version = &spec.versions[place];
        check::names(spec, place)?;
        check::schema(&version.schema.schema)?;
        Ok(Self {
            group: spec.group.clone(),
            version: version.name.clone(),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
            namespaced: spec.scope == "Namespaced",
            manifest: text.to_owned(),
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
