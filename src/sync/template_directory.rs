//! The templates of another release of opctl, in a directory.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::error::UserError;
use crate::render::TemplateSet;

/// Reads the templates in a directory. They live as long as the process.
///
/// # Errors
/// A [`UserError`] if there is no table of files; another error if a file cannot be read.
pub fn read_templates(directory: &Path) -> Result<&'static TemplateSet> {
    let mut sources = Vec::new();
    collect(directory, "", &mut sources)?;
    let set = TemplateSet::new(sources);
    match set.files() {
        Ok(_) => Ok(Box::leak(Box::new(set))),
        Err(error) => {
            let problem = format!("no templates of opctl in {}: {error:#}", directory.display());
            let hint = "name the directory `templates` of the opctl that made the project";
            Err(UserError::failure(problem).with_hint(hint).into())
        }
    }
}

/// Reads all files below a directory, also through links: the runtime is linked from its crate.
fn collect(
    directory: &Path,
    prefix: &str,
    sources: &mut Vec<(String, &'static str)>,
) -> Result<()> {
    let cannot_read = |path: &Path| format!("cannot read {}", path.display());
    for entry in fs::read_dir(directory).with_context(|| cannot_read(directory))? {
        let path = entry.with_context(|| cannot_read(directory))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            collect(&path, &format!("{name}/"), sources)?;
        } else {
            let text = fs::read_to_string(&path).with_context(|| cannot_read(&path))?;
            sources.push((name, text.leak()));
        }
    }
    Ok(())
}
