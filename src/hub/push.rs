//! Notifications: what calls for one, whether it becomes a toast or goes to push services, and what became of it.
//!
//! A notification comes up with a change that is durable ([`commit`](super::commit)), waits in the [queue](Queue) for the
//! alarm, and is then decided by what stands at that moment. Sending runs beside all else: a push service that hangs delays
//! nobody but itself.

use std::sync::Arc;

use futures::StreamExt;

use super::error::{Error, Kind as Missing};
use super::ports::{PushAnswer, PushRequest};
use super::push_log::{Outcome, PushLog, entries};
use super::push_queue::{Admitted, COOL_DOWN_MS, Failure, Item, MAX_PAUSE_MS, Queue, Target, Verdict};
use super::push_subscriptions::Subscriptions;
use super::{Hub, State};
use crate::model::agent_state::{self, Asked};
use crate::model::json::Json;
use crate::model::session::Session;
use crate::push::encryption::Keys;
use crate::push::endpoint::Endpoint;
use crate::push::payload::{Kind, MAX_PAYLOAD, Notification, SHORT_PAYLOAD};
use crate::push::vapid::VapidKeys;
use crate::store::push::PushSubscription;

/// How many push services are called at a time: the platform lets one event have so many connections.
const LANES: usize = 6;
/// How long a push service keeps what it can't deliver, in seconds: who was away for a day looks at the list.
const TTL_SECS: u64 = 24 * 3600;

/// Notes of this prefix are what pushes need to know after a sleep.
pub const NOTES: &str = "push:";
/// The note that somebody may have subscribed.
pub const NOTE_PUSH_ON: &str = "push:on";
/// Notes of this prefix are notifications on their way, by their numbers.
const NOTE_ITEM: &str = "push:item:";
/// Notes of this prefix tell until when a session cools down.
const NOTE_COOL: &str = "push:cool:";

/// All that the hub holds for pushes.
#[derive(Debug, Default)]
pub struct Push {
    pub(super) subscriptions: Subscriptions,
    pub(super) queue: Queue,
    log: PushLog,
}

/// What becomes of a notification when it is due.
enum Decision {
    /// It comes to nothing, or to a toast.
    Over(Outcome),
    /// It is sent.
    Send,
    /// That can't be found out at the moment.
    Unknown,
}

impl Push {
    /// What the notebook says.
    pub fn restore(notes: Vec<(String, String)>) -> Self {
        let mut push = Self::default();
        for (key, note) in notes {
            if key == NOTE_PUSH_ON {
                push.subscriptions.any = true;
            } else if let Some(number) = key.strip_prefix(NOTE_ITEM) {
                if let (Ok(number), Ok(item)) = (number.parse(), serde_json::from_str(&note)) {
                    push.queue.restore(number, item);
                }
            } else if let (Some(session), Ok(until)) = (key.strip_prefix(NOTE_COOL), note.parse()) {
                push.queue.restore_cool_down(session.to_owned(), until);
            }
        }
        push
    }
}

impl Hub {
    /// The notification of a permission request that is new in a state that takes the place of the session's.
    pub(super) fn asks(&self, session: &Session, state: Option<&Json>) -> Option<Notification> {
        let Asked { id, tool } = agent_state::newly_asked(session.agent_state.as_ref(), state)?;
        let tool = tool.as_deref().unwrap_or("a tool");
        session.active.then(|| Notification::permission(&session.id, &session.title(), &id, tool))
    }

    /// The notification of an agent that is done.
    pub(super) fn waits(&self, session: &Session) -> Notification {
        let flavor = session.facts().flavor();
        let agent = flavor.as_deref().unwrap_or_else(|| self.config.vocabulary.default_agent());
        Notification::ready(&session.id, &session.title(), agent)
    }

    /// A notification came up, with a change that is durable.
    pub(super) fn notify(&self, state: &mut State, notification: Notification) {
        let now = self.rt.now();
        let push = &mut state.push;
        if !push.subscriptions.any && !state.connections.is_watched() {
            return self.log_over(push, notification, Outcome::NoSubscribers);
        }
        let (kind, session) = (notification.kind, notification.session_id.clone());
        match push.queue.admit(notification.clone(), now) {
            Admitted::Cooling => self.log_over(push, notification, Outcome::CoolingDown),
            Admitted::Full => self.log_over(push, notification, Outcome::Overloaded),
            Admitted::As(number, replaced) => {
                for (number, item) in replaced {
                    self.rt.unnote(&item_key(number));
                    let outcome = if item.sent > 0 { Outcome::Sent } else { Outcome::Replaced };
                    push.log.put(&*self.rt, number, &item, outcome);
                }
                if kind == Kind::Ready {
                    self.rt.note(&format!("{NOTE_COOL}{session}"), &(now + COOL_DOWN_MS).to_string());
                }
                if let Some(item) = push.queue.get(number) {
                    self.rt.note(&item_key(number), &encode(item));
                    push.log.put(&*self.rt, number, item, Outcome::Waiting);
                }
                let next = push.queue.next_deadline();
                self.want_alarm(state, next);
            }
        }
    }

    fn log_over(&self, push: &mut Push, notification: Notification, outcome: Outcome) {
        let now = self.rt.now();
        let number = push.queue.number(now);
        push.log.put(&*self.rt, number, &Item::new(notification, now, now), outcome);
    }

    /// `GET /api/push/log`: what became of the latest notifications, newest first, each as JSON text.
    pub fn push_log(&self) -> Vec<String> {
        entries(&*self.rt)
    }

    /// Starts what is due.
    pub(super) fn send_due(self: &Arc<Self>, now: u64) {
        let due = {
            let mut state = self.state();
            for session in state.push.queue.cooled(now) {
                self.rt.unnote(&format!("{NOTE_COOL}{session}"));
            }
            state.push.queue.take_due(now)
        };
        for (number, item) in due {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.bring_on(number, item).await }));
        }
    }

    /// Brings a notification that is due as far as it gets now.
    async fn bring_on(self: &Arc<Self>, number: u64, mut item: Item) {
        if item.targets.is_empty() {
            match self.decide(&item.notification).await {
                Decision::Over(outcome) => return self.end(number, &item, outcome),
                Decision::Send => {}
                Decision::Unknown => return self.put_off(number, item),
            }
        }
        let Ok((subscriptions, keys)) = self.read_subscribers().await else { return self.put_off(number, item) };
        if item.targets.is_empty() && !item.address(&subscriptions, self.rt.now()) {
            return self.end(number, &item, Outcome::NoSubscribers);
        }
        let due = item.take_due(self.rt.now());
        let (notification, hub) = (&item.notification, &**self);
        let sending = due.into_iter().map(|target| {
            let subscription = subscriptions.iter().find(|known| known.endpoint == target.endpoint);
            let keys = &keys;
            async move { hub.send_push(notification, subscription, keys, target).await }
        });
        let answers: Vec<_> = futures::stream::iter(sending).buffer_unordered(LANES).collect().await;
        let now = self.rt.now();
        let mut gone = Vec::new();
        for (target, verdict, failure) in answers {
            if verdict == Verdict::Gone {
                gone.push(target.endpoint.clone());
            }
            item.answered(target, verdict, failure, now);
        }
        if !gone.is_empty() {
            // What could not be deleted is found gone again with the next notification.
            let _ = self.forget_subscriptions(&gone).await;
        }
        match item.is_done() {
            true => {
                let outcome = if item.sent > 0 { Outcome::Sent } else { Outcome::Failed };
                self.end(number, &item, outcome);
            }
            false => self.go_on_later(number, item, Outcome::Sending),
        }
    }

    /// What becomes of a notification, by what stands now.
    async fn decide(self: &Arc<Self>, notification: &Notification) -> Decision {
        match self.load_session(&notification.session_id).await {
            Ok(()) => {}
            Err(Error::Missing(Missing::Session) | Error::Foreign(_)) => return Decision::Over(Outcome::SessionGone),
            Err(_) => return Decision::Unknown,
        }
        let mut state = self.state();
        let entry = state.memory.entry(&notification.session_id);
        let base = entry.and_then(|entry| entry.session.agent_state.as_ref());
        if let Some(request) = &notification.request_id
            && !agent_state::is_pending(base, request)
        {
            return Decision::Over(Outcome::Answered);
        }
        if state.connections.is_watched() {
            self.send_toast(&mut state, notification);
            return Decision::Over(Outcome::Toast);
        }
        Decision::Send
    }

    async fn read_subscribers(&self) -> Result<(Arc<[PushSubscription]>, VapidKeys), Error> {
        Ok((self.push_subscriptions().await?, self.vapid_keys().await?))
    }

    /// Sends a notification to one subscriber.
    async fn send_push(
        &self,
        notification: &Notification,
        subscription: Option<&PushSubscription>,
        keys: &VapidKeys,
        target: Target,
    ) -> (Target, Verdict, Failure) {
        let service = Endpoint::parse(&target.endpoint, true).map(|endpoint| endpoint.origin()).unwrap_or_default();
        let failure = |status, reason: &str| Failure { service: service.clone(), status, reason: reason.to_owned() };
        let Some(subscription) = subscription else {
            return (target, Verdict::Refused, failure(None, "It was unsubscribed meanwhile."));
        };
        let request = match self.request(notification, subscription, keys, target.short) {
            Ok(request) => request,
            Err(reason) => return (target, Verdict::Refused, failure(None, &reason)),
        };
        match self.rt.push(request).await {
            Ok(PushAnswer { status, retry_after }) => {
                let verdict = Verdict::of(status, retry_after.as_deref(), self.rt.now());
                let reason = match &verdict {
                    Verdict::Sent => "",
                    Verdict::Gone => "The subscription is over, and was removed.",
                    Verdict::TooLong => "The push service takes no message of this length.",
                    Verdict::Again(Some(pause)) if *pause > MAX_PAUSE_MS => {
                        "The push service asks for too long a pause."
                    }
                    Verdict::Again(_) => "The push service could not take it, however often it was tried.",
                    Verdict::Refused => "The push service refused it.",
                };
                (target, verdict, failure(Some(status), reason))
            }
            Err(reason) => (target, Verdict::Again(None), failure(None, &reason)),
        }
    }

    /// A notification as a message for a push service (RFC 8030). The error says why there is none.
    fn request(
        &self,
        notification: &Notification,
        subscription: &PushSubscription,
        vapid: &VapidKeys,
        short: bool,
    ) -> Result<PushRequest, String> {
        // What was checked when it was subscribed may have been written under other settings.
        let endpoint = Endpoint::parse(&subscription.endpoint, self.config.push.insecure);
        let endpoint = endpoint.map_err(|error| format!("The endpoint {}.", error.0))?;
        let keys = Keys::parse(&subscription.p256dh, &subscription.auth);
        let keys = keys.map_err(|_| "The keys of the subscription are broken.")?;
        let (mut salt, mut secret) = ([0; 16], [0; 32]);
        self.rt.random(&mut salt);
        self.rt.random(&mut secret);
        let payload = notification.payload(if short { SHORT_PAYLOAD } else { MAX_PAYLOAD });
        let body = keys.encrypt(payload.as_bytes(), &salt, &secret).ok_or("It could not be encrypted.")?;
        let subject = self.config.push.subject.as_deref().or(subscription.hub.as_deref());
        let now = self.rt.now() / 1000;
        let tokens = &mut self.state().push.subscriptions.tokens;
        let authorization = tokens.authorization(vapid, &endpoint.origin(), subject, now);
        let headers = vec![
            ("Authorization", authorization.ok_or("It could not be signed.")?),
            ("Content-Encoding", "aes128gcm".to_owned()),
            ("Content-Type", "application/octet-stream".to_owned()),
            ("TTL", TTL_SECS.to_string()),
            ("Topic", notification.topic()),
            ("Urgency", notification.urgency().to_owned()),
        ];
        Ok(PushRequest { url: endpoint.url().to_owned(), headers, body })
    }

    /// It could not be found out what becomes of a notification: it is tried again, some times.
    fn put_off(&self, number: u64, mut item: Item) {
        match item.unknown(self.rt.now()) {
            true => self.go_on_later(number, item, Outcome::Waiting),
            false => self.end(number, &item, Outcome::Unavailable),
        }
    }

    /// The alarm takes it up again.
    fn go_on_later(&self, number: u64, item: Item, outcome: Outcome) {
        let mut state = self.state();
        if let Some(item) = state.push.queue.put_back(number, item) {
            let encoded = encode(item);
            let item = item.clone();
            self.rt.note(&item_key(number), &encoded);
            state.push.log.put(&*self.rt, number, &item, outcome);
        }
        let next = state.push.queue.next_deadline();
        self.want_alarm(&mut state, next);
    }

    fn end(&self, number: u64, item: &Item, outcome: Outcome) {
        let mut state = self.state();
        state.push.queue.remove(number);
        self.rt.unnote(&item_key(number));
        state.push.log.put(&*self.rt, number, item, outcome);
    }
}

fn item_key(number: u64) -> String {
    format!("{NOTE_ITEM}{number}")
}

fn encode(item: &Item) -> String {
    serde_json::to_string(item).unwrap_or_default()
}
