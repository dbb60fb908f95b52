//! The commands of the README and of docs/ work as they stand there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::operator::background::Background;
use crate::operator::cluster::free_port;
use crate::operator::machine::{Machine, turn};
use crate::operator::production::site::Site;
use crate::operator::project::finished;
use crate::operator::wait::{COMPILATION, timed, within};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// A `make` that gives the runtime the times of its original: else it would be compiled again, and with it
/// every project of the next run.
const MAKE: &str = r#"
make() {
    [ ! -d runtime ] || (cd runtime && find . -type f -exec cmp -s {} "$RUNTIME/{}" \; -exec touch -r "$RUNTIME/{}" {} \;)
    command make "$@"
}
"#;

/// The blocks of shell commands of a page.
pub fn commands(page: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(HERE).join(page)).unwrap();
    let blocks = text.split("\n```sh\n").skip(1);
    blocks.map(|block| block.split_once("\n```").unwrap().0.to_owned()).collect()
}

#[test]
fn every_page_is_covered() {
    let mut pages: Vec<_> = fs::read_dir(Path::new(HERE).join("docs"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let expected = [
        "cluster.md",         // its commands run in cluster
        "commands.md",        // has their help, whose examples run in tests/help.rs
        "comparison.md",      // below
        "drift.md",           // has none
        "images.md",          // its commands run in image
        "least-privilege.md", // its command is that of the test of `make rbac-audit`
        "migrate.md",         // its commands run in own.rs
        "olm.md",             // its commands run in olm
        "postgres.md",        // they need real PostgreSQL, see postgres
        "recipes.md",         // its command runs the tests of recipes
    ];
    assert_eq!(pages, expected);
}

#[test]
fn the_readme_works_in_its_order() {
    let machine = Machine::new();
    let blocks = commands("README.md");
    let [begin, second, rest @ .., own_tests] = blocks.as_slice() else { panic!("{blocks:?}") };
    let run = fs::read_to_string(Path::new(HERE).join(".ci/run")).unwrap();
    assert_eq!(run.lines().last(), Some(own_tests.as_str()), "what runs this test");

    let turn = turn("memcached-operator");
    let clone = package(&machine);
    let installed = machine.home().join(".cargo");
    let shell = |script: &str, folder: &Path| {
        let mut shell = machine.command("bash");
        shell.args(["-ec", &format!("{MAKE}{script}")]).current_dir(folder);
        shell.env("RUNTIME", Path::new(HERE).join("crates/opctl-runtime"));
        let path = std::env::var("PATH").unwrap();
        shell.env("PATH", format!("{}/bin:{path}", installed.display()));
        // Its cache of crates stays the machine's.
        shell.env("CARGO_INSTALL_ROOT", &installed);
        // Nor is it about how fast opctl is.
        shell.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        shell.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        shell.env(
            "ARGS",
            format!(
                "--health-probe-bind-address=127.0.0.1:{} --metrics-bind-address=0",
                free_port()
            ),
        );
        shell
    };
    let log = machine.home().join("readme.log");
    let mut operator = Background::start("the README's first command", shell(begin, &clone), log);
    timed("the README's first command", || {
        within(COMPILATION, "operator that reconciles", || {
            operator.assert_runs();
            let log = operator.log();
            log.contains("reconciling memcached").then_some(()).ok_or(log)
        });
    });
    let project = clone.with_file_name("memcached-operator");
    drop(turn);
    assert_same_project(&machine, &project);
    let table = finished(second, shell(second, &project).output().unwrap());
    for kind in ["memcached.cache.example.com", "deployment.apps", "pod"] {
        assert!(table.contains(&format!("{kind}/memcached-sample")), "{table}");
    }
    operator.end(Signal::INT);

    for (number, script) in rest.iter().enumerate() {
        let empty = machine.home().join(format!("empty-{number}"));
        fs::create_dir(&empty).unwrap();
        finished(script, shell(script, &empty).output().unwrap());
    }
}

#[test]
fn the_comparison_compares() {
    let machine = Machine::new();
    let built = Site::built(&machine);

    // One operator, twice: what is shown is that the script works.
    let folder = machine.home();
    for name in ["manager-opctl", "manager-kubebuilder"] {
        symlink(&built.manager, folder.join(name)).unwrap();
    }
    symlink(&built.config, folder.join("config")).unwrap();
    symlink(Path::new(HERE).join("benches"), folder.join("benches")).unwrap();
    for script in commands("docs/comparison.md") {
        let mut shell = machine.command("bash");
        shell.args(["-ec", &script]).current_dir(&folder);
        shell.envs([("OBJECTS", "2"), ("QUIET", "2"), ("IDLE", "2")]);
        let table = timed("comparison", || finished(&script, shell.output().unwrap()));
        assert!(
            table.contains("| 2 Memcacheds | manager-opctl | manager-kubebuilder |"),
            "{table}"
        );
        assert!(table.contains("| requests in 2 s with nothing to do | 0 | 0 |"), "{table}");
    }
}

/// opctl as it is published, where a README's user has the clone: that it is complete is what compiling it shows.
fn package(machine: &Machine) -> PathBuf {
    let mut package = machine.command("cargo");
    package.args(["package", "--package", "opctl", "--no-verify", "--allow-dirty"]);
    package.arg("--target-dir").arg(machine.home()).current_dir(HERE);
    finished("cargo package", package.output().unwrap());
    let name = concat!("opctl-", env!("CARGO_PKG_VERSION"));
    let archive = machine.home().join(format!("package/{name}.crate"));
    let mut tar = Command::new("tar");
    finished("tar", tar.arg("-xzf").arg(archive).current_dir(machine.home()).output().unwrap());
    machine.home().join(name)
}

/// What this opctl makes of the same commands, with the runtime that is developed here.
fn assert_same_project(machine: &Machine, project: &Path) {
    let own = machine.home().join("own/memcached-operator");
    fs::create_dir_all(&own).unwrap();
    for words in [
        "init --domain example.com",
        "create api --group cache --version v1alpha1 --kind Memcached",
    ] {
        let mut opctl = machine.command(env!("CARGO_BIN_EXE_opctl"));
        opctl.args(words.split(' ')).current_dir(&own);
        finished(words, opctl.output().unwrap());
    }
    let assert_same = |original: &Path, copy: &Path| {
        let mut diff = Command::new("diff");
        diff.args(["--recursive", "--exclude=target"]).arg(original).arg(copy);
        finished("diff", diff.output().unwrap());
    };
    assert_same(&own, project);
    // The crate has its tests and examples beside what projects have a copy of.
    for copy in fs::read_dir(project.join("runtime")).unwrap() {
        let copy = copy.unwrap();
        let original = Path::new(HERE).join("crates/opctl-runtime").join(copy.file_name());
        assert_same(&original, &copy.path());
    }
}
