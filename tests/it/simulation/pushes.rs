//! Browsers that subscribe to pushes, and their push services, which take a message, refuse it, are busy, hang or break
//! off. What the hub sends is held against what it may send: nothing to whoever is not subscribed, nothing of another
//! namespace, nothing twice unless nobody could know that it had arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use http::Request;
use serde_json::{Value, json};
use session_gateway_hub::hub::ports::{PUSH_LIMIT_MS, PushAnswer};

use super::replies::Purpose;
use super::scheduler::{Life, lock};
use super::world::{NEIGHBOUR, TEAM, World};
use crate::support::pushes::Browser;

/// How often a message is sent to one subscriber, at most.
const MAX_TRIES: u64 = 5;
/// How many browsers there are in a world, at most.
const MAX_BROWSERS: usize = 4;
/// How many entries the log has, at most.
const MAX_LOG: usize = 100;

type Answer = Result<PushAnswer, String>;

/// A message on its way to a push service.
struct Posted {
    number: u64,
    life: Life,
    request: Request<Vec<u8>>,
    /// What it tells of, once that was looked at.
    what: Option<What>,
    /// Until when the push service says nothing.
    hangs: Option<u64>,
    answer: oneshot::Sender<Answer>,
}

/// What an object has sent to push services, and was not answered.
#[derive(Default)]
pub struct Outbox(Mutex<(u64, Vec<Posted>)>);

impl Outbox {
    /// Takes a message of a life of the object.
    pub fn post(&self, life: Life, request: Request<Vec<u8>>) -> BoxFuture<'static, Answer> {
        let (answer, answered) = oneshot::channel();
        let (last, posted) = &mut *lock(&self.0);
        *last += 1;
        posted.push(Posted { number: *last, life, request, what: None, hangs: None, answer });
        answered.map(|answer| answer.unwrap_or_else(|_| Err("The object is gone.".into()))).boxed()
    }

    /// The messages of which something can become now.
    pub fn movable(&self, now: u64) -> Vec<u64> {
        let posted = &lock(&self.0).1;
        posted.iter().filter(|one| one.hangs.is_none_or(|until| until <= now)).map(|one| one.number).collect()
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        lock(&self.0).1.is_empty()
    }

    fn take(&self, which: impl Fn(&Posted) -> bool) -> Vec<Posted> {
        lock(&self.0).1.extract_if(.., |one| which(one)).collect()
    }

    fn hold(&self, posted: Posted) {
        lock(&self.0).1.push(posted);
    }
}

/// What a message tells of: a permission request, or a session whose agent waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Request(String),
    Ready(String),
}

/// What is known of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Subscribed,
    /// Nobody knows.
    Doubtful,
    /// Its person has ended it, and knows that.
    Over,
}

struct Subscriber {
    place: usize,
    browser: Browser,
    standing: Standing,
    /// How many changes were asked for and not answered yet.
    asked: usize,
    /// Whether one of these may have come before another one, or late.
    unsure: bool,
    /// Whether its push service said that it is over.
    gone: bool,
}

/// What came of one notification for one subscriber.
#[derive(Debug, Default)]
struct Sent {
    tries: u64,
    /// How often its push service took it.
    taken: u64,
    /// How often the hub cannot have known that, or what came of the try before.
    unknown: u64,
}

/// The browsers of a world, and what they were sent.
#[derive(Default)]
pub struct Pushes {
    subscribers: BTreeMap<String, Subscriber>,
    /// By endpoint.
    sent: BTreeMap<(String, What), Sent>,
    /// How often push services took something and the hub heard so, by namespace.
    heard: [u64; 2],
    /// The messages by which a session said that it waits, by their local ids.
    ready: BTreeMap<String, BTreeSet<String>>,
    /// How many of these were sent once and acknowledged: each has its line in the log.
    told: [BTreeMap<String, usize>; 2],
}

impl World {
    // Browsers.

    /// A browser subscribes, for the first time or again.
    pub fn browser_subscribes(&mut self, place: usize) {
        let number = self.pushes.subscribers.len();
        if number < MAX_BROWSERS {
            let endpoint = format!("https://{}-{number}.com/x", self.objects[place].name);
            let browser = Browser::new(&endpoint, 1 + u8::try_from(number).unwrap());
            let standing = Standing::Over;
            let subscriber = Subscriber { place, browser, standing, asked: 0, unsure: false, gone: false };
            self.pushes.subscribers.insert(endpoint, subscriber);
        }
        let Some(endpoint) = self.some_endpoint(place) else { return };
        let body = self.pushes.subscribers[&endpoint].browser.subscription();
        self.subscription_changes(place, "POST", &body, Purpose::Subscribe { endpoint });
    }

    /// A browser's person has had enough; or somebody of the other namespace tries to end the subscription.
    pub fn browser_unsubscribes(&mut self, place: usize) {
        let foreign = self.dice.chance(20);
        let Some(endpoint) = self.some_endpoint(if foreign { 1 - place } else { place }) else { return };
        let body = json!({"endpoint": endpoint});
        let purpose = if foreign { Purpose::EndForeign } else { Purpose::Unsubscribe { endpoint } };
        self.subscription_changes(place, "DELETE", &body, purpose);
    }

    fn some_endpoint(&mut self, place: usize) -> Option<String> {
        let of_place = self.pushes.subscribers.iter().filter(|(_, one)| one.place == place);
        let endpoints: Vec<String> = of_place.map(|(endpoint, _)| endpoint.clone()).collect();
        self.dice.pick(&endpoints)
    }

    fn subscription_changes(&mut self, place: usize, method: &str, body: &Value, purpose: Purpose) {
        if let Purpose::Subscribe { endpoint } | Purpose::Unsubscribe { endpoint } = &purpose {
            let subscriber = self.pushes.subscribers.get_mut(endpoint).unwrap();
            subscriber.standing = Standing::Doubtful;
            subscriber.unsure |= subscriber.asked > 0;
            subscriber.asked += 1;
        }
        self.request(place, method, "/api/push/subscribe", body.to_string(), purpose);
    }

    /// A change was made, after which it is subscribed or not; `None` when it failed, or was not answered.
    pub fn subscription_changed(&mut self, endpoint: &str, subscribed: Option<bool>) {
        let subscriber = self.pushes.subscribers.get_mut(endpoint).unwrap();
        subscriber.asked -= 1;
        subscriber.unsure |= subscribed.is_none();
        let sure = subscriber.asked == 0 && !subscriber.unsure;
        subscriber.standing = match subscribed.filter(|_| sure) {
            Some(true) => Standing::Subscribed,
            Some(false) => Standing::Over,
            None => Standing::Doubtful,
        };
    }

    /// A CLI sends a message by which its agent says that it waits.
    pub fn agent_waits(&mut self, session: &str, local_id: &str) {
        self.pushes.ready.entry(session.to_owned()).or_default().insert(local_id.to_owned());
    }

    /// Such a message was acknowledged, which had been sent once.
    pub fn agent_was_heard(&mut self, place: usize, session: &str) {
        *self.pushes.told[place].entry(session.to_owned()).or_default() += 1;
    }

    /// A page that is visible shows a notification.
    pub fn check_toast(&self, place: usize, toast: &Value) {
        let data = &toast["data"];
        let session = data["sessionId"].as_str().unwrap();
        assert!(self.ledgers[place].sessions.contains_key(session), "a toast of an unknown session: {toast}");
        assert!(data["url"] == format!("/sessions/{session}"), "{toast}");
    }

    // Push services.

    /// Whoever is sent to at this moment may be sent to, of his own namespace, and not too often.
    pub fn look_at_pushes(&mut self) {
        for place in [TEAM, NEIGHBOUR] {
            for mut posted in self.objects[place].rt.outbox.take(|one| one.what.is_none()) {
                let what = self.check_push(place, &posted.request);
                posted.what = Some(what);
                self.objects[place].rt.outbox.hold(posted);
            }
        }
    }

    fn check_push(&mut self, place: usize, request: &Request<Vec<u8>>) -> What {
        let endpoint = request.uri().to_string();
        let subscriber = self.pushes.subscribers.get(&endpoint).unwrap_or_else(|| panic!("nobody has {endpoint}"));
        assert!(subscriber.place == place, "{endpoint} is of another namespace");
        assert!(subscriber.standing != Standing::Over, "{endpoint} was unsubscribed, and is sent to");
        let payload = subscriber.browser.read(request);
        let session = payload["data"]["sessionId"].as_str().unwrap();
        assert!(self.ledgers[place].sessions.contains_key(session), "a push of an unknown session: {payload}");
        let what = match payload["data"]["requestId"].as_str() {
            Some(request) => What::Request(request.to_owned()),
            None => What::Ready(session.to_owned()),
        };
        let most = MAX_TRIES * self.triggers(&what);
        let key = (endpoint.clone(), what);
        let sent = self.pushes.sent.entry(key.clone()).or_default();
        sent.tries += 1;
        assert!(sent.tries <= most + sent.unknown, "{key:?} is tried {sent:?}, and may be tried {most} times");
        key.1
    }

    /// How often there was something of which a message tells.
    fn triggers(&self, what: &What) -> u64 {
        match what {
            What::Request(_) => 1,
            What::Ready(session) => self.pushes.ready.get(session).map_or(0, BTreeSet::len) as u64,
        }
    }

    /// A push service took a message.
    fn taken(&mut self, endpoint: &str, what: &What, unknown: bool) {
        let most = self.triggers(what);
        let sent = self.pushes.sent.get_mut(&(endpoint.to_owned(), what.clone())).unwrap();
        sent.taken += 1;
        sent.unknown += u64::from(unknown);
        assert!(sent.taken <= most + sent.unknown, "{endpoint} has {what:?} {sent:?}, and may have it {most} times");
    }

    /// Something becomes of a message on its way.
    pub fn push_moves(&mut self, place: usize, number: u64) {
        let Some(mut posted) = self.objects[place].rt.outbox.take(|one| one.number == number).pop() else { return };
        if posted.hangs.is_some() {
            let _ = posted.answer.send(Err("It did not answer in time.".into()));
            return;
        }
        let (endpoint, what) = (posted.request.uri().to_string(), posted.what.clone().unwrap());
        let (status, pause) = self.dice.weighted(&[
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
        self.detail(|| format!("push {number} to {endpoint} of {what:?}: {status} {pause:?}"));
        if status > 0 {
            match status {
                404 | 410 => self.pushes.subscribers.get_mut(&endpoint).unwrap().gone = true,
                201 | 202 => {
                    self.taken(&endpoint, &what, false);
                    self.pushes.heard[place] += 1;
                }
                _ => {}
            }
            let _ = posted.answer.send(Ok(PushAnswer { status, retry_after: pause.map(str::to_owned) }));
            return;
        }
        // The connection breaks, or the push service says nothing for too long; it may have taken the message before.
        if self.dice.chance(50) {
            self.taken(&endpoint, &what, true);
        }
        if self.dice.chance(50) {
            let _ = posted.answer.send(Err("The connection broke.".into()));
        } else {
            posted.hangs = Some(self.now() + u64::from(PUSH_LIMIT_MS));
            self.objects[place].rt.outbox.hold(posted);
        }
    }

    /// An object is torn down: what it heard since it last took note is lost, and what is on its way may arrive.
    pub fn pushes_are_lost(&mut self, place: usize) {
        // The last turn may have sent some.
        self.look_at_pushes();
        let notes = self.objects[place].rt.fake.notebook();
        let items = notes.iter().filter(|(key, _)| key.starts_with("push:item:"));
        let items: Vec<Value> = items.map(|(_, item)| serde_json::from_str(item).unwrap()).collect();
        let noted = |what: &What| {
            items.iter().any(|item| {
                let Value::Object(notification) = &item["notification"] else { panic!("an item without one: {item}") };
                let is = |name: &str, id: &String| notification.get(name).is_some_and(|known| known == id);
                let earlier = notification.get("earlier").and_then(Value::as_array).into_iter().flatten();
                match what {
                    What::Request(id) => is("requestId", id) || earlier.into_iter().any(|known| known == id),
                    What::Ready(session) => is("sessionId", session) && notification["kind"] == "ready",
                }
            })
        };
        let of_place = |endpoint: &String| self.pushes.subscribers[endpoint].place == place;
        for ((_, what), sent) in self.pushes.sent.iter_mut().filter(|((endpoint, _), _)| of_place(endpoint)) {
            sent.unknown += u64::from(noted(what));
        }
        let life = self.objects[place].life();
        for posted in self.objects[place].rt.outbox.take(|one| one.life == life && one.hangs.is_none()) {
            if self.dice.chance(50) {
                let what = posted.what.as_ref().unwrap();
                self.taken(&posted.request.uri().to_string(), what, true);
            }
        }
        self.objects[place].rt.outbox.take(|one| one.life == life);
    }

    // What must hold.

    /// Who is subscribed stands in the database, and nobody else.
    pub fn check_subscriptions(&mut self, place: usize) {
        let name = self.objects[place].name;
        for (endpoint, subscriber) in self.pushes.subscribers.iter_mut().filter(|(_, one)| one.place == place) {
            let rows = self.db.sqlite.number(&format!(
                "SELECT count(*) FROM push_subscriptions WHERE namespace = '{name}' AND endpoint = '{endpoint}'"
            ));
            let fits = match subscriber.standing {
                Standing::Subscribed => rows == 1 || subscriber.gone,
                Standing::Over => rows == 0,
                Standing::Doubtful => true,
            };
            assert!(fits, "{endpoint} is {:?}, and has {rows} rows", subscriber.standing);
            // Nothing is on its way that could change it.
            subscriber.unsure &= subscriber.asked > 0;
        }
        let elsewhere = self.db.sqlite.number(&format!(
            "SELECT count(*) FROM push_subscriptions WHERE namespace = '{name}' AND endpoint NOT LIKE 'https://{name}-%'"
        ));
        assert!(elsewhere == 0, "{name} has subscriptions of others");
    }

    /// The end of a run: whatever is tried again comes to an end, and the log says how.
    pub fn finish_pushes(&mut self) {
        let is_open = |world: &Self| {
            let notes = |object: &super::object::Object| object.rt.fake.notebook();
            world.objects.iter().any(|object| notes(object).keys().any(|key| key.starts_with("push:item:")))
        };
        // Five tries, each of which may hang for 10 s, with pauses of 5, 20, 80 and 320 s.
        for _ in 0..20 {
            if !is_open(self) {
                break;
            }
            self.pass(31_000);
            self.settle();
        }
        assert!(!is_open(self), "a notification does not come to its end");
        for place in [TEAM, NEIGHBOUR] {
            self.request(place, "GET", "/api/push/log", String::new(), Purpose::PushLog);
        }
        self.settle();
    }

    /// Every notification has come to an end, and what was sent and told stands there.
    pub fn check_log(&mut self, place: usize, log: &[Value]) {
        assert!(log.len() <= MAX_LOG, "the log has {} entries", log.len());
        assert!(log.is_sorted_by(|a, b| a["at"].as_u64() >= b["at"].as_u64()), "the newest first: {log:?}");
        let open = log.iter().find(|entry| ["waiting", "sending"].iter().any(|word| entry["outcome"] == *word));
        assert!(open.is_none(), "a notification did not come to its end: {open:?}");
        if log.len() == MAX_LOG {
            return;
        }
        for (session, told) in &self.pushes.told[place] {
            let of_session = |entry: &&Value| entry["kind"] == "ready" && entry["sessionId"] == session.as_str();
            let entries = log.iter().filter(of_session).count();
            assert!(entries >= *told, "{session} said {told} times that it waits, and the log has {entries}: {log:?}");
        }
        let sent: u64 = log.iter().map(|entry| entry["sent"].as_u64().unwrap()).sum();
        let heard = self.pushes.heard[place];
        assert!(sent == heard || self.crashes > 0, "{heard} messages were taken, and the log has {sent}: {log:?}");
    }
}
