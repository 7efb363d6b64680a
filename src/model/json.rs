//! Opaque JSON that keeps its text.
//!
//! `serde_json::Value` re-sorts keys and rewrites large numbers, so what a client wrote (metadata, agent state, message
//! content) travels through the hub as text that was checked once and is never printed again.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The largest whole number that JavaScript, and so D1 and most readers of JSON, keep exactly (RFC 7493 section 2.2).
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// A JSON value as the text its author wrote; cheap to clone. The box keeps the text in its place: moving one of 30 MB
/// into an `Arc` would be a second copy of it.
#[derive(Clone)]
pub struct Json(Arc<Box<RawValue>>);

impl Json {
    /// Checks and keeps a JSON text.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Box<RawValue>>(text).map(Self::from)
    }

    /// The same of a text that is given up for it; `None` when it is no JSON.
    pub fn of_text(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(Self::from)
    }

    /// Serializes a value of ours into its JSON text. Only a map with keys that are no texts could fail, and none of ours
    /// has any.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Self::from(RawValue::NULL), Self::from)
    }

    /// The text itself.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The value as a member of a [`JsonObject`].
    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    /// Whether the value is the literal `null`.
    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.text().starts_with('{')
    }

    /// Reads some fields of the value; `None` when it does not have the shape of `T`.
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
        self.text() == other.text()
    }
}

/// The text that a checked JSON string stands for; `None` when the JSON is no string, or holds half a surrogate pair. The
/// same as serde gives, but a text of 30 MB is in memory once and not three times.
pub fn unescaped(json: &str) -> Option<String> {
    let mut rest = json.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(rest.len());
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut after = escape.chars();
        text.push(match after.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let (character, units) = utf16(escape)?;
                after = escape.get(units * 6 - 1..)?.chars();
                character
            }
            other => other,
        });
        rest = after.as_str();
    }
    text.push_str(rest);
    Some(text)
}

/// The character that one or two escapes stand for, and how many: `u00fc`, or `ud83d\ude00`.
fn utf16(escape: &str) -> Option<(char, usize)> {
    let unit = |at: usize| u16::from_str_radix(escape.get(at..at + 4)?, 16).ok();
    let first = unit(1)?;
    let second = escape.get(5..7).filter(|start| *start == "\\u").and_then(|_| unit(7));
    let mut decoded = char::decode_utf16(std::iter::once(first).chain(second));
    let character = decoded.next()?.ok()?;
    Some((character, character.len_utf16()))
}

/// What is wrong with opaque JSON that the hub reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The path of the field, such as `agentState.requests`.
    pub field: String,
    /// What the field must be, as the end of a sentence that begins with it.
    pub reason: String,
}

impl Flaw {
    /// A flaw of a field.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

/// A JSON object whose members keep their order and their text, so that one member can be changed and the rest stays
/// as it was written.
#[derive(Debug, Default)]
pub struct JsonObject<'a>(Vec<(String, &'a RawValue)>);

impl<'a> JsonObject<'a> {
    /// Splits an object into its members; `None` when the text is not a JSON object.
    pub fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Splits an object into its members, each of which must have a name of its own. `field` is where it stands.
    pub fn checked(field: &str, value: &'a RawValue) -> Result<Self, Flaw> {
        if !value.get().starts_with('{') {
            return Err(Flaw::new(field, "must be an object"));
        }
        if is_deeper(value.get(), MAX_DEPTH) {
            return Err(Flaw::new(field, format!("must not be nested deeper than {MAX_DEPTH} levels")));
        }
        // In a JSON text that was checked nothing else can be wrong.
        let object =
            Self::parse(value.get()).ok_or(Flaw::new(field, "must not have a name with half a surrogate pair"))?;
        let mut names = HashSet::with_capacity(object.0.len());
        match object.0.iter().find(|(name, _)| !names.insert(name.as_str())) {
            Some((name, _)) => Err(Flaw::new(format!("{field}.{name}"), "is a duplicate field")),
            None => Ok(object),
        }
    }

    /// The members in the order they were written.
    pub fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The value of a member; where a name stands twice the last one counts, as in JavaScript.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// Sets a member: in its old place when it had one, else at the end.
    pub fn set(&mut self, name: &str, value: &'a RawValue) {
        match self.0.iter_mut().rev().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Adds a member at the end without looking for one of its name.
    pub fn push(&mut self, name: &str, value: &'a RawValue) {
        self.0.push((name.to_owned(), value));
    }

    /// Takes a member out; all of its occurrences go.
    pub fn remove(&mut self, name: &str) -> Option<&'a RawValue> {
        let value = self.get(name)?;
        self.0.retain(|(key, _)| key != name);
        Some(value)
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object as one JSON value again. A large one is written into a text of its size: one that grows would be in
    /// memory twice.
    pub fn to_json(&self) -> Json {
        let room = 2 + self.0.iter().map(|(name, value)| name.len() + value.get().len() + 4).sum::<usize>();
        if room < LARGE_BYTES {
            return Json::of(self);
        }
        let mut text = Vec::with_capacity(room);
        let written = serde_json::to_writer(&mut text, self);
        debug_assert!(written.is_ok());
        let text = String::from_utf8(text).unwrap_or_default();
        Json::of_text(text).unwrap_or_else(|| Json::from(RawValue::NULL))
    }
}

/// Above how many bytes an object counts as large.
const LARGE_BYTES: usize = 1_000_000;

/// How deep an object may be nested that the hub or its database reads: SQLite's JSON ends at 1,000 levels.
const MAX_DEPTH: usize = 500;

/// Whether a JSON text has more levels of objects and arrays than this.
fn is_deeper(text: &str, limit: usize) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    text.bytes().any(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > limit
    })
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
    fn numbers_beyond_two_to_the_53_and_key_order_survive() {
        let text = r#"{"z":12345678901234567890.10,"a":1e400,"__proto__":{"b":1}}"#;
        let json = Json::parse(text).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
    }

    #[test]
    fn setting_a_member_leaves_the_others_as_they_were_written() {
        let name = Json::parse("\"new\"").unwrap();
        let mut object = JsonObject::parse(r#"{"z":1.0, "name":"old","big":90071992547409931}"#).unwrap();
        object.set("name", &name.0);
        assert_eq!(object.to_json().text(), r#"{"z":1.0,"name":"new","big":90071992547409931}"#);
        object.set("extra", &name.0);
        assert!(object.to_json().text().ends_with(r#","extra":"new"}"#));
    }

    #[test]
    fn a_string_is_unescaped_as_serde_does_it() {
        let plain =
            ["\"\"", r#""a""#, r#""\"\\\/\b\f\n\r\t""#, r#""a\u00fcb\ud83d\ude00c\u0000d""#, "\"ü\u{1f600}\\n\""];
        let odd = [r#""\ud83d""#, r#""\ud83dx""#, r#""\ude00""#, r#""\ud83d\u0041""#, "7", "{}", "null"];
        for json in plain.into_iter().chain(odd) {
            assert_eq!(unescaped(json), serde_json::from_str::<String>(json).ok(), "{json}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_was_escaped_is_unescaped_again(text: String) {
            proptest::prop_assert_eq!(unescaped(&serde_json::to_string(&text).unwrap()), Some(text));
        }
    }

    #[test]
    fn nesting_is_counted_outside_of_texts() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_deeper(&nested(501), 500) && !is_deeper(&nested(500), 500));
        assert!(!is_deeper(r#"["[[\\\"[[", {"a]":[]}]"#, 3) && is_deeper(r#"["[[\\\"[[", {"a]":[]}]"#, 2));
        assert!(!is_deeper(r#"[[], [], ["\\"], []]"#, 2), "siblings are no levels");
    }

    #[test]
    fn anything_but_an_object_is_not_split_into_members() {
        for text in ["[]", "1", "null", "\"x\"", "{", ""] {
            assert!(JsonObject::parse(text).is_none(), "{text}");
        }
    }
}
