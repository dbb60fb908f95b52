//! Trees of files from Debian's packages, without installing any.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::cached;
use crate::project::finished;

/// The release that has PostgreSQL 17.
pub const SUITE: &str = "trixie";
pub const MIRROR: &str = "http://deb.debian.org/debian";

/// Packages and what they depend on, unpacked. `setup` is a shell script that runs in the tree.
pub fn tree(path: &Path, packages: &[&str], setup: &str) {
    let tools = tools();
    let mut command = Command::new("perl");
    command.arg(tools.join("usr/bin/mmdebstrap"));
    command.args(["--quiet", "--mode=root", "--variant=extract", "--format=directory"]);
    command.arg(format!("--keyring={}", tools.join("usr/share/keyrings").display()));
    command.arg(format!("--include={}", packages.join(",")));
    command.arg(SUITE).arg(path).arg(MIRROR);
    finished("mmdebstrap", command.output().unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euc", setup]).current_dir(path);
    finished("setup", shell.output().unwrap());
}

/// mmdebstrap, and the keys that Debian signs its packages with.
fn tools() -> PathBuf {
    // A new machine has no list of packages yet.
    const SCRIPT: &str = "packages='mmdebstrap debian-archive-keyring'\n\
        apt-get download $packages || { apt-get update --quiet; apt-get download $packages; }\n\
        for package in *.deb; do dpkg -x $package . && rm $package; done";
    cached("mmdebstrap", &[SCRIPT], |path| {
        std::fs::create_dir(path).unwrap();
        let mut shell = Command::new("bash");
        shell.args(["-euc", SCRIPT]).current_dir(path);
        finished("apt-get download", shell.output().unwrap());
    })
}
