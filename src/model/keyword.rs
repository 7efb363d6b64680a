//! Keywords: the enumerated strings of the protocol and of the settings. Case and white space are significant.

use std::ops::RangeInclusive;

use strum::VariantNames;

/// The largest number of methods or models that an error message lists.
const MAX_LISTED_NAMES: usize = 30;

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
}
