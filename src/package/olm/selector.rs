//! Selectors of labels, as Kubernetes has them.

/// A selector of labels, such as `suite=operatorframework` or `name in (olmv1, categories)`.
#[derive(Debug, Clone, Default)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone)]
struct Requirement {
    label: String,
    values: Vec<String>,
    is_negated: bool,
}

impl std::str::FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // Commas also separate the values of a set.
            let end = match (rest.find(','), rest.find('(')) {
                (Some(comma), Some(open)) if open < comma => {
                    let close = rest.find(')').ok_or("a `(` is not closed")?;
                    rest[close..].find(',').map_or(rest.len(), |comma| close + comma)
                }
                (comma, _) => comma.unwrap_or(rest.len()),
            };
            requirements.push(Requirement::parse(rest[..end].trim())?);
            rest = rest.get(end + 1..).unwrap_or_default().trim();
        }
        Ok(Self(requirements))
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, String> {
        let requirement = |label: &str, values: Vec<&str>, is_negated| Self {
            label: label.trim().to_owned(),
            values: values.into_iter().map(|value| value.trim().to_owned()).collect(),
            is_negated,
        };
        if let Some(set) = text.strip_suffix(')') {
            let (head, values) = set.split_once('(').ok_or("a `)` has no `(`")?;
            let head = head.trim();
            let values = values.split(',').collect();
            return match (head.strip_suffix(" notin"), head.strip_suffix(" in")) {
                (Some(label), _) => Ok(requirement(label, values, true)),
                (_, Some(label)) => Ok(requirement(label, values, false)),
                _ => Err(format!("`{text}` is no requirement: write `label in (a, b)`")),
            };
        }
        let (label, value, is_negated) = match (text.split_once("!="), text.split_once('=')) {
            (Some((label, value)), _) => (label, value, true),
            (_, Some((label, value))) => (label, value.strip_prefix('=').unwrap_or(value), false),
            _ => return Err(format!("`{text}` is no requirement: write `label=value`")),
        };
        Ok(requirement(label, vec![value], is_negated))
    }
}

impl Selector {
    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether labels are selected; `value` returns that of a label.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = value(&requirement.label);
            value.is_some_and(|value| requirement.values.iter().any(|v| v == value))
                != requirement.is_negated
        })
    }
}
