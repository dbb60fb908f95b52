//! The embedded templates.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use include_dir::{Dir, include_dir};

use super::files::File;

static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/templates");

static CURRENT: LazyLock<TemplateSet> = LazyLock::new(|| {
    let mut sources = BTreeMap::new();
    collect(&EMBEDDED, &mut sources);
    TemplateSet { sources }
});

fn collect(dir: &'static Dir<'static>, sources: &mut BTreeMap<String, &'static str>) {
    for file in dir.files() {
        if let (Some(path), Some(source)) = (file.path().to_str(), file.contents_utf8()) {
            sources.insert(path.to_owned(), source);
        }
    }
    for dir in dir.dirs() {
        collect(dir, sources);
    }
}

/// The name of the table of files in a set.
pub(super) const TABLE: &str = "files.yaml";

/// The templates of one release, with the table of the files that they render to.
#[derive(Debug)]
pub struct TemplateSet {
    sources: BTreeMap<String, &'static str>,
}

impl TemplateSet {
    /// A set of other templates than the embedded ones, such as those of another release.
    pub fn new(sources: impl IntoIterator<Item = (String, &'static str)>) -> Self {
        Self { sources: sources.into_iter().collect() }
    }

    /// The set of this release.
    pub fn current() -> &'static Self {
        &CURRENT
    }

    /// The text of a template.
    pub fn source(&self, name: &str) -> Option<&'static str> {
        self.sources.get(name).copied()
    }

    /// The names of all templates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().map(String::as_str)
    }

    /// The table of the files that the templates render to.
    ///
    /// # Errors
    /// If the set has no valid one.
    pub fn files(&self) -> Result<Vec<File>> {
        let table = self.source(TABLE).with_context(|| format!("no {TABLE}"))?;
        serde_yaml::from_str(table).context(TABLE)
    }
}
