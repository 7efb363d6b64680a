//! Words of the interface and of settings: their limit, and the error for an unknown one.

use strum::VariantNames;

/// The longest word for a mode, an agent or a method, in bytes.
pub const MAX_WORD: usize = 64;

/// A text that is none of the words of an enumeration. Case and white space count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what}: expected one of {expected}")]
pub struct UnknownWord {
    /// The noun for the enumeration, such as `permission mode`.
    pub what: &'static str,
    /// The known words, comma separated.
    pub expected: String,
}

impl UnknownWord {
    /// The error for an enumeration.
    pub fn of<T: VariantNames>(what: &'static str) -> Self {
        Self { what, expected: T::VARIANTS.join(", ") }
    }
}

/// Reads a setting that is `true` or `false` (the default), in whatever case; the error names it. A word that is not
/// understood must not open what it was meant to close.
pub fn parse_truth(name: &str, text: Option<&str>) -> Result<bool, String> {
    match text.map(str::to_ascii_lowercase).as_deref() {
        Some("true") => Ok(true),
        None | Some("false") => Ok(false),
        Some(word) => Err(format!("{name} must be `true` or `false`, but is `{word}`.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truth_is_one_of_two_words_and_false_unless_it_is_set() {
        let read = |text| parse_truth("SETTING", text);
        assert_eq!([None, Some("false"), Some("TRUE")].map(read), [Ok(false), Ok(false), Ok(true)]);
        for odd in ["", "yes", "1", " true"] {
            assert!(read(Some(odd)).is_err_and(|error| error.starts_with("SETTING must be")), "{odd}");
        }
    }
}
