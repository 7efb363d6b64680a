//! Live text: limits the rate of `message-delta` events, and tracks where each delta begins in the text of its message. Nothing
//! of it survives hibernation: it is needed only while an agent writes.

use std::collections::{HashMap, VecDeque};

use crate::limits::{
    LIVE_TEXT_RETENTION_MS, MAX_DELTA_BYTES_PER_SECOND, MAX_DELTAS_PER_SECOND, MAX_LIVE_MESSAGES, MAX_LIVE_SESSIONS,
    MAX_SENT_DELTA_BYTES_PER_SECOND, MAX_SENT_DELTAS_PER_SECOND,
};
use crate::model::json::{Json, unescape_lenient};

/// The live text of a namespace's sessions.
#[derive(Debug, Default)]
pub struct LiveTexts {
    sessions: HashMap<String, LiveText>,
    /// What was sent to web clients, over all sessions.
    sent: Rate,
}

/// The live text of a session.
#[derive(Debug, Default)]
struct LiveText {
    received: Rate,
    /// The messages that are being written, oldest first.
    messages: VecDeque<LiveMessage>,
}

#[derive(Debug, Default)]
struct LiveMessage {
    id: String,
    /// The length of the text so far, in UTF-16 code units.
    length: u64,
    /// The first half of a surrogate pair at the end of the text, which is sent with its other half.
    held_half: Option<u16>,
}

/// What was counted in a second.
#[derive(Debug, Default)]
struct Rate {
    /// The start of the second, in Unix milliseconds.
    started_at: u64,
    deltas: usize,
    bytes: usize,
}

impl LiveTexts {
    /// Counts a delta of a session. Returns the offset and text to send, or `None` if the session exceeds its rate and the delta is to
    /// be dropped. `offset` is that of the sender; without one, the delta continues the previous delta of its message. A dropped
    /// delta moves the offset of the next one, so that web clients notice the gap. Half of a surrogate pair at the end of `text`, a
    /// JSON string, is sent with the delta that continues it.
    pub fn receive(
        &mut self,
        session: &str,
        id: &str,
        offset: Option<u64>,
        text: &Json,
        now: u64,
    ) -> Option<(u64, String)> {
        let live_text = self.entry(session, now)?;
        let message = live_text.message(id)?;
        let mut start = offset.unwrap_or(message.length);
        let (text, last_half) = match message.held_half.filter(|_| start == message.length) {
            Some(held) => {
                start -= 1;
                unescape_lenient(&format!("\"\\u{held:04x}{}", text.text().strip_prefix('"')?))?
            }
            None => unescape_lenient(text.text())?,
        };
        let units = text.encode_utf16().count() + usize::from(last_half.is_some());
        message.length = start.saturating_add(units as u64);
        message.held_half = last_half;
        let limits = (MAX_DELTAS_PER_SECOND, MAX_DELTA_BYTES_PER_SECOND);
        let is_admitted = live_text.received.admit(now, 1, text.len(), limits);
        is_admitted.then_some((start, text))
    }

    /// Counts a delta of `bytes` that is to be sent to `web_clients`. Returns false if the namespace exceeds its rate.
    pub fn admit_send(&mut self, web_clients: usize, bytes: usize, now: u64) -> bool {
        let limits = (MAX_SENT_DELTAS_PER_SECOND, MAX_SENT_DELTA_BYTES_PER_SECOND);
        self.sent.admit(now, web_clients, web_clients * bytes, limits)
    }

    /// Returns the live text of a session; `None` when too many other sessions have some.
    fn entry(&mut self, session: &str, now: u64) -> Option<&mut LiveText> {
        if !self.sessions.contains_key(session) {
            if self.sessions.len() >= MAX_LIVE_SESSIONS {
                self.sessions.retain(|_, live_text| live_text.received.started_at + LIVE_TEXT_RETENTION_MS > now);
            }
            if self.sessions.len() >= MAX_LIVE_SESSIONS {
                return None;
            }
        }
        Some(self.sessions.entry(session.to_owned()).or_default())
    }
}

impl LiveText {
    /// Returns a message. If there are too many, a new one replaces the oldest.
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

impl Rate {
    /// Counts deltas, unless one of the `(deltas, bytes)` limits of the current second would be exceeded.
    fn admit(&mut self, now: u64, deltas: usize, bytes: usize, (max_deltas, max_bytes): (usize, usize)) -> bool {
        // A second in the future began before the clock went back.
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
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn json(text: &str) -> Json {
        Json::of(text)
    }

    #[test]
    fn a_session_has_a_rate_and_a_dropped_delta_leaves_a_gap() {
        let mut live = LiveTexts::default();
        let accepted =
            (0..=MAX_DELTAS_PER_SECOND).filter_map(|_| live.receive("s", "a", None, &json("x"), NOW)).count();
        assert_eq!(accepted, MAX_DELTAS_PER_SECOND);
        assert_eq!(
            live.receive("t", "a", None, &json("x"), NOW),
            Some((0, "x".to_owned())),
            "another session has its own rate"
        );
        let next = live.receive("s", "a", None, &json("x"), NOW + 1_000);
        assert_eq!(next, Some((MAX_DELTAS_PER_SECOND as u64 + 1, "x".to_owned())));
        let large = json(&"x".repeat(MAX_DELTA_BYTES_PER_SECOND));
        assert_eq!(live.receive("s", "a", Some(0), &large, NOW + 1_999), None);
        assert!(live.receive("s", "a", Some(0), &large, NOW + 2_000).is_some());
        assert_eq!(live.receive("s", "a", Some(0), &json("x"), NOW), Some((0, "x".to_owned())), "the clock went back");
    }

    #[test]
    fn a_namespace_has_a_rate_of_sent_deltas() {
        let mut live = LiveTexts::default();
        assert!(live.admit_send(MAX_SENT_DELTAS_PER_SECOND, 1, NOW));
        assert!(!live.admit_send(1, 1, NOW + 999));
        assert!(live.admit_send(1, MAX_SENT_DELTA_BYTES_PER_SECOND, NOW + 1_000));
        assert!(!live.admit_send(1, 1, NOW + 1_000));
    }

    #[test]
    fn idle_sessions_and_old_messages_are_forgotten() {
        let mut live = LiveTexts::default();
        for session in 0..MAX_LIVE_SESSIONS {
            assert_eq!(live.receive(&session.to_string(), "a", None, &json("x"), NOW), Some((0, "x".to_owned())));
        }
        assert_eq!(live.receive("s", "a", None, &json("x"), NOW), None, "too many sessions");
        assert_eq!(live.receive("s", "a", None, &json("x"), NOW + LIVE_TEXT_RETENTION_MS), Some((0, "x".to_owned())));
        assert_eq!(live.sessions.len(), 1);
        for message in 0..MAX_LIVE_MESSAGES {
            live.receive("s", &message.to_string(), None, &json("x"), NOW + LIVE_TEXT_RETENTION_MS);
        }
        assert_eq!(live.sessions["s"].messages.len(), MAX_LIVE_MESSAGES);
        assert!(live.sessions["s"].messages.iter().all(|message| message.id != "a"));
    }
}
