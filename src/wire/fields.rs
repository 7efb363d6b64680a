//! Reading JSON from outside into structs, with errors that name the offending field.

use serde::Deserialize;

/// Why a JSON text did not fit; the sentence names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FieldError {
    /// The path of the field, such as `attachments[0].size`; empty when the text as a whole is at fault.
    pub field: String,
    pub message: String,
}

impl FieldError {
    /// An error on a field that was well-formed JSON but broke a rule.
    pub fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), message: message.into() }
    }
}

/// Reads an object. Unknown fields are ignored, missing or ill-typed ones are errors.
pub fn read_object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, FieldError> {
    if !text.trim_start().starts_with('{') {
        return Err(FieldError::new("", "A JSON object is expected."));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        // An enum given as a number or list is told as a syntax error, though the text is JSON.
        if !cause.is_data() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            return FieldError::new("", format!("Not valid JSON: {cause}."));
        }
        let reason = if cause.is_data() { cause.to_string() } else { "invalid type: expected a text".to_owned() };
        let reason = reason.split(" at line ").next().unwrap_or_default();
        let field = field_path(&path, reason);
        FieldError { message: format!("Field `{field}`: {reason}."), field }
    })?;
    deserializer.end().map_err(|cause| FieldError::new("", format!("Not valid JSON: {cause}.")))?;
    Ok(value)
}

/// A field that is missing, or there twice, is reported at its parent, with its name in the reason.
fn field_path(path: &str, reason: &str) -> String {
    let parent = if path == "." { "" } else { path };
    let named = reason.strip_prefix("missing field `").or_else(|| reason.strip_prefix("duplicate field `"));
    match named.and_then(|rest| rest.split('`').next()) {
        Some(name) if parent.is_empty() => name.to_owned(),
        Some(name) => format!("{parent}.{name}"),
        None => parent.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    #[derive(Debug, Deserialize)]
    struct Inner {
        #[allow(dead_code)]
        size: u64,
    }

    #[derive(Debug, Deserialize)]
    struct Outer<'a> {
        #[allow(dead_code)]
        name: String,
        #[serde(default)]
        #[allow(dead_code)]
        list: Vec<Inner>,
        #[serde(borrow)]
        opaque: Option<&'a RawValue>,
    }

    fn field(text: &str) -> String {
        read_object::<Outer<'_>>(text).unwrap_err().field
    }

    #[test]
    fn an_error_names_the_field_wherever_it_stands() {
        assert_eq!(field(r#"{"list":[]}"#), "name");
        assert_eq!(field(r#"{"name":5}"#), "name");
        assert_eq!(field(r#"{"name":"a","list":[{"size":1},{"size":"x"}]}"#), "list[1].size");
        assert_eq!(field(r#"{"name":"a","list":[{}]}"#), "list[0].size");
        assert_eq!(field(r#"{"name":"a","name":"a"}"#), "name");
        assert_eq!(field(r#"{"name":"a","list":[{"size":1,"size":1}]}"#), "list[0].size");
    }

    #[test]
    fn what_is_not_an_object_is_refused_as_a_whole() {
        for text in ["", "[]", "null", "{", "{\"name\":\"a\"} x", "\u{feff}{}"] {
            assert_eq!(field(text), "", "{text}");
        }
    }

    #[test]
    fn opaque_parts_keep_their_text() {
        let text = r#"{"name":"a","opaque":{"b":1.0,"a":12345678901234567890}}"#;
        let outer: Outer<'_> = read_object(text).unwrap();
        assert_eq!(outer.opaque.unwrap().get(), r#"{"b":1.0,"a":12345678901234567890}"#);
    }
}
