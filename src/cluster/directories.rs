//! The directories of opctl: the cache for built programs, and the state of running clusters.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::geteuid;

use crate::error::UserError;

/// The cache: `OPCTL_CACHE_DIR`, or `opctl` in `XDG_CACHE_HOME` or `~/.cache`. It may not exist yet.
///
/// # Errors
/// If there is no home directory.
pub fn cache() -> Result<PathBuf> {
    real(&choose("OPCTL_CACHE_DIR", "XDG_CACHE_HOME", ".cache", |name| env::var_os(name))?)
}

/// The state: `OPCTL_STATE_DIR`, or `opctl` in `XDG_STATE_HOME` or `~/.local/state`. It may not exist yet.
///
/// # Errors
/// If there is no home directory.
pub fn state() -> Result<PathBuf> {
    choose("OPCTL_STATE_DIR", "XDG_STATE_HOME", ".local/state", |name| env::var_os(name))
}

/// The absolute path without links of a file or directory, which may not exist yet.
///
/// # Errors
/// If the current directory cannot be determined.
pub fn real(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path)
        .with_context(|| format!("cannot determine the path of `{}`", path.display()))?;
    let exists = |ancestor: &Path| Some((ancestor.canonicalize().ok()?, ancestor.to_owned()));
    let Some((mut real, ancestor)) = path.ancestors().find_map(exists) else { return Ok(path) };
    real.extend(path.strip_prefix(ancestor)?);
    Ok(real)
}

/// Creates a directory. Only this user can access what is created.
///
/// # Errors
/// If the directory cannot be created.
pub fn create(directory: &Path) -> Result<()> {
    let create = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    create.with_context(|| format!("cannot create the directory `{}`", directory.display()))
}

/// Creates a directory that only this user can access, even if it exists with another mode.
///
/// # Errors
/// If the directory cannot be created, and a [`UserError`] if it belongs to another user.
pub fn create_private(directory: &Path) -> Result<()> {
    create(directory)?;
    let metadata = directory.metadata()?;
    if metadata.uid() != geteuid().as_raw() {
        let message = format!("the directory `{}` belongs to another user", directory.display());
        let hint = "set OPCTL_STATE_DIR to a directory of your own";
        return Err(UserError::failure(message).with_hint(hint).into());
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn choose(
    variable: &str,
    xdg: &str,
    fallback: &str,
    var: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf> {
    let set = |name: &str| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(directory) = set(variable) {
        return Ok(directory);
    }
    // The XDG specification requires relative paths to be ignored.
    if let Some(directory) = set(xdg).filter(|directory| directory.is_absolute()) {
        return Ok(directory.join("opctl"));
    }
    match set("HOME") {
        Some(home) => Ok(home.join(fallback).join("opctl")),
        None => Err(UserError::failure("no home directory: HOME is not set")
            .with_hint(format!("set {variable} to a directory"))
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(vars: &[(&str, &str)]) -> Option<String> {
        let var = |name: &str| {
            vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        choose("OWN", "XDG", ".cache", var).ok().map(|directory| directory.display().to_string())
    }

    #[test]
    fn the_real_path_of_a_missing_directory_has_no_links() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().canonicalize().unwrap().join("target");
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, directory.path().join("link")).unwrap();

        let path = |name: &str| real(&directory.path().join(name)).unwrap();

        assert_eq!(path("link"), target);
        assert_eq!(path("link/a/b").as_os_str(), target.join("a/b").as_os_str());
        assert!(!target.join("a").exists());
        assert!(real(Path::new("relative")).unwrap().is_absolute());
    }

    #[test]
    fn a_private_directory_below_an_open_one_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let open = directory.path().join("clusters/a");
        fs::create_dir_all(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();

        create_private(&open).unwrap();
        create_private(&open.join("new")).unwrap();

        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&open), mode(&open.join("new"))), (0o700, 0o700));
    }

    #[test]
    fn own_variable_wins_over_xdg_and_home() {
        let all = [("OWN", "/own"), ("XDG", "/xdg"), ("HOME", "/home")];
        assert_eq!(chosen(&all).as_deref(), Some("/own"));
        assert_eq!(chosen(&all[1..]).as_deref(), Some("/xdg/opctl"));
        assert_eq!(chosen(&all[2..]).as_deref(), Some("/home/.cache/opctl"));
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn empty_and_relative_variables_are_ignored() {
        let vars = [("OWN", ""), ("XDG", "relative"), ("HOME", "/home")];
        assert_eq!(chosen(&vars).as_deref(), Some("/home/.cache/opctl"));
    }
}
