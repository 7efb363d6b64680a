//! Ids and frames of events.

use sha2::{Digest, Sha256};

use crate::hub::core::peers::subscription::Format;
use crate::model::namespace::Namespace;
use crate::model::text_parts::TextParts;

/// Makes and parses the ids of a namespace's events. An id is `<hash of the namespace>-<number>`.
#[derive(Debug)]
pub struct EventIds {
    prefix: String,
}

impl EventIds {
    pub fn new(namespace: &Namespace) -> Self {
        let digest = Sha256::digest(namespace.as_str());
        Self { prefix: digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect() }
    }

    /// Parses an event id; `None` when it is malformed or of another namespace.
    pub fn parse(&self, id: &str) -> Option<u64> {
        id.strip_prefix(self.prefix.as_str())?.strip_prefix('-')?.parse().ok()
    }

    /// Returns the frame of an event. The body must be a JSON object with at least one field.
    pub fn frame(&self, format: Format, number: u64, body: &TextParts) -> String {
        let prefix = &self.prefix;
        let start = match format {
            Format::Json => format!(r#"{{"eventId":"{prefix}-{number}","#),
            Format::Sse => format!("id: {prefix}-{number}\ndata: "),
        };
        let mut frame = String::with_capacity(start.len() + body.text_bytes() + 2);
        frame.push_str(&start);
        match format {
            Format::Json => {
                let mut texts = body.texts();
                let first = texts.next().unwrap_or_default();
                frame.push_str(first.strip_prefix('{').unwrap_or(first));
                texts.for_each(|text| frame.push_str(text));
            }
            Format::Sse => {
                body.push_single_line(&mut frame);
                frame.push_str("\n\n");
            }
        }
        frame
    }
}

/// Returns the frame of an event without an id. A client that disconnects after this frame resumes from the last id that it received.
pub fn frame_without_id(format: Format, body: &str) -> String {
    match format {
        Format::Json => body.to_owned(),
        Format::Sse => format!("data: {body}\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::json::Json;

    #[test]
    fn frames_of_both_formats_contain_the_id() {
        let ids = EventIds::new(&Namespace::parse("a").unwrap());
        let prefix = &ids.prefix;
        let text = r#"{"type":"x","data":{}}"#;
        let value = TextParts::value(Some(Json::parse("{}").unwrap()));
        for body in
            [TextParts::from(text.to_owned()), value.insert_into(r#"{"type":"x","data":null}"#, r#""data":null"#)]
        {
            let json = format!(r#"{{"eventId":"{prefix}-7","type":"x","data":{{}}}}"#);
            assert_eq!(ids.frame(Format::Json, 7, &body), json);
            assert_eq!(ids.frame(Format::Sse, 7, &body), format!("id: {prefix}-7\ndata: {text}\n\n"));
        }
    }
}
