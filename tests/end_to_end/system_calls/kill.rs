//! Kills commands at their system calls.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;

const INIT: &str = "init --domain example.com";
const CREATE: &str = "create api --group cache --version v1 --kind Memcached";
/// The calls that change a file system.
const CALLS: [&str; 9] =
    ["mkdir", "openat", "write", "link,linkat", "rename", "unlink", "rmdir", "syncfs", "fsync"];

fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut tree, mut directories) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().to_owned();
            match path.is_dir() {
                true => {
                    tree.insert(name, Vec::new());
                    directories.push(path);
                }
                false => drop(tree.insert(name, fs::read(path).unwrap())),
            }
        }
    }
    tree
}

#[test]
fn killed_command_is_done_by_the_second_run() {
    let done = User::new();
    for command in [INIT, CREATE] {
        assert!(done.opctl(command).status.success());
    }
    let expected = tree(&done.project());
    for calls in CALLS {
        // A first kill, a second one of the run that undoes it, and a run that is left alone.
        for number in [1, 2, 9, 20, 40, 100] {
            let user = User::new();
            let mut kills = 0;
            for command in [INIT, CREATE] {
                for number in [number, number / 2 + 1] {
                    let inject = format!("inject={calls}:signal=KILL:when={number}");
                    let output = user.trace(&["-f", "-o", "/dev/null", "-e", &inject], command);
                    kills += usize::from(!output.status.success());
                    if output.status.success() {
                        break; // the command is done, before so many calls
                    }
                }
                user.opctl(command);
            }
            assert!(kills > 0 || number > 1 || calls == "link,linkat", "{calls}: no kill");
            let left = tree(&user.project());
            let paths = left.keys().chain(expected.keys());
            let different: Vec<_> =
                paths.filter(|path| left.get(*path) != expected.get(*path)).collect();
            assert!(different.is_empty(), "killed at {calls} {number}: {different:?}");
        }
    }
}
