//! `opctl image sign`, judged by openssl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::image::Project;
use crate::image::registry::Crane;

/// The type of a bundle.
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The type of the statement that somebody has signed an image.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";
const SPDX: &str = "application/spdx+json";
const STATEMENT: &str = "application/vnd.in-toto+json";
/// A key that cosign's library has encrypted, with the password "secret".
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/image/cosign.key");
const PUBLIC_KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/image/cosign.pub");

fn run(program: &str, arguments: &[&str], directory: &Path) {
    let output = Command::new(program).args(arguments).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// Decodes base64 as openssl does.
fn decode(text: &str, directory: &Path) -> Vec<u8> {
    fs::write(directory.join("encoded"), text).unwrap();
    run("openssl", &["base64", "-d", "-A", "-in", "encoded", "-out", "decoded"], directory);
    fs::read(directory.join("decoded")).unwrap()
}

impl Project {
    fn sign(&self, image: &str, key: &str, password: Option<&str>) -> Result<String, String> {
        let mut opctl = self.opctl();
        opctl.args(["--quiet", "image", "sign", image, "--key", key]).env_remove("COSIGN_PASSWORD");
        let output = opctl.envs(password.map(|it| ("COSIGN_PASSWORD", it))).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }
}

#[test]
fn a_signature_is_valid_and_is_there_once() {
    let (project, directory) = (Project::new(), tempfile::tempdir().unwrap());
    let directory = directory.path();
    let curve = ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    run("openssl", &[&curve[..], &["-out", "key.pem"]].concat(), directory);
    run("openssl", &["pkey", "-in", "key.pem", "-pubout", "-out", "key.pub"], directory);
    let key = directory.join("key.pem").display().to_string();
    let keys = [(key.as_str(), None, "key.pub"), (KEY, Some("secret"), PUBLIC_KEY)];
    for (crane, (key, password, public)) in
        [Crane::serve(), Crane::serve_with_referrers()].into_iter().zip(keys)
    {
        let name = crane.name("op:v1");
        let pinned = project.pushed(&["--platform", "linux/amd64", "--tag", &name]);
        assert_eq!(project.sign(&name, key, password), Ok(pinned.clone()));
        assert_eq!(project.sign(&pinned, key, password), Ok(pinned.clone()), "again");

        let (_, hash) = pinned.split_once("@sha256:").unwrap();
        let bundles = crane.referrers(&pinned, BUNDLE);
        let statements = bundles.iter().map(|bundle| verified(bundle, public, directory));
        let mut statements: Vec<Value> = statements.collect();
        // A registry lists referrers in any order.
        statements.sort_by_key(|it| it["predicateType"].to_string());
        let types: Vec<&Value> = statements.iter().map(|it| &it["predicateType"]).collect();
        assert_eq!(types, [SIGNED, "https://slsa.dev/provenance/v1", "https://spdx.dev/Document"]);
        for statement in &statements {
            assert_eq!(statement["subject"][0]["digest"]["sha256"], hash);
        }
        // They are what the image was pushed with.
        assert_eq!(crane.referrers(&pinned, STATEMENT), [statements[1].clone()]);
        assert_eq!(crane.referrers(&pinned, SPDX), [statements[2]["predicate"].clone()]);
    }
}

/// The statement in a bundle, of which openssl has verified the signature.
fn verified(bundle: &Value, public_key: &str, directory: &Path) -> Value {
    assert_eq!(bundle["mediaType"], BUNDLE);
    let envelope = &bundle["dsseEnvelope"];
    let payload = decode(envelope["payload"].as_str().unwrap(), directory);
    let signature = decode(envelope["signatures"][0]["sig"].as_str().unwrap(), directory);
    let mut signed = format!("DSSEv1 28 {STATEMENT} {} ", payload.len()).into_bytes();
    signed.extend(&payload);
    fs::write(directory.join("signed"), signed).unwrap();
    fs::write(directory.join("signature"), signature).unwrap();
    let verify = ["dgst", "-sha256", "-verify", public_key, "-signature", "signature", "signed"];
    run("openssl", &verify, directory);
    serde_json::from_slice(&payload).unwrap()
}

#[test]
fn only_documents_of_the_own_build_are_signed() {
    let (project, crane) = (Project::new(), Crane::serve());
    let directory = tempfile::tempdir().unwrap();
    let curve = ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    run("openssl", &[&curve[..], &["-out", "key.pem"]].concat(), directory.path());
    let key = directory.path().join("key.pem");
    let name = crane.name("op:v1");
    let pinned = project.pushed(&["--platform", "linux/amd64", "--tag", &name]);
    let sign = |directory: &str| {
        let mut opctl = project.opctl();
        opctl.args(["image", "sign", &name, "--directory", directory, "--key"]).arg(&key);
        let output = opctl.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };

    let (code, log) = sign("elsewhere");
    assert_eq!(code, Some(0), "{log}");
    let skipped = "skip provenance and bill of materials: not in elsewhere\n";
    assert!(log.contains(skipped), "{log}");
    assert_eq!(crane.referrers(&pinned, BUNDLE).len(), 1);

    let blobs = project.path().join("op/target/image/blobs/sha256");
    let is_statement = |path: &PathBuf| {
        fs::read_to_string(path).is_ok_and(|text| text.contains("\"predicateType\""))
    };
    let mut paths = fs::read_dir(blobs).unwrap().map(|entry| entry.unwrap().path());
    let statement = paths.find(is_statement).unwrap();
    let text = fs::read_to_string(&statement).unwrap().replace("opctl", "other");
    fs::write(&statement, text).unwrap();
    let (code, log) = sign("target/image");
    assert!(code == Some(1) && log.contains(" was changed\n"), "{log}");
    assert_eq!(crane.referrers(&pinned, BUNDLE).len(), 1);
}

#[test]
fn what_cannot_be_signed_is_not() {
    let (project, crane) = (Project::new(), Crane::serve());
    let error = project.sign(&crane.name("op:v1"), KEY, Some("secret")).unwrap_err();
    assert!(error.contains("cannot sign ") && error.contains("push the image first"), "{error}");
    let error = project.sign(&crane.name("op:v1"), KEY, Some("wrong")).unwrap_err();
    assert!(error.contains("cosign.key cannot be decrypted: the password is wrong"), "{error}");
    let error = project.sign(&crane.name("op:v1"), KEY, None).unwrap_err();
    assert!(error.contains("is encrypted") && error.contains("COSIGN_PASSWORD"), "{error}");
}
