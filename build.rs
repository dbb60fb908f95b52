//! Rebuilds when a template is added, which `include_dir!` does not detect.

fn main() {
    println!("cargo::rerun-if-changed=templates");
}
