//! What a name may be. Every accepted name yields a project that compiles and that the API server takes.

use heck::{ToSnakeCase, ToUpperCamelCase};

/// Why a name cannot be, and one that could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue {
    /// A sentence without a full stop.
    pub reason: String,
    /// A valid name that is near to what was asked for.
    pub suggestion: Option<String>,
}

impl InvalidValue {
    /// A reason alone.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), suggestion: None }
    }
}

/// Turns the reason against a name, if there is one, into an error with the nearest name that has none.
fn judge(
    name: &str,
    against: fn(&str) -> Option<String>,
    near: fn(&str) -> String,
) -> Result<(), InvalidValue> {
    match against(name) {
        None => Ok(()),
        Some(reason) => Err(InvalidValue {
            reason,
            suggestion: Some(near(name)).filter(|near| against(near).is_none()),
        }),
    }
}

/// A DNS label has at most this many characters (RFC 1035), and so has a label value in Kubernetes.
const MAX_LABEL: usize = 63;
/// A DNS name has at most this many characters (RFC 1123).
pub const MAX_SUBDOMAIN: usize = 253;
/// The longest suffix that a project's name gets in the names of its objects, which have to be labels.
const PROJECT_SUFFIX: &str = "-controller-manager-metrics-service";
/// The longest project name.
pub const MAX_PROJECT_NAME: usize = MAX_LABEL - PROJECT_SUFFIX.len();
/// The longest kind.
pub const MAX_KIND: usize = MAX_LABEL - "list".len();

/// A domain, which is what API groups end with: a DNS-1123 subdomain.
pub fn domain(name: &str) -> Result<(), InvalidValue> {
    judge(
        name,
        |name| against_subdomain("domain", name).or_else(|| against_reserved(name)),
        subdomain_of,
    )
}

/// An API group without its domain: a DNS-1123 subdomain.
pub fn group(name: &str) -> Result<(), InvalidValue> {
    judge(
        name,
        |name| against_subdomain("group", name).or_else(|| against_long(name)),
        subdomain_of,
    )
}

/// Every file of the group carries its name, besides a version, a kind and a plural.
fn against_long(group: &str) -> Option<String> {
    (group.len() > MAX_LABEL).then(|| {
        format!(
            "a group, without the domain, has at most {MAX_LABEL} characters, this one has {}: modules and files \
             are named by it",
            group.len()
        )
    })
}

/// The full name of an API group: `<group>.<domain>`.
pub fn api_group(group: &str, domain: &str) -> Result<(), InvalidValue> {
    let full = format!("{group}.{domain}");
    let too_long = (full.len() > MAX_SUBDOMAIN).then(|| {
        format!(
            "`<group>.<domain>` has at most {MAX_SUBDOMAIN} characters, this one has {}",
            full.len()
        )
    });
    too_long
        .or_else(|| against_reserved(&full))
        .map_or(Ok(()), |reason| Err(InvalidValue::new(reason)))
}

/// The full name of somebody else's API group, in the two parts that `PROJECT` has of it. Unlike
/// the project's own it may be one of Kubernetes.
pub fn external_api_group(group: &str, domain: &str) -> Result<(), InvalidValue> {
    let full = format!("{group}.{domain}");
    judge(&full, |full| against_subdomain("group", full), subdomain_of)
}

/// The API server takes CRDs of these groups only with an annotation that points to an approval by Kubernetes.
fn against_reserved(name: &str) -> Option<String> {
    let is_in = |reserved: &&&str| name == **reserved || name.ends_with(&format!(".{reserved}"));
    ["k8s.io", "kubernetes.io"].iter().find(is_in).map(|reserved| {
        format!(
            "groups under `{reserved}` belong to Kubernetes: the API server refuses their CRDs without the annotation \
             `api-approved.kubernetes.io`"
        )
    })
}

fn against_subdomain(what: &str, name: &str) -> Option<String> {
    if name.len() > MAX_SUBDOMAIN {
        return Some(format!(
            "a {what} has at most {MAX_SUBDOMAIN} characters, this one has {}",
            name.len()
        ));
    }
    let valid = name.split('.').all(|part| is_label(part, |c| c.is_ascii_alphanumeric()));
    (!valid).then(|| format!("a {what} is lower-case letters, digits and inner `-`, in parts that are separated by `.`"))
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

/// The label that is nearest to a text: empty if nothing of it can stay.
fn label_of(text: &str) -> String {
    let lower = text.to_lowercase();
    let label: String =
        lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    label.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// A kind: UpperCamelCase, and short enough for the CRD's `<Kind>List`.
pub fn kind(name: &str) -> Result<(), InvalidValue> {
    judge(name, against_kind, |text| text.to_upper_camel_case())
}

fn against_kind(name: &str) -> Option<String> {
    let camel = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(|b| b.is_ascii_alphanumeric());
    if name == "Self" {
        Some("`Self` is a word of Rust that no type can be named".to_owned())
    } else if SHADOWED_TYPES.contains(&name) {
        Some(format!(
            "a type `{name}` would shadow the one that the generated API file needs itself"
        ))
    } else if !camel {
        Some("a kind is UpperCamelCase: ASCII letters and digits, the first one an upper-case letter".to_owned())
    } else if name.len() > MAX_KIND {
        Some(format!(
            "a kind has at most {MAX_KIND} characters, this one has {}: `<Kind>List` in lower case has to be a DNS label of {MAX_LABEL}",
            name.len()
        ))
    } else {
        None
    }
}

/// A plural: a DNS-1035 label.
pub fn plural(name: &str) -> Result<(), InvalidValue> {
    judge(name, against_plural, label_of)
}

fn against_plural(name: &str) -> Option<String> {
    if name.len() > MAX_LABEL {
        return Some(format!(
            "a plural has at most {MAX_LABEL} characters, this one has {}",
            name.len()
        ));
    }
    let valid = is_label(name, |c| c.is_ascii_lowercase());
    (!valid).then(|| {
        "a plural is lower-case letters, digits and inner `-`, and starts with a letter".to_owned()
    })
}

/// A project name: a DNS-1035 label, because a Cargo package may not start with a digit either.
pub fn project_name(name: &str) -> Result<(), InvalidValue> {
    judge(name, against_project_name, project_name_of)
}

fn against_project_name(name: &str) -> Option<String> {
    if !is_label(name, |c| c.is_ascii_lowercase()) {
        Some(
            "a project name is lower-case letters, digits and inner `-`, and starts with a letter"
                .to_owned(),
        )
    } else if name.len() > MAX_PROJECT_NAME {
        Some(format!(
            "a project name has at most {MAX_PROJECT_NAME} characters, this one has {}: `<name>{PROJECT_SUFFIX}` has to be a DNS \
             label of {MAX_LABEL}",
            name.len()
        ))
    } else {
        None
    }
}

/// The valid project name that is nearest to a text such as a folder's name; empty where nothing of
/// the text can stay.
pub fn project_name_of(text: &str) -> String {
    let label = label_of(text);
    let name = label.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    name[..name.len().min(MAX_PROJECT_NAME)].trim_end_matches('-').to_owned()
}

/// A copyright holder: one line of text.
pub fn owner(name: &str) -> Result<(), InvalidValue> {
    let one_line = !name.trim().is_empty() && !name.contains(char::is_control);
    if one_line {
        Ok(())
    } else {
        Err(InvalidValue::new("the copyright holder is one line of text"))
    }
}

/// What the generated API types are made of; they live in one module with the type of the kind.
const SHADOWED_TYPES: &[&str] = &["Default", "Deserialize", "Option", "Serialize", "String", "Vec"];

/// How a name appears in Rust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The stem of the file or the name of the directory.
    pub file: String,
    /// The identifier, raw where it has to be.
    pub ident: String,
}

impl Module {
    /// The module of a kind.
    pub fn of_kind(kind: &str) -> Self {
        Self::new(kind.to_snake_case())
    }

    /// The module of a group or of a version.
    pub fn of_group(group: &str) -> Self {
        // Doubled underscores are no snake case to rustc.
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

/// A name in snake case as an identifier: raw, or with an underscore, where it is a word of Rust.
pub fn ident(name: &str) -> String {
    Module::new(name.to_owned()).ident
}

/// Words that no raw identifier can be, the one that would be the file of the module above, and the
/// crate that the modules above import from.
const NOT_RAW: &[&str] = &["crate", "k8s_openapi", "mod", "self", "super"];

/// The strict and the reserved keywords of the 2024 edition.
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
    fn kinds() {
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
    fn groups_and_domains() {
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
        assert!(
            api_group(&"a".repeat(251), "b").is_ok() && api_group(&"a".repeat(252), "b").is_err()
        );
    }

    #[test]
    fn plurals() {
        assert!(plural("memcacheds").is_ok() && plural(&"a".repeat(63)).is_ok());
        for bad in ["", "1a", "A", "a.b", "a_b", "a-", &"a".repeat(64)] {
            assert!(plural(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn project_names() {
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
    fn modules() {
        let of = |module: Module| (module.file, module.ident);
        let both = |s: &str| (s.to_owned(), s.to_owned());
        assert_eq!(of(Module::of_kind("URLMap")), both("url_map"));
        assert_eq!(of(Module::of_kind("Type")), ("type".into(), "r#type".into()));
        assert_eq!(of(Module::of_kind("Crate")), both("crate_"));
        assert_eq!(of(Module::of_kind("Mod")), both("mod_"));
        assert_eq!(of(Module::of_group("a.b-c")), both("a_b_c"));
        assert_eq!(of(Module::of_group("a--b")), both("a_b"));
        assert_eq!(of(Module::of_group("1password")), both("_1password"));
        assert_eq!(of(Module::of_group("gen")), ("gen".into(), "r#gen".into()));
    }
}
