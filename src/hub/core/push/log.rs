//! The log of the latest notifications and their outcomes, in the key-value storage. It shows users why a notification is missing.

use std::collections::VecDeque;

use crate::hub::core::ports::Runtime;
use crate::hub::core::push::delivery::{Delivery, DeliveryOutcome, Failure, MAX_PUSH_FAILURES, Target};
use crate::hub::core::storage_keys::PUSH_LOG;
use crate::model::json::Json;
use crate::model::order::sort_by;

/// How many notifications the push log shows.
const MAX_PUSH_LOG_ENTRIES: usize = 100;

/// The ids of the entries, oldest first; `None` until they are read.
#[derive(Debug, Default)]
pub struct PushLog(Option<VecDeque<u64>>);

impl PushLog {
    /// Writes or overwrites the entry of a notification. Does nothing for a notification that is not recorded.
    pub fn put(&mut self, rt: &dyn Runtime, id: u64, delivery: &Delivery, outcome: DeliveryOutcome) {
        if !delivery.is_recorded {
            return;
        }
        let Delivery { notification, targets, failures, .. } = delivery;
        let failures = failures.get(..MAX_PUSH_FAILURES).unwrap_or(failures);
        let retries: Vec<Json> = targets.iter().filter_map(encode_retry).take(MAX_PUSH_FAILURES).collect();
        let entry = Json::object_of_some(&[
            ("at", Some(Json::of(&delivery.created_at))),
            ("kind", Some(Json::of(&notification.kind))),
            ("sessionId", Some(Json::of(&notification.session_id))),
            ("requestId", notification.request_id.as_ref().map(Json::of)),
            ("title", Some(Json::of(notification.title()))),
            ("body", Some(Json::of(&notification.body))),
            ("outcome", Some(Json::of(&outcome))),
            ("sent", Some(Json::of(&delivery.sent_count))),
            ("waiting", Some(Json::of(&targets.len()))),
            ("failed", Some(Json::of(&delivery.failure_count()))),
            ("failures", Some(Json::of(failures))),
            ("retries", Some(Json::of(&retries))),
        ]);
        rt.kv_put(&entry_key(id), entry.text());
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

/// Encodes a subscriber for whom the notification is retried.
fn encode_retry(target: &Target) -> Option<Json> {
    let Failure { service, status, reason } = target.failure.as_ref()?;
    let status = status.map(|status| Json::of(&status));
    let (service, reason) = (Some(Json::of(service)), Some(Json::of(reason)));
    let at = Some(Json::of(&target.due_at));
    Some(Json::object_of_some(&[("service", service), ("status", status), ("reason", reason), ("at", at)]))
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
