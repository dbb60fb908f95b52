//! `opctl`, the operator SDK for Rust.
//!
//! A project is a function of its model. The file `PROJECT` holds the model ([`project`]) and
//! [`render`] turns it into a tree of files, without side effects. Every command changes the model,
//! renders the old and the new one, and passes both to [`sync`], which merges them with the files
//! on the disk:
//!
//! ```text
//! old model --command--> new model
//! base = render(old)   theirs = render(new)   ours = the disk
//! plan = merge(base, ours, theirs)  ->  show it  ->  commit it, PROJECT last
//! ```
//!
//! [`crd`] generates the Rust types of an external type from its CRD, [`cluster`] runs a real control
//! plane on this machine, [`package`] makes what is shipped, [`audit`] compares the permissions of an operator
//! with its requests, [`migrate`] reads Go projects, [`cli`] turns flags into requests, and [`ui`] is the only printer. [`yaml`] and [`text`] limit what comes from
//! outside: the files that users edit or download.

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("opctl runs on Linux and macOS; on Windows, build it in WSL");

pub mod audit;
pub mod cli;
pub mod cluster;
pub mod crd;
pub mod error;
pub mod hash;
mod http;
pub mod migrate;
pub mod package;
pub mod project;
pub mod render;
pub mod sync;
pub mod text;
mod toolchain;
pub mod ui;
pub mod yaml;
