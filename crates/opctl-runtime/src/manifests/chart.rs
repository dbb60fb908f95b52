//! What a Helm chart has from config/.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Where the files of config/ are that the chart's templates read.
const FILES: &str = "chart/files";

/// The directories with files that are copied.
const DIRECTORIES: [&str; 3] = ["grafana", "prometheus", "rbac"];

/// The ends of the names of the files that are copied: the roles for users, the alerts and the dashboard.
const COPIED: [&str; 5] = [
    "_admin_role.yaml",
    "_editor_role.yaml",
    "_viewer_role.yaml",
    "rules.yaml",
    "dashboard.json",
];

/// The copies of the manifests that follow from the code, and of files in config/, by their paths.
pub(super) fn copies(
    manifests: &BTreeMap<String, String>,
    root: &Path,
) -> Result<BTreeMap<String, String>> {
    let copy = |(path, text): (&String, &String)| {
        let path = path.strip_prefix("config/")?;
        Some((format!("{FILES}/{path}"), text.clone()))
    };
    let mut copies: BTreeMap<_, _> = manifests.iter().filter_map(copy).collect();
    for directory in DIRECTORIES {
        let Ok(entries) = fs::read_dir(root.join("config").join(directory)) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if COPIED.iter().any(|end| name.ends_with(end)) {
                let path = format!("{directory}/{name}");
                let text = fs::read_to_string(entry.path())
                    .with_context(|| format!("cannot read config/{path}"))?;
                copies.insert(format!("{FILES}/{path}"), text);
            }
        }
    }
    Ok(copies)
}
