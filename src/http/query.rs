//! Strict parsing of query strings: a duplicate parameter or an invalid value is an error that names the parameter.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;

use crate::hub::error::Error;

#[derive(Debug, Default)]
pub struct Query(HashMap<String, String>);

impl Query {
    /// Parses a query string without its `?`.
    pub fn parse(query: &str) -> Result<Self, Error> {
        let mut pairs = HashMap::new();
        let encoded_pairs = query.split('&').filter(|pair| !pair.is_empty());
        for (encoded, (key, value)) in encoded_pairs.zip(form_urlencoded::parse(query.as_bytes())) {
            // The parsed text does not show this: invalid UTF-8 becomes U+FFFD, which valid text may contain too.
            if percent_decode_str(encoded).decode_utf8().is_err() {
                return Err(Error::field(&key, format!("Query parameter `{key}` is not valid UTF-8.")));
            }
            if pairs.contains_key(key.as_ref()) {
                return Err(Error::field(&key, format!("Query parameter `{key}` appears more than once.")));
            }
            pairs.insert(key.into_owned(), value.into_owned());
        }
        Ok(Self(pairs))
    }

    /// Returns the value of a parameter, or `None` if it is missing or appears more than once. Ignores errors in other
    /// parameters, because a token is verified before the request is validated.
    pub fn find_unique(query: &str, key: &str) -> Option<String> {
        let mut values =
            form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == key).map(|(_, value)| value);
        let value = values.next().map(String::from);
        value.filter(|_| values.next().is_none())
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn number(&self, key: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_decimal && range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (low, high) = range.into_inner();
            Error::field(key, format!("Query parameter `{key}` must be an integer from {low} to {high}."))
        })
    }

    pub fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.text(key) {
            None => Ok(None),
            Some("true" | "1") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(_) => Err(Error::field(key, format!("Query parameter `{key}` must be `true`, `1`, `false` or `0`."))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_parameter_is_rejected() {
        assert!(Query::parse("limit=1&limit=2").unwrap_err().to_string().contains("`limit`"));
    }

    #[test]
    fn numbers_are_decimal_and_in_range() {
        let number = |value: &str| Query::parse(&format!("limit={value}")).unwrap().number("limit", 1..=200);
        assert_eq!(number("200"), Ok(Some(200)));
        for invalid in ["0", "201", "-1", "1.5", "1e2", "+5", "", "99999999999999999999", "x"] {
            assert!(number(invalid).unwrap_err().to_string().contains("`limit`"), "{invalid}");
        }
        assert_eq!(Query::parse("").unwrap().number("limit", 1..=200), Ok(None));
    }

    #[test]
    fn find_unique_ignores_errors_in_other_parameters() {
        assert_eq!(Query::find_unique("a=1&a=2&token=t%20u&b=%ff", "token").as_deref(), Some("t u"));
        assert_eq!(Query::find_unique("token=t&token=t", "token"), None);
        assert_eq!(Query::find_unique("tok=t", "token"), None);
    }

    #[test]
    fn invalid_utf_8_is_rejected() {
        for (query, key) in [("path=%ff", "path"), ("a=1&&%c3=2", "\u{fffd}"), ("a=1&path=%ef%bf%bd%ff", "path")] {
            assert!(Query::parse(query).unwrap_err().to_string().contains(&format!("`{key}`")), "{query}");
        }
        assert_eq!(Query::parse("path=%C3%BC").unwrap().text("path"), Some("ü"));
        // U+FFFD is a valid character.
        for query in ["path=%ef%bf%bd", "path=\u{fffd}", "&path=%EF%BF%BD&"] {
            assert_eq!(Query::parse(query).unwrap().text("path"), Some("\u{fffd}"), "{query}");
        }
    }
}
