//! Which programs are found, and which are ignored.

use std::fs;

use super::*;

/// Writes a program. Another process does: a process that another test starts meanwhile would inherit the open
/// file, and a file that is open for writing cannot be run.
fn install(directory: &Path, file: &str, script: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"printf %s "$1" > "$0" && chmod 755 "$0""#]);
    assert!(shell.arg(directory.join(file)).arg(script).status().unwrap().success());
}

fn search(directories: &[PathBuf], built: &Path) -> Binaries {
    let directory = |path: &PathBuf| match path == built {
        true => Directory::cached(path.clone(), Tool::pinned),
        false => Directory::external(path.clone()),
    };
    Binaries::search(&directories.iter().map(directory).collect::<Vec<_>>())
}

/// Directories whose programs report these versions, and the last of which opctl built.
fn found(directories: &[&[(&str, &str)]]) -> (Binaries, Vec<tempfile::TempDir>) {
    let install_all = |programs: &&[(&str, &str)]| {
        let directory = tempfile::tempdir().unwrap();
        for (file, version) in *programs {
            install(directory.path(), file, &format!("#!/bin/sh\necho '{version}'\n"));
        }
        directory
    };
    let directories: Vec<_> = directories.iter().map(install_all).collect();
    let paths: Vec<_> = directories.iter().map(|dir| dir.path().to_owned()).collect();
    (search(&paths, &paths[paths.len() - 1]), directories)
}

#[test]
fn first_directory_with_a_program_wins() {
    let first = &[("kwok", "kwok version v0.8.1 go1.26.8 (linux/amd64)")][..];
    let (found, directories) = found(&[first, &[("kwok", ""), ("kubectl", "")]]);

    let path = |directory: usize, file: &str| directories[directory].path().join(file);
    assert_eq!(found.get(Tool::Kwok), Some(path(0, "kwok").as_path()));
    assert_eq!(found.version(Tool::Kwok), Some(&Version::new(0, 8, 1)));
    assert_eq!(found.get(Tool::Kubectl), Some(path(1, "kubectl").as_path()));
    assert_eq!(found.missing().len(), 4);
}

#[test]
fn file_that_is_not_executable_is_not_found() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("kwok"), "").unwrap();
    fs::create_dir(directory.path().join("kubectl")).unwrap();

    let found = search(&[directory.path().to_owned()], directory.path());
    assert_eq!(found.missing(), Tool::ALL);
    let program = directory.path().join("kwok");
    let ignored = format!("`{}`, which is not executable", program.display());
    assert_eq!(found.ignored, [ignored]);
}

#[test]
fn versions_that_do_not_work_are_ignored_with_the_reason() {
    let others = &[
        ("etcd", "etcd Version: 3.4.23"),
        ("kwok", "kwok version v0.7.0"),
        ("kube-scheduler", "no version"),
        ("kube-apiserver", "Kubernetes v1.29.4"),
    ][..];
    let (found, directories) = found(&[others, &[("etcd", "")]]);

    assert_eq!(found.get(Tool::Etcd), Some(directories[1].path().join("etcd").as_path()));
    assert_eq!(found.missing().len(), 5);
    let ignored = found.ignored.join("\n");
    for reason in ["etcd` 3.4.23: it has no", "kwok` 0.7.0: opctl works with 0.8"] {
        assert!(ignored.contains(reason), "{ignored}");
    }
    for reason in ["scheduler`, which reports no version", "1.29.4: opctl needs 1.30"] {
        assert!(ignored.contains(reason), "{ignored}");
    }
}

#[test]
fn a_program_that_cannot_be_run_is_ignored_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    install(directory.path(), "etcd", "#!/no/such/interpreter\n");

    let found = search(&[directory.path().to_owned()], Path::new("/"));
    assert_eq!(found.missing(), Tool::ALL);
    assert!(found.ignored[0].contains("etcd`, which cannot be run: No such file"), "{found:?}");
}

#[test]
fn another_version_of_kubernetes_is_used_if_it_is_complete() {
    let all = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let all = all.map(|file| (file, "Kubernetes v1.33.1"));
    let (complete, _directories) = found(&[&all, &[]]);
    assert_eq!(complete.version(Tool::Scheduler), Some(&Version::new(1, 33, 1)));

    // That of kubebuilder's test environment.
    let (incomplete, _directories) = found(&[&all[..1], &all[1..]]);
    assert_eq!(incomplete.get(Tool::ApiServer), None);
    assert_eq!(incomplete.version(Tool::Scheduler), Some(&Tool::Scheduler.pinned()));
    assert!(incomplete.ignored[0].contains("different versions"), "{incomplete:?}");
    let (replaced, directories) = found(&[&all[..1], &all]);
    let built = directories[1].path().join("kube-apiserver");
    assert_eq!(replaced.get(Tool::ApiServer), Some(built.as_path()));
}

#[test]
fn oldest_etcd_depends_on_its_minor_version() {
    let accepted = |text: &str| streams_lists(&parse(text).unwrap());
    assert!(!accepted("3.3.27") && !accepted("3.4.30") && !accepted("3.5.12"));
    assert!(accepted("3.4.31") && accepted("3.5.13") && accepted("3.6.0") && accepted("4.0.0"));
}
