//! API versions and their order.

use std::cmp::Ordering;

use super::names::InvalidValue;

/// A version such as `v1alpha1`. Ordered by Kubernetes' version priority, lowest first:
/// `v1alpha1 < v2alpha1 < v1beta1 < v1 < v2 < v10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiVersion<'a> {
    stage: Stage,
    major: &'a str,
    minor: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Alpha,
    Beta,
    Stable,
}

/// The maximum length of a version, `v65535alpha65535`: rustfmt cannot break longer paths.
const MAX_LENGTH: usize = 16;

impl<'a> ApiVersion<'a> {
    /// Parses `v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?`.
    pub fn parse(text: &'a str) -> Result<Self, InvalidValue> {
        let invalid =
            || InvalidValue::new("must be a version such as `v1alpha1`, `v1beta2` or `v1`");
        if text.len() > MAX_LENGTH {
            return Err(InvalidValue::new(format!(
                "must be at most {MAX_LENGTH} characters, not {}",
                text.len()
            )));
        }
        let (major, rest) =
            number(text.strip_prefix('v').ok_or_else(invalid)?).ok_or_else(invalid)?;
        let (stage, rest) = if let Some(rest) = rest.strip_prefix("alpha") {
            (Stage::Alpha, rest)
        } else if let Some(rest) = rest.strip_prefix("beta") {
            (Stage::Beta, rest)
        } else if rest.is_empty() {
            return Ok(Self { stage: Stage::Stable, major, minor: "" });
        } else {
            return Err(invalid());
        };
        match number(rest) {
            Some((minor, "")) => Ok(Self { stage, major, minor }),
            _ => Err(invalid()),
        }
    }
}

/// The number at the start of a text, without leading zeros, and the rest of the text.
fn number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (!digits.is_empty() && !digits.starts_with('0')).then_some((digits, rest))
}

impl Ord for ApiVersion<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Without leading zeros, a longer number is greater; this avoids overflow.
        let key = |v: &Self| (v.stage, v.major.len(), v.minor.len());
        let (mine, theirs) = (key(self), key(other));
        (mine.0, mine.1, self.major, mine.2, self.minor).cmp(&(
            theirs.0,
            theirs.1,
            other.major,
            theirs.2,
            other.minor,
        ))
    }
}

impl PartialOrd for ApiVersion<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_priority_of_kubernetes() {
        let sorted = [
            "v1alpha1",
            "v1alpha2",
            "v1alpha10",
            "v2alpha1",
            "v12alpha1",
            "v1beta1",
            "v3beta1",
            "v10beta3",
            "v11beta2",
            "v1",
            "v2",
            "v10",
            "v999999999999999",
        ];
        for pair in sorted.windows(2) {
            assert!(
                ApiVersion::parse(pair[0]).unwrap() < ApiVersion::parse(pair[1]).unwrap(),
                "{pair:?}"
            );
        }
    }

    #[test]
    fn unservable_version_is_refused() {
        for bad in [
            "",
            "1",
            "1.0",
            "v",
            "v0",
            "v01",
            "v1gamma",
            "v1gamma1",
            "v1alpha",
            "v1alpha0",
            "v1alpha01",
            "v1beta1x",
            "V1",
            "v1Alpha1",
            "v1.0",
            "v-1",
            "v1 ",
            "v١",
        ] {
            assert!(ApiVersion::parse(bad).is_err(), "{bad}");
        }
        assert!(ApiVersion::parse(&format!("v1{}", "0".repeat(14))).is_ok());
        assert!(ApiVersion::parse(&format!("v1{}", "0".repeat(15))).is_err());
    }
}
