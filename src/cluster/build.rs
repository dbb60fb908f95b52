//! Builds the programs of the control plane with the user's own Go.
//!
//! One `go.mod` and `go.sum` pin every module, so that the Go tool verifies what it downloads.

use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use tempfile::TempPath;

use super::binaries::{Tool, path_directories};
use super::exec::{self, tail};
use super::lock::Lock;
use super::signals::{Interrupted, Signals};
use super::{directories, duration, process};
use crate::error::UserError;
use crate::ui::Ui;

/// The files of the Go module, by their path in it.
const MODULE: [(&str, &str); 4] = [
    ("go.mod", include_str!("gomod/go.mod")),
    ("go.sum", include_str!("gomod/go.sum")),
    ("tools.go", include_str!("gomod/tools.go")),
    ("etcd/main.go", include_str!("gomod/etcd/main.go")),
];

const KUBERNETES: &str = "k8s.io/kubernetes";
const ETCD: &str = "go.etcd.io/etcd/server/v3";
const KWOK: &str = "sigs.k8s.io/kwok";

/// The pinned release of Kubernetes, with its `v`.
pub fn kubernetes_version() -> &'static str {
    pinned(KUBERNETES)
}

/// The oldest Go that builds the module.
pub fn go_version() -> &'static str {
    pinned("go")
}

/// What `go.mod` says after a word at the start of a line.
fn pinned(word: &str) -> &'static str {
    let after = |line: &'static str| line.trim_start().strip_prefix(word)?.strip_prefix(' ');
    let version = MODULE[0].1.lines().find_map(after).unwrap_or_default();
    version.split_whitespace().next().unwrap_or_default()
}

/// The folder of the pinned versions in the cache. It need not exist yet.
fn home() -> Result<PathBuf> {
    let versions =
        format!("kubernetes-{}-etcd-{}-kwok-{}", pinned(KUBERNETES), pinned(ETCD), pinned(KWOK));
    Ok(directories::cache()?.join("cluster").join(format!("{versions}-{OS}-{ARCH}")))
}

/// The folder of the built programs. It need not exist yet.
///
/// # Errors
/// When there is no home directory.
pub fn directory() -> Result<PathBuf> {
    Ok(home()?.join("bin"))
}

/// Where kwokctl keeps what it downloads: not in a cluster's folder, which goes with the cluster.
///
/// # Errors
/// When there is no home directory.
pub fn downloads() -> Result<PathBuf> {
    Ok(home()?.join("downloads"))
}

/// A Go that can build the module, or the reason why there is none.
///
/// # Errors
/// When the module cannot be written, and when opctl was interrupted.
pub fn go(signals: &Signals) -> Result<Result<PathBuf, String>> {
    let go = path_directories()
        .into_iter()
        .map(|directory| directory.join("go"))
        .find(|go| go.is_file());
    let Some(go) = go else {
        return Ok(Err("Go is not installed".to_owned()));
    };
    // In the module's folder an older Go fetches the one that go.mod asks for, if it may.
    let mut version = Command::new(&go);
    version.arg("version").current_dir(write_module()?);
    match exec::run(own_settings(version), || signals.check()) {
        Ok(outcome) if outcome.status.success() => Ok(Ok(go)),
        Ok(outcome) => Ok(Err(tail(&outcome.output, 1))),
        Err(error) if error.is::<Interrupted>() => Err(error),
        Err(error) => Ok(Err(format!("{error:#}"))),
    }
}

/// Builds the tools into the cache, unless another opctl did so while this one waited for it.
///
/// # Errors
/// A [`UserError`] with the Go tool's own words when a build fails.
pub fn build(ui: Ui, signals: &Signals, go: &Path, tools: &[Tool]) -> Result<()> {
    let module = write_module()?;
    let bin = directories::create(&directory()?)?;
    let _lock = lock(ui, signals, &home()?.join("lock"))?;
    remove_remains(&bin)?;

    let tools: Vec<Tool> =
        tools.iter().copied().filter(|tool| !bin.join(tool.file()).exists()).collect();
    for (done, tool) in tools.iter().enumerate() {
        let place = format!("{} of {}, about {}", done + 1, tools.len(), estimate(*tool));
        ui.status("Building", format!("{} ({place})", tool.file()));
        let begin = Instant::now();
        build_one(signals, go, &module, &bin, *tool)?;
        ui.status("Built", format!("{} in {}", tool.file(), duration(begin.elapsed())));
    }
    Ok(())
}

/// Builds into a file beside the target, so that a program is there as a whole or not at all.
fn build_one(signals: &Signals, go: &Path, module: &Path, bin: &Path, tool: Tool) -> Result<()> {
    let part = bin.join(format!(".{}.{}", tool.file(), std::process::id()));
    let part = TempPath::try_from_path(part)?;
    let mut command = Command::new(go);
    command
        .current_dir(module)
        .args(["build", "-mod=readonly", "-trimpath", "-ldflags", &ldflags(), "-o"])
        .arg(&part)
        .arg(package(tool));
    let outcome = exec::run(own_settings(command), || signals.check())?;
    if !outcome.status.success() {
        let what = format!("building {} failed:\n{}", tool.file(), tail(&outcome.output, 30));
        return Err(UserError::failure(what)
            .with_hint("the Go tool needs a module proxy (`go env GOPROXY`) and about 6 GB of disk")
            .into());
    }
    let target = bin.join(tool.file());
    part.persist(&target).with_context(|| format!("cannot write `{}`", target.display()))
}

/// Go settings of the user's that would build something else: for another system, with C, or in a
/// workspace that this module is no part of. The proxy and the checksum database stay the user's.
fn own_settings(mut command: Command) -> Command {
    command.env("CGO_ENABLED", "0").env("GOWORK", "off").env("GOFLAGS", "");
    command.env_remove("GOOS").env_remove("GOARCH").env_remove("GOEXPERIMENT");
    command
}

/// Waits until no other opctl builds.
fn lock(ui: Ui, signals: &Signals, path: &Path) -> Result<Lock> {
    let mut told = false;
    Lock::exclusive(path, || {
        if !told {
            ui.status("Waiting", "for another opctl that builds the control plane");
            told = true;
        }
        signals.check()
    })
}

/// What a killed opctl left: a build that goes on, and half a program. The lock is held, so neither
/// belongs to an opctl that lives.
fn remove_remains(bin: &Path) -> Result<()> {
    process::end_builds(bin)?;
    for entry in fs::read_dir(bin)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes the module into the cache; each file appears whole, because another build may read it.
fn write_module() -> Result<PathBuf> {
    let directory = directories::create(&home()?.join("module"))?;
    for (name, text) in MODULE {
        let target = directory.join(name);
        if fs::read_to_string(&target).is_ok_and(|written| written == text) {
            continue;
        }
        let parent = directories::create(target.parent().unwrap_or(&directory))?;
        let part = tempfile::NamedTempFile::new_in(parent)?;
        fs::write(part.path(), text)?;
        part.persist(&target).with_context(|| format!("cannot write `{}`", target.display()))?;
    }
    Ok(directory)
}

/// The package path of a tool. Only etcd's `main` is our own: its module has it in another one.
fn package(tool: Tool) -> String {
    match tool {
        Tool::Etcd => "./etcd".to_owned(),
        Tool::Kwok | Tool::Kwokctl => format!("{KWOK}/cmd/{}", tool.file()),
        _ => format!("{KUBERNETES}/cmd/{}", tool.file()),
    }
}

/// Without the versions `kubectl version` fails and kwok asks for an image that does not exist.
fn ldflags() -> String {
    let kubernetes = pinned(KUBERNETES);
    let mut numbers = kubernetes.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let version = "k8s.io/component-base/version";
    format!(
        "-s -w -X {version}.gitVersion={kubernetes} -X {version}.gitMajor={major} \
         -X {version}.gitMinor={minor} -X {KWOK}/pkg/consts.Version={}",
        pinned(KWOK)
    )
}

/// How long the first build of a tool takes, measured on two cores, in the order of [`Tool::ALL`].
fn estimate(tool: Tool) -> &'static str {
    match tool {
        Tool::ApiServer => "3 minutes",
        Tool::ControllerManager | Tool::Kwok => "a minute",
        _ => "20 seconds",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_of_go_mod() {
        assert_eq!(pinned(KUBERNETES), "v1.36.3");
        assert_eq!(pinned(ETCD), "v3.6.16");
        assert_eq!(pinned(KWOK), "v0.8.0");
        assert_eq!(go_version(), "1.26.0");
    }

    #[test]
    fn the_flags_carry_the_versions() {
        let flags = ldflags();
        assert!(flags.contains("gitVersion=v1.36.3") && flags.contains("gitMinor=36"));
        assert!(flags.ends_with("consts.Version=v0.8.0"));
    }

    #[test]
    fn remains_of_a_killed_build_go_and_programs_stay() {
        let bin = tempfile::tempdir().unwrap();
        fs::write(bin.path().join(".etcd.1"), "half").unwrap();
        fs::write(bin.path().join("etcd"), "whole").unwrap();

        remove_remains(bin.path()).unwrap();

        let left: Vec<_> =
            fs::read_dir(bin.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["etcd"]);
    }
}
