//! For which namespaces OLM installs an operator.

use std::fmt;
use std::str::FromStr;

use crate::error::UserError;
use crate::package::olm::Object;

/// The namespaces that an operator watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallMode {
    /// All.
    AllNamespaces,
    /// That which it runs in.
    OwnNamespace,
    /// Another one.
    SingleNamespace(String),
    /// Several.
    MultiNamespace(Vec<String>),
}

impl InstallMode {
    /// Its name in ClusterServiceVersions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AllNamespaces => "AllNamespaces",
            Self::OwnNamespace => "OwnNamespace",
            Self::SingleNamespace(_) => "SingleNamespace",
            Self::MultiNamespace(_) => "MultiNamespace",
        }
    }

    /// The namespaces in an OperatorGroup; none means all.
    pub fn targets(&self, own: &str) -> Vec<String> {
        match self {
            Self::AllNamespaces => Vec::new(),
            Self::OwnNamespace => vec![own.to_owned()],
            Self::SingleNamespace(namespace) => vec![namespace.clone()],
            Self::MultiNamespace(namespaces) => namespaces.clone(),
        }
    }

    /// The mode of an OperatorGroup in a namespace.
    pub fn of(targets: &[String], own: &str) -> Self {
        match targets {
            [] => Self::AllNamespaces,
            [namespace] if namespace == own => Self::OwnNamespace,
            [namespace] => Self::SingleNamespace(namespace.clone()),
            namespaces => Self::MultiNamespace(namespaces.to_vec()),
        }
    }

    /// The mode that an operator supports without being told namespaces: all, or its own.
    ///
    /// # Errors
    /// A [`UserError`] if it supports neither.
    pub fn default_of(csv: &Object) -> Result<Self, UserError> {
        [Self::AllNamespaces, Self::OwnNamespace]
            .into_iter()
            .find(|mode| mode.is_supported_by(csv))
            .ok_or_else(|| {
                let problem = format!("{} must be told the namespaces to watch", csv.name());
                UserError::failure(problem).with_hint(
                    "name them: `--install-mode SingleNamespace=NAMESPACE` or \
                     `--install-mode MultiNamespace=NAMESPACE,NAMESPACE`, as the operator supports it",
                )
            })
    }

    /// Checks that an operator in a namespace can be installed so.
    ///
    /// # Errors
    /// A [`UserError`] if it does not support the mode, or if the mode has another name there.
    pub fn check(&self, csv: &Object, own: &str) -> Result<(), UserError> {
        if *self == Self::SingleNamespace(own.to_owned()) {
            return Err(UserError::usage(format!("the operator is to run in {own} itself"))
                .with_hint("use `--install-mode OwnNamespace`"));
        }
        if !self.is_supported_by(csv) {
            let supported: Vec<&str> = supported(csv).collect();
            let problem = format!("{} does not support the install mode {self}", csv.name());
            return Err(UserError::failure(problem)
                .with_hint(format!("it supports {}", supported.join(", "))));
        }
        Ok(())
    }

    fn is_supported_by(&self, csv: &Object) -> bool {
        supported(csv).any(|mode| mode == self.name())
    }
}

/// The names of the modes that an operator supports.
fn supported(csv: &Object) -> impl Iterator<Item = &str> {
    let modes = csv.items("/spec/installModes").iter();
    modes.filter(|mode| mode["supported"] == true).filter_map(|mode| mode["type"].as_str())
}

impl fmt::Display for InstallMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::AllNamespaces | Self::OwnNamespace => Ok(()),
            Self::SingleNamespace(namespace) => write!(f, "={namespace}"),
            Self::MultiNamespace(namespaces) => write!(f, "={}", namespaces.join(",")),
        }
    }
}

impl FromStr for InstallMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, targets) = text.split_once('=').unwrap_or((text, ""));
        let targets = targets.split(',').map(str::trim).filter(|target| !target.is_empty());
        let mut targets: Vec<String> = targets.map(str::to_owned).collect();
        targets.sort();
        targets.dedup();
        for target in &targets {
            if !is_label(target) {
                return Err(format!("'{target}' cannot be the name of a namespace"));
            }
        }
        match (name, targets.as_slice()) {
            ("AllNamespaces", []) => Ok(Self::AllNamespaces),
            ("OwnNamespace", []) => Ok(Self::OwnNamespace),
            ("AllNamespaces" | "OwnNamespace", _) => Err(format!("{name} has no namespaces")),
            ("SingleNamespace", [namespace]) => Ok(Self::SingleNamespace(namespace.clone())),
            ("SingleNamespace", _) => Err("SingleNamespace has exactly one namespace".to_owned()),
            ("MultiNamespace", []) => Err("MultiNamespace has at least one namespace".to_owned()),
            ("MultiNamespace", _) => Ok(Self::MultiNamespace(targets)),
            _ => Err("must be AllNamespaces, OwnNamespace, SingleNamespace=NAMESPACE or \
                 MultiNamespace=NAMESPACE,..."
                .to_owned()),
        }
    }
}

/// Whether a text is a DNS label, as names of namespaces are.
fn is_label(text: &str) -> bool {
    let is_valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    text.len() <= 63
        && text.bytes().all(is_valid)
        && !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(modes: &[&str]) -> Object {
        let modes: Vec<_> = modes
            .iter()
            .map(|mode| serde_json::json!({ "type": mode, "supported": true }))
            .collect();
        Object::new(
            serde_json::json!({ "metadata": { "name": "a" }, "spec": { "installModes": modes } }),
        )
    }

    #[test]
    fn modes_are_read_as_they_are_written() {
        for text in ["AllNamespaces", "OwnNamespace", "SingleNamespace=a", "MultiNamespace=a,b"] {
            assert_eq!(text.parse::<InstallMode>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn modes_without_their_namespaces_are_refused() {
        for text in [
            "AllNamespaces=a",
            "OwnNamespace=a",
            "SingleNamespace",
            "SingleNamespace=a,b",
            "MultiNamespace=",
            "MultiNamespace=A",
            "all",
            "",
        ] {
            assert!(text.parse::<InstallMode>().is_err(), "{text}");
        }
    }

    #[test]
    fn default_is_what_the_operator_supports() {
        let default = |modes: &[&str]| InstallMode::default_of(&csv(modes)).ok();
        assert_eq!(default(&["OwnNamespace", "AllNamespaces"]), Some(InstallMode::AllNamespaces));
        assert_eq!(default(&["OwnNamespace"]), Some(InstallMode::OwnNamespace));
        assert_eq!(default(&["SingleNamespace"]), None);
    }

    #[test]
    fn a_mode_must_be_supported_and_named_as_olm_does() {
        let csv = csv(&["OwnNamespace", "SingleNamespace"]);
        let check = |mode: InstallMode| mode.check(&csv, "own").is_ok();
        assert!(check(InstallMode::OwnNamespace));
        assert!(check(InstallMode::SingleNamespace("other".to_owned())));
        assert!(!check(InstallMode::SingleNamespace("own".to_owned())));
        assert!(!check(InstallMode::AllNamespaces));
    }

    #[test]
    fn an_operator_group_has_the_mode_that_it_was_made_for() {
        for text in ["AllNamespaces", "OwnNamespace", "SingleNamespace=a", "MultiNamespace=a,b"] {
            let mode: InstallMode = text.parse().unwrap();
            assert_eq!(InstallMode::of(&mode.targets("own"), "own"), mode);
        }
    }
}
