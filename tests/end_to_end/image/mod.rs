//! `opctl image build`, judged by crane (go-containerregistry), which is also the registry. Its project is
//! built by a program in place of cargo.

mod faults;
mod registry;
mod sign;

use std::path::Path;
use std::process::{Command, Output};

use crate::operator::docs::commands;
use crate::operator::machine::path;
use registry::{Crane, Refusal};
use serde_json::{Value, json};

/// A project that is built in no time.
struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let project = Self(home);
        std::fs::create_dir(project.path().join("op")).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/image/project.sh");
        let mut setup = Command::new("sh");
        let status = setup.arg(script).current_dir(project.path().join("op")).env("PATH", path());
        assert!(status.status().unwrap().success());
        project
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Builds and pushes.
    fn push(&self, arguments: &[&str]) -> Output {
        let mut opctl = self.opctl();
        opctl.args(["--quiet", "image", "build", "--push"]).args(arguments).output().unwrap()
    }

    fn opctl(&self) -> Command {
        let mut opctl = Command::new(env!("CARGO_BIN_EXE_opctl"));
        self.prepare(&mut opctl);
        opctl
    }

    /// Lets a command run in the project, with the programs that build it.
    fn prepare(&self, opctl: &mut Command) {
        opctl.current_dir(self.path().join("op"));
        opctl.env("CARGO", self.path().join("cargo")).env("RUSTC", self.path().join("rustc"));
        // The user's own credentials are nobody's business.
        opctl.env("DOCKER_CONFIG", self.path()).env("REGISTRY_AUTH_FILE", self.path().join("auth"));
        opctl.env("SOURCE_DATE_EPOCH", "0");
    }

    fn pushed(&self, arguments: &[&str]) -> String {
        let output = self.push(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Pushes an image for one platform.
    fn pushed_to(&self, name: &str) -> String {
        self.pushed(&["--platform", "linux/amd64", "--tag", name])
    }

    /// What is said of a push that fails.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.push(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn an_image_is_pushed_and_found_valid_and_not_sent_twice() {
    let (project, crane) = (Project::new(), Crane::serve());
    let name = crane.name("memcached/operator:v1");
    let pinned = project.pushed(&["--platform", "linux/amd64", "--tag", &name]);
    crane.run(&["validate", "--remote", &name]);
    let digest = crane.run(&["digest", &name]);
    assert_eq!(pinned, format!("{}@{digest}", crane.name("memcached/operator")));
    let config = crane.run(&["config", &name]);
    assert!(config.contains(r#""Entrypoint":["/manager"],"#) && config.contains("65532:65532"));

    let uploads = crane.uploads();
    let manifests = crane.requests(" PUT /v2/memcached/operator/manifests/");
    assert_eq!(manifests, 5, "the image by digest and by tag, what refers to it, and their list");
    assert_eq!(uploads, 5, "the layer, the configuration, and those of what refers to the image");
    assert_eq!(project.pushed(&["--platform", "linux/amd64", "--tag", &name]), pinned);
    assert_eq!(crane.uploads(), uploads);
    assert_eq!(crane.requests(" PUT /v2/memcached/operator/manifests/"), manifests);
}

#[test]
fn a_pushed_image_is_deployed_if_it_is_pinned() {
    let (project, crane) = (Project::new(), Crane::serve());
    let name = crane.name("op:v1");
    let config = project.path().join("op/config/manager/kustomization.yaml");
    let pinned = project.pushed(&["--platform", "linux/amd64", "--tag", &name]);
    let before = std::fs::read_to_string(&config).unwrap();
    assert!(!before.contains("sha256:"), "{before}");
    assert_eq!(project.pushed(&["--platform", "linux/amd64", "--tag", &name, "--pin"]), pinned);
    let (name, digest) = pinned.split_once('@').unwrap();
    let after = std::fs::read_to_string(&config).unwrap();
    let image = format!("- name: controller\n  newName: {name}\n  digest: {digest}\n");
    assert!(after.contains(&image), "{after}");
}

#[test]
fn an_image_has_a_bill_of_materials_beside_those_of_others() {
    let (project, crane) = (Project::new(), Crane::serve());
    let name = crane.name("op:v1");
    let repository = crane.name("op");
    let pinned = project.pushed(&["--platform", "linux/amd64", "--tag", &name]);
    let (_, digest) = pinned.split_once('@').unwrap();
    let list = format!("{repository}:{}", digest.replace(':', "-"));
    let referrers = || -> Value { serde_json::from_str(&crane.run(&["manifest", &list])).unwrap() };
    let listed = referrers();
    let [referrer, _] = &listed["manifests"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!(referrer["artifactType"], "application/spdx+json");
    let manifest = format!("{repository}@{}", referrer["digest"].as_str().unwrap());
    let manifest: Value = serde_json::from_str(&crane.run(&["manifest", &manifest])).unwrap();
    assert_eq!(manifest["subject"]["digest"], digest);
    let document = manifest["layers"][0]["digest"].as_str().unwrap();
    let document = crane.run(&["blob", &format!("{repository}@{document}")]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let packages = document["packages"].as_array().unwrap();
    assert_eq!(document["spdxVersion"], "SPDX-2.3");
    assert!(packages.iter().any(|package| package["name"] == "kube-runtime"), "{packages:?}");

    // The list has what others have added, and nothing twice.
    let mut with_others = listed.clone();
    let mut other = referrer.clone();
    other["artifactType"] = "application/vnd.example".into();
    other["digest"] = digest.into();
    with_others["manifests"] = json!([other]);
    crane.put(&list, &with_others);
    for _ in 0..2 {
        project.pushed(&["--platform", "linux/amd64", "--tag", &name]);
        let types: Vec<Value> = referrers()["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|referrer| referrer["artifactType"].clone())
            .collect();
        let in_toto = "application/vnd.in-toto+json";
        assert_eq!(types, ["application/vnd.example", "application/spdx+json", in_toto]);
    }
}

#[test]
fn an_image_says_how_it_was_built() {
    let project = Project::new();
    for crane in [Crane::serve(), Crane::serve_with_referrers()] {
        let name = crane.name("op:v1");
        let pinned = project.pushed(&["--platform", "linux/amd64,linux/arm64", "--tag", &name]);
        let documents = crane.referrers(&pinned, "application/vnd.in-toto+json");
        let [statement] = &documents[..] else { panic!("{documents:?}") };
        let (_, digest) = pinned.split_once("@sha256:").unwrap();
        assert_eq!(statement["subject"][0]["digest"]["sha256"], digest);
        assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
        let parameters = &statement["predicate"]["buildDefinition"]["externalParameters"];
        assert_eq!(parameters["platforms"], json!(["linux/amd64", "linux/arm64"]));
        let text = statement.to_string();
        assert!(!text.contains(project.path().to_str().unwrap()), "{text}");
    }
}

#[test]
fn the_list_of_referrers_has_a_tag_only_where_the_registry_has_none() {
    let project = Project::new();
    for (crane, expected) in [(Crane::serve(), true), (Crane::serve_with_referrers(), false)] {
        let name = crane.name("op:v1");
        let pinned = project.pushed(&["--platform", "linux/amd64", "--tag", &name]);
        let tags = crane.run(&["ls", &crane.name("op")]);
        let (_, digest) = pinned.split_once('@').unwrap();
        let tag = digest.replace(':', "-");
        assert_eq!(tags.lines().any(|line| line == tag), expected, "{tags}");
        assert!(tags.lines().any(|line| line == "v1"), "{tags}");
    }
}

#[test]
fn commands_of_the_page_work() {
    let (project, crane) = (Project::new(), Crane::serve());
    let script =
        commands("docs/images.md").join("\n").replace("registry.example.com/", &crane.name(""));
    let mut shell = Command::new("sh");
    project.prepare(&mut shell);
    let output = shell.args(["-exc", &script]).env("PATH", path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let [pinned, signed, _] = lines[..] else { panic!("{text}") };
    assert_eq!(pinned, signed);
    let bundles = crane.referrers(signed, sign::BUNDLE);
    assert_eq!(
        bundles.len(),
        3,
        "the image, its provenance and its bill of materials: {bundles:?}"
    );
}

#[test]
fn an_image_for_two_platforms_has_one_name() {
    let (project, crane) = (Project::new(), Crane::serve());
    let name = crane.name("op:v1");
    let pinned = project.pushed(&["--platform", "linux/amd64,linux/arm64", "--tag", &name]);
    crane.run(&["validate", "--remote", &name]);
    assert!(pinned.ends_with(&crane.run(&["digest", &name])), "{pinned}");
    for platform in ["linux/amd64", "linux/arm64"] {
        let config = crane.run(&["config", "--platform", platform, &name]);
        let architecture = platform.trim_start_matches("linux/");
        assert!(config.contains(&format!(r#""architecture":"{architecture}""#)), "{config}");
    }
}

#[test]
fn a_registry_that_refuses_is_understood() {
    let project = Project::new();
    let says = |refusal: Refusal, words: &[&str]| {
        let name = format!("{}/op:v1", refusal.serve());
        let error = project.refused(&["--platform", "linux/amd64", "--tag", &name]);
        for word in words {
            assert!(error.contains(word), "{word} is not in {error}");
        }
    };
    says(Refusal::Unauthorized, &["it refuses the credentials", "docker login 127.0.0.1:"]);
    says(Refusal::TooManyRequests, &["429", "run the command again"]);
    says(Refusal::Forbidden, &["403", "may not", "docker login 127.0.0.1:"]);
    says(Refusal::Hangup, &["cannot push to 127.0.0.1:", "run the command again"]);

    // Nobody is there.
    let error = project.refused(&["--platform", "linux/amd64", "--tag", "127.0.0.1:1/op:v1"]);
    assert!(error.contains("Connection refused"), "{error}");
    std::fs::write(project.path().join("config.json"), r#"{"auths":{"127.0.0.1:1":{"auth":"?"}}}"#)
        .unwrap();
    let error = project.refused(&["--platform", "linux/amd64", "--tag", "127.0.0.1:1/op:v1"]);
    assert!(
        error.contains("cannot push to 127.0.0.1:1: ") && error.contains("docker login"),
        "{error}"
    );
}

#[test]
fn bundles_are_read_from_their_images() {
    let (project, crane) = (Project::new(), Crane::serve());
    let directory = project.path();
    let write = |path: &str, text: &str| {
        let path = directory.join("bundle").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "manifests/csv.yaml",
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n\
         metadata:\n  name: a.v1.0.0\nspec:\n  version: 1.0.0\n",
    );
    write(
        "metadata/annotations.yaml",
        "annotations:\n  operators.operatorframework.io.bundle.package.v1: a\n",
    );
    write("other/file", "");
    for (image, parts) in
        [("bundle:v1", ["manifests", "metadata"]), ("bundle:other", ["other", "."])]
    {
        let mut tar = Command::new("tar");
        tar.args(["-cf", "../layer.tar"]).arg(parts[0]);
        tar.args((parts[1] != ".").then_some(parts[1]));
        assert!(tar.current_dir(directory.join("bundle")).status().unwrap().success());
        let layer = directory.join("layer.tar");
        let layer = layer.to_str().unwrap();
        crane.run(&["append", "-f", layer, "-t", &crane.name(image)]);
    }
    // The image for another platform than this one, and what buildx attests of it.
    let entry = |image: &str, architecture: &str, os: &str| {
        json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "size": crane.run(&["manifest", &crane.name(image)]).len(),
            "digest": crane.run(&["digest", &crane.name(image)]),
            "platform": { "architecture": architecture, "os": os },
        })
    };
    crane.put(
        &crane.name("bundle:index"),
        &json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [
                entry("bundle:other", "unknown", "unknown"),
                entry("bundle:v1", "s390x", "linux"),
            ],
        }),
    );
    for (image, expected) in [
        // What follows needs a cluster.
        ("bundle:index", "Read a.v1.0.0 from the image IMAGE\n"),
        ("bundle:v1", "Read a.v1.0.0 from the image IMAGE\nerror: the kubeconfig has no current"),
        ("bundle:other", "error: IMAGE is not the image of a bundle\n"),
        ("missing:v1", "error: cannot pull IMAGE: "),
    ] {
        let image = crane.name(image);
        let mut opctl = Command::new(env!("CARGO_BIN_EXE_opctl"));
        opctl.args(["run", "bundle", &image, "--kubeconfig", "missing"]).current_dir(directory);
        opctl.env("DOCKER_CONFIG", directory).env("REGISTRY_AUTH_FILE", directory.join("auth"));
        let output = opctl.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(&expected.replace("IMAGE", &image)), "{text}");
    }
}
