//! Frames of which a versioned value is a part. They are put together when they are sent: till then the value is in memory
//! once, however many are to hear of it.

use crate::model::json::Json;
use crate::model::large::Field;

/// A text in pieces.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Text(Vec<Piece>);

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Own(String),
    Value(Json),
    /// A large value, which is noted in the journal, too.
    Large(Json),
    /// A large object without its closing brace.
    Open(Json),
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(vec![Piece::Own(text)])
    }
}

impl Text {
    /// A value, or null.
    pub fn of(value: Option<Json>) -> Self {
        value.map_or_else(|| Self::from("null".to_owned()), |value| Self(vec![Piece::Value(value)]))
    }

    /// A value that is kept: a large one is noted in the journal, too, and weighs nothing here.
    pub fn kept(field: Field, value: Option<Json>) -> Self {
        match value {
            Some(value) if field.is_large(&value) => Self(vec![Piece::Large(value)]),
            value => Self::of(value),
        }
    }

    /// A large object with a further member at its end.
    pub fn with_member(object: Json, name: &str, value: &Json) -> Self {
        let is_empty = object.text().strip_suffix('}').is_none_or(|open| open.trim_end().ends_with('{'));
        let comma = if is_empty { "" } else { "," };
        let member = format!(r#"{comma}"{name}":{}}}"#, value.text());
        Self(vec![Piece::Open(object), Piece::Own(member)])
    }

    /// A frame with this text in the place of the null that ends the first `hole` in it.
    pub fn within(self, frame: &str, hole: &str) -> Self {
        let Some((before, after)) = frame.split_once(hole) else { return Self::from(frame.to_owned()) };
        let before = format!("{before}{}", hole.strip_suffix("null").unwrap_or(hole));
        let mut pieces = vec![Piece::Own(before)];
        pieces.extend(self.0);
        pieces.push(Piece::Own(after.to_owned()));
        Self(pieces)
    }

    fn pieces(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|piece| match piece {
            Piece::Own(text) => text,
            Piece::Value(json) | Piece::Large(json) => json.text(),
            Piece::Open(json) => json.text().strip_suffix('}').unwrap_or_default(),
        })
    }

    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.pieces().map(str::len).sum()
    }

    /// The text put together.
    pub fn put_together(&self) -> String {
        let mut text = String::with_capacity(self.length());
        self.pieces().for_each(|piece| text.push_str(piece));
        text
    }

    /// How many bytes of memory it holds. What is noted in the journal counts there.
    pub fn bytes(&self) -> usize {
        let bytes = |piece: &Piece| match piece {
            Piece::Own(text) => text.len(),
            Piece::Value(json) => json.text().len(),
            Piece::Large(_) | Piece::Open(_) => 0,
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
    fn a_value_stands_where_the_frame_had_null() {
        let frame = r#"42["update",{"id":"\"value\":null","metadata":{"value":null},"agentState":null}]"#;
        let text = Text::of(Some(json(r#"{"a":1}"#))).within(frame, r#""value":null"#);
        assert_eq!(
            text.put_together(),
            r#"42["update",{"id":"\"value\":null","metadata":{"value":{"a":1}},"agentState":null}]"#
        );
        assert_eq!(Text::of(None).within(r#"["value":null]"#, r#""value":null"#).put_together(), r#"["value":null]"#);
    }

    #[test]
    fn a_member_comes_to_the_end_of_an_object_empty_or_not() {
        let with = |object: &str| Text::with_member(json(object), "n", &json("[1]")).put_together();
        assert_eq!(
            [with("{}"), with("{ \n }"), with(r#"{"a":{} }"#)].map(|text| text.replace(char::is_whitespace, "")),
            [r#"{"n":[1]}"#, r#"{"n":[1]}"#, r#"{"a":{},"n":[1]}"#]
        );
    }

    #[test]
    fn what_counts_in_the_journal_does_not_count_twice() {
        let bytes = |value: &str| {
            let text = Text::kept(Field::AgentState, Some(json(value))).within("[null]", "null");
            (text.bytes(), text.length())
        };
        let large = format!("\"{}\"", "x".repeat(1_000_000));
        assert_eq!((bytes("[12]"), bytes(&large)), ((6, 6), (2, 1_000_004)));
    }
}
