//! The fields that the hub reads in messages of agents. Agents write many formats, so every field is optional and of any type.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The fields of an object in a message: the message itself, a record `{role, content}`, an object with a `type`, or a
/// to-do entry. One type for all of them, because each type adds its own parser to the wasm module. A field that is
/// `null` is absent.
#[derive(Deserialize)]
pub struct Fields<'a> {
    #[serde(borrow)]
    pub role: Option<&'a RawValue>,
    pub content: Option<&'a RawValue>,
    #[serde(rename = "type")]
    pub kind: Option<&'a RawValue>,
    pub data: Option<&'a RawValue>,
    pub message: Option<&'a RawValue>,
    pub payload: Option<&'a RawValue>,
    pub name: Option<&'a RawValue>,
    pub input: Option<&'a RawValue>,
    pub entries: Option<&'a RawValue>,
    pub todos: Option<&'a RawValue>,
    pub id: Option<&'a RawValue>,
    pub status: Option<&'a RawValue>,
    pub priority: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    /// Parses a JSON object. The derived parser would also accept an array, as positional fields.
    pub fn parse(json: &'a str) -> Option<Self> {
        let is_object = json.trim_ascii_start().starts_with('{');
        is_object.then(|| serde_json::from_str(json).ok()).flatten()
    }
}
