//! Builds the operator's binary with cargo.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use object::Object;
use object::read::elf::{ElfFile64, ProgramHeader};
use serde::Deserialize;

use super::platform::Platform;
use crate::error::UserError;
use crate::toolchain;

/// The name of the operator's binary, in the project and in the image.
pub const BINARY: &str = "manager";

/// A line of cargo's messages (<https://doc.rust-lang.org/cargo/reference/external-tools.html>).
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Builds the operator for release as a static binary, and reads it. cargo prints its progress and its errors.
///
/// # Errors
/// A [`UserError`] if rustc has no standard library for the platform, if the build fails, or if something
/// has made the binary dynamic.
pub fn build(root: &Path, platform: Platform) -> Result<Vec<u8>> {
    let target = platform.target();
    check_target(target)?;
    let mut cargo = toolchain::cargo();
    cargo.args(["build", "--release", "--bin", BINARY, "--target", target]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let flags = flags(root);
    // Those of the environment replace those of the configuration.
    match env::var("RUSTFLAGS") {
        Ok(own) => _ = cargo.env("RUSTFLAGS", format!("{own} {}", flags.join(" "))),
        Err(_) => _ = cargo.arg("--config").arg(format!("target.{target}.rustflags={flags:?}")),
    }
    cargo.current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped());
    let child = cargo.spawn().map_err(|error| {
        UserError::failure(format!("cannot start cargo: {error}"))
            .with_hint("install Rust: https://rustup.rs")
    })?;
    let output = child.wait_with_output().context("cargo")?;
    if !output.status.success() {
        return Err(UserError::failure(format!("the operator cannot be built for {platform}"))
            .with_hint("resolve what cargo reports")
            .into());
    }
    let binary = executable(&output.stdout)
        .with_context(|| format!("cargo has built no binary `{BINARY}`"))?;
    let bytes = fs::read(&binary).with_context(|| format!("cannot read {}", binary.display()))?;
    check_static(&bytes, platform)?;
    Ok(bytes)
}

/// The binary that cargo's messages tell of.
fn executable(messages: &[u8]) -> Option<PathBuf> {
    let messages = messages.split(|byte| *byte == b'\n');
    let messages = messages.filter_map(|line| serde_json::from_slice::<Message>(line).ok());
    let mut binaries = messages
        .filter(|message| message.target.as_ref().is_some_and(|target| target.name == BINARY));
    binaries.find_map(|message| message.executable)
}

/// The flags of rustc for a binary that needs nothing at run time, and that is the same wherever the
/// project is: no path of this machine is in it.
fn flags(root: &Path) -> Vec<String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let places = [(home, "/cargo"), (Some(root.to_owned()), "/build"), (target, "/build/target")];
    let remapped = places
        .into_iter()
        .filter_map(|(path, name)| Some(format!("--remap-path-prefix={}={name}", path?.to_str()?)));
    ["-Ctarget-feature=+crt-static".to_owned()].into_iter().chain(remapped).collect()
}

/// A release of rustc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RustcVersion {
    /// The version, such as `1.95.0`.
    pub release: String,
    /// The commit that it was built from, which some distributions do not say.
    pub commit: Option<String>,
}

/// The version of rustc, if it says it.
pub fn rustc_version() -> Option<RustcVersion> {
    let output = toolchain::rustc().arg("-vV").output().ok()?;
    RustcVersion::parse(&String::from_utf8(output.stdout).ok()?)
}

impl RustcVersion {
    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
        };
        let commit = value("commit-hash").filter(|commit| commit != "unknown");
        Some(Self { release: value("release")?, commit })
    }
}

fn check_target(target: &str) -> Result<()> {
    let output = toolchain::rustc().args(["--print", "target-libdir", "--target", target]).output();
    let libraries = output.context("cannot start rustc")?.stdout;
    let libraries = String::from_utf8_lossy(&libraries);
    if !libraries.trim().is_empty() && Path::new(libraries.trim()).is_dir() {
        return Ok(());
    }
    let problem = format!("rustc has no standard library for {target}");
    let hint = format!("install it with `rustup target add {target}`");
    Err(UserError::failure(problem).with_hint(hint).into())
}

/// Refuses a binary that would not start in an empty image.
fn check_static(binary: &[u8], platform: Platform) -> Result<()> {
    let file: ElfFile64<'_> = ElfFile64::parse(binary).context("the binary is no ELF file")?;
    let endian = file.endian();
    let mut headers = file.elf_program_headers().iter();
    if file.architecture() != platform.machine() {
        return Err(UserError::failure(format!("the binary is not for {platform}")).into());
    }
    match headers.any(|header| header.p_type(endian) == object::elf::PT_INTERP) {
        false => Ok(()),
        true => Err(UserError::failure(
            "the binary is linked dynamically, and an image has no libraries",
        )
        .with_hint("remove `-C target-feature=-crt-static` from the flags of rustc")
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_of_the_operator_is_found_among_the_messages() {
        let messages =
            br#"{"reason":"compiler-artifact","target":{"name":"operator"},"executable":null}
not a message
{"reason":"compiler-artifact","target":{"name":"manifests"},"executable":"/t/manifests"}
{"reason":"compiler-artifact","target":{"name":"manager"},"executable":"/t/manager"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages), Some(PathBuf::from("/t/manager")));
        assert_eq!(executable(b"{}"), None);
    }

    #[test]
    fn rustc_says_its_version_and_perhaps_its_commit() {
        let text = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\n\
                    commit-hash: 59807616e0\nrelease: 1.95.0\n";
        let version = RustcVersion::parse(text).unwrap();
        assert_eq!((&*version.release, version.commit.as_deref()), ("1.95.0", Some("59807616e0")));
        let version = RustcVersion::parse("commit-hash: unknown\nrelease: 1.95.0\n").unwrap();
        assert_eq!(version.commit, None);
        assert_eq!(RustcVersion::parse("/"), None);
    }

    #[test]
    fn what_is_no_static_binary_is_refused() {
        let error = check_static(b"#!/bin/sh", Platform::Amd64).unwrap_err();
        assert_eq!(error.to_string(), "the binary is no ELF file");
        // The tests themselves are linked dynamically.
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            let this = fs::read(env::current_exe().unwrap()).unwrap();
            let error = check_static(&this, Platform::of_this_machine()).unwrap_err();
            assert!(error.to_string().contains("linked dynamically"), "{error}");
        }
    }
}
