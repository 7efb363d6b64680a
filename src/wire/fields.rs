//! Reading JSON from outside into structs, with errors that name the offending field.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::field_types::{MAX_SHOWN, Root, shown};

/// Why a JSON text did not fit; the sentence names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FieldError {
    /// The path of the field, such as `attachments[0].size`; empty when the text as a whole is at fault.
    pub field: String,
    /// The sentence for a person.
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
        return Err(FieldError::new("", no_object(text)));
    }
    // A struct read by itself would be compiled for arrays as well, at twice the size.
    let Root(value) = serde_json::from_str(text).map_err(|cause| field_error(text, &cause))?;
    Ok(value)
}

/// The sentence for a text that did not fit. Not generic, as [`read_object`] is compiled once per type.
#[cold]
fn field_error(text: &str, cause: &serde_json::Error) -> FieldError {
    // A number that is out of range, or half a surrogate pair, is told as a syntax error, though the text is JSON.
    if !cause.is_data() && serde_json::from_str::<IgnoredAny>(text).is_err() {
        return invalid_json(cause);
    }
    let reason = cause.to_string();
    let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
    let name = reason.strip_prefix("missing field `").or_else(|| reason.strip_prefix("duplicate field `"));
    let name = name.and_then(|rest| rest.split('`').next());
    let mut read = up_to(text, cause.line(), cause.column());
    // Missing and duplicate fields are errors of the object, at its end or after a key; other errors are about a value.
    let is_about_object = name.is_some();
    if is_about_object {
        read = read.strip_suffix('}').unwrap_or(read);
    }
    let path = shown(&path_at_end(read, is_about_object), MAX_SHOWN).into_owned();
    let field = match name {
        Some(name) if path.is_empty() => name.to_owned(),
        Some(name) => format!("{path}.{name}"),
        None => path,
    };
    FieldError { message: sentence(&field, reason), field }
}

/// The beginning of a text up to a position of `serde_json`: a line, counted from 1, and a number of bytes in it.
fn up_to(text: &str, line: usize, column: usize) -> &str {
    let lines_before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    // After half a surrogate pair the position can be inside a character.
    text.get(..text.floor_char_boundary(lines_before + column)).unwrap_or(text)
}

/// The most open objects and lists that are tracked: the recursion limit of `serde_json` for typed values.
const MAX_DEPTH: usize = 128;

/// The path of the value at the end of `read`, the beginning of a JSON text; or of the object around that value.
///
/// It is computed only after an error: tracking it during every read would cost CPU and double the code of each type.
fn path_at_end(read: &str, of_object: bool) -> String {
    enum Open<'a> {
        Object { key: Option<&'a str> },
        List { index: usize },
    }
    let mut open = Vec::new();
    // Ignored values have no recursion limit.
    let mut deeper: usize = 0;
    let mut bytes = read.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        let is_full = open.len() == MAX_DEPTH;
        match (byte, open.last_mut()) {
            (b'{' | b'[', _) if is_full => deeper += 1,
            (b'}' | b']', _) if deeper > 0 => deeper -= 1,
            (b',', _) if deeper > 0 => {}
            (b'{', _) => open.push(Open::Object { key: None }),
            (b'[', _) => open.push(Open::List { index: 0 }),
            (b'}' | b']', _) => drop(open.pop()),
            (b',', Some(Open::Object { key })) => *key = None,
            (b',', Some(Open::List { index })) => *index += 1,
            (b'"', innermost) => {
                let mut is_escaped = false;
                let end = bytes.find(|(_, byte)| {
                    let is_end = *byte == b'"' && !is_escaped;
                    is_escaped = *byte == b'\\' && !is_escaped;
                    is_end
                });
                if let Some(Open::Object { key: key @ None }) = innermost {
                    *key = end.and_then(|(end, _)| read.get(at..=end));
                }
            }
            _ => {}
        }
    }
    if of_object {
        open.pop();
    }
    let mut path = String::new();
    for part in open {
        match part {
            Open::Object { key } => {
                path.push_str(if path.is_empty() { "" } else { "." });
                path.push_str(&key.and_then(|key| serde_json::from_str::<String>(key).ok()).unwrap_or_default());
            }
            Open::List { index } => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

#[cold]
fn invalid_json(cause: &serde_json::Error) -> FieldError {
    FieldError::new("", format!("It is not valid JSON: {cause}."))
}

/// What stands where an object should, as a sentence that follows one about the whole ("The request body must be ...").
fn no_object(text: &str) -> String {
    let start = text.trim_start().bytes().next();
    let broken = serde_json::from_str::<IgnoredAny>(text).err().filter(|_| start.is_some());
    if let Some(cause) = broken {
        return format!("It is not valid JSON: {cause}.");
    }
    let what = match start {
        None => "empty",
        Some(b'[') => "a list",
        Some(b'"') => "a text",
        Some(b'n') => "null",
        Some(b't' | b'f') => "a truth value",
        _ => "a number",
    };
    format!("It is {what}, not an object.")
}

/// Serde's reason as a sentence about the field.
fn sentence(field: &str, reason: &str) -> String {
    if reason.starts_with("missing field") {
        return format!("Field `{field}` is required.");
    }
    if reason.starts_with("duplicate field") {
        return format!("Field `{field}` stands more than once.");
    }
    let told = ["invalid type: ", "invalid value: ", "unknown variant "].iter().find_map(|start| {
        let (found, expected) = reason.strip_prefix(start)?.rsplit_once(", expected ")?;
        let expected = match expected {
            "a string" => "a text",
            "a sequence" => "a list",
            "a map" => "an object",
            "a boolean" => "true or false",
            "u64" => "a whole number that is not negative",
            "f64" => "a number",
            other => other,
        };
        let found = match found {
            "sequence" => "a list",
            "map" => "an object",
            other => other,
        };
        Some(format!("Field `{field}` must be {expected}, not {}.", shown(found, MAX_SHOWN)))
    });
    told.unwrap_or_else(|| format!("Field `{field}`: {reason}."))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::super::field_types::{List, Object, optional_word, scalar};
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
    struct Outer<'a> {
        name: String,
        #[serde(default)]
        list: Option<List<Object<Inner>>>,
        #[serde(default, deserialize_with = "optional_word")]
        side: Option<Side>,
        #[serde(borrow)]
        opaque: Option<&'a RawValue>,
    }

    fn field(text: &str) -> String {
        read_object::<Outer<'_>>(text).err().unwrap().field
    }

    #[test]
    fn an_error_names_the_field_wherever_it_stands() {
        assert_eq!(field(r#"{"list":[]}"#), "name");
        assert_eq!(field(r#"{"name":5}"#), "name");
        assert_eq!(field(r#"{"name":"a","list":[{"size":1},{"size":"x"}]}"#), "list[1].size");
        assert_eq!(field(r#"{"name":"a","list":[{}]}"#), "list[0].size");
        assert_eq!(field(r#"{"name":"a","name":"b"}"#), "name");
        assert_eq!(field(r#"{"name":"a","list":[{"size":1,"size":1}]}"#), "list[0].size");
        assert_eq!(field(r#"{"name":"a","list":[{"size":1e400}]}"#), "list[0].size");
        assert_eq!(field(r#"{"name":"\ud800"}"#), "name");
        assert_eq!(field(r#"{"name":"\ud800é"}"#), "name");
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(field(&format!(r#"{{"other":{deep},"list":[{{"x":{deep},"size":"a"}}]}}"#)), "list[0].size");
        assert_eq!(field("{\n \"name\" : -12.5e+3 ,\n\"list\": []}"), "name");
        assert_eq!(field(r#"{"name":"a","list":[{"size":1}],"side":"up"}"#), "side");
        assert_eq!(field(r#"{"name":"a","list":[ [] ]}"#), "list[0]");
        assert_eq!(field(r#"{"list":[{"size":1}]}"#), "name");
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
        fn the_path_of_an_error_is_the_one_that_following_it_while_reading_gives(text in json_object()) {
            let followed = serde_path_to_error::deserialize::<_, Object<Outer<'_>>>(&mut serde_json::Deserializer::from_str(&text));
            match (read_object::<Outer<'_>>(&text), followed) {
                (Ok(_), Ok(_)) => {}
                (Err(told), Err(followed)) => {
                    let path = followed.path().to_string();
                    let is_about_object = told.message.ends_with("is required.") || told.message.contains("more than once");
                    let told_path = match told.field.rsplit_once('.') {
                        Some((parent, _)) if is_about_object => parent,
                        None if is_about_object => ".",
                        _ => told.field.as_str(),
                    };
                    prop_assert_eq!(told_path, path, "{}: {:?}", text, told);
                }
                (told, _) => prop_assert!(false, "{text}: {:?}", told.err()),
            }
        }
    }

    #[test]
    fn a_word_is_a_text_and_a_struct_an_object_and_nothing_that_serde_would_take_for_them() {
        for side in [r#"{"left":null}"#, "[]", r#"["left"]"#, "0", "true", r#""Left""#, r#""""#] {
            assert_eq!(field(&format!(r#"{{"name":"a","side":{side}}}"#)), "side", "{side}");
        }
        let words = [
            (r#""left""#, Some(Side::Left)),
            (r#""right""#, Some(Side::Right)),
            (r#""l\u0065ft""#, Some(Side::Left)),
            ("null", None),
        ];
        for (side, expected) in words {
            let text = format!(r#"{{"name":"a","side":{side}}}"#);
            assert_eq!(read_object::<Outer<'_>>(&text).unwrap().side, expected, "{side}");
        }
        assert_eq!(field(r#"{"name":"a","list":[[1]]}"#), "list[0]");
        assert_eq!(
            read_object::<Outer<'_>>(r#"{"name":"a","list":[{"size":1}]}"#).unwrap().list.unwrap().0[0].0.size,
            1
        );
    }

    #[test]
    fn what_is_not_an_object_is_refused_as_a_whole() {
        for text in ["", "[]", "null", "{", "{\"name\":\"a\"} x", "\u{feff}{}"] {
            assert_eq!(field(text), "", "{text}");
        }
    }

    #[test]
    fn what_is_not_an_object_is_called_by_its_name() {
        let told = |text: &str| read_object::<Outer<'_>>(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(told("[1]"), "It is a list, not an object.");
        assert_eq!(told(" \"text\""), "It is a text, not an object.");
        assert_eq!(told("null"), "It is null, not an object.");
        assert_eq!(told("false"), "It is a truth value, not an object.");
        assert_eq!(told("-1.5"), "It is a number, not an object.");
        assert_eq!(told(" \n"), "It is empty, not an object.");
        for broken in ["name=a", "[1", "{", "\u{feff}{}", r#"{"name":"a"} x"#, r#"{"name":"a",}"#] {
            let told = told(broken);
            assert!(told.starts_with("It is not valid JSON: ") && told.ends_with('.'), "{broken}: {told}");
        }
    }

    #[test]
    fn a_sentence_says_once_what_a_field_must_be_and_what_it_is() {
        #[derive(Default, Debug, Deserialize, PartialEq)]
        #[serde(default)]
        struct Fields {
            list: Vec<u64>,
            flag: bool,
            number: f64,
            side: Option<Side>,
        }
        let told = |text: &str| read_object::<Fields>(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(told(r#"{"list":"a"}"#), r#"Field `list` must be a list, not string "a"."#);
        assert_eq!(
            told(r#"{"list":[1,-2]}"#),
            "Field `list[1]` must be a whole number that is not negative, not integer `-2`."
        );
        let long = told(&format!(r#"{{"list":"{}"}}"#, "ä, expected ".repeat(1000)));
        assert!(
            long.len() < 300 && long.starts_with("Field `list` must be a list, not string") && long.ends_with("…."),
            "{long}"
        );
        assert_eq!(told(r#"{"flag":" at line 1"}"#), r#"Field `flag` must be true or false, not string " at line 1"."#);
        assert_eq!(told(r#"{"flag":1}"#), "Field `flag` must be true or false, not integer `1`.");
        assert_eq!(told(r#"{"number":null}"#), "Field `number` must be a number, not null.");
        assert_eq!(told(r#"{"side":"up"}"#), "Field `side` must be `left` or `right`, not `up`.");
        assert_eq!(told(r#"{"flag":true,"flag":true}"#), "Field `flag` stands more than once.");
        let fields = read_object::<Fields>(r#"{"list":[1],"flag":true,"number":1.5,"side":"left"}"#).unwrap();
        assert_eq!(fields, Fields { list: vec![1], flag: true, number: 1.5, side: Some(Side::Left) });
        let told = |text: &str| read_object::<Outer<'_>>(text).map(|_| ()).unwrap_err().to_string();
        assert_eq!(told("{}"), "Field `name` is required.");
        assert_eq!(told(r#"{"name":[]}"#), "Field `name` must be a text, not a list.");
        assert_eq!(told(r#"{"name":"a","list":[{}]}"#), "Field `list[0].size` is required.");
    }

    #[test]
    fn opaque_parts_keep_their_text() {
        let text = r#"{"name":"a","opaque":{"b":1.0,"a":12345678901234567890}}"#;
        let outer: Outer<'_> = read_object(text).unwrap();
        assert_eq!(outer.name, "a");
        assert_eq!(outer.opaque.unwrap().get(), r#"{"b":1.0,"a":12345678901234567890}"#);
    }
}
