//! Namespaces: one per tenant. Sessions, machines and events of one namespace are invisible in any other.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A valid namespace: 1 to 64 characters of `A-Z a-z 0-9 . _ -`, compared by exact spelling.
///
/// Unrelated to Socket.IO namespaces such as `/cli`. The characters need no escaping in tokens, log lines and object names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Namespace(Box<str>);

impl Namespace {
    /// In characters, and in bytes: all characters are ASCII.
    pub const MAX_LEN: usize = 64;

    /// Parses `text` without trimming or changing case.
    pub fn parse(text: &str) -> Option<Self> {
        let valid_length = (1..=Self::MAX_LEN).contains(&text.len());
        let is_valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        (valid_length && text.bytes().all(is_valid)).then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The namespace of a token that names no namespace.
impl Default for Namespace {
    fn default() -> Self {
        Self("default".into())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for Namespace {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a namespace is 1 to 64 characters of A-Z a-z 0-9 . _ -")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_unchanged() {
        let longest = "x".repeat(64);
        for text in ["a", "Z", "0", ".", "team-7_b.C", "default", longest.as_str()] {
            assert_eq!(Namespace::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn invalid_names_are_rejected() {
        let invalid =
            ["", " ", "a b", " a", "a ", "a:b", "a/b", "a\\b", "a%2e", "a\0", "a\n", "\u{e9}", "\u{661}", "a@b", "*"];
        for text in invalid.into_iter().chain(["x".repeat(65).as_str()]) {
            assert_eq!(Namespace::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn deserializing_validates_the_name() {
        let namespace: Namespace = serde_json::from_str(r#""team-7""#).unwrap();
        assert_eq!(serde_json::to_string(&namespace).unwrap(), r#""team-7""#);
        assert!(serde_json::from_str::<Namespace>(r#""team 7""#).is_err());
        assert!(serde_json::from_str::<Namespace>("7").is_err());
    }
}
