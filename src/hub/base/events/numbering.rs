//! Numbers, ids and frames of events.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::hub::base::peers::subscription::Format;
use crate::model::namespace::Namespace;
use crate::model::text_parts::TextParts;

/// Allocates the numbers of a namespace's events.
///
/// A number is the Unix time in microseconds, or the last number plus one if that is greater. The numbers of a batch are
/// reserved before its commit, then published or withdrawn. The id of an event is `<hash of the namespace>-<number>`.
#[derive(Debug)]
pub struct EventNumbers {
    id_prefix: String,
    last_allocated: u64,
    last_reserved: u64,
    last_published: u64,
}

impl EventNumbers {
    /// `now` is in Unix milliseconds, here and below.
    pub fn new(namespace: &Namespace, now: u64) -> Self {
        let digest = Sha256::digest(namespace.as_ref().as_bytes());
        let id_prefix = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let last = now * 1000;
        Self { id_prefix, last_allocated: last, last_reserved: last, last_published: last }
    }

    /// Sets the number of the last published event. Numbers continue after it.
    pub fn continue_after(&mut self, number: u64) {
        self.last_allocated = self.last_allocated.max(number);
        (self.last_reserved, self.last_published) = (number, number);
    }

    /// Allocates a number that no event gets: for an update to CLIs, a message, or the end of a log.
    pub fn allocate(&mut self, now: u64) -> u64 {
        self.last_allocated = (self.last_allocated + 1).max(now * 1000);
        self.last_allocated
    }

    /// Reserves the numbers of the events of a batch.
    pub fn reserve(&mut self, events: usize, now: u64) -> Range<u64> {
        let first = (self.last_allocated + 1).max(now * 1000);
        let end = first + events as u64;
        if events > 0 {
            (self.last_allocated, self.last_reserved) = (end - 1, end - 1);
        }
        first..end
    }

    /// Marks the reserved numbers up to this one as published.
    pub fn set_published(&mut self, number: u64) {
        self.last_published = number;
    }

    /// Drops the reserved numbers that were not published. They are not allocated again.
    pub fn withdraw(&mut self) {
        self.last_reserved = self.last_published;
    }

    pub fn last_published(&self) -> u64 {
        self.last_published
    }

    /// The last reserved number; that of the last published event when none is reserved.
    pub fn last_reserved(&self) -> u64 {
        self.last_reserved
    }

    /// Parses an event id; `None` when it is malformed or of another namespace.
    pub fn parse_id(&self, id: &str) -> Option<u64> {
        id.strip_prefix(self.id_prefix.as_str())?.strip_prefix('-')?.parse().ok()
    }

    /// The frame of an event. Its body must be a JSON object with at least one field.
    pub fn frame(&self, format: Format, number: u64, body: &TextParts) -> String {
        let prefix = &self.id_prefix;
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

/// The frame of an event without a number: a client that resumes continues after the event before it.
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

    fn numbers_of(namespace: &str) -> EventNumbers {
        EventNumbers::new(&Namespace::parse(namespace).unwrap(), 1_000)
    }

    #[test]
    fn withdrawn_numbers_are_not_allocated_again() {
        let mut numbers = numbers_of("a");
        let reserved = numbers.reserve(2, 1_000);
        numbers.set_published(reserved.start);
        numbers.withdraw();
        assert_eq!((numbers.last_published(), numbers.last_reserved()), (reserved.start, reserved.start));
        assert_eq!(numbers.reserve(1, 1_000).start, reserved.end);
    }

    #[test]
    fn frames_of_both_formats_contain_the_id() {
        let numbers = numbers_of("a");
        let prefix = &numbers.id_prefix;
        let text = r#"{"type":"x","data":{}}"#;
        let value = TextParts::value(Some(Json::parse("{}").unwrap()));
        for body in
            [TextParts::from(text.to_owned()), value.insert_into(r#"{"type":"x","data":null}"#, r#""data":null"#)]
        {
            let json = format!(r#"{{"eventId":"{prefix}-7","type":"x","data":{{}}}}"#);
            assert_eq!(numbers.frame(Format::Json, 7, &body), json);
            assert_eq!(numbers.frame(Format::Sse, 7, &body), format!("id: {prefix}-7\ndata: {text}\n\n"));
        }
    }
}
