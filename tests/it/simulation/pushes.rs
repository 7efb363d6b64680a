//! Simulated browsers with push subscriptions, and push services that accept a message, reject it, rate-limit, hang or
//! disconnect. Checks that the hub sends nothing to unsubscribed browsers or of another namespace, and no duplicate unless the
//! outcome of the first attempt was unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use http::Request;
use serde_json::{Value, json};
use session_gateway_hub::hub::limits::PUSH_TIMEOUT_MS;
use session_gateway_hub::hub::ports::PushAnswer;

use super::responses::Purpose;
use super::scheduler::{Incarnation, lock};
use super::world::{NEIGHBOUR, TEAM, World};
use crate::support::pushes::Browser;

/// The largest number of attempts for a message and subscriber.
const MAX_ATTEMPTS: u64 = 5;
const MAX_BROWSERS: usize = 4;
const MAX_LOG_ENTRIES: usize = 100;

type Response = Result<PushAnswer, String>;

/// A request to a push service without a response.
struct PushRequest {
    number: u64,
    incarnation: Incarnation,
    http: Request<Vec<u8>>,
    /// `None` until it is checked.
    subject: Option<Subject>,
    /// When the request times out, for a push service that times_out_at.
    times_out_at: Option<u64>,
    response: oneshot::Sender<Response>,
}

/// The pending requests of an object to push services.
#[derive(Default)]
pub struct Outbox(Mutex<(u64, Vec<PushRequest>)>);

impl Outbox {
    pub fn post(&self, incarnation: Incarnation, request: Request<Vec<u8>>) -> BoxFuture<'static, Response> {
        let (response, receiver) = oneshot::channel();
        let (last_number, pending) = &mut *lock(&self.0);
        *last_number += 1;
        let number = *last_number;
        pending.push(PushRequest { number, incarnation, http: request, subject: None, times_out_at: None, response });
        receiver.map(|response| response.unwrap_or_else(|_| Err("The object has crashed.".into()))).boxed()
    }

    /// The requests that can make progress.
    pub fn runnable(&self, now: u64) -> Vec<u64> {
        let pending = &lock(&self.0).1;
        let runnable = pending.iter().filter(|request| request.times_out_at.is_none_or(|time| time <= now));
        runnable.map(|request| request.number).collect()
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.0).1.is_empty()
    }

    fn take(&self, predicate: impl Fn(&PushRequest) -> bool) -> Vec<PushRequest> {
        lock(&self.0).1.extract_if(.., |request| predicate(request)).collect()
    }

    fn put(&self, request: PushRequest) {
        lock(&self.0).1.push(request);
    }
}

/// The subject of a message: a permission request, or a session with a ready event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Request(String),
    Ready(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubscriptionState {
    Subscribed,
    /// A change has no result yet, or failed.
    Unknown,
    Unsubscribed,
}

struct Subscriber {
    ns: usize,
    browser: Browser,
    state: SubscriptionState,
    /// The number of changes without a response.
    pending_changes: usize,
    /// Whether the order or outcome of these changes is unknown.
    is_ambiguous: bool,
    /// Whether the push service has reported that the subscription does not exist.
    is_gone: bool,
}

/// The attempts to send one notification to one subscriber.
#[derive(Debug, Default)]
struct Attempts {
    count: u64,
    /// Accepted by the push service.
    accepted: u64,
    /// With an outcome that the hub can't know.
    unknown: u64,
}

#[derive(Default)]
pub struct Pushes {
    subscribers: BTreeMap<String, Subscriber>,
    /// By endpoint and subject.
    attempts: BTreeMap<(String, Subject), Attempts>,
    /// The number of accepted messages whose response the hub received, by namespace.
    confirmed: [u64; 2],
    /// The local ids of ready events, by session.
    ready: BTreeMap<String, BTreeSet<String>>,
    /// The number of ready events that were sent once and acknowledged, by session: each has an entry in the log.
    acknowledged_ready: [BTreeMap<String, usize>; 2],
}

impl World {
    // Browsers.

    /// Subscribes a new or an existing browser.
    pub fn browser_subscribe(&mut self, ns: usize) {
        let number = self.pushes.subscribers.len();
        if number < MAX_BROWSERS {
            let endpoint = format!("https://{}-{number}.com/x", self.objects[ns].name);
            let browser = Browser::new(&endpoint, 1 + u8::try_from(number).unwrap());
            let state = SubscriptionState::Unsubscribed;
            let subscriber = Subscriber { ns, browser, state, pending_changes: 0, is_ambiguous: false, is_gone: false };
            self.pushes.subscribers.insert(endpoint, subscriber);
        }
        let Some(endpoint) = self.pick_endpoint(ns) else { return };
        let body = self.pushes.subscribers[&endpoint].browser.subscription();
        self.change_subscription(ns, "POST", &body, Purpose::Subscribe { endpoint });
    }

    /// Unsubscribes a browser, or attempts it from the other namespace.
    pub fn browser_unsubscribe(&mut self, ns: usize) {
        let foreign = self.rng.chance(20);
        let Some(endpoint) = self.pick_endpoint(if foreign { 1 - ns } else { ns }) else { return };
        let body = json!({"endpoint": endpoint});
        let purpose = if foreign { Purpose::UnsubscribeForeign } else { Purpose::Unsubscribe { endpoint } };
        self.change_subscription(ns, "DELETE", &body, purpose);
    }

    fn pick_endpoint(&mut self, ns: usize) -> Option<String> {
        let of_place = self.pushes.subscribers.iter().filter(|(_, one)| one.ns == ns);
        let endpoints: Vec<String> = of_place.map(|(endpoint, _)| endpoint.clone()).collect();
        self.rng.pick(&endpoints)
    }

    fn change_subscription(&mut self, ns: usize, method: &str, body: &Value, purpose: Purpose) {
        if let Purpose::Subscribe { endpoint } | Purpose::Unsubscribe { endpoint } = &purpose {
            let subscriber = self.pushes.subscribers.get_mut(endpoint).unwrap();
            subscriber.state = SubscriptionState::Unknown;
            subscriber.is_ambiguous |= subscriber.pending_changes > 0;
            subscriber.pending_changes += 1;
        }
        self.request(ns, method, "/api/push/subscribe", body.to_string(), purpose);
    }

    /// A change has succeeded with this result; `None` when it failed or has no response.
    pub fn on_subscription_changed(&mut self, endpoint: &str, subscribed: Option<bool>) {
        let subscriber = self.pushes.subscribers.get_mut(endpoint).unwrap();
        subscriber.pending_changes -= 1;
        subscriber.is_ambiguous |= subscribed.is_none();
        let sure = subscriber.pending_changes == 0 && !subscriber.is_ambiguous;
        subscriber.state = match subscribed.filter(|_| sure) {
            Some(true) => SubscriptionState::Subscribed,
            Some(false) => SubscriptionState::Unsubscribed,
            None => SubscriptionState::Unknown,
        };
    }

    /// A CLI sends a ready event.
    pub fn record_ready(&mut self, session: &str, local_id: &str) {
        self.pushes.ready.entry(session.to_owned()).or_default().insert(local_id.to_owned());
    }

    /// A ready event that was sent once was acknowledged.
    pub fn count_ready(&mut self, ns: usize, session: &str) {
        *self.pushes.acknowledged_ready[ns].entry(session.to_owned()).or_default() += 1;
    }

    /// Checks the notification that a visible page receives.
    pub fn check_toast(&self, ns: usize, toast: &Value) {
        let data = &toast["data"];
        let session = data["sessionId"].as_str().unwrap();
        assert!(self.oracles[ns].sessions.contains_key(session), "a toast for an unknown session: {toast}");
        assert!(data["url"] == format!("/sessions/{session}"), "{toast}");
    }

    // Push services.

    /// Checks the requests that the hub has sent since the last call.
    pub fn check_new_pushes(&mut self) {
        for ns in [TEAM, NEIGHBOUR] {
            for mut request in self.objects[ns].rt.outbox.take(|request| request.subject.is_none()) {
                let subject = self.check_push(ns, &request.http);
                request.subject = Some(subject);
                self.objects[ns].rt.outbox.put(request);
            }
        }
    }

    fn check_push(&mut self, ns: usize, request: &Request<Vec<u8>>) -> Subject {
        let endpoint = request.uri().to_string();
        let subscriber =
            self.pushes.subscribers.get(&endpoint).unwrap_or_else(|| panic!("unknown endpoint {endpoint}"));
        assert!(subscriber.ns == ns, "{endpoint} belongs to another namespace");
        assert!(subscriber.state != SubscriptionState::Unsubscribed, "a push to {endpoint}, which is unsubscribed");
        let payload = subscriber.browser.read(request);
        let session = payload["data"]["sessionId"].as_str().unwrap();
        assert!(self.oracles[ns].sessions.contains_key(session), "a push for an unknown session: {payload}");
        let subject = match payload["data"]["requestId"].as_str() {
            Some(request) => Subject::Request(request.to_owned()),
            None => Subject::Ready(session.to_owned()),
        };
        let max = MAX_ATTEMPTS * self.triggers(&subject);
        let key = (endpoint.clone(), subject);
        let attempts = self.pushes.attempts.entry(key.clone()).or_default();
        attempts.count += 1;
        assert!(attempts.count <= max + attempts.unknown, "more than {max} attempts for {key:?}: {attempts:?}");
        key.1
    }

    /// The number of events that trigger a message of this subject.
    fn triggers(&self, subject: &Subject) -> u64 {
        match subject {
            Subject::Request(_) => 1,
            Subject::Ready(session) => self.pushes.ready.get(session).map_or(0, BTreeSet::len) as u64,
        }
    }

    /// A push service accepts a message.
    fn accept_push(&mut self, endpoint: &str, subject: &Subject, unknown: bool) {
        let max = self.triggers(subject);
        let attempts = self.pushes.attempts.get_mut(&(endpoint.to_owned(), subject.clone())).unwrap();
        attempts.accepted += 1;
        attempts.unknown += u64::from(unknown);
        assert!(
            attempts.accepted <= max + attempts.unknown,
            "{endpoint} received {subject:?} more than {max} times: {attempts:?}"
        );
    }

    /// The push service responds, times_out_at or disconnects.
    pub fn push_step(&mut self, ns: usize, number: u64) {
        let Some(mut request) = self.objects[ns].rt.outbox.take(|request| request.number == number).pop() else {
            return;
        };
        if request.times_out_at.is_some() {
            let _ = request.response.send(Err("The push service did not answer in time.".into()));
            return;
        }
        let (endpoint, subject) = (request.http.uri().to_string(), request.subject.clone().unwrap());
        let (status, pause) = self.rng.weighted(&[
            (10, (201, None)),
            (1, (202, None)),
            (1, (404, None)),
            (1, (410, None)),
            (2, (413, None)),
            (2, (429, Some("0"))),
            (2, (429, Some("7"))),
            (1, (429, Some("7200"))),
            (3, (500, None)),
            (1, (403, None)),
            (5, (0, None)),
        ]);
        self.detail(|| format!("push {number} to {endpoint} of {subject:?}: {status} {pause:?}"));
        if status > 0 {
            match status {
                404 | 410 => self.pushes.subscribers.get_mut(&endpoint).unwrap().is_gone = true,
                201 | 202 => {
                    self.accept_push(&endpoint, &subject, false);
                    self.pushes.confirmed[ns] += 1;
                }
                _ => {}
            }
            let _ = request.response.send(Ok(PushAnswer { status, retry_after: pause.map(str::to_owned) }));
            return;
        }
        // The push service disconnects or times_out_at, possibly after it accepted the message.
        if self.rng.chance(50) {
            self.accept_push(&endpoint, &subject, true);
        }
        if self.rng.chance(50) {
            let _ = request.response.send(Err("The connection was lost.".into()));
        } else {
            request.times_out_at = Some(self.now() + u64::from(PUSH_TIMEOUT_MS));
            self.objects[ns].rt.outbox.put(request);
        }
    }

    /// The object crashes. It loses the responses since its last write, and its requests may still be accepted.
    pub fn lose_pushes(&mut self, ns: usize) {
        // The last action may have sent requests.
        self.check_new_pushes();
        let notes = self.objects[ns].rt.fake.stored_entries();
        let items = notes.iter().filter(|(key, _)| key.starts_with("push:item:"));
        let items: Vec<Value> = items.map(|(_, item)| serde_json::from_str(item).unwrap()).collect();
        let noted = |subject: &Subject| {
            items.iter().any(|item| {
                let Value::Object(notification) = &item["notification"] else { panic!("an item without one: {item}") };
                let is = |name: &str, id: &String| notification.get(name).is_some_and(|known| known == id);
                let earlier = notification.get("earlier").and_then(Value::as_array).into_iter().flatten();
                match subject {
                    Subject::Request(id) => is("requestId", id) || earlier.into_iter().any(|known| known == id),
                    Subject::Ready(session) => is("sessionId", session) && notification["kind"] == "ready",
                }
            })
        };
        let of_place = |endpoint: &String| self.pushes.subscribers[endpoint].ns == ns;
        for ((_, subject), attempts) in self.pushes.attempts.iter_mut().filter(|((endpoint, _), _)| of_place(endpoint))
        {
            attempts.unknown += u64::from(noted(subject));
        }
        let incarnation = self.objects[ns].incarnation();
        for request in self.objects[ns]
            .rt
            .outbox
            .take(|request| request.incarnation == incarnation && request.times_out_at.is_none())
        {
            if self.rng.chance(50) {
                let subject = request.subject.as_ref().unwrap();
                self.accept_push(&request.http.uri().to_string(), subject, true);
            }
        }
        self.objects[ns].rt.outbox.take(|request| request.incarnation == incarnation);
    }

    // Invariants.

    /// Checks that the database has exactly the subscriptions of the browsers.
    pub fn check_subscriptions(&mut self, ns: usize) {
        let name = self.objects[ns].name;
        for (endpoint, subscriber) in self.pushes.subscribers.iter_mut().filter(|(_, one)| one.ns == ns) {
            let rows = self.db.sqlite.number(&format!(
                "SELECT count(*) FROM push_subscriptions WHERE namespace = '{name}' AND endpoint = '{endpoint}'"
            ));
            let is_valid = match subscriber.state {
                SubscriptionState::Subscribed => rows == 1 || subscriber.is_gone,
                SubscriptionState::Unsubscribed => rows == 0,
                SubscriptionState::Unknown => true,
            };
            assert!(is_valid, "{endpoint} is {:?}, but has {rows} rows", subscriber.state);
            // The world is idle, so no change is in flight.
            subscriber.is_ambiguous &= subscriber.pending_changes > 0;
        }
        let foreign = self.db.sqlite.number(&format!(
            "SELECT count(*) FROM push_subscriptions WHERE namespace = '{name}' AND endpoint NOT LIKE 'https://{name}-%'"
        ));
        assert!(foreign == 0, "{name} has subscriptions of another namespace");
    }

    /// Waits for the end of all retries and checks the delivery log.
    pub fn finish_pushes(&mut self) {
        let is_open = |world: &Self| {
            let stored = |object: &super::object::Object| object.rt.fake.stored_entries();
            world.objects.iter().any(|object| stored(object).keys().any(|key| key.starts_with("push:item:")))
        };
        // Five attempts, each of which may hang for 10 s, with delays of 5, 20, 80 and 320 s.
        for _ in 0..20 {
            if !is_open(self) {
                break;
            }
            self.advance(31_000);
            self.run_until_idle();
        }
        assert!(!is_open(self), "a notification has no final outcome");
        for ns in [TEAM, NEIGHBOUR] {
            self.request(ns, "GET", "/api/push/log", String::new(), Purpose::PushLog);
        }
        self.run_until_idle();
    }

    /// Checks that every notification has a final outcome, and that the log is complete.
    pub fn check_log(&mut self, ns: usize, log: &[Value]) {
        assert!(log.len() <= MAX_LOG_ENTRIES, "the log has {} entries", log.len());
        assert!(
            log.is_sorted_by(|a, b| a["at"].as_u64() >= b["at"].as_u64()),
            "the newest entry must be the first: {log:?}"
        );
        let open = log.iter().find(|entry| ["waiting", "sending"].iter().any(|word| entry["outcome"] == *word));
        assert!(open.is_none(), "a notification has no final outcome: {open:?}");
        if log.len() == MAX_LOG_ENTRIES {
            return;
        }
        for (session, acknowledged) in &self.pushes.acknowledged_ready[ns] {
            let of_session = |entry: &&Value| entry["kind"] == "ready" && entry["sessionId"] == session.as_str();
            let entries = log.iter().filter(of_session).count();
            assert!(
                entries >= *acknowledged,
                "{session} had {acknowledged} ready events, but the log has {entries}: {log:?}"
            );
        }
        let sent: u64 = log.iter().map(|entry| entry["sent"].as_u64().unwrap()).sum();
        let confirmed = self.pushes.confirmed[ns];
        assert!(
            sent == confirmed || self.crashes > 0,
            "{confirmed} messages were accepted, but the log has {sent}: {log:?}"
        );
    }
}
