//! The text of an [`EventsRow`](super::events::EventsRow): one line for each event, with its number, its audience, and its
//! body, separated by tabs. The audience is a letter and an id as JSON. The line of a message has a reference to the row of the
//! message instead: the letter `r` with the id of the session, and the seq. It is resolved when the rows are loaded.
//!
//! Letters: `s` subscribers of the session and of everything, `c` of the session only, `m` of the machine and of everything, `r` a
//! reference to a message.

use std::fmt::Write as _;

use crate::model::event::{Audience, Event};
use crate::model::text_parts::TextParts;

/// The session and the seq of a message.
pub type MessageKey = (String, u64);

/// The id of no session, as JSON.
const NO_SESSION: &str = "\"\"";

/// Appends the line of an event.
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
/// receives, so that its number stays in the log.
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

/// Decodes the line of a reference to the number, the session as JSON, and the message.
fn decode_reference(line: &str) -> Option<(&str, &str, MessageKey)> {
    let (number, rest) = line.split_once('\t')?;
    let (session, seq) = rest.strip_prefix('r')?.split_once('\t')?;
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
    fn references_become_events_and_those_to_deleted_messages_become_events_of_no_session() {
        let text = format!("{}\n2\tm\"a\"\t{{}}\n{}\n", encode_reference(1, "s\t1", 7), encode_reference(3, "gone", 8));
        assert_eq!(references(&text).collect::<Vec<_>>(), [("s\t1".to_owned(), 7), ("gone".to_owned(), 8)]);
        let resolved = resolve_references(&text, |(session, seq)| (session != "gone").then(|| format!("[{seq}]")));
        assert_eq!(resolved, "1\tc\"s\\t1\"\t[7]\n2\tm\"a\"\t{}\n3\tc\"\"\t{}\n");
        assert_eq!(decode(&resolved).map(|events| events.len()), Some(3));
    }
}
