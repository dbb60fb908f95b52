//! The rules for names. Every accepted name yields a project that compiles and that the API server
//! accepts.

use heck::{ToSnakeCase, ToUpperCamelCase};

use crate::text::is_hidden;

/// Why a value is invalid, and a valid one instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue {
    /// A phrase that follows the value, such as `must be UpperCamelCase`.
    pub reason: String,
    /// A valid value that is similar.
    pub suggestion: Option<String>,
}

impl InvalidValue {
    /// A reason alone.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), suggestion: None }
    }
}

/// Checks a name with `find_error`. The error suggests the name that `fix` makes valid.
fn check(
    name: &str,
    find_error: fn(&str) -> Option<String>,
    fix: fn(&str) -> String,
) -> Result<(), InvalidValue> {
    match find_error(name) {
        None => Ok(()),
        Some(reason) => Err(InvalidValue {
            reason,
            suggestion: Some(fix(name)).filter(|fixed| find_error(fixed).is_none()),
        }),
    }
}

/// The maximum length of a DNS label (RFC 1035) and of a label value in Kubernetes.
const MAX_LABEL: usize = 63;
/// The maximum length of a DNS name (RFC 1123).
pub const MAX_SUBDOMAIN: usize = 253;
/// The longest suffix that the project name gets in the names of objects, which must be DNS labels.
const PROJECT_SUFFIX: &str = "-controller-manager-metrics-service";
/// The maximum length of a project name.
pub const MAX_PROJECT_NAME: usize = MAX_LABEL - PROJECT_SUFFIX.len();
/// The maximum length of a module: that of the longest default one.
pub const MAX_MODULE: usize = MAX_LABEL;
/// The maximum length of a kind.
pub const MAX_KIND: usize = MAX_LABEL - "list".len();

/// Checks the domain of a project: a DNS-1123 subdomain that is not reserved.
pub fn domain(name: &str) -> Result<(), InvalidValue> {
    check(name, |name| subdomain_error(name).or_else(|| reserved_error(name)), subdomain_of)
}

/// Checks an API group without its domain: a DNS-1123 subdomain.
pub fn group(name: &str) -> Result<(), InvalidValue> {
    check(name, |name| subdomain_error(name).or_else(|| length_error(name)), subdomain_of)
}

/// File names contain the group besides a version, a kind and a plural.
fn length_error(group: &str) -> Option<String> {
    (group.len() > MAX_LABEL).then(|| {
        format!(
            "must be at most {MAX_LABEL} characters, not {}: modules and files are named after it",
            group.len()
        )
    })
}

/// Checks the full name of an API group: `<group>.<domain>`.
pub fn api_group(group: &str, domain: &str) -> Result<(), InvalidValue> {
    let full = format!("{group}.{domain}");
    let too_long = (full.len() > MAX_SUBDOMAIN).then(|| {
        format!("`<group>.<domain>` must be at most {MAX_SUBDOMAIN} characters, not {}", full.len())
    });
    too_long
        .or_else(|| reserved_error(&full))
        .map_or(Ok(()), |reason| Err(InvalidValue::new(reason)))
}

/// Checks the full name of the API group of an external type: `<group>.<domain>`. Unlike the groups of the
/// project, it may be reserved for Kubernetes.
pub fn external_api_group(full: &str) -> Result<(), InvalidValue> {
    check(full, subdomain_error, subdomain_of)?;
    match full.split_once('.') {
        Some((group, _)) => self::group(group),
        None => Err(InvalidValue::new("must have a domain, as in `cert.example.org`")),
    }
}

/// The API server accepts CRDs of these groups only with an annotation that links to an API review.
fn reserved_error(name: &str) -> Option<String> {
    let is_in = |reserved: &&&str| name == **reserved || name.ends_with(&format!(".{reserved}"));
    ["k8s.io", "kubernetes.io"].iter().find(is_in).map(|reserved| {
        format!(
            "`{reserved}` is reserved for Kubernetes: the API server rejects CRDs of its groups without the annotation \
             `api-approved.kubernetes.io`"
        )
    })
}

fn subdomain_error(name: &str) -> Option<String> {
    if name.len() > MAX_SUBDOMAIN {
        return Some(format!("must be at most {MAX_SUBDOMAIN} characters, not {}", name.len()));
    }
    let valid = name.split('.').all(|part| is_label(part, |c| c.is_ascii_alphanumeric()));
    (!valid).then(|| {
        "must consist of lower-case letters, digits and inner `-`, in parts separated by `.`"
            .to_owned()
    })
}

fn subdomain_of(text: &str) -> String {
    let parts = text.split('.').map(label_of).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(".")
}

/// Lower-case ASCII letters, digits and inner hyphens, with a first character that `first` accepts.
fn is_label(name: &str, first: fn(char) -> bool) -> bool {
    name.starts_with(first)
        && !name.ends_with('-')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// The DNS label that is most similar to a text; empty if no character can stay.
fn label_of(text: &str) -> String {
    let lower = text.to_lowercase();
    let label: String =
        lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    label.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// Checks a kind: UpperCamelCase, and short enough for `<Kind>List`.
pub fn kind(name: &str) -> Result<(), InvalidValue> {
    check(name, kind_error, |text| text.to_upper_camel_case())
}

fn kind_error(name: &str) -> Option<String> {
    let camel = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_alphanumeric());
    if name == "Self" {
        Some("`Self` is a Rust keyword that cannot name a type".to_owned())
    } else if SHADOWED_TYPES.contains(&name) {
        Some(format!("a type `{name}` would shadow the one that the generated API file uses"))
    } else if !camel {
        Some(
            "must be UpperCamelCase: ASCII letters and digits, starting with an upper-case letter"
                .to_owned(),
        )
    } else if name.len() > MAX_KIND {
        Some(format!(
            "must be at most {MAX_KIND} characters, not {}: `<Kind>List` must be a DNS label of at most {MAX_LABEL} characters",
            name.len()
        ))
    } else {
        None
    }
}

/// Checks a plural: a DNS-1035 label.
pub fn plural(name: &str) -> Result<(), InvalidValue> {
    check(name, plural_error, label_of)
}

fn plural_error(name: &str) -> Option<String> {
    if name.len() > MAX_LABEL {
        return Some(format!("must be at most {MAX_LABEL} characters, not {}", name.len()));
    }
    let valid = is_label(name, |c| c.is_ascii_lowercase());
    (!valid).then(|| {
        "must consist of lower-case letters, digits and inner `-`, and start with a letter"
            .to_owned()
    })
}

/// Checks the Rust module of a group: a name in snake case, as [`Module::of_group`] returns it.
pub fn module(name: &str) -> Result<(), InvalidValue> {
    check(name, module_error, |text| Module::of_group(&text.to_snake_case()).file)
}

fn module_error(name: &str) -> Option<String> {
    if name.len() > MAX_MODULE {
        return Some(format!("must be at most {MAX_MODULE} characters, not {}", name.len()));
    }
    let is_snake_case =
        name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && !name.is_empty()
            && !name.contains("__")
            && !name.ends_with('_');
    // Names that a module cannot have, such as `mod`, are escaped.
    (!is_snake_case || Module::of_group(name).file != name).then(|| {
        "must consist of lower-case letters, digits and single inner `_`, and be a name that Rust allows for a module"
            .to_owned()
    })
}

/// Checks a project name: a DNS-1035 label, because a Cargo package cannot start with a digit either.
pub fn project_name(name: &str) -> Result<(), InvalidValue> {
    check(name, project_name_error, project_name_of)
}

fn project_name_error(name: &str) -> Option<String> {
    if !is_label(name, |c| c.is_ascii_lowercase()) {
        Some(
            "must consist of lower-case letters, digits and inner `-`, and start with a letter"
                .to_owned(),
        )
    } else if name.len() > MAX_PROJECT_NAME {
        Some(format!(
            "must be at most {MAX_PROJECT_NAME} characters, not {}: `<name>{PROJECT_SUFFIX}` must be a DNS label \
             of at most {MAX_LABEL} characters",
            name.len()
        ))
    } else {
        None
    }
}

/// The valid project name that is most similar to a text such as the name of a directory; empty if
/// no character can stay.
pub fn project_name_of(text: &str) -> String {
    let label = label_of(text);
    let name = label.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    name[..name.len().min(MAX_PROJECT_NAME)].trim_end_matches('-').to_owned()
}

/// Checks a copyright holder: one line of text.
pub fn owner(name: &str) -> Result<(), InvalidValue> {
    if name.trim().is_empty() {
        return Err(InvalidValue::new("must be one line of text"));
    }
    match name.chars().find(|c| is_hidden(*c)) {
        None => Ok(()),
        Some(c) => Err(InvalidValue::new(format!(
            "must be one line of text, all of it visible: it contains U+{:04X}",
            u32::from(c)
        ))),
    }
}

/// The types and traits that generated API files and kube's derive macro use, in the module that defines the
/// type of the kind.
const SHADOWED_TYPES: &[&str] =
    &["Default", "Deserialize", "Option", "Serialize", "SerializeStruct", "String", "Vec"];

/// The Rust module of a group or a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The stem of the file, or the name of the directory.
    pub file: String,
    /// The identifier; raw if the name is a keyword.
    pub ident: String,
}

impl Module {
    /// The module of a kind.
    pub fn of_kind(kind: &str) -> Self {
        Self::new(kind.to_snake_case())
    }

    /// The module of a group or of a version.
    pub fn of_group(group: &str) -> Self {
        // rustc does not accept doubled underscores as snake case.
        let parts = group.split(['-', '.']).filter(|part| !part.is_empty());
        let name = parts.collect::<Vec<_>>().join("_");
        Self::new(if name.starts_with(|c: char| c.is_ascii_digit()) {
            format!("_{name}")
        } else {
            name
        })
    }

    fn new(name: String) -> Self {
        if NOT_RAW.contains(&name.as_str()) {
            let ident = format!("{name}_");
            return Self { file: ident.clone(), ident };
        }
        let ident =
            if KEYWORDS.contains(&name.as_str()) { format!("r#{name}") } else { name.clone() };
        Self { file: name, ident }
    }
}

/// A name in snake case as an identifier; raw or with an underscore if the name is a keyword.
pub fn ident(name: &str) -> String {
    Module::new(name.to_owned()).ident
}

/// Names that cannot be raw identifiers, `mod`, which is the file of the parent module, and the crate
/// that the parent modules import from.
const NOT_RAW: &[&str] = &["crate", "k8s_openapi", "mod", "self", "super"];

/// The strict and reserved keywords of the 2024 edition.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "move", "mut", "override", "priv", "pub", "ref", "return", "static",
    "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn suggestion(result: Result<(), InvalidValue>) -> Option<String> {
        result.unwrap_err().suggestion
    }

    #[test]
    fn kinds_are_upper_camel_case() {
        for good in
            ["A", "Memcached", "URLMap", "Type", "Async", "Crate", "S3Bucket", &"A".repeat(59)]
        {
            assert_eq!(kind(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "foo",
            "Foo-Bar",
            "Foo_Bar",
            "Self",
            "Option",
            "SerializeStruct",
            "1Foo",
            "Föö",
            "Foo ",
            &"A".repeat(60),
        ] {
            assert!(kind(bad).is_err(), "{bad}");
        }
        assert_eq!(suggestion(kind("foo")).as_deref(), Some("Foo"));
        assert_eq!(suggestion(kind("Foo-Bar")).as_deref(), Some("FooBar"));
        assert_eq!(suggestion(kind("self")), None);
    }

    #[test]
    fn groups_and_domains_are_subdomains() {
        for good in ["cache", "a.b", "1password", "a--b", "x", &"a".repeat(63)] {
            assert_eq!(group(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "a..b", "-a", "a-", "A", "a_b", "a.b-", "ä", &"a".repeat(64)] {
            assert!(group(bad).is_err(), "{bad}");
        }
        assert_eq!(suggestion(group("My_Group")).as_deref(), Some("my-group"));
        assert!(domain("local").is_ok() && domain("my.domain").is_ok());
        assert!(domain("k8s.io").is_err() && api_group("x", "kubernetes.io").is_err());
        assert!(domain("notk8s.io").is_ok());
        for good in ["cert.example.org", "gateway.networking.k8s.io", "a.b"] {
            assert_eq!(external_api_group(good), Ok(()), "{good}");
        }
        for bad in ["nodomain", "a.", ".a", "a.b/../c", "a.b\n", &format!("{}.b", "a".repeat(64))] {
            assert!(external_api_group(bad).is_err(), "{bad}");
        }
        assert!(
            api_group(&"a".repeat(251), "b").is_ok() && api_group(&"a".repeat(252), "b").is_err()
        );
    }

    #[test]
    fn plurals_are_labels() {
        assert!(plural("memcacheds").is_ok() && plural(&"a".repeat(63)).is_ok());
        for bad in ["", "1a", "A", "a.b", "a_b", "a-", &"a".repeat(64)] {
            assert!(plural(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn project_names_are_short_labels() {
        assert_eq!(MAX_PROJECT_NAME, 28);
        assert!(project_name("a").is_ok() && project_name(&"a".repeat(28)).is_ok());
        for bad in ["", "1a", "A", "a.b", "a_b", "a-", &"a".repeat(29)] {
            assert!(project_name(bad).is_err(), "{bad}");
        }
        assert_eq!(suggestion(project_name("My Operator")).as_deref(), Some("my-operator"));
        assert_eq!(
            suggestion(project_name("abcdefghijklmnopqrstuvwxyza-bc")).as_deref(),
            Some("abcdefghijklmnopqrstuvwxyza")
        );
        assert_eq!(project_name_of("123"), "");
        assert_eq!(project_name_of("2048-game"), "game");
    }

    #[test]
    fn module_names_are_escaped() {
        let names = |module: Module| (module.file, module.ident);
        let plain = |s: &str| (s.to_owned(), s.to_owned());
        assert_eq!(names(Module::of_kind("URLMap")), plain("url_map"));
        assert_eq!(names(Module::of_kind("Type")), ("type".into(), "r#type".into()));
        assert_eq!(names(Module::of_kind("Crate")), plain("crate_"));
        assert_eq!(names(Module::of_kind("Mod")), plain("mod_"));
        assert_eq!(names(Module::of_group("a.b-c")), plain("a_b_c"));
        assert_eq!(names(Module::of_group("a--b")), plain("a_b"));
        assert_eq!(names(Module::of_group("1password")), plain("_1password"));
        assert_eq!(names(Module::of_group("gen")), ("gen".into(), "r#gen".into()));
    }
}
