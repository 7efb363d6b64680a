//! Texts that are concatenated when they are sent or stored: until then, several texts share the opaque JSON value inside them.

use super::json::Json;
use super::large::VersionedField;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TextParts(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Value(Json),
    /// A value that the write queue also holds. The write queue counts its bytes.
    QueuedValue(Json),
    /// An object that the write queue also holds and counts, without its closing brace.
    QueuedObjectStart(Json),
}

impl From<String> for TextParts {
    fn from(text: String) -> Self {
        Self(vec![Part::Text(text)])
    }
}

impl TextParts {
    /// Creates the parts of a value; `None` is null.
    pub fn value(value: Option<Json>) -> Self {
        value.map_or_else(|| Self::from("null".to_owned()), |value| Self(vec![Part::Value(value)]))
    }

    /// Creates the parts of a value that was also added to the write queue, which counts the bytes of large values.
    pub fn queued_value(field: VersionedField, value: Option<Json>) -> Self {
        match value {
            Some(value) if field.is_large(&value) => Self(vec![Part::QueuedValue(value)]),
            value => Self::value(value),
        }
    }

    /// Creates the parts of a large object with one more member at its end. The write queue also has the object.
    pub fn queued_object_with(object: Json, name: &str, value: &Json) -> Self {
        let is_empty = object.text().strip_suffix('}').is_none_or(|start| start.trim_end().ends_with('{'));
        let comma = if is_empty { "" } else { "," };
        let member = format!(r#"{comma}"{name}":{}}}"#, value.text());
        Self(vec![Part::QueuedObjectStart(object), Part::Text(member)])
    }

    /// Inserts these parts into a text, in place of the `null` at the end of the first `placeholder`.
    pub fn insert_into(self, text: &str, placeholder: &str) -> Self {
        let Some((before, after)) = text.split_once(placeholder) else { return Self::from(text.to_owned()) };
        let before = format!("{before}{}", placeholder.strip_suffix("null").unwrap_or(placeholder));
        let mut parts = vec![Part::Text(before)];
        parts.extend(self.0);
        parts.push(Part::Text(after.to_owned()));
        Self(parts)
    }

    /// Appends the text, which is JSON, with spaces in place of line breaks. Valid JSON has line breaks only between tokens.
    pub fn push_single_line(&self, line: &mut String) {
        for text in self.texts() {
            // Searches bytes first, because searching characters takes several times as long.
            match text.bytes().any(|byte| matches!(byte, b'\n' | b'\r')) {
                true => line.extend(text.split(['\n', '\r']).flat_map(|part| [" ", part]).skip(1)),
                false => line.push_str(text),
            }
        }
    }

    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|part| match part {
            Part::Text(text) => text,
            Part::Value(json) | Part::QueuedValue(json) => json.text(),
            Part::QueuedObjectStart(json) => json.text().strip_suffix('}').unwrap_or_default(),
        })
    }

    /// Returns the length of the concatenated text, in bytes.
    pub fn text_bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }

    pub fn concat(&self) -> String {
        let mut text = String::with_capacity(self.text_bytes());
        self.texts().for_each(|part| text.push_str(part));
        text
    }

    /// Returns the bytes in memory, without the bytes that the write queue counts.
    pub fn memory_bytes(&self) -> usize {
        let bytes = |part: &Part| match part {
            Part::Text(text) => text.len(),
            Part::Value(json) => json.text().len(),
            Part::QueuedValue(_) | Part::QueuedObjectStart(_) => 0,
        };
        self.0.iter().map(bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn a_member_is_added_to_an_object_with_or_without_members() {
        let with = |object: &str| TextParts::queued_object_with(json(object), "n", &json("[1]")).concat();
        assert_eq!(
            [with("{}"), with("{ \n }"), with(r#"{"a":{} }"#)].map(|text| text.replace(char::is_whitespace, "")),
            [r#"{"n":[1]}"#, r#"{"n":[1]}"#, r#"{"a":{},"n":[1]}"#]
        );
    }

    #[test]
    fn bytes_that_the_write_queue_counts_are_not_counted_again() {
        let bytes = |value: &str| {
            let parts = TextParts::queued_value(VersionedField::AgentState, Some(json(value)));
            let parts = parts.insert_into("[null]", "null");
            (parts.memory_bytes(), parts.text_bytes())
        };
        let large = format!("\"{}\"", "x".repeat(1_000_000));
        assert_eq!((bytes("[12]"), bytes(&large)), ((6, 6), (2, 1_000_004)));
    }
}
