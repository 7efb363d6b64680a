//! Notifications on their way: gathered for a moment, sent, tried again. A state machine without IO; the alarm is its clock
//! and the notebook its memory, so that a sleep or a restart takes nothing from it.

use std::collections::{BTreeMap, HashMap};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::push::endpoint::EndpointId;
use crate::push::payload::{MAX_PAYLOAD, Notification, NotificationKind, SHORT_PAYLOAD};

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
/// Of how many subscribers an item says why they did not get it, and of how many why they did not yet. An item is noted whole,
/// and a note has to fit a row of 2 MB.
pub const MAX_FAILURES: usize = 10;

/// Why whoever is not subscribed any more does not get it.
pub const UNSUBSCRIBED: &str = "It was unsubscribed meanwhile.";

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
    /// Who did not, and won't: the first of them.
    #[serde(default)]
    pub failed: Vec<Failure>,
    /// How many more there are of these.
    #[serde(default)]
    pub more_failed: usize,
    /// Whether a task is at it. After a restart none is.
    #[serde(skip)]
    pub under_way: bool,
}

/// A subscriber whom a notification has not reached yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Which of the subscriptions it is sent to.
    #[serde(rename = "to", alias = "endpoint")]
    pub id: EndpointId,
    /// When it is sent next, in Unix milliseconds.
    pub due: u64,
    /// How often it was sent.
    pub tries: u32,
    /// Whether its message is as short as it gets, of itself or because its push service asked for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub short: bool,
    /// Why it has not reached him yet, of some of those who were tried or held back.
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
    /// It was not asked: too many were, and it is its turn at that moment, in Unix milliseconds.
    Held(u64),
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
        Self { notification, at, due, unknown: 0, targets, sent: 0, failed, more_failed: 0, under_way: false }
    }

    /// When something has to be done for it.
    fn deadline(&self) -> Option<u64> {
        let due = self.targets.iter().map(|target| target.due).min().unwrap_or_default();
        (!self.under_way).then_some(due.max(self.due))
    }

    /// Whether somebody may have been told of it.
    fn was_told(&self) -> bool {
        self.sent > 0 || self.failures() > 0 || self.targets.iter().any(|target| target.tries > 0)
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
    pub fn address(&mut self, subscribers: impl Iterator<Item = EndpointId>, now: u64) -> bool {
        let short = self.notification.payload(MAX_PAYLOAD).len() <= SHORT_PAYLOAD;
        self.targets = subscribers.map(|id| Target { id, due: now, tries: 0, short, failure: None }).collect();
        !self.targets.is_empty()
    }

    /// Whoever is not subscribed any more does not get it.
    pub fn leave_out(&mut self, is_subscribed: impl Fn(EndpointId) -> bool) {
        let gone: Vec<Target> = self.targets.extract_if(.., |target| !is_subscribed(target.id)).collect();
        for target in gone {
            let reason = UNSUBSCRIBED.to_owned();
            self.fail(target.failure.map(|failure| Failure { status: None, reason, ..failure }));
        }
    }

    /// How many subscribers won't get it.
    pub fn failures(&self) -> usize {
        self.failed.len() + self.more_failed
    }

    /// A subscriber won't get it.
    fn fail(&mut self, failure: Option<Failure>) {
        match failure.filter(|_| self.failed.len() < MAX_FAILURES) {
            Some(failure) => self.failed.push(failure),
            None => self.more_failed += 1,
        }
    }

    /// A subscriber has to wait for it.
    fn wait(&mut self, target: Target, due: u64, failure: Failure) {
        let shown = self.targets.iter().filter(|target| target.failure.is_some()).count();
        self.targets.push(Target { due, failure: (shown < MAX_FAILURES).then_some(failure), ..target });
    }

    /// The subscribers to whom it has to be sent now; they are no targets until their push services have answered.
    pub fn take_due(&mut self, now: u64) -> Vec<Target> {
        let (due, later) = std::mem::take(&mut self.targets).into_iter().partition(|target| target.due <= now);
        self.targets = later;
        due
    }

    /// A push service answered, or did not. `service` is its origin; `reason` says more of a failure.
    pub fn answered(&mut self, mut target: Target, verdict: Verdict, failure: Failure, now: u64) {
        if let Verdict::Held(until) = verdict {
            return self.wait(target, until, failure);
        }
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
            _ => return self.fail(Some(failure)),
        };
        if target.tries >= MAX_TRIES || pause > MAX_PAUSE_MS {
            return self.fail(Some(failure));
        }
        self.wait(target, now + pause, failure);
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
        let Some(item) = self.items.get_mut(&number) else { return false };
        // Should another one come up meanwhile, nobody knows yet who was told.
        item.targets = targets.iter().map(|target| Target { tries: target.tries + 1, ..target.clone() }).collect();
        true
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
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests {
    use super::*;

    fn ready(session: &str) -> Notification {
        Notification::ready(session, "demo", "alpha")
    }

    fn failure() -> Failure {
        Failure { service: "https://a.com".into(), status: Some(500), reason: "busy".into() }
    }

    fn sent_to(endpoints: &[&str]) -> Item {
        let mut item = Item::new(ready("s"), 0, 0);
        assert!(item.address(endpoints.iter().map(|endpoint| EndpointId::of(endpoint)), 0));
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
    fn an_item_that_was_noted_with_whole_endpoints_goes_on_where_it_was() {
        let note = r#"{"notification":{"kind":"ready","sessionId":"s","body":"b"},"at":1,"due":1,"sent":1,
            "targets":[{"endpoint":"https://a.com/1","due":7,"tries":2}],"failed":[]}"#;
        let item: Item = serde_json::from_str(note).unwrap();
        let target = Target { id: EndpointId::of("https://a.com/1"), due: 7, tries: 2, short: false, failure: None };
        assert_eq!((item.targets, item.sent, item.more_failed), (vec![target], 1, 0));
    }

    #[test]
    fn an_item_fits_its_note_however_many_subscribers_it_has_and_whatever_becomes_of_them() {
        let service = format!("https://{}.com", "a.".repeat(120));
        for verdict in [Verdict::Again(None), Verdict::Held(1), Verdict::Refused] {
            let mut item = Item::new(ready("s"), 0, 0);
            assert!(item.address((0..1_000).map(|number| EndpointId::of(&number.to_string())), 1_700_000_000_000));
            for target in item.take_due(u64::MAX) {
                let failure = Failure { service: service.clone(), ..failure() };
                item.answered(target, verdict.clone(), failure, 1_700_000_000_000);
            }
            assert_eq!(item.targets.len() + item.failures(), 1_000);
            let explained = item.failed.iter().chain(item.targets.iter().filter_map(|target| target.failure.as_ref()));
            assert_eq!(explained.count(), MAX_FAILURES, "{verdict:?}");
            let bytes = serde_json::to_string(&item).unwrap().len();
            assert!(bytes < 80_000, "{bytes}");
        }
    }

    #[test]
    fn whoever_is_held_back_has_all_tries_left_and_was_told_nothing() {
        let request = |id: &str| Notification::permission("s", "demo", id, "shell");
        let mut queue = Queue::default();
        assert!(matches!(queue.admit(request("r1"), 0), Admitted::As(..)));
        let (number, mut item) = queue.take_due(DEBOUNCE_MS).pop().unwrap();
        item.address(["a", "b"].map(EndpointId::of).into_iter(), DEBOUNCE_MS);
        for target in item.take_due(DEBOUNCE_MS) {
            item.answered(target, Verdict::Held(60_000), failure(), DEBOUNCE_MS);
        }
        assert!(item.targets.iter().all(|target| (target.tries, target.due) == (0, 60_000)));
        assert_eq!(queue.put_back(number, item), None);
        assert_eq!(queue.next_deadline(), Some(60_000));
        // Another one takes its place: nobody knows of the first, which may be the one that waits in the end.
        let Admitted::As(number, _) = queue.admit(request("r2"), 1_000) else { panic!("not admitted") };
        assert_eq!(queue.get(number).unwrap().notification.earlier, ["r1"]);
    }

    #[test]
    fn whoever_is_not_subscribed_any_more_is_left_out() {
        let mut item = sent_to(&["a", "b", "c"]);
        item.targets[0].failure = Some(failure());
        item.leave_out(|id| id == EndpointId::of("c"));
        assert_eq!((item.targets.len(), item.failures()), (1, 2));
        let reason = UNSUBSCRIBED.to_owned();
        assert_eq!(item.failed, [Failure { status: None, reason, ..failure() }], "whose service is known is named");
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
