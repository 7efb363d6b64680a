//! Events on their way to web clients: numbers, ids and frames.
//!
//! Numbers grow with the clock (microseconds by scale). Those of events are reserved before the events' changes are
//! committed, and told after. An id also carries a mark of its namespace and is worth nothing in another.

use std::borrow::Cow;
use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::hub::peers::subscription::Format;
use crate::model::namespace::Namespace;

/// The numbers of a namespace's events.
#[derive(Debug)]
pub struct Fanout {
    mark: String,
    /// The last number of all.
    last: u64,
    /// The last number that was reserved for an event.
    reserved: u64,
    /// The number of the last event that was told.
    told: u64,
}

impl Fanout {
    /// A namespace in which no event was told yet.
    pub fn new(namespace: &Namespace, now: u64) -> Self {
        let digest = Sha256::digest(namespace.as_ref().as_bytes());
        let mark = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let last = now * 1000;
        Self { mark, last, reserved: last, told: last }
    }

    /// Goes on after this number, which stands for an event that was told.
    pub fn go_on_after(&mut self, number: u64) {
        self.last = self.last.max(number);
        (self.reserved, self.told) = (number, number);
    }

    /// A number above all given before.
    pub fn number(&mut self, now: u64) -> u64 {
        self.last = (self.last + 1).max(now * 1000);
        self.last
    }

    /// Numbers for events, above all given before.
    pub fn reserve(&mut self, events: usize, now: u64) -> Range<u64> {
        let first = (self.last + 1).max(now * 1000);
        let end = first + events as u64;
        if events > 0 {
            (self.last, self.reserved) = (end - 1, end - 1);
        }
        first..end
    }

    /// The events up to this number are told.
    pub fn tell(&mut self, number: u64) {
        self.told = number;
    }

    /// The numbers that are reserved stay free: their events never happened.
    pub fn withdraw(&mut self) {
        self.reserved = self.told;
    }

    /// The number of the last event that was told.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// The last number that was reserved for an event; the last event's own when all are told.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The number of the event with this id; none when it is no id of this namespace.
    pub fn number_of(&self, id: &str) -> Option<u64> {
        id.strip_prefix(self.mark.as_str())?.strip_prefix('-')?.parse().ok()
    }

    /// An event's body as a frame of the subscriber's format. The body is a JSON object with at least one member.
    pub fn frame(&self, format: Format, number: u64, body: &str) -> String {
        let mark = &self.mark;
        match format {
            Format::Json => {
                let members = body.strip_prefix('{').unwrap_or(body);
                format!(r#"{{"eventId":"{mark}-{number}",{members}"#)
            }
            Format::Sse => format!("id: {mark}-{number}\ndata: {}\n\n", one_line(body)),
        }
    }
}

/// JSON on one line: in valid JSON a line break stands only between tokens (opaque parts keep theirs), where a space says
/// the same.
pub fn one_line(json: &str) -> Cow<'_, str> {
    // Byte by byte: a text of many kilobytes is looked through in a fraction of the time that its characters take.
    match json.bytes().any(|byte| matches!(byte, b'\n' | b'\r')) {
        true => Cow::Owned(json.replace(['\n', '\r'], " ")),
        false => Cow::Borrowed(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fanout(namespace: &str) -> Fanout {
        Fanout::new(&Namespace::parse(namespace).unwrap(), 1_000)
    }

    #[test]
    fn numbers_grow_even_when_the_clock_stands_or_goes_back() {
        let mut fanout = fanout("a");
        let mut numbers = vec![fanout.number(1_000), fanout.number(1_000)];
        numbers.extend(fanout.reserve(2, 1_000));
        numbers.push(fanout.number(900));
        numbers.extend(fanout.reserve(0, 900));
        numbers.extend(fanout.reserve(3, 900));
        numbers.extend(fanout.reserve(1, 2_000));
        assert_eq!(numbers.len(), 9);
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }

    #[test]
    fn numbers_go_on_where_they_were_although_the_clock_went_back() {
        let mut fanout = fanout("a");
        fanout.go_on_after(5_000_000);
        assert_eq!((fanout.told(), fanout.reserved()), (5_000_000, 5_000_000));
        assert_eq!(fanout.reserve(2, 1_000), 5_000_001..5_000_003);
        assert_eq!((fanout.told(), fanout.reserved()), (5_000_000, 5_000_002));
    }

    #[test]
    fn what_is_reserved_is_told_or_withdrawn() {
        let mut fanout = fanout("a");
        let numbers = fanout.reserve(2, 1_000);
        fanout.tell(numbers.start);
        fanout.withdraw();
        assert_eq!((fanout.told(), fanout.reserved()), (numbers.start, numbers.start));
        assert_eq!(fanout.reserve(1, 1_000).start, numbers.end, "no number is given twice");
    }

    #[test]
    fn an_id_is_worth_something_in_its_namespace_only() {
        let (a, b) = (fanout("a"), fanout("b"));
        let id = format!("{}-7", a.mark);
        assert_eq!(a.number_of(&id), Some(7));
        assert_eq!(b.number_of(&id), None);
        for odd in ["", "7", "-7", "x-1", &a.mark, &format!("{}-", a.mark), &format!("{}-x", a.mark), "'; --"] {
            assert_eq!(a.number_of(odd), None, "{odd}");
        }
    }

    #[test]
    fn line_breaks_in_opaque_json_do_not_end_an_sse_event() {
        let frame = fanout("a").frame(Format::Sse, 7, "{\"a\":{\n\r\n  \"b\": 1\n}}");
        assert_eq!(frame.matches('\n').count(), 3, "{frame}");
        assert!(frame.ends_with("data: {\"a\":{     \"b\": 1 }}\n\n"), "{frame}");
    }

    #[test]
    fn frames_carry_the_id_in_both_formats() {
        let fanout = fanout("a");
        let mark = fanout.mark.clone();
        assert_eq!(fanout.frame(Format::Json, 7, r#"{"type":"x"}"#), format!(r#"{{"eventId":"{mark}-7","type":"x"}}"#));
        assert_eq!(
            fanout.frame(Format::Sse, 7, r#"{"type":"x"}"#),
            format!("id: {mark}-7\ndata: {{\"type\":\"x\"}}\n\n")
        );
    }
}
