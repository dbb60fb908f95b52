//! Where opctl keeps what it built (the cache) and what is running (the state).

use std::env;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::error::UserError;

/// The cache: `OPCTL_CACHE_DIR`, or `opctl` in `XDG_CACHE_HOME` or `~/.cache`. Made if need be.
///
/// # Errors
/// When there is no home directory, or the folder cannot be made.
pub fn cache() -> Result<PathBuf> {
    create(&choose("OPCTL_CACHE_DIR", "XDG_CACHE_HOME", ".cache", |name| env::var_os(name))?)
}

/// The state: `OPCTL_STATE_DIR`, or `opctl` in `XDG_STATE_HOME` or `~/.local/state`. Made if need be.
///
/// # Errors
/// When there is no home directory, or the folder cannot be made.
pub fn state() -> Result<PathBuf> {
    create(&choose("OPCTL_STATE_DIR", "XDG_STATE_HOME", ".local/state", |name| env::var_os(name))?)
}

/// Makes the folder, for this user alone, and returns its real path, so that processes that were
/// started from it are recognised however the folder was named.
///
/// # Errors
/// When the folder cannot be made.
pub fn create(directory: &Path) -> Result<PathBuf> {
    let make = || {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        directory.canonicalize()
    };
    make().with_context(|| format!("cannot make the folder `{}`", directory.display()))
}

fn choose(
    own: &str,
    xdg: &str,
    fallback: &str,
    var: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf> {
    let set = |name: &str| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(directory) = set(own) {
        return Ok(directory);
    }
    // A relative path in an XDG variable is to be ignored, says its specification.
    if let Some(directory) = set(xdg).filter(|directory| directory.is_absolute()) {
        return Ok(directory.join("opctl"));
    }
    match set("HOME") {
        Some(home) => Ok(home.join(fallback).join("opctl")),
        None => Err(UserError::failure("there is no home directory: HOME is not set")
            .with_hint(format!("set {own} to a folder"))
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
    fn the_own_variable_wins_then_xdg_then_home() {
        let all = [("OWN", "/own"), ("XDG", "/xdg"), ("HOME", "/home")];
        assert_eq!(chosen(&all).as_deref(), Some("/own"));
        assert_eq!(chosen(&all[1..]).as_deref(), Some("/xdg/opctl"));
        assert_eq!(chosen(&all[2..]).as_deref(), Some("/home/.cache/opctl"));
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn empty_and_relative_variables_do_not_count() {
        let vars = [("OWN", ""), ("XDG", "relative"), ("HOME", "/home")];
        assert_eq!(chosen(&vars).as_deref(), Some("/home/.cache/opctl"));
    }
}
