//! How the tests get a control plane.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;

/// The directory of the tests' files.
pub const DIRECTORY: &str = env!("CARGO_TARGET_TMPDIR");

/// Unless the tests run on a control plane of their own already, runs them once more on one that ends
/// with them, and exits with their result.
pub fn on_a_cluster() {
    if env::var_os("OPCTL_CLUSTER").is_some() {
        return;
    }
    static EXIT_CODE: OnceLock<i32> = OnceLock::new();
    let opctl = target().join("opctl");
    assert!(
        opctl.is_file(),
        "these tests need a cluster of their own, and {} is missing, which starts one: run them with \
         `opctl cluster run -- cargo test`",
        opctl.display()
    );
    let exit_code = EXIT_CODE.get_or_init(|| {
        let mut command = Command::new(opctl);
        command.args(["cluster", "run", "--name", &name(), "--"]);
        command.arg(executable()).args(env::args_os().skip(1));
        // The user's own clusters are elsewhere.
        command.env("OPCTL_STATE_DIR", Path::new(DIRECTORY).join("state"));
        command.env_remove("KUBECONFIG");
        let status = command.status().expect("opctl should run");
        status.code().unwrap_or(1)
    });
    process::exit(*exit_code)
}

/// A cluster for each executable.
fn name() -> String {
    let executable = executable();
    let name = executable.file_stem().and_then(|name| name.to_str());
    let name = name.and_then(|name| name.split('-').next());
    name.expect("cargo should name the executable after the tests")
        .to_owned()
}

/// The directory of what cargo has built, such as target/debug.
pub fn target() -> PathBuf {
    let executable = executable();
    let target = executable.ancestors().nth(2);
    target.expect("cargo should have built the test").to_owned()
}

/// The executable of these tests.
pub fn executable() -> PathBuf {
    env::current_exe().expect("the path of the test should be known")
}
