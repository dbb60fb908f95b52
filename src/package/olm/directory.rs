//! Reads the directory of a bundle.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::csv;
use super::metadata::{self, Annotations};
use super::object::Object;
use super::source::read_file;
use crate::error::UserError;

/// A bundle on the disk.
#[derive(Debug, Default)]
pub struct BundleDirectory {
    /// The ClusterServiceVersion.
    pub csv: Option<Object>,
    /// The CRDs.
    pub crds: Vec<Object>,
    /// All other objects.
    pub objects: Vec<Object>,
    /// The annotations, if there are any.
    pub annotations: Option<Annotations>,
    /// The entries of `dependencies.yaml`, each with a `type`.
    pub dependencies: Vec<Value>,
    /// The entries of `properties.yaml`, each with a `type`.
    pub properties: Vec<Value>,
    /// The size of the manifests as OLM stores them: compressed and encoded in base64.
    pub stored_size: usize,
    /// What could not be read.
    pub unreadable: Vec<String>,
    /// The directories that are missing.
    pub missing: Vec<&'static str>,
    /// The test configuration of the scorecard.
    pub tests: Option<PathBuf>,
}

impl BundleDirectory {
    /// Reads a directory.
    ///
    /// # Errors
    /// If it is no directory, or if there is no bundle in it.
    pub fn read(directory: &Path) -> Result<Self, UserError> {
        let mut bundle = Self::default();
        if !directory.is_dir() {
            let problem = format!("there is no directory {}", directory.display());
            return Err(UserError::failure(problem)
                .with_hint("generate a bundle with `opctl generate bundle`"));
        }
        bundle.read_metadata(&directory.join("metadata"));
        bundle.read_manifests(&directory.join("manifests"));
        if bundle.missing.len() == 2 {
            let problem = format!("{} is no bundle", directory.display());
            return Err(UserError::failure(problem)
                .with_hint("a bundle has the directories `manifests` and `metadata`"));
        }
        let tests = directory.join("tests/scorecard/config.yaml");
        bundle.tests = tests.is_file().then_some(tests);
        Ok(bundle)
    }

    /// A bundle of these objects, without annotations.
    #[cfg(test)]
    pub fn of(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut bundle = Self::default();
        objects.into_iter().for_each(|object| bundle.add(object));
        bundle
    }

    /// The name of the ClusterServiceVersion.
    pub fn name(&self) -> &str {
        self.csv.as_ref().map(Object::name).unwrap_or_default()
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name)
    }

    /// The channels, with the default one.
    pub fn channels(&self) -> Vec<&str> {
        let channels = self.annotation(metadata::CHANNELS).unwrap_or_default().split(',');
        let default = self.annotation(metadata::DEFAULT_CHANNEL);
        let mut channels: Vec<&str> =
            channels.chain(default).map(str::trim).filter(|name| !name.is_empty()).collect();
        channels.sort_unstable();
        channels.dedup();
        channels
    }

    fn read_metadata(&mut self, directory: &Path) {
        let Some(paths) = self.files(directory, "metadata") else { return };
        for path in paths {
            let Some(text) = self.text(&path) else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Ok(annotations) = Annotations::parse(&text)
                && !annotations.is_empty()
            {
                self.annotations.get_or_insert(annotations);
            } else if let Ok(value) = serde_yaml::from_str::<Value>(&text) {
                let entries = |list: &str| {
                    let entries = value.get(list).and_then(Value::as_array);
                    entries.cloned().unwrap_or_default()
                };
                if value.get("annotations").is_some_and(|value| !value.is_null()) {
                    let problem = "the annotations must be strings";
                    self.unreadable.push(format!("metadata/{name}: {problem}"));
                }
                self.dependencies.extend(entries("dependencies"));
                self.properties.extend(entries("properties"));
            } else {
                self.unreadable.push(format!("metadata/{name} is not YAML"));
            }
        }
    }

    fn read_manifests(&mut self, directory: &Path) {
        let Some(paths) = self.files(directory, "manifests") else { return };
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() || name.starts_with('.') {
                self.unreadable.push(format!("manifests/{name} is no manifest"));
                continue;
            }
            let Some(text) = self.text(&path) else { continue };
            self.stored_size += stored_size(&text);
            match Object::parse_all(&text, &format!("manifests/{name}")) {
                Err(error) => self.unreadable.push(error.to_string()),
                Ok(objects) => {
                    if objects.len() != 1 {
                        let problem =
                            format!("manifests/{name} has {} objects, not one", objects.len());
                        self.unreadable.push(problem);
                    }
                    objects.into_iter().for_each(|object| self.add(object));
                }
            }
        }
    }

    fn add(&mut self, object: Object) {
        if object.kind() == csv::KIND {
            if let Some(first) = &self.csv {
                let (first, second) = (first.name(), object.name());
                let problem =
                    format!("there are several ClusterServiceVersions: {first} and {second}");
                self.unreadable.push(problem);
            } else {
                self.csv = Some(object);
            }
        } else if object.kind() == "CustomResourceDefinition" {
            self.crds.push(object);
        } else {
            self.objects.push(object);
        }
    }

    /// The paths in a directory, in order.
    fn files(&mut self, directory: &Path, name: &'static str) -> Option<Vec<PathBuf>> {
        let Ok(entries) = fs::read_dir(directory) else {
            self.missing.push(name);
            return None;
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        Some(paths)
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        match read_file(path) {
            Ok(text) => Some(text),
            Err(error) => {
                self.unreadable.push(format!("cannot read {}: {error}", path.display()));
                None
            }
        }
    }
}

/// The size of a text that is compressed and encoded in base64.
fn stored_size(text: &str) -> usize {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let compressed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    compressed.map_or(text.len(), |bytes| bytes.len().div_ceil(3) * 4)
}
