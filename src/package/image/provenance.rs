//! How an image was built, as a document of SLSA (<https://slsa.dev/spec/v1.1/provenance>).

use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::blob::{self, Blob};
use super::compile::RustcVersion;
use super::platform::Platform;
use super::source::Source;
use super::statement::statement;
use crate::hash::Hash;
use crate::render::LOCK;

/// The type of the statement.
pub const PREDICATE_TYPE: &str = "https://slsa.dev/provenance/v1";

/// What the parameters mean: `docs/images.md` describes them.
const BUILD_TYPE: &str = "https://docs.rs/opctl/latest/opctl/package/image/index.html#build-type-1";
/// Who states it: opctl on some machine, for which nobody else vouches.
const BUILDER: &str = "https://docs.rs/opctl";

/// What a build depends on besides the sources.
pub struct Build<'a> {
    /// The platforms of the image.
    pub platforms: &'a [Platform],
    /// The certificates of authorities in the image.
    pub certificates: Option<&'a [u8]>,
    /// The compiler, if it says its version.
    pub rustc: Option<RustcVersion>,
}

/// The document of an image. The same build always has the same document: there is neither a time in it nor
/// anything of the machine.
///
/// # Errors
/// If there is no `Cargo.lock`.
pub fn document(root: &Path, source: &Source, build: &Build<'_>, image: &Blob) -> Result<Blob> {
    let lock = fs::read(root.join(LOCK)).with_context(|| format!("cannot read {LOCK}"))?;
    let platforms: Vec<String> = build.platforms.iter().map(Platform::to_string).collect();
    let targets: Vec<&str> = build.platforms.iter().map(|platform| platform.target()).collect();
    let mut parameters = json!({ "platforms": platforms });
    if let Some(certificates) = build.certificates {
        parameters["caCertificates"] = json!({ "sha256": Hash::of(certificates) });
    }
    // Flags in a configuration of cargo are not known.
    if let Ok(flags) = env::var("RUSTFLAGS") {
        parameters["rustflags"] = flags.into();
    }
    let mut dependencies: Vec<Value> = describe_sources(source).into_iter().collect();
    dependencies.push(json!({ "name": LOCK, "digest": { "sha256": Hash::of(lock) } }));
    dependencies.extend(build.rustc.as_ref().map(describe_compiler));
    let predicate = json!({
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": parameters,
            "internalParameters": { "targets": targets },
            "resolvedDependencies": dependencies,
        },
        "runDetails": {
            "builder": { "id": BUILDER, "version": { "opctl": env!("CARGO_PKG_VERSION") } },
        },
    });
    let subject = json!({ "name": source.title, "digest": { "sha256": image.hash() } });
    Ok(Blob::json(blob::IN_TOTO, &statement(&subject, PREDICATE_TYPE, &predicate)))
}

/// The commit. Sources with other changes have its name with `-dirty`, but not its digest: it is not what was built.
fn describe_sources(source: &Source) -> Option<Value> {
    let revision = source.revision.as_ref()?;
    let mut sources = json!({ "name": "sources", "uri": format!("git:{revision}") });
    if !revision.is_dirty {
        sources["digest"] = json!({ "gitCommit": revision.commit });
    }
    Some(sources)
}

fn describe_compiler(rustc: &RustcVersion) -> Value {
    let uri = format!("git+https://github.com/rust-lang/rust@{}", rustc.release);
    let mut compiler = json!({ "name": "rustc", "uri": uri });
    if let Some(commit) = &rustc.commit {
        compiler["digest"] = json!({ "gitCommit": commit });
    }
    compiler
}

#[cfg(test)]
mod tests {
    use super::super::source::Revision;
    use super::*;
    use crate::project::Project;

    fn build(certificates: Option<&[u8]>) -> Build<'_> {
        let rustc = RustcVersion { release: "1.95.0".to_owned(), commit: Some("c0".to_owned()) };
        Build { platforms: &[Platform::Amd64], certificates, rustc: Some(rustc) }
    }

    #[test]
    fn what_an_image_was_built_from_is_true_and_always_the_same() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let image = Blob::new(blob::MANIFEST, b"image".to_vec());
        let mut source = Source::of(here.path(), &Project::new("op".to_owned())).unwrap();
        let document = |root: &Path, source: &Source, build: &Build<'_>| {
            let blob = document(root, source, build, &image)?;
            anyhow::Ok((serde_json::from_slice::<Value>(&blob.bytes)?, blob))
        };
        assert!(document(here.path(), &source, &build(None)).is_err(), "without Cargo.lock");
        for root in [here.path(), there.path()] {
            fs::write(root.join(LOCK), "lock").unwrap();
        }
        source.revision = Some(Revision { commit: "f00d".to_owned(), is_dirty: false });

        let (statement, blob) = document(here.path(), &source, &build(None)).unwrap();
        assert_eq!(blob, document(there.path(), &source, &build(None)).unwrap().1);
        assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
        assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
        let subject = json!([{ "name": "op", "digest": { "sha256": image.hash() } }]);
        assert_eq!(statement["subject"], subject);
        let definition = &statement["predicate"]["buildDefinition"];
        assert_eq!(definition["externalParameters"]["platforms"], json!(["linux/amd64"]));
        let lock = Hash::of("lock");
        assert_eq!(
            definition["resolvedDependencies"],
            json!([
                { "name": "sources", "uri": "git:f00d", "digest": { "gitCommit": "f00d" } },
                { "name": "Cargo.lock", "digest": { "sha256": lock } },
                {
                    "name": "rustc",
                    "uri": "git+https://github.com/rust-lang/rust@1.95.0",
                    "digest": { "gitCommit": "c0" },
                },
            ])
        );
        assert!(!blob.bytes.windows(4).any(|text| text == b"1970"), "{statement}");

        source.revision = Some(Revision { commit: "f00d".to_owned(), is_dirty: true });
        let (statement, _) = document(here.path(), &source, &build(Some(b"ca"))).unwrap();
        let definition = &statement["predicate"]["buildDefinition"];
        let sources = json!({ "name": "sources", "uri": "git:f00d-dirty" });
        assert_eq!(definition["resolvedDependencies"][0], sources, "it has no digest");
        let certificates = json!({ "sha256": Hash::of("ca") });
        assert_eq!(definition["externalParameters"]["caCertificates"], certificates);
    }
}
