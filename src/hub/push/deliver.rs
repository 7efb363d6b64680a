//! Notifications: what calls for one, whether it becomes a toast or goes to push services, and what became of it.
//!
//! A notification comes up with a change that is durable ([`commit`](crate::hub::commit)), waits in the [queue](Queue) for the
//! alarm, and is then decided by what stands at that moment. Sending runs beside all else: a push service that hangs delays
//! nobody but itself.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Request;

use crate::hub::error::{Error, Kind};
use crate::hub::ports::PushAnswer;
use crate::hub::push::lanes::{Lanes, Minute};
use crate::hub::push::log::{Fate, PushLog, entries};
use crate::hub::push::queue::{
    Admitted, COOL_DOWN_MS, Failure, Item, MAX_PAUSE_MS, Queue, Target, UNSUBSCRIBED, Verdict,
};
use crate::hub::push::subscriptions::{NOTE_NO_SUBSCRIBERS, Subscriber, Subscriptions};
use crate::hub::{Hub, State};
use crate::model::agent_state::{self, PendingRequest};
use crate::model::json::Json;
use crate::model::session::Session;
use crate::push::endpoint::{Endpoint, EndpointId};
use crate::push::payload::{MAX_PAYLOAD, Notification, NotificationKind, SHORT_PAYLOAD};
use crate::push::request::{self, Keys, Message};
use crate::push::vapid::VapidKeys;
use crate::store::push::PushSubscription;

/// How long a push service keeps a message that it cannot deliver: after a day away, a person looks at the list anyway.
const TTL: Duration = Duration::from_secs(24 * 3600);

/// Notes of this prefix are what pushes need to know after a sleep.
pub const NOTES: &str = "push:";
/// Notes of this prefix are notifications on their way, by their numbers.
const NOTE_ITEM: &str = "push:item:";
/// Notes of this prefix tell until when a session cools down.
const NOTE_COOL: &str = "push:cool:";
/// The note of how many pushes were sent in this minute.
const NOTE_MINUTE: &str = "push:minute";

/// All that the hub holds for pushes.
#[derive(Debug, Default)]
pub struct Push {
    pub(in crate::hub) subscriptions: Subscriptions,
    pub(in crate::hub) queue: Queue,
    lanes: Lanes,
    minute: Minute,
    log: PushLog,
}

/// What becomes of a notification when it is due.
enum Decision {
    /// It comes to nothing, or to a toast.
    Over(Fate),
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
            if key == NOTE_NO_SUBSCRIBERS {
                push.subscriptions.none_until = note.parse().unwrap_or_default();
            } else if key == NOTE_MINUTE {
                push.minute = Minute::restore(&note);
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
    /// The notification of the permission requests that are new in a state that takes the place of the session's.
    pub(in crate::hub) fn permission_notification(
        &self,
        session: &Session,
        state: Option<&Json>,
    ) -> Option<Notification> {
        let asked = agent_state::new_requests(session.agent_state.as_ref(), state);
        session.active.then(|| of_requests(session, &asked)).flatten()
    }

    /// The notification of an agent that is done.
    pub(in crate::hub) fn ready_notification(&self, session: &Session) -> Notification {
        let flavor = session.metadata_fields().flavor();
        let agent = flavor.as_deref().unwrap_or_else(|| self.config.vocabulary.default_agent());
        Notification::ready(&session.id, &session.title(), agent)
    }

    /// A notification came up, with a change that is durable.
    pub(in crate::hub) fn notify(&self, state: &mut State, notification: Notification) {
        let now = self.rt.now();
        let push = &mut state.push;
        if push.subscriptions.known_none(now) && !state.connections.is_watched(now) {
            return self.log_over(push, notification, Fate::NoSubscribers);
        }
        let (kind, session) = (notification.kind, notification.session_id.clone());
        match push.queue.admit(notification.clone(), now) {
            Admitted::Cooling => self.log_over(push, notification, Fate::CoolingDown),
            Admitted::Full => self.log_over(push, notification, Fate::Overloaded),
            Admitted::As(number, older) => {
                for (number, item) in older {
                    self.rt.kv_delete(&item_key(number));
                    push.log.replaced(&*self.rt, number, item);
                }
                if kind == NotificationKind::Ready {
                    self.rt.kv_put(&format!("{NOTE_COOL}{session}"), &(now + COOL_DOWN_MS).to_string());
                }
                if let Some(item) = push.queue.get(number) {
                    self.rt.kv_put(&item_key(number), &encode(item));
                    push.log.put(&*self.rt, number, item, Fate::Waiting);
                }
                let next = push.queue.next_deadline();
                self.want_alarm(state, next);
            }
        }
    }

    fn log_over(&self, push: &mut Push, notification: Notification, fate: Fate) {
        let now = self.rt.now();
        let number = push.queue.number(now);
        push.log.put(&*self.rt, number, &Item::new(notification, now, now), fate);
    }

    /// `GET /api/push/log`: what became of the latest notifications, newest first, each as JSON text.
    pub fn push_log(&self) -> Vec<String> {
        entries(&*self.rt)
    }

    /// Starts what is due.
    pub(in crate::hub) fn send_due(self: &Arc<Self>, now: u64) {
        let due = {
            let mut state = self.state();
            for session in state.push.queue.cooled(now) {
                self.rt.kv_delete(&format!("{NOTE_COOL}{session}"));
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
        match self.decide(&mut item.notification).await {
            Decision::Over(fate) => return self.end(number, item, fate),
            Decision::Send => {}
            Decision::Unknown => return self.put_off(number, item),
        }
        let Ok((subscribers, keys)) = self.read_subscribers().await else { return self.put_off(number, item) };
        item.unknown = 0;
        let ids = subscribers.iter().map(|subscriber| subscriber.id);
        if item.targets.is_empty() && !item.address(ids, self.rt.now()) {
            return self.end(number, item, Fate::NoSubscribers);
        }
        item.leave_out(|id| find(&subscribers, id).is_some());
        if !self.state().push.queue.sending(number, &item.targets) {
            return self.state().push.log.replaced(&*self.rt, number, item);
        }
        let due = item.take_due(self.rt.now());
        let sending = due.into_iter().filter_map(|target| {
            let subscriber = find(&subscribers, target.id)?;
            Some(self.send_in_turn(&item.notification, &keys, target, subscriber))
        });
        let answers = join_all(sending).await;
        let now = self.rt.now();
        let minute = self.state().push.minute.note();
        self.rt.kv_put(NOTE_MINUTE, &minute);
        let mut gone = Vec::new();
        for (target, verdict, failure) in answers {
            if let Some(subscriber) = find(&subscribers, target.id).filter(|_| verdict == Verdict::Gone) {
                gone.push(subscriber.subscription.endpoint.clone());
            }
            item.answered(target, verdict, failure, now);
        }
        if !gone.is_empty() {
            // What could not be deleted is found gone again with the next notification.
            let _ = self.forget_subscriptions(&gone).await;
        }
        match item.is_done() {
            true => {
                let fate = if item.sent > 0 { Fate::Sent } else { Fate::Failed };
                self.end(number, item, fate);
            }
            false => self.go_on_later(number, item, Fate::Sending),
        }
    }

    /// What becomes of a notification, by what stands now.
    async fn decide(self: &Arc<Self>, notification: &mut Notification) -> Decision {
        match self.load_session(&notification.session_id).await {
            Ok(()) => {}
            Err(Error::Missing(Kind::Session) | Error::Foreign(_)) => return Decision::Over(Fate::SessionGone),
            Err(_) => return Decision::Unknown,
        }
        let mut state = self.state();
        if let Some(request) = &notification.request_id {
            let session = state.cache.entry(&notification.session_id).map(|entry| &entry.session);
            let ids = notification.earlier.iter().chain([request]);
            let waits = session.and_then(|session| {
                of_requests(session, &agent_state::find_pending(session.agent_state.as_ref(), ids.map(String::as_str)))
            });
            let Some(waits) = waits else { return Decision::Over(Fate::Answered) };
            *notification = waits;
        }
        if state.connections.is_watched(self.rt.now()) {
            self.send_toast(&mut state, notification);
            return Decision::Over(Fate::Toast);
        }
        Decision::Send
    }

    async fn read_subscribers(&self) -> Result<(Arc<[Subscriber]>, VapidKeys), Error> {
        Ok((self.push_subscribers().await?, self.vapid_keys().await?))
    }

    /// Sends a notification to one subscriber, when a lane is free for it and the minute has not had enough.
    async fn send_in_turn(
        &self,
        notification: &Notification,
        keys: &VapidKeys,
        target: Target,
        Subscriber { service, .. }: &Subscriber,
    ) -> (Target, Verdict, Failure) {
        let turn = self.state().push.lanes.enter(service);
        // The lanes end with the hub only.
        let _ = turn.await;
        let taken = self.state().push.minute.take(self.rt.now());
        let (verdict, status, reason) = match taken {
            // On the heap: of those who wait for a lane there may be thousands.
            Ok(()) => Box::pin(self.send_push(notification, keys, &target)).await,
            Err(until) => {
                (Verdict::Held(until), None, "Too many pushes in this minute: it waits for the next one.".into())
            }
        };
        self.state().push.lanes.leave(service);
        (target, verdict, Failure { service: service.clone(), status, reason })
    }

    /// Sends a notification to one subscriber of a push service. Answers what came of it, the status if there is one, and
    /// the sentence for a person.
    async fn send_push(
        &self,
        notification: &Notification,
        keys: &VapidKeys,
        target: &Target,
    ) -> (Verdict, Option<u16>, String) {
        // Encrypting takes the thread a millisecond or two: others have their turn in between.
        self.rt.sleep(0).await;
        // Asked anew, from memory mostly: others were sent to before it, which takes as long as their push services like.
        let Ok(subscribers) = self.push_subscribers().await else {
            return (Verdict::Again(None), None, "The database did not say whether it is still subscribed.".into());
        };
        let Some(subscriber) = find(&subscribers, target.id) else {
            return (Verdict::Refused, None, UNSUBSCRIBED.into());
        };
        let request = match self.request(notification, &subscriber.subscription, keys, target.short) {
            Ok(request) => request,
            Err(reason) => return (Verdict::Refused, None, reason),
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
                    Verdict::Again(_) | Verdict::Held(_) => "The push service could not take it at that moment.",
                    Verdict::Refused => "The push service refused it.",
                };
                (verdict, Some(status), reason.into())
            }
            Err(reason) => (Verdict::Again(None), None, reason),
        }
    }

    /// Builds the request that brings a notification to one subscriber. The error is a sentence for the log.
    fn request(
        &self,
        notification: &Notification,
        subscription: &PushSubscription,
        vapid: &VapidKeys,
        short: bool,
    ) -> Result<Request<Vec<u8>>, String> {
        // What was checked when it was subscribed may have been written under other settings.
        let endpoint = Endpoint::parse(&subscription.endpoint, self.config.push.insecure);
        let endpoint = endpoint.map_err(|error| format!("The endpoint {}.", error.0))?;
        let keys = Keys::parse(&subscription.p256dh, &subscription.auth);
        let keys = keys.map_err(|_| "The keys of the subscription are broken.")?;
        let subject = self.config.push.subject.as_deref().or(subscription.hub.as_deref());
        let now = self.rt.now() / 1000;
        let tokens = &mut self.state().push.subscriptions.tokens;
        let authorization = tokens.authorization(vapid, &endpoint.origin(), subject, now);
        let message = Message {
            payload: notification.payload(if short { SHORT_PAYLOAD } else { MAX_PAYLOAD }),
            ttl: TTL,
            topic: &notification.topic(),
            urgency: notification.urgency(),
            authorization: &authorization.ok_or("It could not be signed.")?,
        };
        // The encryption draws its key from the same source, and panics without one.
        self.rt.random(&mut [0]).map_err(|error| error.to_string())?;
        request::build(&endpoint, &keys, message).map_err(|error| error.to_string())
    }

    /// It could not be found out what becomes of a notification: it is tried again, some times.
    fn put_off(&self, number: u64, mut item: Item) {
        match item.unknown(self.rt.now()) {
            true => self.go_on_later(number, item, Fate::Waiting),
            false => self.end(number, item, Fate::Unavailable),
        }
    }

    /// The alarm takes it up again.
    fn go_on_later(&self, number: u64, item: Item, fate: Fate) {
        let mut state = self.state();
        let State { push: Push { queue, log, .. }, .. } = &mut *state;
        if let Some(late) = queue.put_back(number, item) {
            log.replaced(&*self.rt, number, late);
        } else if let Some(item) = queue.get(number) {
            self.rt.kv_put(&item_key(number), &encode(item));
            log.put(&*self.rt, number, item, fate);
        }
        let next = state.push.queue.next_deadline();
        self.want_alarm(&mut state, next);
    }

    /// It is over, also for those whom it has not reached.
    fn end(&self, number: u64, item: Item, fate: Fate) {
        let mut state = self.state();
        state.push.queue.remove(number);
        self.rt.kv_delete(&item_key(number));
        state.push.log.put(&*self.rt, number, &Item { targets: Vec::new(), ..item }, fate);
    }
}

/// The notification of permission requests: of the last one, which stands for those before it.
fn of_requests(session: &Session, asked: &[PendingRequest]) -> Option<Notification> {
    let title = session.title();
    let of_one = |PendingRequest { id, tool }: &PendingRequest| {
        Notification::permission(&session.id, &title, id, tool.as_deref().unwrap_or("a tool"))
    };
    asked.iter().map(of_one).reduce(|earlier, mut last| {
        last.stand_for(&earlier);
        last
    })
}

fn find(subscribers: &[Subscriber], id: EndpointId) -> Option<&Subscriber> {
    subscribers.iter().find(|subscriber| subscriber.id == id)
}

fn item_key(number: u64) -> String {
    format!("{NOTE_ITEM}{number}")
}

fn encode(item: &Item) -> String {
    serde_json::to_string(item).unwrap_or_default()
}
