//! Builds the programs of the control plane with the user's Go.
//!
//! A `go.mod` and a `go.sum` pin every module, so that the Go tool verifies its downloads.

use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use tempfile::TempPath;

use super::binaries::{Tool, path_directories};
use super::exec::{self, tail};
use super::signals::{Interrupted, Signals};
use super::{cache, directories, duration, process};
use crate::error::UserError;
use crate::ui::Ui;

/// The files of the Go module, by path.
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

/// The pinned release of etcd, with its `v`.
pub fn etcd_version() -> &'static str {
    pinned(ETCD)
}

/// The pinned release of kwok, with its `v`.
pub fn kwok_version() -> &'static str {
    pinned(KWOK)
}

/// The oldest version of Go that builds the module.
pub fn go_version() -> &'static str {
    pinned("go")
}

/// The version that follows a word at the start of a line of `go.mod`.
fn pinned(word: &str) -> &'static str {
    let after = |line: &'static str| line.trim_start().strip_prefix(word)?.strip_prefix(' ');
    let version = MODULE[0].1.lines().find_map(after);
    let version = version.and_then(|version| version.split_whitespace().next());
    version.unwrap_or_else(|| panic!("go.mod does not pin `{word}`"))
}

/// The directory in the cache for these versions and this way to build them, which may not exist yet.
fn home() -> Result<PathBuf> {
    let versions =
        format!("kubernetes-{}-etcd-{}-kwok-{}", pinned(KUBERNETES), pinned(ETCD), pinned(KWOK));
    let name = format!("{versions}-{OS}-{ARCH}-{:016x}", fingerprint());
    Ok(directories::cache()?.join("cluster").join(name))
}

/// A hash of all that determines the programs, except for the version of Go: FNV-1a, which is the same in
/// every build of opctl.
fn fingerprint() -> u64 {
    let module = MODULE.into_iter().flat_map(|(name, text)| [name, text]).map(str::to_owned);
    let arguments = flags().into_iter().chain(Tool::ALL.map(package));
    let settings = SETTINGS.into_iter().flat_map(|(name, value)| [name, value]).map(str::to_owned);
    let parts =
        module.chain(arguments).chain(settings).chain([go_os(), go_arch()].map(str::to_owned));
    let bytes = parts.flat_map(|part| part.into_bytes().into_iter().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The directory of the built programs, which may not exist yet.
///
/// # Errors
/// If there is no home directory.
pub fn directory() -> Result<PathBuf> {
    Ok(home()?.join("bin"))
}

/// The path of a Go that can build the module, or the reason why there is none.
///
/// # Errors
/// If the module cannot be written, or if opctl was interrupted.
pub fn go(signals: &Signals) -> Result<Result<PathBuf, String>> {
    let go = path_directories()
        .into_iter()
        .map(|directory| directory.join("go"))
        .find(|go| go.is_file());
    let Some(go) = go else {
        return Ok(Err("Go is not installed".to_owned()));
    };
    // In the directory of the module, an older Go downloads the version that go.mod requires, if allowed.
    let mut version = Command::new(&go);
    version.arg("version").current_dir(write_module()?);
    match exec::run(pin_settings(version), || signals.check()) {
        Ok(outcome) if outcome.status.success() => Ok(Ok(go)),
        Ok(outcome) => Ok(Err(tail(&outcome.output, 1))),
        Err(error) if error.is::<Interrupted>() => Err(error),
        Err(error) => Ok(Err(format!("{error:#}"))),
    }
}

/// Builds the tools into the cache, unless another opctl did so while this one waited for the lock.
///
/// # Errors
/// A [`UserError`] with the output of the Go tool if a build fails.
pub fn build(ui: Ui, signals: &Signals, go: &Path, tools: &[Tool]) -> Result<()> {
    let module = write_module()?;
    let bin = directory()?;
    directories::create(&bin)?;
    let _lock = cache::lock(ui, signals, &home()?)?;
    // Left running by a killed opctl: those of others hold the lock.
    process::end_builds(&bin)?;
    cache::remove_incomplete(&bin)?;

    let tools: Vec<Tool> =
        tools.iter().copied().filter(|tool| !bin.join(tool.file()).exists()).collect();
    for (done, tool) in tools.iter().enumerate() {
        let progress = format!("{} of {}, about {}", done + 1, tools.len(), estimate(*tool));
        ui.status("Building", format!("{} ({progress})", tool.file()));
        let start = Instant::now();
        build_one(signals, go, &module, &bin, *tool)?;
        ui.status("Built", format!("{} in {}", tool.file(), duration(start.elapsed())));
    }
    Ok(())
}

/// Builds into a temporary file beside the target, so that the cache never contains an incomplete program.
fn build_one(signals: &Signals, go: &Path, module: &Path, bin: &Path, tool: Tool) -> Result<()> {
    let part = bin.join(format!(".{}.{}", tool.file(), std::process::id()));
    let part = TempPath::try_from_path(part)?;
    let mut command = Command::new(go);
    command.current_dir(module).arg("build").args(flags()).arg("-o").arg(&part).arg(package(tool));
    let outcome = exec::run(pin_settings(command), || signals.check())?;
    if !outcome.status.success() {
        let message = format!("building {} failed:\n{}", tool.file(), tail(&outcome.output, 30));
        return Err(UserError::failure(message)
            .with_hint("the Go tool needs a module proxy (`go env GOPROXY`) and about 6 GB of disk")
            .into());
    }
    let target = bin.join(tool.file());
    part.persist(&target).with_context(|| format!("cannot write `{}`", target.display()))
}

/// The flags of `go build`.
fn flags() -> [String; 3] {
    ["-trimpath".to_owned(), "-ldflags".to_owned(), ldflags()]
}

/// Settings that override those of the user, from the environment or from `go env -w`, which would change
/// the build. An empty value would not override anything; of an experiment, `,` is the empty list.
const SETTINGS: [(&str, &str); 8] = [
    ("CGO_ENABLED", "0"),
    ("GO111MODULE", "on"),
    ("GOAMD64", "v1"),
    ("GOARM64", "v8.0"),
    ("GOEXPERIMENT", ","),
    ("GOFIPS140", "off"),
    ("GOFLAGS", "-mod=readonly"),
    ("GOWORK", "off"),
];

/// Overrides settings of the user that would change the build. The user's proxy and checksum database stay
/// in effect.
fn pin_settings(mut command: Command) -> Command {
    command.envs(SETTINGS).env("GOOS", go_os()).env("GOARCH", go_arch());
    command
}

/// The name of this system in Go.
fn go_os() -> &'static str {
    if OS == "macos" { "darwin" } else { OS }
}

/// The name of this architecture in Go.
fn go_arch() -> &'static str {
    match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Writes the module into the cache. Each file is replaced atomically, because another build may read it.
fn write_module() -> Result<PathBuf> {
    let directory = home()?.join("module");
    for (name, text) in MODULE {
        let target = directory.join(name);
        if fs::read_to_string(&target).is_ok_and(|written| written == text) {
            continue;
        }
        let parent = target.parent().unwrap_or(&directory);
        directories::create(parent)?;
        let part = tempfile::NamedTempFile::new_in(parent)?;
        fs::write(part.path(), text)?;
        part.persist(&target).with_context(|| format!("cannot write `{}`", target.display()))?;
    }
    Ok(directory)
}

/// The package path of a tool. etcd has a `main` of opctl, because its own is in another module.
fn package(tool: Tool) -> String {
    match tool {
        Tool::Etcd => "./etcd".to_owned(),
        Tool::Kwok => format!("{KWOK}/cmd/{}", tool.file()),
        _ => format!("{KUBERNETES}/cmd/{}", tool.file()),
    }
}

/// The linker flags that set the versions, without which `kubectl version` fails and kwok requests an image
/// that does not exist.
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

/// The duration of the first build of a tool in the order of [`Tool::ALL`], measured on two cores.
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
    fn versions_are_read_from_go_mod() {
        assert_eq!(pinned(KUBERNETES), "v1.36.3");
        assert_eq!(pinned(ETCD), "v3.6.16");
        assert_eq!(pinned(KWOK), "v0.8.0");
        assert_eq!(go_version(), "1.26.0");
    }

    #[test]
    fn linker_flags_set_the_versions() {
        let flags = ldflags();
        assert!(flags.contains("gitVersion=v1.36.3") && flags.contains("gitMinor=36"));
        assert!(flags.ends_with("consts.Version=v0.8.0"));
    }

    #[test]
    fn settings_of_the_user_do_not_change_the_build() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("env");
        let settings = "CGO_ENABLED=1\nGO111MODULE=off\nGOAMD64=v3\nGOARCH=riscv64\n\
            GOEXPERIMENT=arenas\nGOFIPS140=latest\nGOFLAGS=-mod=vendor -tags=x\nGOOS=windows\n\
            GOWORK=/work\nGOPROXY=https://proxy.example.com\n";
        fs::write(&file, settings).unwrap();
        let names = ["CGO_ENABLED", "GO111MODULE", "GOAMD64", "GOARCH", "GOEXPERIMENT"];
        let names = [&names[..], &["GOFIPS140", "GOFLAGS", "GOOS", "GOWORK", "GOPROXY"]].concat();
        let mut candidates = path_directories().into_iter().map(|path| path.join("go"));
        // Without Go there is nothing to build with.
        let Some(go) = candidates.find(|go| go.is_file()) else { return };
        let mut command = Command::new(go);
        command.arg("env").args(names).env("GOENV", &file).current_dir(directory.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GO") && name != "GOENV" {
                command.env_remove(name);
            }
        }

        let output = pin_settings(command).output().unwrap();

        let text = String::from_utf8(output.stdout).unwrap();
        let values: Vec<&str> = text.lines().collect();
        let expected = ["0", "on", "v1", go_arch(), ",", "off", "-mod=readonly", go_os(), "off"];
        assert_eq!(values, [&expected[..], &["https://proxy.example.com"]].concat());
    }
}
