//! Where the manifests of an operator come from.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::csv;
use super::object::{LIMIT, Object};
use crate::error::UserError;

/// Where manifests come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A pipe or a file: `kubectl kustomize config/manifests | opctl generate bundle`.
    Stdin,
    /// All YAML files below these directories.
    Directories(Vec<PathBuf>),
    /// What `kubectl kustomize` makes of a directory.
    Kustomize(PathBuf),
}

impl Source {
    /// Stdin if something was redirected to it, else a directory for `kubectl kustomize`.
    pub fn stdin_or_kustomize(directory: &Path) -> Self {
        let is_redirected = fs::metadata("/dev/stdin")
            .is_ok_and(|stdin| stdin.file_type().is_fifo() || stdin.file_type().is_file());
        if is_redirected { Self::Stdin } else { Self::Kustomize(directory.to_owned()) }
    }
}

/// The objects of a source. Without a ClusterServiceVersion among them, that at `base` is added, if it exists.
///
/// # Errors
/// A [`UserError`] if there are none, or if they cannot be read.
pub fn read(source: &Source, base: &Path) -> Result<Vec<Object>> {
    let (mut objects, name) = match source {
        Source::Stdin => {
            let text = LIMIT.read(io::stdin()).context("cannot read the manifests on stdin")?;
            (Object::parse_all(&text, "stdin")?, "stdin".to_owned())
        }
        Source::Directories(directories) => {
            let mut objects = Vec::new();
            for directory in directories {
                read_directory(directory, &mut objects)?;
            }
            let names = directories.iter().map(|directory| directory.display().to_string());
            (objects, names.collect::<Vec<_>>().join(" and "))
        }
        Source::Kustomize(directory) => {
            let name = format!("kubectl kustomize {}", directory.display());
            (Object::parse_all(&kustomize(directory)?, &format!("output of `{name}`"))?, name)
        }
    };
    if objects.is_empty() {
        return Err(UserError::failure(format!("there are no manifests: {name} is empty"))
            .with_hint("what writes to stdin may have failed; redirect it from /dev/null to have opctl run kubectl")
            .into());
    }
    if !objects.iter().any(|object| object.is(csv::GROUP, csv::KIND)) && base.is_file() {
        let path = base.display().to_string();
        let text = read_file(base).with_context(|| format!("cannot read {path}"))?;
        objects.extend(Object::parse_all(&text, &path)?);
    }
    Ok(objects)
}

fn read_directory(directory: &Path, objects: &mut Vec<Object>) -> Result<()> {
    let cannot_read = || format!("cannot read the directory {}", directory.display());
    let entries = fs::read_dir(directory).with_context(cannot_read)?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()
        .with_context(cannot_read)?;
    paths.sort();
    for path in paths {
        let is_yaml =
            path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|e| end == *e));
        if path.is_dir() {
            read_directory(&path, objects)?;
        } else if is_yaml && path.file_name().is_some_and(|name| name != "kustomization.yaml") {
            let text =
                read_file(&path).with_context(|| format!("cannot read {}", path.display()))?;
            objects.extend(Object::parse_all(&text, &path.display().to_string())?);
        }
    }
    Ok(())
}

/// The text of a file of manifests.
pub fn read_file(path: &Path) -> io::Result<String> {
    LIMIT.read(fs::File::open(path)?)
}

fn kustomize(directory: &Path) -> Result<String> {
    if !directory.is_dir() {
        let problem = format!("there is no directory {}", directory.display());
        return Err(UserError::failure(problem)
            .with_hint("write it with `opctl generate kustomize manifests`, or pipe manifests to this command")
            .into());
    }
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("kustomize").arg(directory);
    let output = match kubectl.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(UserError::failure("kubectl is not installed: it reads config/manifests")
                .with_hint(
                    "install it, or pipe manifests: `kustomize build config/manifests | opctl generate bundle`",
                )
                .into());
        }
        output => output.context("cannot run kubectl")?,
    };
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        let command = format!("`kubectl kustomize {}` failed", directory.display());
        return Err(UserError::failure(format!("{command}: {}", reason.trim())).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
