//! Tries a change in a copy of the project, to see whether the result compiles.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};

use super::commit::{self, FileSystem};
use super::plan::Plan;
use crate::toolchain;

/// The directory of the copy: below that of cargo, where nobody keeps anything. The project's own
/// configuration of cargo is in force there.
const COPY: &str = "target/opctl/update";

/// What is known of a change after its trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// The changed project compiles.
    Compiles,
    /// The project compiles, but with the change it does not. cargo has said why.
    Fails,
    /// The project does not compile without the change either.
    FailsAnyway,
    /// It was not tried, because cargo cannot be started, for this reason.
    NoCargo(String),
}

/// Applies a plan to a copy of the project, and compiles the result. The compiled dependencies are those of
/// the project.
///
/// # Errors
/// If the copy cannot be made or changed.
pub(super) fn try_plan(plan: &Plan, root: &Path) -> Result<Trial> {
    let copy = Copy::of(root)?;
    commit::commit(&plan.relocated(root, &copy.0), &copy.0, &mut FileSystem)?;
    match compiles(root, &copy.0, Stdio::inherit()) {
        Ok(true) => return Ok(Trial::Compiles),
        Ok(false) => {}
        Err(error) => return Ok(Trial::NoCargo(error.to_string())),
    }
    drop(copy);
    let copy = Copy::of(root)?;
    let is_fault_of_change = compiles(root, &copy.0, Stdio::null()).context("cargo")?;
    Ok(if is_fault_of_change { Trial::Fails } else { Trial::FailsAnyway })
}

/// Whether all of a project compiles, tests included. cargo prints its progress and its errors itself.
fn compiles(root: &Path, copy: &Path, messages: Stdio) -> io::Result<bool> {
    let mut cargo = toolchain::cargo();
    cargo.args(["check", "--all-targets", "--message-format", "short"]).current_dir(copy);
    if env::var_os("CARGO_TARGET_DIR").is_none() {
        cargo.env("CARGO_TARGET_DIR", root.join("target"));
    }
    Ok(cargo.stdin(Stdio::null()).stderr(messages).status()?.success())
}

/// A copy of a project, without what git and cargo keep. It goes with the value.
struct Copy(PathBuf);

impl Copy {
    fn of(root: &Path) -> Result<Self> {
        let copy = Self(root.join(COPY));
        // That of a command that was interrupted.
        remove(&copy.0).with_context(|| format!("cannot remove {}", copy.0.display()))?;
        let is_copied = |name: &OsStr| name != "target" && name != ".git";
        copy_directory(root, &copy.0, &is_copied)
            .with_context(|| format!("cannot copy the project to {}", copy.0.display()))?;
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // It is in nobody's way, and the next one replaces it.
        let _ = remove(&self.0);
        // The directories above it that have nothing else, where cargo has written nothing.
        for directory in self.0.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(directory);
        }
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn copy_directory(from: &Path, to: &Path, is_copied: &dyn Fn(&OsStr) -> bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        if !is_copied(&name) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(&name));
        if kind.is_dir() {
            copy_directory(&from, &to, &|_| true)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from)?, to)?;
        } else if kind.is_file() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}
