//! Images for containerd, made of files: no registry is asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cache::cached;
use crate::debian;
use crate::project::finished;

/// An image of Debian's packages that is laid out like the one that a recipe asks for.
pub struct Image {
    name: &'static str,
    packages: &'static [&'static str],
    setup: &'static str,
    entrypoint: &'static [&'static str],
    command: &'static [&'static str],
    user: &'static str,
    stop_signal: &'static str,
}

/// The tools that every image has.
const BUSYBOX: &str = include_str!("images/busybox.sh");

/// What the first container of each pod runs.
pub const PAUSE: Image = Image {
    name: "pause",
    packages: &["busybox-static"],
    setup: "",
    entrypoint: &["/usr/bin/busybox", "sleep", "infinity"],
    command: &[],
    user: "65535:65535",
    stop_signal: "SIGTERM",
};

pub const MEMCACHED: Image = Image {
    name: "memcached",
    packages: &["busybox-static", "memcached"],
    setup: include_str!("images/memcached.sh"),
    entrypoint: &["docker-entrypoint.sh"],
    command: &["memcached"],
    user: "memcache",
    stop_signal: "SIGTERM",
};

pub const NGINX: Image = Image {
    name: "nginx",
    packages: &["busybox-static", "nginx"],
    setup: include_str!("images/nginx.sh"),
    entrypoint: &[],
    command: &["nginx", "-g", "daemon off;"],
    user: "101",
    stop_signal: "SIGQUIT",
};

pub const POSTGRES: Image = Image {
    name: "postgres",
    packages: &["busybox-static", "libc-bin", "postgresql-17", "util-linux"],
    setup: include_str!("images/postgres.sh"),
    entrypoint: &["postgres"],
    command: &[],
    user: "0",
    stop_signal: "SIGINT",
};

/// Ends after some seconds, again and again, and says why.
pub const CRASHING: Image = Image {
    entrypoint: &["/bin/sh", "-c", "sleep 5; echo out of luck >/dev/termination-log; exit 1"],
    command: &[],
    ..MEMCACHED
};

/// Has nothing to run.
pub const EMPTY: Image = Image { entrypoint: &["/nowhere"], command: &[], ..MEMCACHED };

impl Image {
    /// Writes the archive of the image with these names to a directory.
    pub fn write(&self, names: &[String], directory: &Path) {
        let config = json!({
            "Entrypoint": self.entrypoint,
            "Cmd": self.command,
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "StopSignal": self.stop_signal,
            "User": self.user,
        });
        archive(&self.layer(), &config, names, directory);
    }

    /// The command line of its process.
    pub fn words(&self) -> Vec<String> {
        self.entrypoint.iter().chain(self.command).map(|word| (*word).to_owned()).collect()
    }

    /// The archive of all files.
    fn layer(&self) -> PathBuf {
        let setup = format!("{BUSYBOX}{}", self.setup);
        let recipe = [&self.packages.join(" "), &*setup];
        cached(&format!("{}.tar", self.name), &recipe, |path| {
            let tree = path.with_extension("tree");
            debian::tree(&tree, self.packages, &setup);
            let mut tar = Command::new("tar");
            tar.arg("-C").arg(&tree).arg("-cf").arg(path).arg("--numeric-owner");
            let parts = ["share/doc", "share/locale", "share/man", "share/perl*", "lib/*/perl*"];
            tar.args(parts.map(|part| format!("--exclude=./usr/{part}/*")));
            finished("tar", tar.arg(".").output().unwrap());
        })
    }
}

/// Writes an archive as `docker save` does.
fn archive(layer: &Path, config: &Value, names: &[String], directory: &Path) {
    let bytes = fs::read(layer).unwrap();
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
    });
    let manifest = json!([{ "Config": "config.json", "RepoTags": names, "Layers": ["layer.tar"] }]);
    let parts = tempfile::tempdir().unwrap();
    fs::write(parts.path().join("config.json"), config.to_string()).unwrap();
    fs::write(parts.path().join("manifest.json"), manifest.to_string()).unwrap();
    std::os::unix::fs::symlink(layer, parts.path().join("layer.tar")).unwrap();
    let mut tar = Command::new("tar");
    let name = names[0].replace(['/', ':'], "-");
    tar.arg("-C").arg(parts.path()).arg("-chf").arg(directory.join(format!("{name}.tar")));
    tar.args(["manifest.json", "config.json", "layer.tar"]);
    finished("tar", tar.output().unwrap());
}
