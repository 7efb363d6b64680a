//! Where the Durable Objects of the namespaces run: the variables `HUB_JURISDICTION` and `HUB_LOCATION`.

/// The jurisdictions to which the platform restricts Durable Objects.
const JURISDICTIONS: [&str; 3] = ["eu", "fedramp", "us"];

/// The regions near which the platform creates Durable Objects (location hints).
const LOCATIONS: [&str; 9] = ["wnam", "enam", "sam", "weur", "eeur", "apac", "oc", "afr", "me"];

/// Where the Durable Objects of the namespaces run. An empty field leaves the choice to the platform.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// Part of the id of a Durable Object. After a change of the jurisdiction, each namespace gets a new object instead of its old one.
    pub jurisdiction: String,
    /// Has an effect only when an object is created.
    pub location: String,
}

impl Placement {
    /// Parses `HUB_JURISDICTION` and `HUB_LOCATION`. The error lists the valid words.
    pub fn parse(jurisdiction: Option<String>, location: Option<String>) -> Result<Self, String> {
        Ok(Self {
            jurisdiction: parse_keyword("HUB_JURISDICTION", &JURISDICTIONS, jurisdiction)?,
            location: parse_keyword("HUB_LOCATION", &LOCATIONS, location)?,
        })
    }
}

fn parse_keyword(name: &str, keywords: &[&str], text: Option<String>) -> Result<String, String> {
    let text = text.unwrap_or_default();
    if text.is_empty() || keywords.contains(&text.as_str()) {
        return Ok(text);
    }
    Err(format!("{name} must be one of `{}`, or empty, but is `{text}`.", keywords.join("`, `")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(jurisdiction: &str, location: &str) -> Result<Placement, String> {
        Placement::parse(Some(jurisdiction.into()), Some(location.into()))
    }

    #[test]
    fn known_jurisdictions_and_locations_are_accepted_and_the_error_for_another_one_lists_them() {
        for (jurisdiction, location) in [("eu", "weur"), ("fedramp", ""), ("us", "me"), ("", "")] {
            let placement = Placement { jurisdiction: jurisdiction.into(), location: location.into() };
            assert_eq!(parse(jurisdiction, location), Ok(placement));
        }
        assert_eq!(Placement::parse(None, None), Ok(Placement::default()));
        for invalid in ["EU", "weur", "uk", " eu"] {
            let expected =
                format!("HUB_JURISDICTION must be one of `eu`, `fedramp`, `us`, or empty, but is `{invalid}`.");
            assert_eq!(parse(invalid, "weur"), Err(expected));
        }
        for invalid in ["eu", "WEUR", "us-west"] {
            let error = parse("eu", invalid).unwrap_err();
            assert!(error.starts_with("HUB_LOCATION must be one of `wnam`, `enam`, "), "{error}");
            assert!(error.ends_with(&format!("but is `{invalid}`.")), "{error}");
        }
    }
}
