//! The directories of opctl: the cache for built programs, and the state of running clusters.

use std::env;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::error::UserError;

/// The cache: `OPCTL_CACHE_DIR`, or `opctl` in `XDG_CACHE_HOME` or `~/.cache`. Created if missing.
///
/// # Errors
/// If there is no home directory, or if the directory cannot be created.
pub fn cache() -> Result<PathBuf> {
    create(&choose("OPCTL_CACHE_DIR", "XDG_CACHE_HOME", ".cache", |name| env::var_os(name))?)
}

/// The state: `OPCTL_STATE_DIR`, or `opctl` in `XDG_STATE_HOME` or `~/.local/state`. Created if missing.
///
/// # Errors
/// If there is no home directory, or if the directory cannot be created.
pub fn state() -> Result<PathBuf> {
    create(&choose("OPCTL_STATE_DIR", "XDG_STATE_HOME", ".local/state", |name| env::var_os(name))?)
}

/// Creates a directory that only this user can access, and returns its real path, by which the processes
/// that were started from it are recognised.
///
/// # Errors
/// If the directory cannot be created.
pub fn create(directory: &Path) -> Result<PathBuf> {
    let create = || {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        directory.canonicalize()
    };
    create().with_context(|| format!("cannot create the directory `{}`", directory.display()))
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
