//! `include_dir!` does not see a template that is new: cargo has to be told to look.

fn main() {
    println!("cargo::rerun-if-changed=templates");
}
