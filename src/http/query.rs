//! Query strings, read strictly: a key that stands twice or a value of the wrong kind is an error that names the key.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;

use crate::hub::error::Error;

/// The parameters of a query string.
#[derive(Debug, Default)]
pub struct Query(HashMap<String, String>);

impl Query {
    /// Reads a query string (without its `?`).
    pub fn parse(query: &str) -> Result<Self, Error> {
        let mut pairs = HashMap::new();
        let raw = query.split('&').filter(|pair| !pair.is_empty());
        for (raw, (key, value)) in raw.zip(form_urlencoded::parse(query.as_bytes())) {
            // The parser puts U+FFFD in place of what is broken, which may as well stand there by right.
            if percent_decode_str(raw).decode_utf8().is_err() {
                return Err(Error::field(&key, format!("Query parameter `{key}` is not valid UTF-8.")));
            }
            if pairs.contains_key(key.as_ref()) {
                return Err(Error::field(&key, format!("Query parameter `{key}` stands more than once.")));
            }
            pairs.insert(key.into_owned(), value.into_owned());
        }
        Ok(Self(pairs))
    }

    /// The value of a key that stands once in a query string, whatever else is wrong with that.
    pub fn only(query: &str, key: &str) -> Option<String> {
        let mut values =
            form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == key).map(|(_, value)| value);
        let value = values.next().map(String::from);
        value.filter(|_| values.next().is_none())
    }

    /// A text, if given.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// A whole number within a range, if given.
    pub fn number(&self, key: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| plain && range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (low, high) = range.into_inner();
            Error::field(key, format!("Query parameter `{key}` must be a whole number from {low} to {high}."))
        })
    }

    /// `true` or `false`, if given.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.text(key) {
            None => Ok(None),
            Some("true" | "1") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(_) => Err(Error::field(key, format!("Query parameter `{key}` must be `true` or `false`."))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        assert!(Query::parse("limit=1&limit=2").unwrap_err().to_string().contains("`limit`"));
    }

    #[test]
    fn numbers_are_whole_and_in_range() {
        let number = |value: &str| Query::parse(&format!("limit={value}")).unwrap().number("limit", 1..=200);
        assert_eq!(number("200"), Ok(Some(200)));
        for bad in ["0", "201", "-1", "1.5", "1e2", "+5", "", "99999999999999999999", "x"] {
            assert!(number(bad).unwrap_err().to_string().contains("`limit`"), "{bad}");
        }
        assert_eq!(Query::parse("").unwrap().number("limit", 1..=200), Ok(None));
    }

    #[test]
    fn one_value_can_be_read_out_of_a_query_that_is_broken_elsewhere() {
        assert_eq!(Query::only("a=1&a=2&token=t%20u&b=%ff", "token").as_deref(), Some("t u"));
        assert_eq!(Query::only("token=t&token=t", "token"), None);
        assert_eq!(Query::only("tok=t", "token"), None);
    }

    #[test]
    fn broken_utf_8_is_refused() {
        for (query, key) in [("path=%ff", "path"), ("a=1&&%c3=2", "\u{fffd}"), ("a=1&path=%ef%bf%bd%ff", "path")] {
            assert!(Query::parse(query).unwrap_err().to_string().contains(&format!("`{key}`")), "{query}");
        }
        assert_eq!(Query::parse("path=%C3%BC").unwrap().text("path"), Some("ü"));
        // What stands for broken text elsewhere is a character like any other.
        for genuine in ["path=%ef%bf%bd", "path=\u{fffd}", "&path=%EF%BF%BD&"] {
            assert_eq!(Query::parse(genuine).unwrap().text("path"), Some("\u{fffd}"), "{genuine}");
        }
    }
}
