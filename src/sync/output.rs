//! The files that a command generates from others, such as a bundle. Users do not edit them: each begins with a
//! mark, without which a file is somebody else's.

use std::collections::BTreeMap;

use anyhow::Result;

use super::action::{Action, Reason};
use super::disk::Disk;
use super::plan::{Plan, Step};

/// Why a file without a mark stays.
const NOT_GENERATED: &str = "opctl has not written it";

/// Generated files.
#[derive(Debug, Default)]
pub struct Output {
    /// The texts of the files, by their paths.
    pub files: BTreeMap<String, String>,
    /// The directories in which generated files are deleted that are not generated any more.
    pub directories: Vec<String>,
    /// The first line of each file.
    pub mark: &'static str,
    /// The files that may be the user's: without a mark they stay.
    pub optional: Vec<String>,
    /// Whether files without a mark are replaced too.
    pub overwrite: bool,
}

impl Output {
    /// What changes on the disk.
    pub(super) fn plan(&self, disk: &Disk) -> Result<Plan> {
        let mut steps = Vec::new();
        for (path, text) in &self.files {
            let found = disk.read(path)?;
            let action = match &found.contents {
                None => Action::Create,
                Some(old) if old == text.as_bytes() => Action::Identical,
                Some(old) if self.overwrite || self.is_generated(old) => Action::Update,
                Some(_) if self.optional.contains(path) => Action::Keep(NOT_GENERATED),
                Some(_) => Action::Conflict(Reason::Exists),
            };
            let writes = matches!(action, Action::Create | Action::Update);
            let contents = writes.then(|| text.clone().into_bytes().into());
            steps.push(Step::of(path, action, found.place, contents));
        }
        for directory in &self.directories {
            for path in disk.files_in(directory)? {
                if self.files.contains_key(&path) {
                    continue;
                }
                let found = disk.read(&path)?;
                let action = match found.contents {
                    Some(old) if self.is_generated(&old) => Action::Delete,
                    _ => Action::Keep(NOT_GENERATED),
                };
                steps.push(Step::of(&path, action, found.place, None));
            }
        }
        steps.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Plan { steps })
    }

    fn is_generated(&self, contents: &[u8]) -> bool {
        contents.starts_with(self.mark.as_bytes())
    }
}
