//! Simulated browsers with push subscriptions, and push services. A push service accepts a push request, rejects it, limits
//! the rate, hangs or disconnects. Checks that the hub sends no notification to an unsubscribed browser or to another
//! namespace. Checks that the hub sends a duplicate only if the outcome of the first attempt was unknown.

use std::collections::{BTreeMap, BTreeSet};

use http::Request;
use serde_json::{Value, json};
use session_gateway_hub::hub::core::ports::{PUSH_TIMEOUT_MS, PushResponse};

use super::push_outbox::Subject;
use super::responses::Purpose;
use super::world::{NEIGHBOUR, TEAM, World};
use crate::support::pushes::Browser;

/// The largest number of push requests for one notification to one subscriber.
const MAX_ATTEMPTS: u64 = 5;
const MAX_BROWSERS: usize = 4;
const MAX_LOG_ENTRIES: usize = 100;
/// The push service sends no response. Used instead of an HTTP status.
const DISCONNECT_OR_HANG: u16 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubscriptionState {
    Subscribed,
    /// A change is pending or has failed.
    Unknown,
    Unsubscribed,
}

/// A simulated browser and the state of its push subscription.
struct Subscriber {
    namespace_index: usize,
    browser: Browser,
    state: SubscriptionState,
    /// The number of requests to subscribe or unsubscribe the browser.
    changes: usize,
    /// The number of requests to subscribe or unsubscribe without a response.
    pending_changes: usize,
    /// Whether the order or outcome of the requests to subscribe or unsubscribe is unknown.
    is_ambiguous: bool,
    /// Whether the push service has reported that the subscription does not exist.
    is_gone: bool,
}

/// The push requests to one subscriber about one subject.
#[derive(Debug, Default)]
struct Attempts {
    count: u64,
    /// The number of push requests that the push service accepted.
    accepted: u64,
    /// The number of requests that may be sent again, because the hub does not know whether they were accepted.
    unknown: u64,
}

#[derive(Default)]
pub struct Pushes {
    subscribers: BTreeMap<String, Subscriber>,
    /// By endpoint and subject.
    attempts: BTreeMap<(String, Subject), Attempts>,
    /// The number of accepted push requests whose response the hub received, by namespace.
    confirmed: [u64; 2],
    /// The local ids of ready events, by session.
    ready: BTreeMap<String, BTreeSet<String>>,
    /// The subscriptions that certainly existed when a ready event was sent, with their numbers of changes, by local id.
    subscribed_at_ready: [BTreeMap<String, Vec<(String, usize)>>; 2],
    /// The number of ready events that were sent once and acknowledged while there was a subscription, by session. Each of
    /// these events has an entry in the push log.
    acknowledged_ready: [BTreeMap<String, usize>; 2],
}

impl Pushes {
    /// The endpoints that are certainly subscribed, with their numbers of changes.
    fn certain_subscriptions(&self, namespace_index: usize) -> Vec<(String, usize)> {
        let is_certain = |subscriber: &Subscriber| {
            subscriber.namespace_index == namespace_index
                && subscriber.state == SubscriptionState::Subscribed
                && !subscriber.is_gone
        };
        let certain = self.subscribers.iter().filter(|(_, subscriber)| is_certain(subscriber));
        certain.map(|(endpoint, subscriber)| (endpoint.clone(), subscriber.changes)).collect()
    }
}

impl World {
    // Browsers.

    /// Subscribes a new or an existing browser.
    pub fn browser_subscribe(&mut self, namespace_index: usize) {
        let number = self.pushes.subscribers.len();
        if number < MAX_BROWSERS {
            let endpoint = format!("https://{}-{number}.com/x", self.objects[namespace_index].name);
            let browser = Browser::new(&endpoint, 1 + u8::try_from(number).unwrap());
            let state = SubscriptionState::Unsubscribed;
            let subscriber = Subscriber {
                namespace_index,
                browser,
                state,
                changes: 0,
                pending_changes: 0,
                is_ambiguous: false,
                is_gone: false,
            };
            self.pushes.subscribers.insert(endpoint, subscriber);
        }
        let Some(endpoint) = self.pick_endpoint(namespace_index) else { return };
        let subscriber = &self.pushes.subscribers[&endpoint];
        let mut body = subscriber.browser.subscription();
        // The first subscription of a browser names no device, as in earlier versions of the console.
        if subscriber.changes > 0 {
            body["device"] = json!(endpoint);
        }
        self.change_subscription(namespace_index, "POST", &body, Purpose::Subscribe { endpoint });
    }

    /// Unsubscribes a browser, or attempts to unsubscribe a browser of the other namespace.
    pub fn browser_unsubscribe(&mut self, namespace_index: usize) {
        let foreign = self.rng.chance(20);
        let Some(endpoint) = self.pick_endpoint(if foreign { 1 - namespace_index } else { namespace_index }) else {
            return;
        };
        let body = json!({"endpoint": endpoint});
        let purpose = if foreign { Purpose::UnsubscribeForeign } else { Purpose::Unsubscribe { endpoint } };
        self.change_subscription(namespace_index, "DELETE", &body, purpose);
    }

    /// The endpoint of a browser, which is also the name of its device.
    pub fn pick_endpoint(&mut self, namespace_index: usize) -> Option<String> {
        let in_namespace =
            self.pushes.subscribers.iter().filter(|(_, subscriber)| subscriber.namespace_index == namespace_index);
        let endpoints: Vec<String> = in_namespace.map(|(endpoint, _)| endpoint.clone()).collect();
        self.rng.pick(&endpoints)
    }

    fn change_subscription(&mut self, namespace_index: usize, method: &str, body: &Value, purpose: Purpose) {
        if let Purpose::Subscribe { endpoint } | Purpose::Unsubscribe { endpoint } = &purpose {
            let subscriber = self.pushes.subscribers.get_mut(endpoint).unwrap();
            subscriber.state = SubscriptionState::Unknown;
            subscriber.is_ambiguous |= subscriber.pending_changes > 0;
            (subscriber.changes, subscriber.pending_changes) = (subscriber.changes + 1, subscriber.pending_changes + 1);
        }
        self.request(namespace_index, method, "/api/push/subscribe", body.to_string(), purpose);
    }

    /// Records the response to a request that changes a subscription. `subscribed`: the new state; `None` if the request
    /// failed or its response was lost.
    pub fn on_subscription_changed(&mut self, endpoint: &str, subscribed: Option<bool>) {
        let subscriber = self.pushes.subscribers.get_mut(endpoint).unwrap();
        subscriber.pending_changes -= 1;
        subscriber.is_ambiguous |= subscribed.is_none();
        let is_certain = subscriber.pending_changes == 0 && !subscriber.is_ambiguous;
        subscriber.state = match subscribed.filter(|_| is_certain) {
            Some(true) => SubscriptionState::Subscribed,
            Some(false) => SubscriptionState::Unsubscribed,
            None => SubscriptionState::Unknown,
        };
    }

    /// Records a ready event that a CLI sends.
    pub fn record_ready(&mut self, namespace_index: usize, session: &str, local_id: &str) {
        let subscribed = self.pushes.certain_subscriptions(namespace_index);
        self.pushes.ready.entry(session.to_owned()).or_default().insert(local_id.to_owned());
        self.pushes.subscribed_at_ready[namespace_index].insert(local_id.to_owned(), subscribed);
    }

    /// Counts a ready event that was sent once and acknowledged, if there was a subscription all the time.
    pub fn count_ready(&mut self, namespace_index: usize, session: &str, local_id: &str) {
        let subscribed = self.pushes.certain_subscriptions(namespace_index);
        if self.pushes.subscribed_at_ready[namespace_index][local_id].iter().any(|known| subscribed.contains(known)) {
            *self.pushes.acknowledged_ready[namespace_index].entry(session.to_owned()).or_default() += 1;
        }
    }

    /// Checks a toast: the event that a visible page gets instead of a push request.
    pub fn check_toast(&self, namespace_index: usize, toast: &Value) {
        let data = &toast["data"];
        let session = data["sessionId"].as_str().unwrap();
        assert!(
            self.oracles[namespace_index].sessions.contains_key(session),
            "a toast for an unknown session: {toast}"
        );
        assert!(data["url"] == format!("/sessions/{session}"), "{toast}");
    }

    // Push services.

    /// Checks the push requests that the hub has sent since the last call.
    pub fn check_new_pushes(&mut self) {
        for namespace_index in [TEAM, NEIGHBOUR] {
            for mut request in self.objects[namespace_index].rt.outbox.take_where(|request| request.subject.is_none()) {
                let subject = self.check_push(namespace_index, &request.http);
                request.subject = Some(subject);
                self.objects[namespace_index].rt.outbox.put_back(request);
            }
        }
    }

    fn check_push(&mut self, namespace_index: usize, request: &Request<Vec<u8>>) -> Subject {
        let endpoint = request.uri().to_string();
        let subscriber =
            self.pushes.subscribers.get(&endpoint).unwrap_or_else(|| panic!("unknown endpoint {endpoint}"));
        assert!(subscriber.namespace_index == namespace_index, "{endpoint} belongs to another namespace");
        assert!(
            subscriber.state != SubscriptionState::Unsubscribed,
            "a push request to {endpoint}, which is unsubscribed"
        );
        let payload = subscriber.browser.read(request);
        let session = payload["data"]["sessionId"].as_str().unwrap();
        assert!(
            self.oracles[namespace_index].sessions.contains_key(session),
            "a notification about an unknown session: {payload}"
        );
        let subject = match payload["data"]["requestId"].as_str() {
            Some(request) => Subject::Request(request.to_owned()),
            None => Subject::Ready(session.to_owned()),
        };
        let max = MAX_ATTEMPTS * self.trigger_count(&subject);
        let key = (endpoint.clone(), subject);
        let attempts = self.pushes.attempts.entry(key.clone()).or_default();
        attempts.count += 1;
        assert!(attempts.count <= max + attempts.unknown, "more than {max} push requests for {key:?}: {attempts:?}");
        key.1
    }

    /// The number of events that cause a notification about this subject.
    fn trigger_count(&self, subject: &Subject) -> u64 {
        match subject {
            Subject::Request(_) => 1,
            Subject::Ready(session) => self.pushes.ready.get(session).map_or(0, BTreeSet::len) as u64,
        }
    }

    /// Counts a push request that the push service accepts. `unknown`: whether the hub gets no response.
    fn accept_push(&mut self, endpoint: &str, subject: &Subject, unknown: bool) {
        let max = self.trigger_count(subject);
        let attempts = self.pushes.attempts.get_mut(&(endpoint.to_owned(), subject.clone())).unwrap();
        attempts.accepted += 1;
        attempts.unknown += u64::from(unknown);
        assert!(
            attempts.accepted <= max + attempts.unknown,
            "{endpoint} received {subject:?} more than {max} times: {attempts:?}"
        );
    }

    /// Takes the next step of a push request. If the push service hangs, the request times out. Otherwise the push service
    /// responds, hangs or disconnects.
    pub fn advance_push(&mut self, namespace_index: usize, number: u64) {
        let Some(mut request) =
            self.objects[namespace_index].rt.outbox.take_where(|request| request.number == number).pop()
        else {
            return;
        };
        if request.times_out_at.is_some() {
            let _ = request.response.send(Err("The push service did not answer in time.".into()));
            return;
        }
        let (endpoint, subject) = (request.http.uri().to_string(), request.subject.clone().unwrap());
        let (status, retry_after) = self.rng.weighted(&[
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
            (5, (DISCONNECT_OR_HANG, None)),
        ]);
        self.log_detail(|| format!("push request {number} to {endpoint} about {subject:?}: {status} {retry_after:?}"));
        if status != DISCONNECT_OR_HANG {
            match status {
                404 | 410 => self.pushes.subscribers.get_mut(&endpoint).unwrap().is_gone = true,
                201 | 202 => {
                    self.accept_push(&endpoint, &subject, false);
                    self.pushes.confirmed[namespace_index] += 1;
                }
                _ => {}
            }
            let _ = request.response.send(Ok(PushResponse { status, retry_after: retry_after.map(str::to_owned) }));
            return;
        }
        // The push service disconnects or hangs, possibly after it accepted the request.
        if self.rng.chance(50) {
            self.accept_push(&endpoint, &subject, true);
        }
        if self.rng.chance(50) {
            let _ = request.response.send(Err("The connection was lost.".into()));
        } else {
            request.times_out_at = Some(self.now() + u64::from(PUSH_TIMEOUT_MS));
            self.objects[namespace_index].rt.outbox.put_back(request);
        }
    }

    /// Simulates the effect of a crash of the object on its push requests. Responses that the object has not stored are lost.
    /// Push services may still accept pending requests.
    pub fn lose_pushes(&mut self, namespace_index: usize) {
        // The last action may have sent push requests.
        self.check_new_pushes();
        let entries = self.objects[namespace_index].rt.fake.stored_entries();
        let queued = entries.iter().filter(|(key, _)| key.starts_with("push:item:"));
        let queued: Vec<Value> = queued.map(|(_, value)| serde_json::from_str(value).unwrap()).collect();
        let is_queued = |subject: &Subject| {
            queued.iter().any(|entry| {
                let Value::Object(notification) = &entry["notification"] else { panic!("no notification: {entry}") };
                let has = |field: &str, id: &String| notification.get(field).is_some_and(|value| value == id);
                let earlier = notification.get("earlier").and_then(Value::as_array).into_iter().flatten();
                match subject {
                    Subject::Request(id) => has("requestId", id) || earlier.into_iter().any(|value| value == id),
                    Subject::Ready(session) => has("sessionId", session) && notification["kind"] == "ready",
                }
            })
        };
        let in_namespace = |endpoint: &String| self.pushes.subscribers[endpoint].namespace_index == namespace_index;
        for ((endpoint, subject), attempts) in &mut self.pushes.attempts {
            if in_namespace(endpoint) {
                attempts.unknown += u64::from(is_queued(subject));
            }
        }
        let incarnation = self.objects[namespace_index].incarnation();
        for request in self.objects[namespace_index]
            .rt
            .outbox
            .take_where(|request| request.incarnation == incarnation && request.times_out_at.is_none())
        {
            if self.rng.chance(50) {
                let subject = request.subject.as_ref().unwrap();
                self.accept_push(&request.http.uri().to_string(), subject, true);
            }
        }
        self.objects[namespace_index].rt.outbox.take_where(|request| request.incarnation == incarnation);
    }

    // Invariants.

    /// Checks that the database has exactly the subscriptions of the browsers.
    pub fn check_subscriptions(&mut self, namespace_index: usize) {
        let name = self.objects[namespace_index].name;
        for (endpoint, subscriber) in
            self.pushes.subscribers.iter_mut().filter(|(_, subscriber)| subscriber.namespace_index == namespace_index)
        {
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

    /// Runs until all retries have ended, then requests the push log, which [`Self::check_log`] checks.
    pub fn finish_pushes(&mut self) {
        let has_queued_notifications = |world: &Self| {
            let stored = |object: &super::object::Object| object.rt.fake.stored_entries();
            world.objects.iter().any(|object| stored(object).keys().any(|key| key.starts_with("push:item:")))
        };
        // At most 535 s: 60 s after a toast, and five attempts, each of which may hang for 10 s, with delays of 5, 20, 80 and
        // 320 s. A `Retry-After` is 7 s or too long to be followed.
        for _ in 0..20 {
            if !has_queued_notifications(self) {
                break;
            }
            self.advance(31_000);
            self.run_until_idle();
        }
        assert!(!has_queued_notifications(self), "a notification has no final outcome");
        for namespace_index in [TEAM, NEIGHBOUR] {
            self.request(namespace_index, "GET", "/api/push/log", String::new(), Purpose::PushLog);
        }
        self.run_until_idle();
    }

    /// Checks that every notification in the log has a final outcome. A log that is not full must be complete.
    pub fn check_log(&mut self, namespace_index: usize, log: &[Value]) {
        assert!(log.len() <= MAX_LOG_ENTRIES, "the log has {} entries", log.len());
        assert!(
            log.is_sorted_by(|a, b| a["at"].as_u64() >= b["at"].as_u64()),
            "the newest entry must be the first: {log:?}"
        );
        let unfinished =
            log.iter().find(|entry| ["waiting", "sending"].iter().any(|outcome| entry["outcome"] == *outcome));
        assert!(unfinished.is_none(), "a notification has no final outcome: {unfinished:?}");
        if log.len() == MAX_LOG_ENTRIES {
            return;
        }
        for (session, acknowledged) in &self.pushes.acknowledged_ready[namespace_index] {
            let is_ready_of_session =
                |entry: &&Value| entry["kind"] == "ready" && entry["sessionId"] == session.as_str();
            let entries = log.iter().filter(is_ready_of_session).count();
            assert!(
                entries >= *acknowledged,
                "{session} had {acknowledged} ready events, but the log has {entries} entries: {log:?}"
            );
        }
        let sent: u64 = log.iter().map(|entry| entry["sent"].as_u64().unwrap()).sum();
        let confirmed = self.pushes.confirmed[namespace_index];
        assert!(
            sent == confirmed || self.crashes > 0,
            "{confirmed} push requests were accepted, but the log has {sent}: {log:?}"
        );
    }
}
