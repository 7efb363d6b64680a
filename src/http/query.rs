//! Parsing of query strings. A parameter without a value counts as absent. A known parameter that is repeated or has an invalid
//! value is an error that names the parameter. Unknown parameters are ignored.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;

use crate::hub::core::error::Error;

#[derive(Debug, Default)]
pub struct Query(HashMap<String, Parameter>);

/// The first occurrence of a parameter.
#[derive(Debug)]
struct Parameter {
    value: String,
    /// Whether the parameter is a bare name, without `=`.
    is_bare: bool,
    is_repeated: bool,
}

impl Query {
    /// Parses a query string without its `?`.
    pub fn parse(query: &str) -> Result<Self, Error> {
        let mut parameters: HashMap<String, Parameter> = HashMap::new();
        let encoded_pairs = query.split('&').filter(|pair| !pair.is_empty());
        for (encoded, (key, value)) in encoded_pairs.zip(form_urlencoded::parse(query.as_bytes())) {
            // Checks the encoded text: the parser replaces invalid UTF-8 by U+FFFD, which valid text may contain too.
            if percent_decode_str(encoded).decode_utf8().is_err() {
                return Err(Error::field(&key, format!("Query parameter `{key}` must be percent-encoded UTF-8.")));
            }
            if let Some(parameter) = parameters.get_mut(key.as_ref()) {
                parameter.is_repeated = true;
                continue;
            }
            let is_bare = !encoded.contains('=');
            parameters.insert(key.into_owned(), Parameter { value: value.into_owned(), is_bare, is_repeated: false });
        }
        Ok(Self(parameters))
    }

    /// Returns the value of a parameter, or `None` if it is missing or appears more than once. Ignores errors in other
    /// parameters, because a token is verified before the request is validated.
    pub fn find_unique(query: &str, key: &str) -> Option<String> {
        let mut values =
            form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == key).map(|(_, value)| value);
        let value = values.next().map(String::from);
        value.filter(|_| values.next().is_none())
    }

    /// Returns the value of a parameter; `None` if the parameter is missing or empty.
    pub fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        let parameter = self.find(key)?;
        Ok(parameter.map(|parameter| parameter.value.as_str()).filter(|value| !value.is_empty()))
    }

    /// Returns an integer, which may be written as a float such as `50.0`.
    pub fn number(&self, key: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let integer = match text.split_once('.') {
            Some((integer, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => integer,
            _ => text,
        };
        let is_decimal = !integer.is_empty() && integer.bytes().all(|byte| byte.is_ascii_digit());
        let number = integer.parse().ok().filter(|number| is_decimal && range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (low, high) = range.into_inner();
            Error::field(key, format!("Query parameter `{key}` must be an integer from {low} to {high}."))
        })
    }

    pub fn limit(&self, default: usize, max: u64) -> Result<usize, Error> {
        let limit = self.number("limit", 1..=max)?;
        Ok(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(default))
    }

    pub fn cursor<T>(&self, beginning: T, parse: fn(&str) -> Option<T>) -> Result<T, Error> {
        let position = self.text("cursor")?.map_or(Some(beginning), parse);
        let message = "Query parameter `cursor` must be the `nextCursor` of an earlier response.";
        position.ok_or_else(|| Error::field("cursor", message))
    }

    /// Returns a boolean: `true`, `1`, `false` or `0` in any case. A bare name is true.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        let Some(parameter) = self.find(key)? else { return Ok(None) };
        match parameter.value.to_ascii_lowercase().as_str() {
            "" => Ok(parameter.is_bare.then_some(true)),
            "true" | "1" => Ok(Some(true)),
            "false" | "0" => Ok(Some(false)),
            _ => Err(Error::field(key, format!("Query parameter `{key}` must be `true`, `1`, `false` or `0`."))),
        }
    }

    fn find(&self, key: &str) -> Result<Option<&Parameter>, Error> {
        match self.0.get(key) {
            Some(Parameter { is_repeated: true, .. }) => {
                Err(Error::field(key, format!("Query parameter `{key}` appears more than once. Send it once.")))
            }
            parameter => Ok(parameter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf_8_is_rejected() {
        for (query, key) in [("path=%ff", "path"), ("a=1&&%c3=2", "\u{fffd}"), ("a=1&path=%ef%bf%bd%ff", "path")] {
            assert!(Query::parse(query).unwrap_err().to_string().contains(&format!("`{key}`")), "{query}");
        }
        assert_eq!(Query::parse("path=%C3%BC").unwrap().text("path"), Ok(Some("ü")));
        // U+FFFD is a valid character.
        for query in ["path=%ef%bf%bd", "path=\u{fffd}", "&path=%EF%BF%BD&"] {
            assert_eq!(Query::parse(query).unwrap().text("path"), Ok(Some("\u{fffd}")), "{query}");
        }
    }
}
