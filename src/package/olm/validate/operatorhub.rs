//! What OperatorHub.io shows of an operator
//! (<https://k8s-operatorhub.github.io/community-operators/packaging-required-fields/>).

use serde_json::Value;

use super::{BundleDirectory, Problem, Problems};
use crate::package::olm::object::Object;

/// The formats of icons.
const ICONS: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/svg+xml"];

/// What an operator does by itself, from little to much.
const CAPABILITIES: [&str; 5] =
    ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];

const CATEGORIES: [&str; 16] = [
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Database",
    "Developer Tools",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "Observability",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
];

pub fn check(bundle: &BundleDirectory) -> Problems {
    let Some(csv) = &bundle.csv else { return Vec::new() };
    let mut problems = Vec::new();
    let mut error = |message: String| problems.push(Problem::error(message));
    if csv.text("/spec/provider/name").trim().is_empty() {
        error("spec.provider.name is missing".to_owned());
    }
    for maintainer in csv.items("/spec/maintainers") {
        let [name, email] = texts(maintainer, ["name", "email"]);
        if name.is_empty() || email.is_empty() {
            error("spec.maintainers: each must have a name and an email".to_owned());
        }
        if !email.is_empty() && !is_email(email) {
            error(format!("spec.maintainers: `{email}` is no address of email"));
        }
    }
    for link in csv.items("/spec/links") {
        let [name, url] = texts(link, ["name", "url"]);
        if name.is_empty() || url.is_empty() {
            error("spec.links: each must have a name and a url".to_owned());
        }
        if !url.is_empty() && !is_url(url) {
            error(format!("spec.links: `{url}` is no URL"));
        }
    }
    if ["", "0.0.0"].contains(&csv.text("/spec/version")) {
        error("spec.version must be set".to_owned());
    }
    icon(csv).into_iter().for_each(&mut error);
    if csv.value().pointer("/spec/icon").is_none_or(Value::is_null) {
        problems.push(Problem::warning("spec.icon is missing"));
    }
    problems
}

fn texts<'a, const N: usize>(value: &'a Value, names: [&str; N]) -> [&'a str; N] {
    names.map(|name| value[name].as_str().unwrap_or_default())
}

fn icon(csv: &Object) -> Vec<String> {
    let Some(icons) = csv.value().pointer("/spec/icon").and_then(Value::as_array) else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    if icons.len() != 1 {
        problems.push(format!("spec.icon: there are {} icons, not one", icons.len()));
    }
    for icon in icons.iter().take(1) {
        let [data, format] = texts(icon, ["base64data", "mediatype"]);
        if data.is_empty() || format.is_empty() {
            problems.push("spec.icon: it must have base64data and a mediatype".to_owned());
        }
        if !format.is_empty() && !ICONS.contains(&format) {
            let formats = ICONS.join(", ");
            problems.push(format!("spec.icon: the mediatype `{format}` is none of {formats}"));
        }
    }
    problems
}

/// Whether a text is an address, with or without a name before it: `Jo <jo@example.com>`.
fn is_email(text: &str) -> bool {
    let address = match text.trim().strip_suffix('>') {
        Some(rest) => rest.rsplit_once('<').map_or("", |(_, address)| address),
        None => text.trim(),
    };
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.contains(|c: char| c.is_whitespace() || "<>()[],;:\\\"@".contains(c))
    };
    address.rsplit_once('@').is_some_and(|(local, domain)| {
        is_part(local) && is_part(domain) && !local.starts_with('.') && !local.ends_with('.')
    })
}

/// Whether a text is an absolute URL, or an absolute path.
fn is_url(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let has_scheme = text.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme));
    (has_scheme || text.starts_with('/'))
        && !text.contains(|c: char| c.is_ascii_control() || c == ' ')
}

/// Checks the annotation `capabilities`.
pub fn capabilities(bundle: &BundleDirectory) -> Problems {
    let level = bundle.csv.as_ref().and_then(|csv| csv.annotation("capabilities"));
    let unknown = level.filter(|level| !CAPABILITIES.contains(level));
    let problem = |level| {
        let levels = CAPABILITIES.join(", ");
        Problem::error(format!("the annotation capabilities: `{level}` is none of {levels}"))
    };
    unknown.map(problem).into_iter().collect()
}

/// Checks the annotation `categories`.
pub fn categories(bundle: &BundleDirectory) -> Problems {
    let list = bundle.csv.as_ref().and_then(|csv| csv.annotation("categories"));
    let unknown = list.into_iter().flat_map(|list| list.split(',')).map(str::trim);
    let unknown = unknown.filter(|category| !CATEGORIES.contains(category));
    let problem = |category| {
        let known = CATEGORIES.join(", ");
        Problem::error(format!("the annotation categories: `{category}` is none of {known}"))
    };
    unknown.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_urls_are_recognized() {
        for email in ["a@b", "Jo Doe <jo.doe@example.com>"] {
            assert!(is_email(email), "{email}");
        }
        for other in ["", "a", "a@", "@b", "a b@c", "a@b@c", "<a@b", ".a@b"] {
            assert!(!is_email(other), "{other}");
        }
        for url in ["https://a.b/c", "mailto:a@b", "/path"] {
            assert!(is_url(url), "{url}");
        }
        for other in ["", "a.b/c", "https//a", "http://a b", "1a:b"] {
            assert!(!is_url(other), "{other}");
        }
    }
}
