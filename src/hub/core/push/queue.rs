//! The queue of notifications, and the cooldowns of sessions.

use std::collections::{BTreeMap, HashMap};

use crate::hub::core::push::delivery::{Delivery, Target};
use crate::push::payload::{Notification, NotificationKind};

pub const MAX_QUEUED_PUSHES: usize = 200;
/// While the queue has at most this many notifications, a notification may be held back after its toast.
pub const MAX_HELD_PUSHES: usize = MAX_QUEUED_PUSHES / 2;
/// How long after a `Ready` notification further `Ready` notifications of the session are dropped, in milliseconds.
pub const PUSH_COOLDOWN_MS: u64 = 5_000;

/// How long the notification of a permission request waits for more, in milliseconds (PROTOCOL-PUSH.md "Push notifications").
const PUSH_DEBOUNCE_MS: u64 = 500;

/// The queued notifications, by id. Ids grow with time.
#[derive(Debug, Default)]
pub struct Queue {
    deliveries: BTreeMap<u64, Delivery>,
    last_id: u64,
    /// When the cooldown of a session ends, in Unix milliseconds.
    pub cooldowns: HashMap<String, u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum EnqueueResult {
    /// The notification is queued under `id`, in place of the earlier notifications in `replaced`.
    Queued { id: u64, replaced: Vec<(u64, Delivery)> },
    /// The notification was dropped, because its session is in cooldown.
    InCooldown,
    /// The notification was dropped, because the queue is full.
    Full,
}

impl Queue {
    /// Adds a delivery that was stored before hibernation or a restart.
    pub fn restore(&mut self, id: u64, delivery: Delivery) {
        self.last_id = self.last_id.max(id);
        self.deliveries.insert(id, Delivery { is_recorded: true, ..delivery });
    }

    /// Queues a notification, which replaces queued notifications of the same kind and session, as a browser replaces shown ones.
    /// `is_recorded`: see [`Delivery::is_recorded`].
    pub fn enqueue(&mut self, mut notification: Notification, now: u64, is_recorded: bool) -> EnqueueResult {
        if notification.kind == NotificationKind::Ready
            && self.cooldowns.get(&notification.session_id).is_some_and(|until| *until > now)
        {
            return EnqueueResult::InCooldown;
        }
        let (kind, session) = (notification.kind, notification.session_id.clone());
        let is_same =
            |delivery: &Delivery| delivery.notification.kind == kind && delivery.notification.session_id == session;
        if self.deliveries.values().filter(|delivery| !is_same(delivery)).count() >= MAX_QUEUED_PUSHES {
            return EnqueueResult::Full;
        }
        let replaced: Vec<_> = self.deliveries.extract_if(.., |_, delivery| is_same(delivery)).collect();
        let mut due_at = if kind == NotificationKind::Permission { now + PUSH_DEBOUNCE_MS } else { now };
        for (_, delivery) in replaced.iter().filter(|(_, delivery)| delivery.is_undelivered()) {
            notification.supersede(&delivery.notification);
            // A series of requests must not keep delaying the first request.
            due_at = due_at.min(delivery.next_round_at().unwrap_or(delivery.due_at));
        }
        let id = self.next_id(now);
        if kind == NotificationKind::Ready {
            self.cooldowns.insert(session, now + PUSH_COOLDOWN_MS);
        }
        self.deliveries.insert(id, Delivery::new(notification, now, due_at, is_recorded));
        EnqueueResult::Queued { id, replaced }
    }

    pub fn can_hold(&self) -> bool {
        self.deliveries.len() <= MAX_HELD_PUSHES
    }

    /// Allocates an id greater than all earlier ids.
    pub fn next_id(&mut self, now: u64) -> u64 {
        self.last_id = (self.last_id + 1).max(now);
        self.last_id
    }

    /// Returns the queued delivery; `None` once it is finished or replaced.
    pub fn get(&self, id: u64) -> Option<&Delivery> {
        self.deliveries.get(&id)
    }

    /// When the next round of a delivery starts, in Unix milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deliveries.values().filter_map(Delivery::next_round_at).min()
    }

    /// Marks the deliveries that are due as in flight, and returns copies of them.
    pub fn start_due(&mut self, now: u64) -> Vec<(u64, Delivery)> {
        let is_due = |delivery: &Delivery| delivery.next_round_at().is_some_and(|at| at <= now);
        let due = self.deliveries.iter_mut().filter(|(_, delivery)| is_due(delivery));
        due.map(|(id, delivery)| {
            delivery.is_in_flight = true;
            (*id, delivery.clone())
        })
        .collect()
    }

    /// Removes the cooldowns that are over, and returns their sessions.
    pub fn remove_expired_cooldowns(&mut self, now: u64) -> Vec<String> {
        self.cooldowns.extract_if(|_, until| *until <= now).map(|(session, _)| session).collect()
    }

    /// Counts an attempt for each target before the round makes the attempts, because a notification that replaces this one during the
    /// round must not repeat them. Returns false if this notification is already replaced and must not be sent.
    pub fn begin_attempts(&mut self, id: u64, targets: &[Target]) -> bool {
        let Some(delivery) = self.deliveries.get_mut(&id) else { return false };
        let attempted = |target: &Target| Target { attempts: target.attempts + 1, ..target.clone() };
        delivery.targets = targets.iter().map(attempted).collect();
        true
    }

    /// Puts a delivery back after a round, marked as recorded. Returns the delivery if it was replaced during the round.
    pub fn put_back(&mut self, id: u64, delivery: Delivery) -> Option<Delivery> {
        let Some(queued) = self.deliveries.get_mut(&id) else { return Some(delivery) };
        *queued = Delivery { is_in_flight: false, is_recorded: true, ..delivery };
        None
    }

    pub fn remove(&mut self, id: u64) {
        self.deliveries.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::core::push::delivery::{Failure, SendResult};
    use crate::push::endpoint::EndpointId;

    fn ready(session: &str) -> Notification {
        Notification::ready(session, "demo", "alpha")
    }

    #[test]
    fn a_rate_limit_counts_no_attempt_and_a_newer_notification_takes_over_the_request() {
        let request = |id: &str| Notification::permission("s", "demo", id, "shell");
        let mut queue = Queue::default();
        assert!(matches!(queue.enqueue(request("r1"), 0, true), EnqueueResult::Queued { .. }));
        let (id, mut delivery) = queue.start_due(PUSH_DEBOUNCE_MS).pop().unwrap();
        delivery.set_targets(["a", "b"].map(EndpointId::of).into_iter(), PUSH_DEBOUNCE_MS);
        for target in delivery.take_due_targets(PUSH_DEBOUNCE_MS) {
            let failure = Failure { service: "https://a.com".into(), status: None, reason: "later".into() };
            delivery.record_result(target, SendResult::RateLimited(60_000), failure, PUSH_DEBOUNCE_MS);
        }
        assert!(delivery.targets.iter().all(|target| (target.attempts, target.due_at) == (0, 60_000)));
        assert_eq!(queue.put_back(id, delivery), None);
        assert_eq!(queue.next_deadline(), Some(60_000));
        let EnqueueResult::Queued { id, .. } = queue.enqueue(request("r2"), 1_000, true) else { panic!("not queued") };
        assert_eq!(queue.get(id).unwrap().notification.superseded, ["r1"]);
    }

    #[test]
    fn a_full_queue_accepts_only_replacements() {
        let mut queue = Queue::default();
        let mut ids = Vec::new();
        for number in 0..MAX_QUEUED_PUSHES {
            let EnqueueResult::Queued { id, replaced } = queue.enqueue(ready(&format!("s{number}")), 1_000, true)
            else {
                continue;
            };
            assert!(replaced.is_empty());
            ids.push(id);
        }
        assert!(ids.len() == MAX_QUEUED_PUSHES && ids.is_sorted_by(|a, b| a < b));
        assert_eq!(queue.enqueue(ready("another"), 1_000, true), EnqueueResult::Full);
        assert_eq!(queue.enqueue(ready("s0"), 5_999, true), EnqueueResult::InCooldown);
        let enqueued = queue.enqueue(ready("s0"), 6_000, true);
        assert!(matches!(enqueued, EnqueueResult::Queued { replaced, .. } if replaced[0].0 == ids[0]));
        assert_eq!(queue.start_due(6_000).len(), MAX_QUEUED_PUSHES);
        assert_eq!(queue.next_deadline(), None, "all are in flight");
        let late = Delivery::new(ready("s0"), 0, 0, true);
        assert_eq!(queue.put_back(ids[0], late.clone()), Some(late), "it was replaced");
    }
}
