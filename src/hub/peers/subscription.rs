//! What a web client wants to hear, and whether somebody looks at it.

use serde::{Deserialize, Serialize};

use crate::hub::limits::{HEARTBEAT_ACK_TIMEOUT_MS, MIN_ATTACH_INTERVAL_MS, VISIBILITY_TIMEOUT_MS};
use crate::model::event::Audience;

/// How a subscriber's events are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One JSON object a frame, with `eventId`.
    #[default]
    Json,
    /// Finished SSE text, which the worker copies to the stream.
    Sse,
}

/// What a web client wants to hear.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subscription {
    /// Its id, which the greeting tells.
    pub id: String,
    /// Whether it hears of every session and machine.
    pub all: bool,
    /// The session whose conversation it hears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The machine that it hears of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Whether its client says that somebody looks at it.
    pub visible: bool,
    /// When it last said so, or answered a heartbeat while it was visible, in Unix milliseconds; of answers that follow
    /// each other closely the first.
    pub seen_at: u64,
    /// Whether it answers heartbeats: it did so once.
    pub answers: bool,
    /// How its events are written.
    pub format: Format,
    /// The number of the last event that was told to anybody, when this was last written: on every change of the first
    /// subscriber's.
    pub told: u64,
    /// When the token that it showed is good no more, in Unix milliseconds; never for an access token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl Subscription {
    /// Whether somebody looks at it now, as far as that can be known: a closed lid or a frozen page says nothing, and its
    /// socket may stay open for as long as its token is good.
    pub fn is_watching(&self, now: u64) -> bool {
        let patience = if self.answers { HEARTBEAT_ACK_TIMEOUT_MS } else { VISIBILITY_TIMEOUT_MS };
        self.visible && now < self.seen_at + patience
    }

    /// Its client said whether it is visible.
    pub fn state(&mut self, visible: bool, now: u64) {
        (self.visible, self.seen_at) = (visible, now);
    }

    /// Its client answered a heartbeat. Says whether that is to be remembered.
    pub fn answered(&mut self, now: u64) -> bool {
        let is_news = !self.answers || (self.visible && now >= self.seen_at + MIN_ATTACH_INTERVAL_MS);
        if is_news {
            (self.answers, self.seen_at) = (true, now);
        }
        is_news
    }

    /// Whether the subscriber hears an event of this audience.
    pub fn hears(&self, audience: &Audience) -> bool {
        match audience {
            Audience::Session(id) => self.all || self.session.as_ref() == Some(id),
            Audience::Conversation(id) => self.session.as_ref() == Some(id),
            Audience::Machine(id) => self.all || self.machine.as_ref() == Some(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_answers_heartbeats_is_held_to_it_and_others_are_believed_for_a_while() {
        let mut subscription = Subscription::default();
        subscription.state(true, 1_000);
        assert!(
            subscription.is_watching(1_000 + VISIBILITY_TIMEOUT_MS - 1)
                && !subscription.is_watching(1_000 + VISIBILITY_TIMEOUT_MS)
        );
        assert!(subscription.answered(1_500), "the first answer is news, however early");
        assert!(
            subscription.is_watching(1_500 + HEARTBEAT_ACK_TIMEOUT_MS - 1)
                && !subscription.is_watching(1_500 + HEARTBEAT_ACK_TIMEOUT_MS)
        );
        assert!(!subscription.answered(2_499) && subscription.answered(2_500));
        assert!(subscription.is_watching(2_500 + HEARTBEAT_ACK_TIMEOUT_MS - 1));
        subscription.state(false, 3_000);
        assert!(!subscription.is_watching(3_000) && !subscription.answered(9_000), "of the hidden nothing is written");
        subscription.state(true, 900_000);
        assert!(
            subscription.is_watching(900_000 + HEARTBEAT_ACK_TIMEOUT_MS - 1)
                && !subscription.is_watching(900_000 + HEARTBEAT_ACK_TIMEOUT_MS)
        );
    }

    #[test]
    fn a_conversation_is_heard_only_by_subscribers_of_its_session() {
        let of_all = Subscription { all: true, ..Default::default() };
        let of_session = Subscription { session: Some("s".into()), ..Default::default() };
        let of_machine = Subscription { machine: Some("m".into()), ..Default::default() };
        let hear =
            |audience: Audience| [of_all.hears(&audience), of_session.hears(&audience), of_machine.hears(&audience)];
        assert_eq!(hear(Audience::Conversation("s".into())), [false, true, false]);
        assert_eq!(hear(Audience::Session("s".into())), [true, true, false]);
        assert_eq!(hear(Audience::Session("t".into())), [true, false, false]);
        assert_eq!(hear(Audience::Machine("m".into())), [true, false, true]);
    }
}
