//! Deserialization of untrusted JSON objects with errors that name the invalid field.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::field_types::{Root, truncate};
use crate::limits::MAX_ECHO_CHARS;
use crate::model::json::{FieldError, Json, unescape_lenient};

/// Deserializes an object. Unknown fields are ignored.
pub fn read_object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, FieldError> {
    if !text.trim_start().starts_with('{') {
        return Err(FieldError::new("", not_an_object(text)));
    }
    // Without `Root`, serde would also compile code that reads the struct from an array: twice the size.
    let Root(value) = serde_json::from_str(text).map_err(|cause| field_error(text, &cause))?;
    Ok(value)
}

/// Decodes a field that must be a JSON string ([`unescape_lenient`]).
pub fn read_lenient_text(field: &str, value: &Json) -> Result<(String, Option<u16>), FieldError> {
    let wrong_type = || FieldError::of_rule(field, format_args!("must be a string, not {}", json_type(value.text())));
    unescape_lenient(value.text()).ok_or_else(wrong_type)
}

/// Converts an error of `serde_json`. Not generic, because [`read_object`] is compiled for each type.
#[cold]
fn field_error(text: &str, cause: &serde_json::Error) -> FieldError {
    // `cause` does not show whether the text is valid JSON. serde_json stops at the first invalid field, before a later syntax
    // error. serde_json reports a number out of range or an unpaired surrogate as a syntax error, but both are valid JSON.
    if let Err(cause) = serde_json::from_str::<IgnoredAny>(text) {
        return invalid_json(&cause);
    }
    let reason = cause.to_string();
    let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
    let name = reason.strip_prefix("missing field `").or_else(|| reason.strip_prefix("duplicate field `"));
    let name = name.and_then(|rest| rest.split('`').next());
    let mut prefix = prefix_up_to(text, cause.line(), cause.column());
    // serde_json reports a missing or duplicate field at its object or the object's end, other errors at the end of the value.
    let is_about_object = name.is_some();
    if is_about_object {
        prefix = prefix.strip_suffix('}').unwrap_or(prefix);
    }
    let path = truncate(&path_at_end(prefix, is_about_object), MAX_ECHO_CHARS).into_owned();
    let field = match name {
        Some(name) if path.is_empty() => name.to_owned(),
        Some(name) => format!("{path}.{name}"),
        None => path,
    };
    FieldError { message: to_sentence(&field, reason), field }
}

/// Returns the text up to a position of `serde_json`: a line, counted from 1, and a number of bytes in this line.
fn prefix_up_to(text: &str, line: usize, column: usize) -> &str {
    let lines_before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    // After an unpaired surrogate the position can be inside a character.
    text.get(..text.floor_char_boundary(lines_before + column)).unwrap_or(text)
}

/// The deepest nesting that is tracked: the recursion limit of `serde_json` for typed values.
const MAX_DEPTH: usize = 128;

/// Returns the path of the value at the end of `prefix`, the beginning of a JSON text; with `of_object`, of the object around it.
///
/// Computed only after an error: `serde_path_to_error` would track the path in every read, at a cost of CPU and twice the code of each type.
fn path_at_end(prefix: &str, of_object: bool) -> String {
    enum Container<'a> {
        Object { key: Option<&'a str> },
        Array { index: usize },
    }
    let mut open = Vec::new();
    // Counts the open containers that are deeper than MAX_DEPTH: values of unknown fields can be nested without limit.
    let mut untracked: usize = 0;
    let mut bytes = prefix.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        let is_full = open.len() == MAX_DEPTH;
        match (byte, open.last_mut()) {
            (b'{' | b'[', _) if is_full => untracked += 1,
            (b'}' | b']', _) if untracked > 0 => untracked -= 1,
            (b',', _) if untracked > 0 => {}
            (b'{', _) => open.push(Container::Object { key: None }),
            (b'[', _) => open.push(Container::Array { index: 0 }),
            (b'}' | b']', _) => drop(open.pop()),
            (b',', Some(Container::Object { key })) => *key = None,
            (b',', Some(Container::Array { index })) => *index += 1,
            (b'"', innermost) => {
                let mut is_escaped = false;
                let end = bytes.find(|(_, byte)| {
                    let is_end = *byte == b'"' && !is_escaped;
                    is_escaped = *byte == b'\\' && !is_escaped;
                    is_end
                });
                if let Some(Container::Object { key: key @ None }) = innermost {
                    *key = end.and_then(|(end, _)| prefix.get(at..=end));
                }
            }
            _ => {}
        }
    }
    if of_object {
        open.pop();
    }
    let mut path = String::new();
    for container in open {
        match container {
            Container::Object { key } => {
                path.push_str(if path.is_empty() { "" } else { "." });
                path.push_str(&key.and_then(|key| serde_json::from_str::<String>(key).ok()).unwrap_or_default());
            }
            Container::Array { index } => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

#[cold]
fn invalid_json(cause: &serde_json::Error) -> FieldError {
    FieldError::new("", format!("It is not valid JSON: {cause}."))
}

/// Returns the message for a text that does not begin with `{`, which follows "The request body must be a JSON object.".
fn not_an_object(text: &str) -> String {
    let start = text.trim_start().bytes().next();
    let syntax_error = serde_json::from_str::<IgnoredAny>(text).err().filter(|_| start.is_some());
    if let Some(cause) = syntax_error {
        return format!("It is not valid JSON: {cause}.");
    }
    let found = if start.is_none() { "empty" } else { json_type(text) };
    format!("It is {found}, not an object.")
}

/// Returns the type of a JSON value with its article.
fn json_type(json: &str) -> &'static str {
    match json.trim_start().bytes().next() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b'n') => "null",
        Some(b't' | b'f') => "a boolean",
        _ => "a number",
    }
}

/// Converts the reason of a serde error into a sentence about the field.
fn to_sentence(field: &str, reason: &str) -> String {
    if reason.starts_with("missing field") {
        return format!("Field `{field}` is required.");
    }
    if reason.starts_with("duplicate field") {
        return format!("Field `{field}` appears more than once. Send it once.");
    }
    let sentence = ["invalid type: ", "invalid value: ", "unknown variant "].iter().find_map(|start| {
        let (found, expected) = reason.strip_prefix(start)?.rsplit_once(", expected ")?;
        let expected = match expected {
            "a sequence" => "an array",
            "a map" => "an object",
            "u64" => "a non-negative integer",
            other => other,
        };
        let found = match found {
            "sequence" => "an array",
            "map" => "an object",
            other => other,
        };
        Some(format!("Field `{field}` must be {expected}, not {}.", truncate(found, MAX_ECHO_CHARS)))
    });
    sentence.unwrap_or_else(|| format!("Field `{field}`: {reason}."))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::field_types::{List, Object, optional_keyword, scalar};
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Side {
        Left,
        Right,
    }

    #[derive(Deserialize)]
    struct Inner {
        #[serde(deserialize_with = "scalar")]
        size: u64,
    }

    #[derive(Deserialize)]
    struct Outer {
        name: String,
        #[serde(default)]
        list: Option<List<Object<Inner>>>,
        #[serde(default, deserialize_with = "optional_keyword")]
        side: Option<Side>,
    }

    fn error_field(text: &str) -> String {
        read_object::<Outer>(text).err().unwrap().field
    }

    #[test]
    fn an_error_has_the_path_of_the_field() {
        assert_eq!(error_field(r#"{"list":[]}"#), "name");
        assert_eq!(error_field(r#"{"name":5}"#), "name");
        assert_eq!(error_field(r#"{"name":"a","list":[{"size":1},{"size":"x"}]}"#), "list[1].size");
        assert_eq!(error_field(r#"{"name":"a","list":[{}]}"#), "list[0].size");
        assert_eq!(error_field(r#"{"name":"a","name":"b"}"#), "name");
        assert_eq!(error_field(r#"{"name":"a","list":[{"size":1,"size":1}]}"#), "list[0].size");
        assert_eq!(error_field(r#"{"name":"a","list":[{"size":1e400}]}"#), "list[0].size");
        assert_eq!(error_field(r#"{"name":"\ud800"}"#), "name");
        assert_eq!(error_field(r#"{"name":"\ud800é"}"#), "name");
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(error_field(&format!(r#"{{"other":{deep},"list":[{{"x":{deep},"size":"a"}}]}}"#)), "list[0].size");
        assert_eq!(error_field("{\n \"name\" : -12.5e+3 ,\n\"list\": []}"), "name");
        assert_eq!(error_field(r#"{"name":"a","list":[{"size":1}],"side":"up"}"#), "side");
        assert_eq!(error_field(r#"{"name":"a","list":[ [] ]}"#), "list[0]");
        assert_eq!(error_field(r#"{"list":[{"size":1}]}"#), "name");
    }

    /// JSON values with the field names of [`Outer`] and others, of right and wrong types, and whitespace between.
    fn json_object() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            r#""[a-z0-9 "-]{0,3}""#.prop_map(|text| serde_json::to_string(text.trim_matches('"')).unwrap()),
            r"-?[1-9][0-9]{0,3}(\.[0-9]{1,2})?(e[0-9]{1,3})?",
            Just(r#""\ud800""#.to_owned()),
            Just("\"left\"".to_owned()),
            prop_oneof![Just("true"), Just("null"), Just("{}"), Just("[]")].prop_map(str::to_owned),
        ];
        let space = || prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("\n  ")];
        let key = || prop_oneof![Just("name"), Just("list"), Just("size"), Just("side"), Just("a\\u0062")];
        let object = move |value: BoxedStrategy<String>| -> BoxedStrategy<String> {
            let member = (key(), space(), value).prop_map(|(key, s, value)| format!(r#"{s}"{key}"{s}:{s}{value}{s}"#));
            vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))).boxed()
        };
        let any = scalar.prop_recursive(3, 24, 4, move |value| {
            let item = (space(), value.clone()).prop_map(|(s, value)| format!("{s}{value}{s}"));
            prop_oneof![object(value), vec(item, 0..4).prop_map(|items| format!("[{}]", items.join(",")))]
        });
        object(any.boxed())
    }

    proptest! {
        #[test]
        fn the_path_of_an_error_agrees_with_serde_path_to_error(text in json_object()) {
            let expected = serde_path_to_error::deserialize::<_, Object<Outer>>(&mut serde_json::Deserializer::from_str(&text));
            match (read_object::<Outer>(&text), expected) {
                (Ok(_), Ok(_)) => {}
                (Err(error), Err(expected)) => {
                    let path = expected.path().to_string();
                    let is_about_object = error.message.ends_with("is required.") || error.message.contains("more than once");
                    let error_path = match error.field.rsplit_once('.') {
                        Some((parent, _)) if is_about_object => parent,
                        None if is_about_object => ".",
                        _ => error.field.as_str(),
                    };
                    prop_assert_eq!(error_path, path, "{}: {:?}", text, error);
                }
                (result, _) => prop_assert!(false, "{text}: {:?}", result.err()),
            }
        }
    }

    #[test]
    fn a_keyword_must_be_a_string_and_a_struct_must_be_an_object() {
        for side in [r#"{"left":null}"#, "[]", r#"["left"]"#, "0", "true", r#""Left""#, r#""""#] {
            assert_eq!(error_field(&format!(r#"{{"name":"a","side":{side}}}"#)), "side", "{side}");
        }
        let values = [
            (r#""left""#, Some(Side::Left)),
            (r#""right""#, Some(Side::Right)),
            (r#""l\u0065ft""#, Some(Side::Left)),
            ("null", None),
        ];
        for (side, expected) in values {
            let text = format!(r#"{{"name":"a","side":{side}}}"#);
            assert_eq!(read_object::<Outer>(&text).unwrap().side, expected, "{side}");
        }
        assert_eq!(error_field(r#"{"name":"a","list":[[1]]}"#), "list[0]");
        let Outer { name, list, .. } = read_object(r#"{"name":"a","list":[{"size":1}]}"#).unwrap();
        assert_eq!((name.as_str(), list.unwrap().0[0].0.size), ("a", 1));
    }

    #[test]
    fn an_error_without_a_field_has_an_empty_path() {
        let with_text_after = [
            "{\"name\":\"a\"} x",
            "{\"name\":5} x",
            "{\"list\":[]}{}",
            "{\"name\":\"a\",\"name\":5},",
            "{\"name\":5}\u{0}",
        ];
        for text in ["", "[]", "null", "{", "\u{feff}{}"].into_iter().chain(with_text_after) {
            assert_eq!(error_field(text), "", "{text}");
        }
    }

    #[test]
    fn the_error_for_another_json_type_names_the_type() {
        let message = |text: &str| read_object::<Outer>(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(message("[1]"), "It is an array, not an object.");
        assert_eq!(message(" \"text\""), "It is a string, not an object.");
        assert_eq!(message("null"), "It is null, not an object.");
        assert_eq!(message("false"), "It is a boolean, not an object.");
        assert_eq!(message("-1.5"), "It is a number, not an object.");
        assert_eq!(message(" \n"), "It is empty, not an object.");
        for malformed in ["name=a", "[1", "{", "\u{feff}{}", r#"{"name":"a"} x"#, r#"{"name":"a",}"#] {
            let message = message(malformed);
            assert!(message.starts_with("It is not valid JSON: ") && message.ends_with('.'), "{malformed}: {message}");
        }
    }

    #[test]
    fn an_error_names_the_expected_and_the_found_type() {
        #[derive(Default, Debug, Deserialize, PartialEq)]
        #[serde(default)]
        struct Fields {
            list: Vec<u64>,
            flag: bool,
            side: Option<Side>,
        }
        let message = |text: &str| read_object::<Fields>(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(message(r#"{"list":"a"}"#), r#"Field `list` must be an array, not string "a"."#);
        assert_eq!(message(r#"{"list":[1,-2]}"#), "Field `list[1]` must be a non-negative integer, not integer `-2`.");
        let long = message(&format!(r#"{{"list":"{}"}}"#, "ä, expected ".repeat(1000)));
        assert!(
            long.len() < 300 && long.starts_with("Field `list` must be an array, not string") && long.ends_with("…."),
            "{long}"
        );
        assert_eq!(message(r#"{"flag":" at line 1"}"#), r#"Field `flag` must be a boolean, not string " at line 1"."#);
        assert_eq!(message(r#"{"flag":1}"#), "Field `flag` must be a boolean, not integer `1`.");
        assert_eq!(message(r#"{"side":"up"}"#), "Field `side` must be `left` or `right`, not `up`.");
        assert_eq!(message(r#"{"flag":true,"flag":true}"#), "Field `flag` appears more than once. Send it once.");
        let fields = read_object::<Fields>(r#"{"list":[1],"flag":true,"side":"left"}"#).unwrap();
        assert_eq!(fields, Fields { list: vec![1], flag: true, side: Some(Side::Left) });
        let message = |text: &str| read_object::<Outer>(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(message("{}"), "Field `name` is required.");
        assert_eq!(message(r#"{"name":[]}"#), "Field `name` must be a string, not an array.");
        assert_eq!(message(r#"{"name":"a","list":[{}]}"#), "Field `list[0].size` is required.");
    }
}
