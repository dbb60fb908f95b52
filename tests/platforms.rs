//! opctl compiles for the other platform that it supports. The program cannot be linked or run here.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const MACOS: &str = "aarch64-apple-darwin";

#[test]
fn opctl_compiles_for_macos() {
    let rustup = Command::new("rustup").args(["target", "add", MACOS]).output();
    if !rustup.is_ok_and(|output| output.status.success()) {
        println!("left out: rustup cannot install the target {MACOS}");
        return;
    }
    // A check needs nothing of what a C compiler makes, only that it is called.
    let directory = tempfile::tempdir().unwrap();
    let compiler = directory.path().join("compiler");
    fs::write(
        &compiler,
        "#!/bin/sh\nfor word; do\n  [ \"$last\" != -o ] || : > \"$word\"\n  last=$word\ndone\n",
    )
    .unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("platforms");
    let output = Command::new(env!("CARGO"))
        .args(["check", "--quiet", "--package", "opctl", "--target", MACOS])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target)
        .env("CC_aarch64_apple_darwin", &compiler)
        .env("AR_aarch64_apple_darwin", &compiler)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
