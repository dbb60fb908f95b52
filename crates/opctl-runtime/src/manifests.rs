//! Writes the manifests that follow from the operator's code: its CRDs and its role.

mod chart;
mod role;
mod schema;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::{Args, Command, FromArgMatches};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ObjectMeta;
use kube::core::crd::merge_crds;
use serde::Serialize;

/// Where the CRDs are, one file for each.
const CRDS: &str = "config/crd/bases";

/// Where the role is.
const ROLE: &str = "config/rbac/role.yaml";

/// The manifests that follow from the operator's code: the CRDs of its types, and a role with the
/// rules of its controllers. Paths are relative to the current directory, the root of the package.
///
/// # Example
/// The binary that writes the manifests, `src/bin/manifests.rs`; with `--check` it only compares them:
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use opctl_runtime::manifests::Manifests;
/// use opctl_runtime::rbac::rule;
///
/// fn manifests() -> Manifests {
///     let crds = vec![]; // `Memcached::crd()` and others
///     Manifests::new(crds, vec![rule::<ConfigMap>(&["create", "list", "patch", "watch"])])
/// }
///
/// fn main() -> anyhow::Result<()> {
///     manifests().main()
/// }
/// ```
///
/// The test that fails when a committed manifest differs from the code:
/// ```no_run
/// # use opctl_runtime::manifests::Manifests;
/// # fn manifests() -> Manifests { Manifests::new(vec![], vec![]) }
/// #[test]
/// fn manifests_are_up_to_date() -> anyhow::Result<()> {
///     manifests().check()
/// }
/// ```
#[must_use = "`main` writes the manifests, `check` compares them"]
#[derive(Debug, Clone)]
pub struct Manifests {
    crds: Vec<CustomResourceDefinition>,
    rules: Vec<PolicyRule>,
    namespaced: bool,
    max_description_length: Option<usize>,
    chart: bool,
}

/// The flags of the binary.
#[derive(Args)]
struct Flags {
    /// Change nothing; fail if a manifest is out of date
    #[arg(long)]
    check: bool,
}

impl Manifests {
    /// These CRDs, and a ClusterRole `manager-role` with these rules. A kind with several versions has
    /// a CRD for each of them; the first one is of the version that is stored.
    pub fn new(crds: Vec<CustomResourceDefinition>, rules: Vec<PolicyRule>) -> Self {
        Self {
            crds,
            rules,
            namespaced: false,
            max_description_length: None,
            chart: false,
        }
    }

    /// Writes a Role instead of a ClusterRole: for an operator of one namespace.
    pub fn namespaced(mut self) -> Self {
        self.namespaced = true;
        self
    }

    /// Also copies to chart/files what a Helm chart has from config/: the CRDs, the roles, the alerts and the
    /// dashboard.
    pub fn with_chart(mut self) -> Self {
        self.chart = true;
        self
    }

    /// Leaves the descriptions out of the CRDs' schemas. A CRD whose schema has a large type in it,
    /// such as a PodSpec, exceeds the limits of `kubectl apply` and of etcd with them.
    pub fn without_descriptions(self) -> Self {
        self.max_description_length(0)
    }

    /// Cuts the descriptions in the CRDs' schemas to so many bytes, after a sentence where there is one;
    /// 0 leaves them out. It is controller-gen's `maxDescLen`.
    pub fn max_description_length(mut self, bytes: usize) -> Self {
        self.max_description_length = Some(bytes);
        self
    }

    /// Writes config/crd/bases and config/rbac/role.yaml or, with the flag `--check`, compares them.
    ///
    /// # Errors
    /// A file cannot be written; with `--check`, a manifest is out of date. The CRDs of one kind do not
    /// belong together.
    pub fn main(self) -> Result<()> {
        let command = Command::new("manifests")
            .about("Write config/crd/bases and config/rbac/role.yaml from the operator's code");
        let matches = Flags::augment_args(command).get_matches();
        let flags = Flags::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        if flags.check {
            return self.check();
        }
        for path in self.write(Path::new("."))? {
            println!("wrote {path}");
        }
        Ok(())
    }

    /// Compares the manifests with the code.
    ///
    /// # Errors
    /// A manifest is missing or out of date. The CRDs of one kind do not belong together.
    pub fn check(&self) -> Result<()> {
        self.check_in(Path::new("."))
    }

    fn check_in(&self, root: &Path) -> Result<()> {
        let stale = self.stale(root)?;
        let paths: Vec<_> = stale.into_keys().collect();
        match paths.as_slice() {
            [] => Ok(()),
            [path] => bail!("{path} is out of date: run `make manifests`"),
            paths => bail!("{} are out of date: run `make manifests`", paths.join(", ")),
        }
    }

    /// Writes the manifests that are out of date. Returns their paths.
    fn write(&self, root: &Path) -> Result<Vec<String>> {
        let stale = self.stale(root)?;
        for (path, text) in &stale {
            write(&root.join(path), text).with_context(|| format!("cannot write {path}"))?;
        }
        Ok(stale.into_keys().collect())
    }

    /// The manifests whose files are missing or differ, by their paths.
    fn stale(&self, root: &Path) -> Result<BTreeMap<String, String>> {
        let mut manifests = self.render()?;
        if self.chart {
            let copies = chart::copies(&manifests, root)?;
            manifests.extend(copies);
        }
        manifests.retain(|path, text| {
            let committed = fs::read_to_string(root.join(path));
            !committed.is_ok_and(|committed| committed == *text)
        });
        Ok(manifests)
    }

    /// The manifests by their paths.
    fn render(&self) -> Result<BTreeMap<String, String>> {
        let mut manifests = BTreeMap::new();
        for mut crd in merged(&self.crds)? {
            schema::drop_unknown_formats(&mut crd);
            schema::match_controller_gen(&mut crd);
            if let Some(length) = self.max_description_length {
                schema::cut_descriptions(&mut crd, length);
            }
            let path = format!("{CRDS}/{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
            manifests.insert(path, yaml(&schema::with_whole_numbers(&crd)?)?);
        }
        let metadata = ObjectMeta {
            name: Some("manager-role".to_owned()),
            ..ObjectMeta::default()
        };
        let rules = Some(role::merge(&self.rules));
        let role = if self.namespaced {
            yaml(&Role { metadata, rules })?
        } else {
            yaml(&ClusterRole {
                metadata,
                rules,
                ..ClusterRole::default()
            })?
        };
        manifests.insert(ROLE.to_owned(), role);
        Ok(manifests)
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)
}

/// One CRD for each kind, with all its versions; the first of them is stored.
fn merged(crds: &[CustomResourceDefinition]) -> Result<Vec<CustomResourceDefinition>> {
    let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for crd in crds {
        let name = crd.metadata.name.as_deref().unwrap_or_default();
        kinds.entry(name).or_default().push(crd.clone());
    }
    let merge = |(name, versions): (&str, Vec<CustomResourceDefinition>)| {
        let mut names = versions.iter().flat_map(|crd| &crd.spec.versions);
        let stored = names.next().map(|version| version.name.clone());
        let stored = stored.with_context(|| format!("the CRD {name} has no version"))?;
        merge_crds(versions, &stored)
            .with_context(|| format!("cannot merge the versions of {name}"))
    };
    kinds.into_iter().map(merge).collect()
}

/// Long texts are folded, but no name is: Kubernetes has names of up to 253 characters.
fn yaml(manifest: &impl Serialize) -> Result<String> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 253 };
    Ok(serde_saphyr::to_string_with_options(manifest, options)?)
}

#[cfg(test)]
mod tests;
