//! The name that keeps one tenant's sessions and machines apart from another's.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A valid namespace: 1 to 64 characters of `A-Z a-z 0-9 . _ -`, compared by exact spelling.
///
/// Not to be confused with a Socket.IO namespace such as `/cli`. Cheap to hash and small to keep;
/// a value of this type has been checked, so it is safe in a token, a log line or an object's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Box<str>);

impl Namespace {
    /// The most characters (all of them one byte) in a namespace.
    pub const MAX_LEN: usize = 64;

    /// The namespace of a token that names none.
    pub const DEFAULT: &'static str = "default";

    /// Takes `text` as it is, without trimming or changing case; `None` when it breaks a rule.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=Self::MAX_LEN).contains(&text.len());
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        (fits && text.bytes().all(allowed)).then(|| Self(text.into()))
    }

    /// The namespace as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self(Self::DEFAULT.into())
    }
}

impl AsRef<str> for Namespace {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for Namespace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Namespace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("a namespace is 1 to 64 characters of A-Z a-z 0-9 . _ -"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_allowed_characters_are_taken_as_they_are() {
        let longest = "x".repeat(64);
        for text in ["a", "Z", "0", ".", "team-7_b.C", "default", longest.as_str()] {
            assert_eq!(Namespace::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn anything_else_is_no_namespace() {
        let too_long = "x".repeat(65);
        let table = [
            "",
            " ",
            "a b",
            " a",
            "a ",
            "a:b",
            "a/b",
            "a\\b",
            "a%2e",
            "a\0",
            "a\n",
            "\u{e9}",
            "\u{0661}",
            "a@b",
            "*",
            "\u{1F980}",
            too_long.as_str(),
        ];
        for text in table {
            assert_eq!(Namespace::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_namespace_not_named_is_the_default_one() {
        assert_eq!(Namespace::default(), Namespace::parse("default").unwrap());
    }

    #[test]
    fn json_carries_a_namespace_as_a_string_and_cannot_smuggle_an_invalid_one_in() {
        let namespace: Namespace = serde_json::from_str(r#""team-7""#).unwrap();
        assert_eq!(serde_json::to_string(&namespace).unwrap(), r#""team-7""#);
        assert!(serde_json::from_str::<Namespace>(r#""team 7""#).is_err());
        assert!(serde_json::from_str::<Namespace>("7").is_err());
    }
}
