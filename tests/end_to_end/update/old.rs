//! A project as an opctl has made it that had no runtime crate, and wrote 30 files of it into each project.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use opctl::hash::Hash;
use opctl::project::Project;
use opctl::render::Renderer;
use opctl::sync::read_templates;

/// The version of that opctl.
pub const VERSION: &str = "0.0.1";

/// Its templates.
pub fn templates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen").join(VERSION)
}

/// Replaces the project in a directory with the one that the old opctl has made of the same model.
pub fn make_old(directory: &Path) {
    let model = fs::read_to_string(directory.join("PROJECT")).unwrap();
    let model = model.replace(env!("CARGO_PKG_VERSION"), VERSION);
    fs::remove_dir_all(directory).unwrap();
    let set = read_templates(&templates()).unwrap();
    let mut lock = String::new();
    for (path, file) in
        Renderer::new(set).unwrap().render(&Project::parse(&model).unwrap()).unwrap()
    {
        writeln!(lock, "{} {} {path}", Hash::of(file.text.as_bytes()), file.subject).unwrap();
        write_file(directory, &path, &file.text);
    }
    write_file(directory, "PROJECT.lock", &lock);
    write_file(directory, "PROJECT", &model);
}

fn write_file(directory: &Path, path: &str, text: &str) {
    let path = directory.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
