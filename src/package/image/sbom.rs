//! What an image is made of, as a document of SPDX (<https://spdx.github.io/spdx-spec/v2.3/>).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_lock::{Lockfile, Package};
use serde_json::{Value, json};

use super::blob::Blob;
use super::source::Source;
use crate::render::LOCK;

/// The type of the document (<https://www.iana.org/assignments/media-types/application/spdx+json>).
pub const SPDX: &str = "application/spdx+json";

/// The identifiers of the document and of the image in it.
const DOCUMENT: &str = "SPDXRef-DOCUMENT";
const IMAGE: &str = "SPDXRef-Image";

/// The document of an image: the operator, and every package that its `Cargo.lock` leads to. That names no purposes,
/// so that packages for tests are among them, and for other platforms.
///
/// # Errors
/// If there is no `Cargo.lock`, or if it is invalid.
pub fn document(root: &Path, source: &Source, image: &Blob) -> Result<Blob> {
    let lock = Lockfile::load(root.join(LOCK)).with_context(|| format!("cannot read {LOCK}"))?;
    let packages = || lock.packages.iter().enumerate();
    let id = |index: usize| format!("SPDXRef-Package-{index}");
    let ids: BTreeMap<Key, String> = packages().map(|(index, it)| (key(it), id(index))).collect();
    let operator = lock.packages.iter().find(|package| package.name.as_str() == source.title);
    let operator = operator.with_context(|| format!("{LOCK} has no package {}", source.title))?;

    let mut described = vec![json!({
        "SPDXID": IMAGE,
        "name": source.title,
        "versionInfo": image.digest,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "primaryPackagePurpose": "CONTAINER",
        "checksums": [{ "algorithm": "SHA256", "checksumValue": image.hash() }],
    })];
    described.extend(packages().map(|(index, package)| describe(package, &id(index))));
    let relate = |from: &str, relation: &str, to: &str| json!({ "spdxElementId": from, "relationshipType": relation, "relatedSpdxElement": to });
    let mut relationships =
        vec![relate(DOCUMENT, "DESCRIBES", IMAGE), relate(IMAGE, "CONTAINS", &ids[&key(operator)])];
    for (index, package) in packages() {
        let dependencies = package.dependencies.iter();
        let dependencies = dependencies.filter_map(|dependency| {
            ids.get(&(dependency.name.to_string(), dependency.version.to_string()))
        });
        relationships.extend(dependencies.map(|it| relate(&id(index), "DEPENDS_ON", it)));
    }
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": DOCUMENT,
        "name": source.title,
        "documentNamespace": format!("https://spdx.org/spdxdocs/{}-{}", source.title, image.hash()),
        "creationInfo": {
            "created": source.created(),
            "creators": [concat!("Tool: opctl-", env!("CARGO_PKG_VERSION"))],
        },
        "packages": described,
        "relationships": relationships,
    });
    Ok(Blob::json(SPDX, &document))
}

/// The name and the version of a package.
type Key = (String, String);

fn key(package: &Package) -> Key {
    (package.name.to_string(), package.version.to_string())
}

fn describe(package: &Package, id: &str) -> Value {
    let (name, version) = key(package);
    let source = package.source.as_ref();
    let location = match source {
        Some(source) if source.is_default_registry() => {
            format!("https://static.crates.io/crates/{name}/{version}/download")
        }
        Some(source) if source.is_git() => source.to_string(),
        _ => "NOASSERTION".to_owned(),
    };
    let mut description = json!({
        "SPDXID": id,
        "name": name,
        "versionInfo": version,
        "downloadLocation": location,
        "filesAnalyzed": false,
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            // https://github.com/package-url/purl-spec
            "referenceLocator": format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")),
        }],
    });
    if let Some(checksum) = &package.checksum {
        description["checksums"] =
            json!([{ "algorithm": "SHA256", "checksumValue": checksum.to_string() }]);
    }
    description
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::project::Project;

    const CARGO_LOCK: &str = r#"version = 4

[[package]]
name = "a"
version = "1.0.0+x"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "940b3a0ca603d1eade50a4846a2afffd5ef57a9feac2c0e2ec2e14f9ead76000"
dependencies = [
 "b 2.0.0",
]

[[package]]
name = "b"
version = "1.0.0"
source = "registry+https://github.com/rust-lang/crates.io-index"

[[package]]
name = "b"
version = "2.0.0"
source = "git+https://example.com/b?rev=1#1"

[[package]]
name = "op"
version = "0.1.0"
dependencies = [
 "a",
 "b 1.0.0",
]
"#;

    #[test]
    fn a_document_has_every_package_and_what_needs_it() {
        let root = tempfile::tempdir().unwrap();
        let source = Source::of(root.path(), &Project::new("op".to_owned())).unwrap();
        let image = Blob::new(super::super::blob::MANIFEST, b"image".to_vec());
        assert!(document(root.path(), &source, &image).is_err(), "without Cargo.lock");
        fs::write(root.path().join(LOCK), CARGO_LOCK).unwrap();

        let blob = document(root.path(), &source, &image).unwrap();
        assert_eq!(blob, document(root.path(), &source, &image).unwrap());
        let document: Value = serde_json::from_slice(&blob.bytes).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let packages = document["packages"].as_array().unwrap();
        let name = |id: &Value| {
            let package = packages.iter().find(|package| package["SPDXID"] == *id);
            package.map_or(text(id), |it| text(&it["name"]) + "@" + &text(&it["versionInfo"]))
        };
        let relations = document["relationships"].as_array().unwrap().iter();
        let relations: Vec<String> = relations
            .map(|it| {
                let (from, to) = (&it["spdxElementId"], &it["relatedSpdxElement"]);
                format!("{} {} {}", name(from), text(&it["relationshipType"]), name(to))
            })
            .collect();
        let operator = format!("op@{}", image.digest);
        assert_eq!(
            relations,
            [
                format!("SPDXRef-DOCUMENT DESCRIBES {operator}"),
                format!("{operator} CONTAINS op@0.1.0"),
                "a@1.0.0+x DEPENDS_ON b@2.0.0".to_owned(),
                "op@0.1.0 DEPENDS_ON a@1.0.0+x".to_owned(),
                "op@0.1.0 DEPENDS_ON b@1.0.0".to_owned(),
            ]
        );
        let ids: BTreeSet<String> = packages.iter().map(|it| text(&it["SPDXID"])).collect();
        assert_eq!(ids.len(), packages.len());
        let purl = &packages[1]["externalRefs"][0]["referenceLocator"];
        assert_eq!(purl, "pkg:cargo/a@1.0.0%2Bx");
        assert_eq!(packages[3]["downloadLocation"], "git+https://example.com/b?rev=1#1");
    }
}
