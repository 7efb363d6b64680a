//! Live text: the text of a message that an agent is writing, which its CLI sends in pieces (`message-delta`). Their rate is limited,
//! and the text so far is kept for web clients that connect, but not over a hibernation.

use std::collections::{HashMap, VecDeque};

use crate::hub::core::memory::MemoryReservations;
use crate::model::event::DeltaEvent;
use crate::model::json::unescape_lenient;
use crate::model::message::TextKind;
use crate::wire::cli::{MAX_DELTA_TEXT_BYTES, MessageDelta};

/// How many deltas of a session are sent in a second. Further deltas are dropped.
pub const MAX_DELTAS_PER_SECOND: usize = 50;
/// How many messages of a session have live text at a time.
pub const MAX_LIVE_MESSAGES: usize = 8;
/// The longest kept text of a message, in bytes. The beginning of a longer text is dropped.
pub const MAX_LIVE_TEXT_BYTES: usize = 128 * 1024;
const _: () = assert!(MAX_DELTA_TEXT_BYTES <= MAX_LIVE_TEXT_BYTES);
/// How long a text without deltas is shown to new web clients, and counts in `MAX_LIVE_SESSIONS`, in milliseconds.
pub const LIVE_TEXT_RETENTION_MS: u64 = 30_000;

/// How many bytes of delta text of a session are sent in a second. Further deltas are dropped.
const MAX_DELTA_BYTES_PER_SECOND: usize = 128 * 1024;
/// How many deltas a namespace sends in a second, counted for each web client: the namespaces of an isolate share a thread.
const MAX_SENT_DELTAS_PER_SECOND: usize = 2_000;
/// How many bytes of delta text a namespace sends to web clients in a second, counted for each client.
const MAX_SENT_DELTA_BYTES_PER_SECOND: usize = 4 * 1024 * 1024;
/// How many sessions of a namespace have live text at a time.
const MAX_LIVE_SESSIONS: usize = 1_000;
/// The most bytes of live text that a namespace keeps for web clients that connect.
const MAX_LIVE_BYTES: usize = 1024 * 1024;

/// The live text of a namespace's sessions.
#[derive(Debug, Default)]
pub struct LiveTexts {
    sessions: HashMap<String, LiveText>,
    /// The deltas that were sent to web clients, over all sessions.
    sent: Rate,
}

#[derive(Debug, Default)]
struct LiveText {
    received: Rate,
    /// The messages that are being written, oldest first.
    messages: VecDeque<LiveMessage>,
}

#[derive(Debug, Default)]
struct LiveMessage {
    id: String,
    kind: Option<TextKind>,
    /// When the last delta was received, in Unix milliseconds.
    changed_at: u64,
    /// Where `text` begins in the message, in UTF-16 code units: 0, or later if the beginning is unknown or exceeded a limit.
    start: u64,
    /// Where `text` ends in the message.
    end: u64,
    /// The text so far, without `held_half`.
    text: String,
    /// The first half of a surrogate pair at the end of the text, which is sent with its other half.
    held_half: Option<u16>,
}

/// The deltas and bytes that were counted in the current second.
#[derive(Debug, Default)]
struct Rate {
    /// The start of the second, in Unix milliseconds.
    started_at: u64,
    deltas: usize,
    bytes: usize,
}

impl LiveTexts {
    /// Adds a delta to the text of its message. Returns the offset and text to send; `None` if the delta must be dropped
    /// because the session exceeds its rate. A dropped delta moves the offset of the next one, so that web clients notice the
    /// gap. The first half of a surrogate pair at the end of a delta is sent with the next delta.
    pub fn receive(
        &mut self,
        delta: &MessageDelta,
        now: u64,
        memory_reservations: &mut MemoryReservations,
    ) -> Option<(u64, String)> {
        let live_text = self.entry(&delta.sid, now, memory_reservations)?;
        let bytes_before = live_text.bytes();
        let message = live_text.message(&delta.id)?;
        let capacity_before = message.text.capacity();
        let (start, text) = message.decode(delta)?;
        message.append(start, &text);
        message.changed_at = now;
        let reserved_bytes = memory_reservations.live_texts.bytes();
        let growth = message.text.capacity().saturating_sub(capacity_before);
        if reserved_bytes + growth > MAX_LIVE_BYTES || !memory_reservations.budget.make_room(growth) {
            message.drop_text();
        }
        memory_reservations.live_texts.resize(reserved_bytes + live_text.bytes() - bytes_before);
        let limits = (MAX_DELTAS_PER_SECOND, MAX_DELTA_BYTES_PER_SECOND);
        let is_admitted = live_text.received.admit(now, 1, text.len(), limits);
        is_admitted.then_some((start, text))
    }

    /// Returns the texts so far of a session as encoded deltas, for a web client that connects.
    pub fn texts_so_far(&self, session: &str, now: u64) -> Vec<String> {
        let mut deltas = Vec::new();
        let Some(live_text) = self.sessions.get(session) else { return deltas };
        for LiveMessage { id, kind, changed_at, start, text, .. } in &live_text.messages {
            if changed_at + LIVE_TEXT_RETENTION_MS > now && !text.is_empty() {
                deltas.push(DeltaEvent { session_id: session, id, offset: *start, text, kind: *kind }.encode());
            }
        }
        deltas
    }

    /// Drops the text of a message that is now stored.
    pub fn remove(&mut self, session: &str, id: Option<&str>, memory_reservations: &mut MemoryReservations) {
        let Some(live_text) = self.sessions.get_mut(session) else { return };
        if let Some(message) = live_text.messages.iter_mut().find(|message| Some(&*message.id) == id) {
            memory_reservations.live_texts.release_part(message.text.capacity());
            message.drop_text();
        }
    }

    /// Counts a delta of `bytes` for `web_clients`. Returns false if the delta must not be sent, because the namespace exceeds its rate.
    pub fn admit_send(&mut self, web_clients: usize, bytes: usize, now: u64) -> bool {
        let limits = (MAX_SENT_DELTAS_PER_SECOND, MAX_SENT_DELTA_BYTES_PER_SECOND);
        self.sent.admit(now, web_clients, web_clients * bytes, limits)
    }

    /// Returns the live text of a session; `None` if too many other sessions have live text.
    fn entry(
        &mut self,
        session: &str,
        now: u64,
        memory_reservations: &mut MemoryReservations,
    ) -> Option<&mut LiveText> {
        let is_new = !self.sessions.contains_key(session);
        if is_new || memory_reservations.live_texts.bytes() > MAX_LIVE_BYTES / 2 {
            self.sessions.retain(|_, live_text| live_text.received.started_at + LIVE_TEXT_RETENTION_MS > now);
            memory_reservations.live_texts.resize(self.sessions.values().map(LiveText::bytes).sum());
            if is_new && self.sessions.len() >= MAX_LIVE_SESSIONS {
                return None;
            }
        }
        Some(self.sessions.entry(session.to_owned()).or_default())
    }
}

impl LiveText {
    fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.text.capacity()).sum()
    }

    /// Returns the message with an id. Adds it if it is new; above [`MAX_LIVE_MESSAGES`], drops the oldest message.
    fn message(&mut self, id: &str) -> Option<&mut LiveMessage> {
        let known = self.messages.iter().position(|message| message.id == id);
        let at = known.unwrap_or_else(|| {
            if self.messages.len() >= MAX_LIVE_MESSAGES {
                self.messages.pop_front();
            }
            self.messages.push_back(LiveMessage { id: id.to_owned(), ..LiveMessage::default() });
            self.messages.len() - 1
        });
        self.messages.get_mut(at)
    }
}

impl LiveMessage {
    /// Returns the text of a delta, and where it begins in the message. If half of a surrogate pair was held back before, the
    /// text begins with this half. Without an offset, the delta continues the previous delta of its message.
    fn decode(&mut self, delta: &MessageDelta) -> Option<(u64, String)> {
        let length = self.end + u64::from(self.held_half.is_some());
        let mut start = delta.offset.unwrap_or(length);
        let json = delta.text.text();
        let (text, last_half) = match self.held_half.filter(|_| start == length) {
            Some(held) => {
                start -= 1;
                unescape_lenient(&format!("\"\\u{held:04x}{}", json.strip_prefix('"')?))?
            }
            None => unescape_lenient(json)?,
        };
        self.kind = delta.kind;
        self.held_half = last_half;
        Some((start, text))
    }

    /// Replaces the text from `start` on. Drops text before a gap, and text above the limit.
    fn append(&mut self, start: u64, text: &str) {
        let mut position = self.end;
        if start != position {
            let mut kept_bytes = 0;
            let mut characters = self.text.chars();
            position = self.start;
            while position < start
                && let Some(character) = characters.next()
            {
                position += character.len_utf16() as u64;
                kept_bytes += character.len_utf8();
            }
            self.text.truncate(kept_bytes);
        }
        if position != start || self.text.len() + text.len() > MAX_LIVE_TEXT_BYTES {
            (self.text, self.start) = (String::new(), start);
        }
        self.text.push_str(text);
        self.end = start + text.encode_utf16().count() as u64;
    }

    /// Drops the text and its memory. The text of later deltas is kept.
    fn drop_text(&mut self) {
        (self.text, self.start) = (String::new(), self.end);
    }
}

impl Rate {
    /// Counts deltas, unless one of the `(deltas, bytes)` limits of the current second would be exceeded.
    fn admit(&mut self, now: u64, deltas: usize, bytes: usize, (max_deltas, max_bytes): (usize, usize)) -> bool {
        // The start is in the future if the clock went back.
        if now < self.started_at || now >= self.started_at + 1_000 {
            *self = Self { started_at: now, deltas: 0, bytes: 0 };
        }
        let (deltas, bytes) = (self.deltas + deltas, self.bytes + bytes);
        if deltas > max_deltas || bytes > max_bytes {
            return false;
        }
        (self.deltas, self.bytes) = (deltas, bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory_budget::MemoryBudget;
    use crate::memory_budget::{MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};
    use crate::model::json::Json;

    const NOW: u64 = 1_700_000_000_000;

    fn memory_reservations() -> MemoryReservations {
        MemoryReservations::new(&Arc::<MemoryBudget>::default().namespace_budget("n"))
    }

    fn receive(
        live: &mut LiveTexts,
        (sid, id, offset, text): (&str, &str, Option<u64>, &str),
        now: u64,
        memory: &mut MemoryReservations,
    ) -> Option<(u64, String)> {
        let (sid, id, text) = (sid.to_owned(), id.to_owned(), Json::of(text));
        live.receive(&MessageDelta { sid, id, text, offset, kind: None }, now, memory)
    }

    /// The texts so far of session `s`, with their offsets.
    fn texts(live: &LiveTexts, now: u64) -> Vec<(u64, String)> {
        let deltas = live.texts_so_far("s", now);
        let deltas = deltas.iter().map(|delta| serde_json::from_str::<serde_json::Value>(delta).unwrap());
        deltas.map(|delta| (delta["offset"].as_u64().unwrap(), delta["text"].as_str().unwrap().to_owned())).collect()
    }

    #[test]
    fn a_delta_above_the_rate_of_its_session_is_dropped_and_leaves_a_gap() {
        let (mut live, mut memory) = (LiveTexts::default(), memory_reservations());
        let x = |sid| (sid, "a", None, "x");
        let accepted = (0..=MAX_DELTAS_PER_SECOND).filter_map(|_| receive(&mut live, x("s"), NOW, &mut memory)).count();
        assert_eq!(accepted, MAX_DELTAS_PER_SECOND);
        let other = receive(&mut live, x("t"), NOW, &mut memory);
        assert_eq!(other, Some((0, "x".to_owned())), "another session has its own rate");
        let next = receive(&mut live, x("s"), NOW + 1_000, &mut memory);
        assert_eq!(next, Some((MAX_DELTAS_PER_SECOND as u64 + 1, "x".to_owned())));
        let large = "x".repeat(MAX_DELTA_BYTES_PER_SECOND);
        let large = ("s", "a", Some(0), large.as_str());
        assert_eq!(receive(&mut live, large, NOW + 1_999, &mut memory), None);
        assert!(receive(&mut live, large, NOW + 2_000, &mut memory).is_some());
        let earlier = receive(&mut live, ("s", "a", Some(0), "x"), NOW, &mut memory);
        assert_eq!(earlier, Some((0, "x".to_owned())), "the clock went back");
    }

    #[test]
    fn a_delta_above_the_rate_of_its_namespace_is_not_sent() {
        let mut live = LiveTexts::default();
        assert!(live.admit_send(MAX_SENT_DELTAS_PER_SECOND, 1, NOW));
        assert!(!live.admit_send(1, 1, NOW + 999));
        assert!(live.admit_send(1, MAX_SENT_DELTA_BYTES_PER_SECOND, NOW + 1_000));
        assert!(!live.admit_send(1, 1, NOW + 1_000));
    }

    #[test]
    fn idle_sessions_and_old_messages_are_dropped_and_release_their_memory() {
        let (mut live, mut memory) = (LiveTexts::default(), memory_reservations());
        for session in 0..MAX_LIVE_SESSIONS {
            assert!(receive(&mut live, (&session.to_string(), "a", None, "x"), NOW, &mut memory).is_some());
        }
        let later = NOW + LIVE_TEXT_RETENTION_MS;
        let x = ("s", "a", None, "x");
        assert_eq!(receive(&mut live, x, later - 1, &mut memory), None, "too many sessions");
        assert_eq!(receive(&mut live, x, later, &mut memory), Some((0, "x".to_owned())));
        assert_eq!(live.sessions.len(), 1);
        for message in 0..MAX_LIVE_MESSAGES {
            receive(&mut live, ("s", &message.to_string(), None, "x"), later, &mut memory);
        }
        assert_eq!(live.sessions["s"].messages.len(), MAX_LIVE_MESSAGES);
        assert!(live.sessions["s"].messages.iter().all(|message| message.id != "a"));
        assert_eq!(memory.live_texts.bytes(), live.sessions["s"].bytes());
        for message in 0..MAX_LIVE_MESSAGES {
            live.remove("s", Some(&message.to_string()), &mut memory);
        }
        assert_eq!(memory.live_texts.bytes(), 0);
    }

    #[test]
    fn the_text_so_far_follows_the_deltas_and_expires() {
        let (mut live, mut memory) = (LiveTexts::default(), memory_reservations());
        let mut receive = |offset, text: &str| {
            receive(&mut live, ("s", "a", offset, text), NOW, &mut memory).unwrap();
            texts(&live, NOW).swap_remove(0)
        };
        assert_eq!(receive(Some(7), "later"), (7, "later".into()), "the beginning is unknown");
        assert_eq!(receive(None, "!"), (7, "later!".into()));
        assert_eq!(receive(Some(0), "a\u{1F600}b"), (0, "a\u{1F600}b".into()));
        assert_eq!(receive(Some(4), "c"), (0, "a\u{1F600}bc".into()));
        assert_eq!(receive(Some(3), "d"), (0, "a\u{1F600}d".into()));
        assert_eq!(receive(Some(2), "e"), (2, "e".into()), "the offset is within a character");
        assert_eq!(receive(Some(9), "f"), (9, "f".into()), "a delta is missing");
        assert_eq!(texts(&live, NOW + LIVE_TEXT_RETENTION_MS - 1).len(), 1);
        assert_eq!(texts(&live, NOW + LIVE_TEXT_RETENTION_MS), []);
    }

    #[test]
    fn the_beginning_of_a_long_text_is_dropped() {
        let (mut live, mut memory) = (LiveTexts::default(), memory_reservations());
        let half = "x".repeat(MAX_LIVE_TEXT_BYTES / 2);
        for second in 0..3 {
            receive(&mut live, ("s", "a", None, &half), NOW + second * 1_000, &mut memory);
        }
        assert_eq!(texts(&live, NOW + 3_000), [(MAX_LIVE_TEXT_BYTES as u64, half)]);
    }

    #[test]
    fn the_kept_texts_are_limited_for_a_namespace_and_for_the_isolate() {
        let (mut live, mut memory) = (LiveTexts::default(), memory_reservations());
        let large = "x".repeat(MAX_LIVE_TEXT_BYTES);
        for session in 0..MAX_LIVE_BYTES / MAX_LIVE_TEXT_BYTES {
            receive(&mut live, (&session.to_string(), "a", None, &large), NOW, &mut memory);
        }
        assert_eq!(memory.live_texts.bytes(), MAX_LIVE_BYTES);
        assert_eq!(receive(&mut live, ("s", "a", None, "x"), NOW, &mut memory), Some((0, "x".to_owned())));
        assert_eq!(texts(&live, NOW), []);
        live.remove("0", Some("a"), &mut memory);
        receive(&mut live, ("s", "a", None, "y"), NOW, &mut memory);
        assert_eq!(texts(&live, NOW), [(1, "y".to_owned())]);

        let (mut live, mut memory) = (LiveTexts::default(), memory_reservations());
        let others = memory.budget.reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
        assert!(receive(&mut live, ("s", "a", None, "x"), NOW, &mut memory).is_some());
        assert_eq!((texts(&live, NOW), memory.live_texts.bytes()), (vec![], 0));
        drop(others);
        receive(&mut live, ("s", "a", None, "y"), NOW, &mut memory);
        assert_eq!(texts(&live, NOW), [(1, "y".to_owned())]);
    }
}
