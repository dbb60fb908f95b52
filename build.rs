//! Packs the templates of releases. Rebuilds when a template is added, which `include_dir!` does not
//! detect.

#[path = "src/render/frozen/pack.rs"]
mod pack;

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    for directory in ["templates", "frozen"] {
        println!("cargo::rerun-if-changed={directory}");
    }
    let output = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(output.join("frozen.tar.gz"), pack::pack(Path::new("frozen"))?)
}
