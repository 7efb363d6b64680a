//! Notifications on their way: gathered for a moment, sent, tried again. A state machine without IO; the alarm is its clock
//! and the notebook its memory, so that a sleep or a restart takes nothing from it.

use std::collections::{BTreeMap, HashMap};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::push::payload::{MAX_PAYLOAD, Notification, NotificationKind, SHORT_PAYLOAD};
use crate::store::push::PushSubscription;

/// How long a permission request waits for another one of its session, in milliseconds (PROTOCOL.md
/// "Push notifications").
pub const DEBOUNCE_MS: u64 = 500;
/// How long after an agent was told to wait it is not told again, in milliseconds.
pub const COOL_DOWN_MS: u64 = 5_000;
/// How often a message is sent to one subscriber, at most.
pub const MAX_TRIES: u32 = 5;
/// The pause after the first try, in milliseconds; it is four times as long after each further one.
const FIRST_PAUSE_MS: u64 = 5_000;
/// The longest pause that a push service is granted, in milliseconds. What comes later than that is of no use.
pub const MAX_PAUSE_MS: u64 = 3_600_000;
/// How many notifications may be under way: of so many agents at once a person has to look at the list anyway.
pub const MAX_ITEMS: usize = 200;

/// A notification that was not yet brought to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// What it says.
    pub notification: Notification,
    /// When it came up, in Unix milliseconds.
    pub at: u64,
    /// When it is due, in Unix milliseconds; targets may be due later than that.
    pub due: u64,
    /// How often in a row it was to be sent and the database could not be asked.
    #[serde(default)]
    pub unknown: u32,
    /// To whom it is to be sent; none until it is due for the first time.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// How many push services took it.
    #[serde(default)]
    pub sent: u32,
    /// Who did not, and won't.
    #[serde(default)]
    pub failed: Vec<Failure>,
    /// Whether a task is at it. After a restart none is.
    #[serde(skip)]
    pub under_way: bool,
}

/// A subscriber whom a notification has not reached yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The address that it is sent to, which tells the subscriber from all others.
    pub endpoint: String,
    /// When it is sent next, in Unix milliseconds.
    pub due: u64,
    /// How often it was sent.
    pub tries: u32,
    /// Whether its message is as short as it gets, of itself or because its push service asked for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub short: bool,
    /// Why it has not reached him yet, after the first try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Why a subscriber did not get a notification, or not yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The push service's origin. The whole endpoint is nobody's business but its subscriber's.
    pub service: String,
    /// The status with which it answered, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The sentence for a person.
    pub reason: String,
}

/// What a push service's answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It has the message.
    Sent,
    /// There is no such subscription any more.
    Gone,
    /// It takes no message of this length.
    TooLong,
    /// It may be tried again, after so many milliseconds if it said so.
    Again(Option<u64>),
    /// It never will take it.
    Refused,
}

impl Verdict {
    /// Reads a status and the header `Retry-After` (RFC 8030 section 5; RFC 9110 section 10.2.3); `now` in Unix
    /// milliseconds.
    pub fn of(status: u16, retry_after: Option<&str>, now: u64) -> Self {
        match status {
            201 | 202 | 204 => Self::Sent,
            404 | 410 => Self::Gone,
            413 => Self::TooLong,
            429 | 500..=599 => Self::Again(retry_after.and_then(|text| pause(text, now))),
            _ => Self::Refused,
        }
    }
}

/// The pause that a `Retry-After` asks for: seconds, or a date.
fn pause(text: &str, now: u64) -> Option<u64> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().ok().map(|seconds| seconds.saturating_mul(1000));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(date.as_secs().saturating_mul(1000).saturating_sub(now))
}

impl Item {
    /// A notification that came up `at` a moment and is due at another.
    pub fn new(notification: Notification, at: u64, due: u64) -> Self {
        let (targets, failed) = (Vec::new(), Vec::new());
        Self { notification, at, due, unknown: 0, targets, sent: 0, failed, under_way: false }
    }

    /// When something has to be done for it.
    fn deadline(&self) -> Option<u64> {
        let due = self.targets.iter().map(|target| target.due).min().unwrap_or_default();
        (!self.under_way).then_some(due.max(self.due))
    }

    /// Whether somebody may have been told of it.
    fn was_told(&self) -> bool {
        self.sent > 0 || !self.targets.is_empty() || !self.failed.is_empty()
    }

    /// Whether it is over.
    pub fn is_done(&self) -> bool {
        self.targets.is_empty()
    }

    /// It could not be found out what becomes of it. Answers whether it is tried again.
    pub fn unknown(&mut self, now: u64) -> bool {
        self.unknown += 1;
        self.due = now + back_off(self.unknown);
        self.unknown < MAX_TRIES
    }

    /// It goes to these, now; nobody was it sent to before. Answers whether there are any.
    pub fn address(&mut self, subscriptions: &[PushSubscription], now: u64) -> bool {
        let short = self.notification.payload(MAX_PAYLOAD).len() <= SHORT_PAYLOAD;
        let target = |known: &PushSubscription| {
            let endpoint = known.endpoint.clone();
            Target { endpoint, due: now, tries: 0, short, failure: None }
        };
        self.targets = subscriptions.iter().map(target).collect();
        !self.targets.is_empty()
    }

    /// The subscribers to whom it has to be sent now; they are no targets until their push services have answered.
    pub fn take_due(&mut self, now: u64) -> Vec<Target> {
        let (due, later) = std::mem::take(&mut self.targets).into_iter().partition(|target| target.due <= now);
        self.targets = later;
        due
    }

    /// A push service answered, or did not. `service` is its origin; `reason` says more of a failure.
    pub fn answered(&mut self, mut target: Target, verdict: Verdict, failure: Failure, now: u64) {
        target.tries += 1;
        let pause = match verdict {
            Verdict::Sent => {
                self.sent += 1;
                return;
            }
            Verdict::Again(pause) => pause.unwrap_or_else(|| back_off(target.tries)),
            Verdict::TooLong if !target.short => {
                target.short = true;
                0
            }
            Verdict::TooLong | Verdict::Gone | Verdict::Refused => return self.failed.push(failure),
        };
        if target.tries >= MAX_TRIES || pause > MAX_PAUSE_MS {
            return self.failed.push(failure);
        }
        target.due = now + pause;
        target.failure = Some(failure);
        self.targets.push(target);
    }
}

fn back_off(tries: u32) -> u64 {
    FIRST_PAUSE_MS << (2 * (tries.clamp(1, MAX_TRIES) - 1))
}

/// All notifications on their way, and the cool-downs.
#[derive(Debug, Default)]
pub struct Queue {
    items: BTreeMap<u64, Item>,
    last: u64,
    /// Until when agents of a session that wait are not told of again.
    cooling: HashMap<String, u64>,
}

/// What becomes of a notification that came up.
#[derive(Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It is under this number; others, whose place it takes, are over.
    As(u64, Vec<(u64, Item)>),
    /// Its session cools down.
    Cooling,
    /// Too many are under way.
    Full,
}

impl Queue {
    /// Takes an item up where it was before a sleep or a restart.
    pub fn restore(&mut self, number: u64, item: Item) {
        self.last = self.last.max(number);
        self.items.insert(number, item);
    }

    /// Takes up a cool-down.
    pub fn restore_cool_down(&mut self, session: String, until: u64) {
        self.cooling.insert(session, until);
    }

    /// A notification came up.
    pub fn admit(&mut self, mut notification: Notification, now: u64) -> Admitted {
        if notification.kind == NotificationKind::Ready
            && self.cooling.get(&notification.session_id).is_some_and(|at| *at > now)
        {
            return Admitted::Cooling;
        }
        let (kind, session) = (notification.kind, notification.session_id.clone());
        // A notification of the same tag takes the place of an earlier one with the subscriber, too.
        let same = |item: &Item| item.notification.kind == kind && item.notification.session_id == session;
        if self.items.values().filter(|item| !same(item)).count() >= MAX_ITEMS {
            return Admitted::Full;
        }
        let replaced: Vec<_> = self.items.extract_if(.., |_, item| same(item)).collect();
        let mut due = if kind == NotificationKind::Permission { now + DEBOUNCE_MS } else { now };
        for (_, item) in replaced.iter().filter(|(_, item)| !item.was_told()) {
            notification.stand_for(&item.notification);
            // An agent that asks and asks must not put off what it asked first.
            due = due.min(item.due);
        }
        let number = self.number(now);
        if kind == NotificationKind::Ready {
            self.cooling.insert(session, now + COOL_DOWN_MS);
        }
        self.items.insert(number, Item::new(notification, now, due));
        Admitted::As(number, replaced)
    }

    /// A number for a notification that comes to nothing: above all others.
    pub fn number(&mut self, now: u64) -> u64 {
        self.last = (self.last + 1).max(now);
        self.last
    }

    /// An item.
    pub fn get(&self, number: u64) -> Option<&Item> {
        self.items.get(&number)
    }

    /// When something has to be done, in Unix milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.items.values().filter_map(Item::deadline).min()
    }

    /// The items for which something has to be done now; a task is at each of them from now on.
    pub fn take_due(&mut self, now: u64) -> Vec<(u64, Item)> {
        let due = self.items.iter_mut().filter(|(_, item)| item.deadline().is_some_and(|at| at <= now));
        due.map(|(number, item)| {
            item.under_way = true;
            (*number, item.clone())
        })
        .collect()
    }

    /// The sessions whose cool-down is over.
    pub fn cooled(&mut self, now: u64) -> Vec<String> {
        self.cooling.extract_if(|_, until| *until <= now).map(|(session, _)| session).collect()
    }

    /// A task is about to send an item to these. Answers whether it may: whether no other one has taken its place.
    pub fn sending(&mut self, number: u64, targets: &[Target]) -> bool {
        let item = self.items.get_mut(&number);
        item.map(|item| item.targets = targets.to_vec()).is_some()
    }

    /// A task is done with an item for now: it waits for its next deadline. Gives it back when another one has taken its
    /// place.
    pub fn put_back(&mut self, number: u64, item: Item) -> Option<Item> {
        let Some(waiting) = self.items.get_mut(&number) else { return Some(item) };
        *waiting = Item { under_way: false, ..item };
        None
    }

    /// An item is over.
    pub fn remove(&mut self, number: u64) {
        self.items.remove(&number);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn ready(session: &str) -> Notification {
        Notification::ready(session, "demo", "alpha")
    }

    fn failure() -> Failure {
        Failure { service: "https://a.com".into(), status: Some(500), reason: "busy".into() }
    }

    fn sent_to(endpoints: &[&str]) -> Item {
        let keys = |endpoint: &&str| PushSubscription {
            endpoint: (*endpoint).to_owned(),
            p256dh: String::new(),
            auth: String::new(),
            hub: None,
        };
        let mut item = Item::new(ready("s"), 0, 0);
        assert!(item.address(&endpoints.iter().map(keys).collect::<Vec<_>>(), 0));
        item
    }

    #[test]
    fn a_retry_after_is_seconds_or_a_date() {
        const NOW: u64 = 784_111_770_000;
        for (text, pause) in [
            ("0", Some(0)),
            (" 120 ", Some(120_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("99999999999999999999", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7_000)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(7_000)),
            ("Sun Nov  6 08:49:37 1994", Some(7_000)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(252_618_189_029_000)),
            ("Sun, 06 Nov 1994 9223372036854775807:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 +0000", None),
            ("Sun, 31 Feb 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 -8:49:37 GMT", None),
            ("+5", None),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(Verdict::of(429, Some(text), NOW), Verdict::Again(pause), "{text}");
        }
        assert_eq!(Verdict::of(500, None, NOW), Verdict::Again(None));
    }

    #[test]
    fn pauses_grow_and_one_that_is_too_long_is_the_end() {
        let mut item = sent_to(&["a"]);
        let mut now = 0;
        for pause in [5_000, 20_000, 80_000, 320_000] {
            let target = item.take_due(now).pop().unwrap();
            item.answered(target, Verdict::Again(None), failure(), now);
            assert_eq!(item.deadline(), Some(now + pause));
            assert!(item.take_due(now + pause - 1).is_empty());
            now += pause;
        }
        let target = item.take_due(now).pop().unwrap();
        item.answered(target, Verdict::Again(None), failure(), now);
        assert!(item.is_done() && item.failed.len() == 1);
        let mut item = sent_to(&["a"]);
        let target = item.take_due(0).pop().unwrap();
        item.answered(target, Verdict::Again(Some(u64::MAX)), failure(), 0);
        assert!(item.is_done());
    }

    #[test]
    fn an_item_comes_out_of_the_notebook_as_it_went_in_and_nobody_is_at_it() {
        let mut item = sent_to(&["a", "b"]);
        item.failed.push(failure());
        item.under_way = true;
        let read: Item = serde_json::from_str(&serde_json::to_string(&item).unwrap()).unwrap();
        assert_eq!(read, Item { under_way: false, ..item });
    }

    #[test]
    fn no_more_than_a_bound_are_under_way_and_a_newer_one_takes_the_place_of_its_own() {
        let mut queue = Queue::default();
        let mut numbers = Vec::new();
        for number in 0..MAX_ITEMS {
            let Admitted::As(number, replaced) = queue.admit(ready(&format!("s{number}")), 1_000) else { continue };
            assert!(replaced.is_empty());
            numbers.push(number);
        }
        assert!(numbers.len() == MAX_ITEMS && numbers.is_sorted_by(|a, b| a < b));
        assert_eq!(queue.admit(ready("another"), 1_000), Admitted::Full);
        assert_eq!(queue.admit(ready("s0"), 5_999), Admitted::Cooling);
        let admitted = queue.admit(ready("s0"), 6_000);
        assert!(matches!(admitted, Admitted::As(_, replaced) if replaced[0].0 == numbers[0]));
        assert_eq!(queue.take_due(6_000).len(), MAX_ITEMS);
        assert_eq!(queue.next_deadline(), None, "a task is at each of them");
        let late = Item::new(ready("s0"), 0, 0);
        assert_eq!(queue.put_back(numbers[0], late.clone()), Some(late), "its place is taken");
    }
}
