//! The text of an [`EventsRow`](super::events::EventsRow): one line for each event. A line has three columns, separated by
//! tabs:
//!
//! ```text
//! <number of the event> TAB <letter><id as JSON>           TAB <body>
//! <number of the event> TAB r<id of the session, as JSON>  TAB <seq of the message>
//! ```
//!
//! The letter and the id are the [`Audience`]. The letter is `s` for `Session`, `c` for `SessionOnly`, `m` for `Machine`. The
//! second form is a reference to the row of a message, and is replaced by the event of the message when the rows are loaded.

use std::fmt::Write as _;

use crate::model::event::{Audience, Event};
use crate::model::text_parts::TextParts;

pub type MessageKey = (String, u64);

/// An empty id, as JSON. No session has this id, so no client receives the event.
const NO_SESSION: &str = "\"\"";

pub fn push(text: &mut String, number: u64, event: &Event) {
    let (kind, id) = match &event.audience {
        Audience::Session(id) => ('s', id),
        Audience::SessionOnly(id) => ('c', id),
        Audience::Machine(id) => ('m', id),
    };
    if let Some(seq) = event.message_seq {
        text.push_str(&encode_reference(number, id, seq));
    } else {
        // JSON escapes the tabs and line breaks that an id may contain.
        let id = serde_json::to_string(id).unwrap_or_default();
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{number}\t{kind}{id}\t");
        event.body.push_single_line(text);
    }
    text.push('\n');
}

/// Decodes the events of a text without references; `None` if it is malformed.
pub fn decode(text: &str) -> Option<Vec<(u64, Event)>> {
    text.lines().map(decode_line).collect()
}

fn decode_line(line: &str) -> Option<(u64, Event)> {
    let mut parts = line.splitn(3, '\t');
    let (number, audience, body) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (kind, id) = audience.split_at_checked(1)?;
    let id = serde_json::from_str(id).ok()?;
    let audience = match kind {
        "s" => Audience::Session(id),
        "c" => Audience::SessionOnly(id),
        "m" => Audience::Machine(id),
        _ => return None,
    };
    Some((number, Event { audience, body: TextParts::from(body.to_owned()), message_seq: None }))
}

/// Encodes a reference to a message as a line, without its line break.
fn encode_reference(number: u64, session: &str, seq: u64) -> String {
    format!("{number}\tr{}\t{seq}", serde_json::Value::from(session))
}

/// Returns the messages to which a text refers.
pub fn references(text: &str) -> impl Iterator<Item = MessageKey> {
    text.lines().filter_map(decode_reference).map(|(_, _, message)| message)
}

/// Replaces references by the events that `find` returns. If `find` returns `None`, replaces the reference by an event that no client
/// receives, so that the number of the event stays in the log.
pub fn resolve_references(text: &str, mut find: impl FnMut(&MessageKey) -> Option<String>) -> String {
    let mut resolved = String::with_capacity(text.len());
    for line in text.lines() {
        match decode_reference(line) {
            Some((number, session, message)) => {
                let event = find(&message);
                let (session, event) = event.as_ref().map_or((NO_SESSION, "{}"), |event| (session, event));
                [number, "\tc", session, "\t", event].into_iter().for_each(|part| resolved.push_str(part));
            }
            None => resolved.push_str(line),
        }
        resolved.push('\n');
    }
    resolved
}

/// Decodes a reference: the number of the event, the id of the session as JSON, and the message. `None` for any other line.
fn decode_reference(line: &str) -> Option<(&str, &str, MessageKey)> {
    let (number, reference) = line.split_once('\t')?;
    let (session, seq) = reference.strip_prefix('r')?.split_once('\t')?;
    Some((number, session, (serde_json::from_str(session).ok()?, seq.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_texts_are_not_decoded() {
        for malformed in ["x", "1\ts\"a\"", "\ts\"a\"\t{}", "1\tx\"a\"\t{}", "1\tsa\t{}", "1\t\t{}", "1\tä\"a\"\t{}"] {
            assert_eq!(decode(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn a_reference_becomes_an_event_which_no_client_receives_if_the_message_was_deleted() {
        let text = format!("{}\n2\tm\"a\"\t{{}}\n{}\n", encode_reference(1, "s\t1", 7), encode_reference(3, "gone", 8));
        assert_eq!(references(&text).collect::<Vec<_>>(), [("s\t1".to_owned(), 7), ("gone".to_owned(), 8)]);
        let resolved = resolve_references(&text, |(session, seq)| (session != "gone").then(|| format!("[{seq}]")));
        assert_eq!(resolved, "1\tc\"s\\t1\"\t[7]\n2\tm\"a\"\t{}\n3\tc\"\"\t{}\n");
        assert_eq!(decode(&resolved).map(|events| events.len()), Some(3));
    }
}
