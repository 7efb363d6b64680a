//! JSON whose text is preserved byte for byte.
//!
//! Clients write values that are opaque to the hub: metadata, agent state, message content. `serde_json::Value` would sort
//! their keys and round large numbers, so the hub validates such a text once and passes it on unchanged.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The deepest nesting of an object that the hub or D1 reads. SQLite's JSON functions support 1,000 levels.
const MAX_JSON_DEPTH: usize = 500;

/// The largest integer that JavaScript, and so D1, represents exactly (RFC 7493 section 2.2).
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Converts a whole number that is written as a float, such as `1.0`, because some languages have only floats.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // Exact in this range.
pub fn to_whole(value: f64) -> Option<u64> {
    (value.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER as f64).contains(&value)).then_some(value as u64)
}

/// Parses a JSON number without a fraction, even if it is written as a float.
pub fn parse_whole(json: &str) -> Option<u64> {
    // serde parses a float, not `str::parse::<f64>`, whose tables add ten kilobytes to the worker.
    json.parse().ok().or_else(|| to_whole(serde_json::from_str(json).ok()?))
}

/// For `skip_serializing_if`.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A JSON value as its original text; cheap to clone.
// `Arc<RawValue>` would save an indirection. But the conversion of a box to an `Arc` copies the text, which may have 30 MB.
#[derive(Clone)]
pub struct Json(Arc<Box<RawValue>>);

impl Json {
    /// Validates and copies a JSON text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Box<RawValue>>(text).map(Self::from)
    }

    /// Validates a JSON text without copying it.
    pub fn from_string(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(Self::from)
    }

    /// Serializes a value. Serialization fails only for maps with keys that are not strings. No type of the hub has such a map.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Self::null(), Self::from)
    }

    /// Creates an object with these members, in this order.
    pub fn object(members: &[(&str, Self)]) -> Self {
        members.iter().map(|(name, value)| (*name, value.raw())).collect::<JsonObject<'_>>().to_json()
    }

    /// Creates an object like [`object`](Self::object), without the members that are `None`.
    pub fn object_of_some(members: &[(&str, Option<Self>)]) -> Self {
        let present = members.iter().filter_map(|(name, value)| Some((*name, value.clone()?)));
        Self::object(&present.collect::<Vec<_>>())
    }

    pub fn null() -> Self {
        Self::from(RawValue::NULL)
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }

    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }

    pub fn is_object(&self) -> bool {
        self.text().starts_with('{')
    }

    /// Deserializes the value; `None` when it does not have the shape of `T`.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.text()).ok()
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self(Arc::new(raw))
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self(Arc::new(raw.to_owned()))
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.text() == other.text()
    }
}

/// Decodes a valid JSON string; `None` for another JSON value or an unpaired surrogate.
///
/// Returns the same as serde, but allocates a string of 30 MB once instead of three times.
pub fn unescape(json: &str) -> Option<String> {
    unescape_with(json, &mut |_, _| None)
}

/// Decodes a valid JSON string like [`unescape`], but replaces unpaired surrogates by U+FFFD. If the string ends with the first
/// half of a surrogate pair, returns this half as a UTF-16 code unit instead.
pub fn unescape_lenient(json: &str) -> Option<(String, Option<u16>)> {
    let mut last_half = None;
    let text = unescape_with(json, &mut |unit, remaining| {
        last_half = Some(unit).filter(|unit| remaining.is_empty() && matches!(unit, 0xd800..=0xdbff));
        Some(if last_half.is_some() { "" } else { "\u{fffd}" })
    })?;
    Some((text, last_half))
}

/// Decodes a valid JSON string. `replace` returns the replacement of an unpaired surrogate, and gets it with the rest of the string.
fn unescape_with(json: &str, replace: &mut dyn FnMut(u16, &str) -> Option<&'static str>) -> Option<String> {
    let mut remaining = json.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(remaining.len());
    while let Some((plain, after_backslash)) = remaining.split_once('\\') {
        text.push_str(plain);
        let mut after = after_backslash.chars();
        text.push(match after.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let Some((character, units)) = decode_utf16(after_backslash) else {
                    remaining = after_backslash.get(5..)?;
                    text.push_str(replace(utf16_unit(after_backslash, 1)?, remaining)?);
                    continue;
                };
                after = after_backslash.get(units * 6 - 1..)?.chars();
                character
            }
            other => other,
        });
        remaining = after.as_str();
    }
    text.push_str(remaining);
    Some(text)
}

/// Decodes the escape (`u00fc`) or the surrogate pair (`ud83d\ude00`) at the start of a text. Returns it with its number of escapes.
fn decode_utf16(after_backslash: &str) -> Option<(char, usize)> {
    let first = utf16_unit(after_backslash, 1)?;
    let second = after_backslash.get(5..7).filter(|start| *start == "\\u").and_then(|_| utf16_unit(after_backslash, 7));
    let mut decoded = char::decode_utf16(std::iter::once(first).chain(second));
    let character = decoded.next()?.ok()?;
    Some((character, character.len_utf16()))
}

/// Reads the four hexadecimal digits of an escape.
fn utf16_unit(after_backslash: &str, at: usize) -> Option<u16> {
    u16::from_str_radix(after_backslash.get(at..at + 4)?, 16).ok()
}

/// An invalid field of a JSON object, or text that is not a JSON object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FieldError {
    /// The path of the field, such as `attachments[0].size`; empty when the error is not about a field.
    pub field: String,
    /// A sentence that names the field.
    pub message: String,
}

impl FieldError {
    pub fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), message: message.into() }
    }

    /// Creates the error of a field that breaks a rule. `rule` is the predicate of the sentence, such as "must be an object".
    pub fn of_rule(field: &str, rule: fmt::Arguments<'_>) -> Self {
        Self::new(field, format!("Field `{field}` {rule}."))
    }
}

/// A JSON object with the order and the text of its members, so that changing one member leaves the others unchanged.
#[derive(Debug, Default)]
pub struct JsonObject<'a>(Vec<(String, &'a RawValue)>);

impl<'a> JsonObject<'a> {
    /// Returns `None` when the text is not a JSON object.
    pub fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the members of a value; none if it is not an object.
    pub fn of(value: Option<&'a Json>) -> Self {
        value.and_then(|value| Self::parse(value.text())).unwrap_or_default()
    }

    /// Parses an object; rejects duplicate names, unpaired surrogates in names, and nesting above [`MAX_JSON_DEPTH`]. `field` is
    /// the path of the object in error messages.
    pub fn parse_strict(field: &str, value: &'a RawValue) -> Result<Self, FieldError> {
        if !value.get().starts_with('{') {
            return Err(FieldError::of_rule(field, format_args!("must be an object")));
        }
        if exceeds_depth(value.get(), MAX_JSON_DEPTH) {
            let rule = format_args!("must not be nested deeper than {MAX_JSON_DEPTH} levels");
            return Err(FieldError::of_rule(field, rule));
        }
        // The value is a valid JSON object, so parsing fails only for a name with an unpaired surrogate.
        let unpaired = || FieldError::of_rule(field, format_args!("must not have a name with an unpaired surrogate"));
        let object = Self::parse(value.get()).ok_or_else(unpaired)?;
        let mut names = HashSet::with_capacity(object.0.len());
        match object.0.iter().find(|(name, _)| !names.insert(name.as_str())) {
            Some((name, _)) => {
                let rule = format_args!("appears more than once; send it once");
                Err(FieldError::of_rule(&format!("{field}.{name}"), rule))
            }
            None => Ok(object),
        }
    }

    /// Iterates over the members in the order of the text.
    pub fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Returns the value of a member. If the name is duplicate, returns the last value, as in JavaScript.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// Returns the value of a member that is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        unescape(self.get(name)?.get())
    }

    /// Returns the value of a member that is an object.
    pub fn object(&self, name: &str) -> Option<Self> {
        Self::parse(self.get(name)?.get())
    }

    /// Replaces the value of a member, or appends the member.
    pub fn set(&mut self, name: &str, value: &'a RawValue) {
        match self.0.iter_mut().rev().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Appends a member without searching for a duplicate.
    pub fn push(&mut self, name: &str, value: &'a RawValue) {
        self.0.push((name.to_owned(), value));
    }

    /// Removes all members with a name, and returns the last value.
    pub fn remove(&mut self, name: &str) -> Option<&'a RawValue> {
        let value = self.get(name)?;
        self.0.retain(|(key, _)| key != name);
        Some(value)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn to_json(&self) -> Json {
        let capacity = 2 + self.0.iter().map(|(name, value)| name.len() + value.get().len() + 4).sum::<usize>();
        if capacity < PREALLOCATE_FROM_BYTES {
            return Json::of(self);
        }
        let mut text = Vec::with_capacity(capacity);
        let written = serde_json::to_writer(&mut text, self);
        debug_assert!(written.is_ok());
        let text = String::from_utf8(text).unwrap_or_default();
        Json::from_string(text).unwrap_or_else(Json::null)
    }
}

/// The size from which an object is serialized into a preallocated buffer: a growing buffer would need twice the memory.
const PREALLOCATE_FROM_BYTES: usize = 1_000_000;

/// Whether a JSON text has more than `limit` levels of objects and arrays.
fn exceeds_depth(text: &str, limit: usize) -> bool {
    let (mut depth, mut is_in_string, mut is_escaped) = (0_usize, false, false);
    text.bytes().any(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'{' | b'[' if !is_in_string => depth += 1,
            b'}' | b']' if !is_in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > limit
    })
}

impl<'n, 'a> FromIterator<(&'n str, &'a RawValue)> for JsonObject<'a> {
    fn from_iter<I: IntoIterator<Item = (&'n str, &'a RawValue)>>(members: I) -> Self {
        Self(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

impl Serialize for JsonObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, *value)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = JsonObject<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(JsonObject(members))
            }
        }
        deserializer.deserialize_map(Members(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unescape_agrees_with_serde() {
        let strings =
            ["\"\"", r#""a""#, r#""\"\\\/\b\f\n\r\t""#, r#""a\u00fcb\ud83d\ude00c\u0000d""#, "\"ü\u{1f600}\\n\""];
        let others = [r#""\ud83d""#, r#""\ud83dx""#, r#""\ude00""#, r#""\ud83d\u0041""#, "7", "{}", "null"];
        for json in strings.into_iter().chain(others) {
            assert_eq!(unescape(json), serde_json::from_str::<String>(json).ok(), "{json}");
        }
    }

    proptest::proptest! {
        #[test]
        fn unescape_reverses_serialization(text: String) {
            proptest::prop_assert_eq!(unescape(&serde_json::to_string(&text).unwrap()), Some(text));
        }
    }

    #[test]
    fn brackets_inside_strings_are_not_counted_as_nesting() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(exceeds_depth(&nested(501), 500) && !exceeds_depth(&nested(500), 500));
        assert!(!exceeds_depth(r#"["[[\\\"[[", {"a]":[]}]"#, 3) && exceeds_depth(r#"["[[\\\"[[", {"a]":[]}]"#, 2));
        assert!(!exceeds_depth(r#"[[], [], ["\\"], []]"#, 2), "siblings are on one level");
    }
}
