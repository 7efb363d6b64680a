//! What became of the latest notifications, so that a person can see why none came. Kept in the notebook.

use std::collections::VecDeque;

use serde::Serialize;

use crate::hub::ports::Runtime;
use crate::hub::push::queue::{Failure, Item, MAX_FAILURES, Target};
use crate::model::order::sort_by;
use crate::push::payload::{Notification, NotificationKind};

/// How many notifications are remembered (the oldest go).
pub const KEEP_ENTRIES: usize = 100;
/// Notes of this prefix are the entries, by their numbers.
const NOTE_ENTRY: &str = "pushed:";

/// What became of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It waits a moment: another request may follow.
    Waiting,
    /// Some of its subscribers do not have it yet.
    Sending,
    /// It went to push services.
    Sent,
    /// No push service took it.
    Failed,
    /// Visible web clients show it instead.
    Toast,
    /// Nobody subscribed.
    NoSubscribers,
    /// The request was answered before it was sent.
    Answered,
    /// The session was deleted before it was sent.
    SessionGone,
    /// The session's person was told so a moment ago.
    CoolingDown,
    /// A newer one of its session took its place.
    Replaced,
    /// Too many were under way.
    Overloaded,
    /// The database could not be asked who subscribed.
    Unavailable,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    at: u64,
    kind: NotificationKind,
    session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    title: &'a str,
    body: &'a str,
    outcome: Fate,
    /// How many subscribers' push services have it.
    sent: u32,
    /// How many subscribers it still has to be sent to.
    waiting: usize,
    /// How many subscribers will not get it.
    failed: usize,
    failures: &'a [Failure],
    retries: Vec<Retry<'a>>,
}

/// A subscriber whose push service is asked again.
#[derive(Serialize)]
struct Retry<'a> {
    #[serde(flatten)]
    failure: &'a Failure,
    /// When it is asked again, in Unix milliseconds.
    at: u64,
}

/// The numbers of the entries, oldest first; `None` until they were read.
#[derive(Debug, Default)]
pub struct PushLog(Option<VecDeque<u64>>);

impl PushLog {
    /// Notes what became of an item.
    pub fn put(&mut self, rt: &dyn Runtime, number: u64, item: &Item, fate: Fate) {
        let Item { notification, at, targets, sent, failed, .. } = item;
        let Notification { kind, session_id, request_id, body, .. } = notification;
        let entry = Entry {
            at: *at,
            kind: *kind,
            session_id,
            request_id: request_id.as_deref(),
            title: notification.title(),
            body,
            outcome: fate,
            sent: *sent,
            waiting: targets.len(),
            failed: item.failures(),
            failures: failed.get(..MAX_FAILURES).unwrap_or(failed),
            retries: targets.iter().filter_map(retry).take(MAX_FAILURES).collect(),
        };
        rt.kv_put(&key(number), &serde_json::to_string(&entry).unwrap_or_default());
        let numbers = self.0.get_or_insert_with(|| numbers(rt));
        let at = numbers.partition_point(|known| *known < number);
        if numbers.get(at) != Some(&number) {
            numbers.insert(at, number);
        }
        while numbers.len() > KEEP_ENTRIES {
            numbers.pop_front().into_iter().for_each(|oldest| rt.kv_delete(&key(oldest)));
        }
    }

    /// Notes that a newer one has taken the place of an item: nobody is asked again.
    pub fn replaced(&mut self, rt: &dyn Runtime, number: u64, item: Item) {
        let fate = if item.sent > 0 { Fate::Sent } else { Fate::Replaced };
        self.put(rt, number, &Item { targets: Vec::new(), ..item }, fate);
    }
}

fn retry(target: &Target) -> Option<Retry<'_>> {
    target.failure.as_ref().map(|failure| Retry { failure, at: target.due })
}

/// The entries as JSON texts, newest first.
pub fn entries(rt: &dyn Runtime) -> Vec<String> {
    let mut notes = rt.kv_list(NOTE_ENTRY);
    sort_by(&mut notes, |(a, _), (b, _)| b.cmp(a));
    notes.into_iter().map(|(_, entry)| entry).collect()
}

fn key(number: u64) -> String {
    format!("{NOTE_ENTRY}{number:020}")
}

fn numbers(rt: &dyn Runtime) -> VecDeque<u64> {
    let notes = rt.kv_list(NOTE_ENTRY);
    let mut numbers: Vec<u64> =
        notes.iter().filter_map(|(key, _)| key.strip_prefix(NOTE_ENTRY)?.parse().ok()).collect();
    sort_by(&mut numbers, Ord::cmp);
    numbers.into()
}
