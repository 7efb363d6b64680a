//! Events on their way to web clients: numbering, the log that a returning client replays, and frames.
//!
//! Event numbers grow with the clock (microseconds by scale), so they go on growing after a restart without being
//! stored; an id also carries a mark of its namespace and is worth nothing in another.

use std::collections::VecDeque;

use sha2::{Digest, Sha256};

use super::connections::{Format, Subscription};
use crate::model::event::Event;
use crate::model::namespace::Namespace;

/// How many events the log holds at most.
const MAX_EVENTS: usize = 1_000;
/// How many bytes of events the log holds at most.
const MAX_BYTES: usize = 2_000_000;

/// What a returning client gets.
#[derive(Debug, PartialEq)]
pub enum Replay<'a> {
    /// All that it missed, from the event after `from`.
    Held { from: u64, missed: Vec<(u64, &'a Event)> },
    /// What it missed is no longer held: it must fetch again. Live events go on after `from`.
    Gap { from: u64 },
}

/// The numbered log of a namespace's events.
#[derive(Debug)]
pub struct Fanout {
    mark: String,
    last: u64,
    /// Events up to this number are not in the log.
    floor: u64,
    log: VecDeque<(u64, Event)>,
    bytes: usize,
}

impl Fanout {
    /// An empty log.
    pub fn new(namespace: &Namespace, now: u64) -> Self {
        let digest = Sha256::digest(namespace.as_ref().as_bytes());
        let mark = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let last = now * 1000;
        Self { mark, last, floor: last, log: VecDeque::new(), bytes: 0 }
    }

    /// A number above all given before.
    pub fn number(&mut self, now: u64) -> u64 {
        self.last = (self.last + 1).max(now * 1000);
        self.last
    }

    /// The number given last.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Numbers an event and keeps it for those who come back.
    pub fn publish(&mut self, event: Event, now: u64) -> u64 {
        let number = self.number(now);
        self.bytes += event.body.len();
        self.log.push_back((number, event));
        while self.log.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some((number, event)) = self.log.pop_front() else { break };
            self.bytes -= event.body.len();
            self.floor = number;
        }
        number
    }

    /// Whoever comes back with the id of an event before the number that this answers is told of a gap.
    pub fn lose(&mut self, now: u64) -> u64 {
        self.log.clear();
        self.bytes = 0;
        self.floor = self.number(now);
        self.floor
    }

    /// What a subscriber missed since the event id that it heard last.
    pub fn replay(&self, last_event_id: Option<&str>, subscription: &Subscription) -> Replay<'_> {
        let Some(id) = last_event_id else { return Replay::Held { from: self.last, missed: Vec::new() } };
        let number = id.strip_prefix(self.mark.as_str()).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
        match number {
            Some(from) if (self.floor..=self.last).contains(&from) => {
                let after = self.log.iter().filter(|(number, _)| *number > from);
                let heard = after.filter(|(_, event)| subscription.hears(&event.audience));
                Replay::Held { from, missed: heard.map(|(number, event)| (*number, event)).collect() }
            }
            _ => Replay::Gap { from: self.last },
        }
    }

    /// An event's body as a frame of the subscriber's format. The body is a JSON object with at least one member.
    pub fn frame(&self, format: Format, number: u64, body: &str) -> String {
        let mark = &self.mark;
        match format {
            Format::Json => {
                let members = body.strip_prefix('{').unwrap_or(body);
                format!(r#"{{"eventId":"{mark}-{number}",{members}"#)
            }
            // In valid JSON a line break stands only between tokens (opaque parts keep theirs), where a space says the same.
            Format::Sse => format!("id: {mark}-{number}\ndata: {}\n\n", body.replace(['\n', '\r'], " ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Audience;

    fn event(session: &str, size: usize) -> Event {
        Event { audience: Audience::Session(session.into()), body: format!("{{{}}}", "x".repeat(size)) }
    }

    fn of_session(id: &str) -> Subscription {
        Subscription { session: Some(id.into()), ..Default::default() }
    }

    fn fanout(namespace: &str) -> Fanout {
        Fanout::new(&Namespace::parse(namespace).unwrap(), 1_000)
    }

    fn id(fanout: &Fanout, number: u64) -> String {
        format!("{}-{number}", fanout.mark)
    }

    #[test]
    fn numbers_grow_even_when_the_clock_stands_or_goes_back() {
        let mut fanout = fanout("a");
        let numbers = [fanout.number(1_000), fanout.number(1_000), fanout.number(900), fanout.number(2_000)];
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }

    #[test]
    fn a_returning_client_gets_what_it_missed_in_order_and_only_what_concerns_it() {
        let mut fanout = fanout("a");
        let heard = fanout.publish(event("s", 1), 1_001);
        let missed = [
            fanout.publish(event("s", 2), 1_002),
            fanout.publish(event("t", 3), 1_002),
            fanout.publish(event("s", 4), 1_003),
        ];
        let Replay::Held { from, missed: got } = fanout.replay(Some(&id(&fanout, heard)), &of_session("s")) else {
            panic!()
        };
        assert_eq!(from, heard);
        assert_eq!(got.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [missed[0], missed[2]]);
    }

    #[test]
    fn an_id_that_is_no_longer_held_or_of_another_namespace_is_a_gap() {
        let mut fanout = fanout("a");
        let first = fanout.publish(event("s", 1), 1_001);
        for _ in 0..MAX_EVENTS + 1 {
            fanout.publish(event("s", 1), 1_001);
        }
        let other = Fanout::new(&Namespace::parse("b").unwrap(), 1_000);
        for odd in
            [id(&fanout, first), id(&other, fanout.last()), id(&fanout, fanout.last() + 1), String::new(), "x-1".into()]
        {
            assert!(matches!(fanout.replay(Some(&odd), &of_session("s")), Replay::Gap { .. }), "{odd}");
        }
    }

    #[test]
    fn the_log_is_bounded_by_its_bytes() {
        let mut fanout = fanout("a");
        for _ in 0..10 {
            fanout.publish(event("s", MAX_BYTES / 4), 1_001);
        }
        assert!(fanout.bytes <= MAX_BYTES && fanout.log.len() == 3);
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
