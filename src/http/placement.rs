//! Where the Durable Objects of the namespaces run: the variables `HUB_JURISDICTION` and `HUB_LOCATION`. An empty text leaves the choice
//! to the platform.

/// The jurisdictions to which the platform restricts Durable Objects. A jurisdiction is part of the id of a Durable Object: after a change
/// of the jurisdiction, each namespace gets a new object instead of its old one.
const JURISDICTIONS: [&str; 3] = ["eu", "fedramp", "us"];

/// The regions near which the platform creates Durable Objects (location hints). They have an effect only when an object is created.
const LOCATIONS: [&str; 9] = ["wnam", "enam", "sam", "weur", "eeur", "apac", "oc", "afr", "me"];

/// Parses `HUB_JURISDICTION`. The error lists the valid words.
pub fn parse_jurisdiction(text: Option<String>) -> Result<String, String> {
    parse_keyword("HUB_JURISDICTION", &JURISDICTIONS, text)
}

/// Parses `HUB_LOCATION`. The error lists the valid words.
pub fn parse_location(text: Option<String>) -> Result<String, String> {
    parse_keyword("HUB_LOCATION", &LOCATIONS, text)
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

    #[test]
    fn known_jurisdictions_and_locations_are_accepted_and_the_error_for_another_one_lists_them() {
        for valid in ["eu", "fedramp", "us", ""] {
            assert_eq!(parse_jurisdiction(Some(valid.into())).as_deref(), Ok(valid));
        }
        assert_eq!((parse_jurisdiction(None), parse_location(None)), (Ok(String::new()), Ok(String::new())));
        assert_eq!(["weur", "me"].map(|valid| parse_location(Some(valid.into())).is_ok()), [true; 2]);
        for invalid in ["EU", "weur", "uk", " eu"] {
            let expected =
                format!("HUB_JURISDICTION must be one of `eu`, `fedramp`, `us`, or empty, but is `{invalid}`.");
            assert_eq!(parse_jurisdiction(Some(invalid.into())), Err(expected));
        }
        for invalid in ["eu", "WEUR", "us-west"] {
            let error = parse_location(Some(invalid.into())).unwrap_err();
            assert!(error.starts_with("HUB_LOCATION must be one of `wnam`, `enam`, "), "{error}");
            assert!(error.ends_with(&format!("but is `{invalid}`.")), "{error}");
        }
    }
}
