//! The programs of Kubernetes, with those that `opctl cluster` has no use for, and CoreDNS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::cached;
use crate::project::finished;

/// The module from which opctl builds the control plane.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cluster/gomod");
const COREDNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/programs/coredns");

/// What kube-proxy requires in addition.
const MORE: [(&str, &str); 2] = [
    ("go.mod", include_str!("programs/kube-proxy.mod")),
    ("go.sum", include_str!("programs/kube-proxy.sum")),
];

const PACKAGES: [&str; 7] = [
    "./etcd",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "k8s.io/kubernetes/cmd/kube-proxy",
    "k8s.io/kubernetes/cmd/kubectl",
    "k8s.io/kubernetes/cmd/kubelet",
];

/// The directory with all programs.
pub fn programs() -> PathBuf {
    let read = |directory: &str, name: &str| fs::read_to_string(Path::new(directory).join(name));
    let files = [(MODULE, "go.mod"), (MODULE, "go.sum"), (MODULE, "etcd/main.go")];
    let files = files.into_iter().chain([(COREDNS, "go.sum"), (COREDNS, "main.go")]);
    let mut recipe: Vec<String> =
        files.map(|(directory, name)| read(directory, name).unwrap()).collect();
    recipe.extend(MORE.map(|(_, text)| text.to_owned()));
    let flags = flags(&recipe[0]);
    recipe.push(flags.clone());
    let recipe: Vec<&str> = recipe.iter().map(String::as_str).collect();
    cached("programs", &recipe, |path| {
        fs::create_dir(path).unwrap();
        build(path, &flags);
    })
}

fn build(path: &Path, flags: &str) {
    let module = tempfile::tempdir().unwrap();
    let mut copy = Command::new("cp");
    finished("cp", copy.arg("-r").arg(MODULE).arg(module.path()).output().unwrap());
    let module = module.path().join("gomod");
    for (name, more) in MORE {
        let file = module.join(name);
        fs::write(&file, fs::read_to_string(&file).unwrap() + more).unwrap();
    }
    let mut target = path.to_owned();
    target.push(""); // a directory
    for (directory, packages) in [(module.as_path(), &PACKAGES[..]), (Path::new(COREDNS), &["."])] {
        let mut go = Command::new("go");
        // As opctl builds them: what it has compiled is compiled.
        go.env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=readonly").env("GOWORK", "off");
        go.args(["build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o"]).arg(&target);
        go.args(packages).current_dir(directory);
        finished("go build", go.output().unwrap());
    }
}

/// The linker flags that set the version, as Kubernetes' own build does.
fn flags(go_mod: &str) -> String {
    let version = go_mod.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
    let version = version.expect("the version of Kubernetes");
    let [major, minor, _] = *version.split('.').collect::<Vec<_>>() else { panic!("{version}") };
    let package = "k8s.io/component-base/version";
    format!(
        "-s -w -X {package}.gitVersion=v{version} -X {package}.gitMajor={major} \
         -X {package}.gitMinor={minor}"
    )
}
