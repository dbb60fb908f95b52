//! Which files commands change.

use super::*;

/// The calls that change a file system.
const CALLS: &str = "open,openat,creat,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,\
                     linkat,symlink,symlinkat,chmod,fchmodat,chown,lchown,fchownat,truncate,mknod,utimensat";

/// The paths that a call changes, as strace writes them: `openat(AT_FDCWD</directory>, "a", O_RDWR) = 3`.
fn changed(line: &str) -> Vec<PathBuf> {
    let Some((call, result)) = line.rsplit_once(" = ") else { return Vec::new() };
    let name = call.split('(').next().unwrap().rsplit(' ').next().unwrap();
    let only_reads = name.starts_with("open")
        && !["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| call.contains(flag));
    if result.starts_with('-') || only_reads {
        return Vec::new();
    }
    let words: Vec<&str> = call.split('"').collect();
    let path = |words: &[&str]| {
        let directory = words[0].rsplit_once('<').and_then(|(_, rest)| rest.split('>').next());
        Path::new(directory.unwrap_or_default()).join(words[1])
    };
    words.chunks_exact(2).map(path).collect()
}

#[test]
fn commands_change_nothing_outside_of_the_project() {
    let user = User::new();
    let crd = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crds/box.yaml");
    let log = user.home.path().join("log");
    let commands = [
        "init --domain example.com --dry-run",
        "init --domain example.com",
        "init --owner Somebody",
        "create api --group cache --version v1alpha1 --kind Memcached --dry-run",
        "create api --group cache --version v1alpha1 --kind Memcached",
        "create api --group cache --version v1 --kind Memcached",
        "create api --group cache --version v1 --kind Memcached --force",
        "create api --group apps --version v1 --kind Deployment --resource=false",
        &format!("create api --crd {}", crd.display()),
        "create api --list-recipes",
        "audit --log none",
        "completion bash",
        "cluster status",
        "cluster logs",
        "cluster stop",
        "version",
    ];
    let mut changes = 0;
    for command in commands {
        let filter = format!("trace={CALLS}");
        let options = ["-f", "-y", "-s", "4096", "-o", log.to_str().unwrap(), "-e", &filter];
        user.trace(&options, command);
        let text = fs::read_to_string(&log).unwrap();
        for path in text.lines().flat_map(changed) {
            let path = user.project().join(path);
            let is_inside = path.starts_with(user.project())
                && !path.components().any(|part| part.as_os_str() == "..");
            let is_device = path.starts_with("/dev");
            assert!(is_inside || is_device, "`opctl {command}` changes {}", path.display());
            changes += 1;
        }
    }
    assert!(user.project().join("tests/crds").is_dir(), "the CRD is refused");
    assert!(changes > 300, "strace shows {changes} changes only");
    let left: Vec<_> =
        fs::read_dir(user.home.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}
