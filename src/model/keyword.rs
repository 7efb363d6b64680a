//! Keywords: the enumerated strings of the protocol and of the settings. Case and white space are significant.

use std::ops::RangeInclusive;

use strum::VariantNames;

/// The largest number of methods or models that an error message lists.
const MAX_LISTED_NAMES: usize = 30;

/// The jurisdictions to which the platform restricts Durable Objects. A jurisdiction is part of the id of a Durable Object: after a change
/// of the jurisdiction, each namespace gets a new object instead of its old one.
pub const JURISDICTIONS: [&str; 3] = ["eu", "fedramp", "us"];
/// The regions near which the platform creates Durable Objects (location hints). They have an effect only when an object is created.
pub const LOCATIONS: [&str; 9] = ["wnam", "enam", "sam", "weur", "eeur", "apac", "oc", "afr", "me"];

/// The error for a string that is not a keyword of its enumeration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind}: expected one of {expected}")]
pub struct UnknownKeyword {
    /// What the enumeration lists, such as `permission mode`.
    pub kind: &'static str,
    /// The valid keywords, separated by commas.
    pub expected: String,
}

impl UnknownKeyword {
    pub fn of<T: VariantNames>(kind: &'static str) -> Self {
        Self { kind, expected: T::VARIANTS.join(", ") }
    }
}

/// Joins names for an error message: the first [`MAX_LISTED_NAMES`] names.
pub fn join_names(names: &[String]) -> String {
    names.iter().take(MAX_LISTED_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Parses the setting `name`: `true` or `false` in any case, by default `false`. A typo must not turn off a security setting.
pub fn parse_bool(name: &str, text: Option<&str>) -> Result<bool, String> {
    match text.map(str::to_ascii_lowercase).as_deref() {
        Some("true") => Ok(true),
        None | Some("false") => Ok(false),
        Some(other) => Err(format!("{name} must be `true` or `false`, but is `{other}`.")),
    }
}

/// Parses the setting `name`, a whole number in a range; `None` when it is not set. The error names the range.
pub fn parse_number(name: &str, text: Option<&str>, range: RangeInclusive<u64>) -> Result<Option<u64>, String> {
    let Some(text) = text else { return Ok(None) };
    let digits = text.trim();
    let number = digits.parse().ok().filter(|number| range.contains(number));
    match number.filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        None => {
            Err(format!("{name} must be a whole number from {} to {}, but is `{text}`.", range.start(), range.end()))
        }
        number => Ok(number),
    }
}

/// Parses the setting `name`, one of `keywords`, by default empty. The error lists the keywords.
pub fn parse_keyword(name: &str, keywords: &[&str], text: Option<String>) -> Result<String, String> {
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
    fn a_number_is_digits_within_its_range() {
        let parse = |text| parse_number("SETTING", text, 1..=600);
        assert_eq!([None, Some("1"), Some(" 600 ")].map(parse), [Ok(None), Ok(Some(1)), Ok(Some(600))]);
        for invalid in ["30s", "0", "-1", "+1", "1.5", "3e4", "", "601", "99999999999999999999", "true"] {
            let expected = format!("SETTING must be a whole number from 1 to 600, but is `{invalid}`.");
            assert_eq!(parse(Some(invalid)), Err(expected));
        }
    }

    #[test]
    fn a_keyword_is_one_of_a_list_or_empty() {
        let parse = |text: &str| parse_keyword("HUB_JURISDICTION", &JURISDICTIONS, Some(text.into()));
        assert_eq!(["eu", "fedramp", "us", ""].map(|valid| parse(valid).as_deref() == Ok(valid)), [true; 4]);
        assert_eq!(parse_keyword("HUB_LOCATION", &LOCATIONS, None), Ok(String::new()));
        for invalid in ["EU", "weur", "uk", " eu"] {
            let expected =
                format!("HUB_JURISDICTION must be one of `eu`, `fedramp`, `us`, or empty, but is `{invalid}`.");
            assert_eq!(parse(invalid), Err(expected));
        }
    }
}
