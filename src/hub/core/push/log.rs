//! The log of the latest notifications and their outcomes, in the key-value storage. The log shows users why a notification did
//! not arrive.

use std::collections::VecDeque;

use serde::Serialize;

use crate::hub::core::ports::Runtime;
use crate::hub::core::push::delivery::{Delivery, DeliveryOutcome, Failure, MAX_PUSH_FAILURES, Target};
use crate::hub::core::storage_keys::PUSH_LOG;
use crate::model::json::Json;
use crate::model::order::sort_by;
use crate::push::payload::{Notification, NotificationKind};

/// How many notifications the push log shows.
const MAX_PUSH_LOG_ENTRIES: usize = 100;

/// An entry of `GET /api/push/log`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogEntry<'a> {
    at: u64,
    kind: NotificationKind,
    session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    title: &'a str,
    body: &'a str,
    outcome: DeliveryOutcome,
    sent: u32,
    waiting: usize,
    failed: usize,
    failures: &'a [Failure],
    retries: Vec<Retry<'a>>,
}

/// A subscriber for whom the notification is retried.
#[derive(Serialize)]
struct Retry<'a> {
    #[serde(flatten)]
    failure: &'a Failure,
    at: u64,
}

/// The ids of the entries, oldest first; `None` until they are read.
#[derive(Debug, Default)]
pub struct PushLog(Option<VecDeque<u64>>);

impl PushLog {
    /// Writes or overwrites the entry of a notification. Does nothing for a notification that is not recorded.
    pub fn put(&mut self, rt: &dyn Runtime, id: u64, delivery: &Delivery, outcome: DeliveryOutcome) {
        if !delivery.is_recorded {
            return;
        }
        let Delivery { notification, created_at, targets, sent_count, failures, .. } = delivery;
        let Notification { kind, session_id, request_id, body, .. } = notification;
        let entry = LogEntry {
            at: *created_at,
            kind: *kind,
            session_id,
            request_id: request_id.as_deref(),
            title: notification.title(),
            body,
            outcome,
            sent: *sent_count,
            waiting: targets.len(),
            failed: delivery.failure_count(),
            failures: failures.get(..MAX_PUSH_FAILURES).unwrap_or(failures),
            retries: targets.iter().filter_map(to_retry).take(MAX_PUSH_FAILURES).collect(),
        };
        rt.kv_put(&entry_key(id), &serde_json::to_string(&entry).unwrap_or_default());
        let ids = self.0.get_or_insert_with(|| read_ids(rt));
        let at = ids.partition_point(|known| *known < id);
        if ids.get(at) != Some(&id) {
            ids.insert(at, id);
        }
        while ids.len() > MAX_PUSH_LOG_ENTRIES {
            ids.pop_front().into_iter().for_each(|oldest| rt.kv_delete(&entry_key(oldest)));
        }
    }

    /// Writes the entry of a notification that a newer one replaced. The replaced notification is not retried.
    pub fn put_as_replaced(&mut self, rt: &dyn Runtime, id: u64, delivery: Delivery) {
        let is_shown = delivery.sent_count > 0 || delivery.is_held_back();
        let outcome = if is_shown { delivery.outcome() } else { DeliveryOutcome::Replaced };
        self.put(rt, id, &Delivery { targets: Vec::new(), ..delivery }, outcome);
    }
}

fn to_retry(target: &Target) -> Option<Retry<'_>> {
    target.failure.as_ref().map(|failure| Retry { failure, at: target.due_at })
}

/// Reads the entries, newest first.
pub fn read_entries(rt: &dyn Runtime) -> Vec<Json> {
    let mut entries = rt.kv_list(PUSH_LOG);
    sort_by(&mut entries, |(a, _), (b, _)| b.cmp(a));
    entries.into_iter().filter_map(|(_, entry)| Json::from_string(entry)).collect()
}

fn entry_key(id: u64) -> String {
    format!("{PUSH_LOG}{id:020}")
}

fn read_ids(rt: &dyn Runtime) -> VecDeque<u64> {
    let entries = rt.kv_list(PUSH_LOG);
    let mut ids: Vec<u64> = entries.iter().filter_map(|(key, _)| key.strip_prefix(PUSH_LOG)?.parse().ok()).collect();
    sort_by(&mut ids, Ord::cmp);
    ids.into()
}
