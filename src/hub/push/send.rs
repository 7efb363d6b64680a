//! Sends queued notifications: as a toast to visible web clients, else to the push services of all subscribers.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Request;

use crate::hub::Hub;
use crate::hub::base::error::{Error, Kind};
use crate::hub::base::ports::PushResponse;
use crate::hub::base::push::delivery::{Delivery, DeliveryOutcome, Failure, SendResult, Target, UNSUBSCRIBED};
use crate::hub::base::push::log::read_entries;
use crate::hub::base::push::state::{PushState, RATE_LIMITER_KEY, cooldown_key, delivery_key};
use crate::hub::base::push::subscribers::{Subscriber, find_subscriber};
use crate::hub::turn::Turn;
use crate::hub::turn::notify::notification_for;
use crate::limits::{MAX_PUSH_RETRY_MS, MAX_PUSHES_PER_MINUTE, SHORT_PAYLOAD_BYTES};
use crate::model::agent_state::{self};
use crate::push::endpoint::Endpoint;
use crate::push::payload::{MAX_PAYLOAD_BYTES, Notification};
use crate::push::request::{self, Keys, PushMessage};
use crate::push::vapid::VapidKeys;
use crate::store::push::PushSubscription;

/// How long a push service stores a message for a browser that is offline.
const TTL: Duration = Duration::from_secs(24 * 3600);

/// What to do with a notification at the start of a round.
enum NextStep {
    /// End the delivery: the notification is no longer needed, or was shown as a toast.
    Finish(DeliveryOutcome),
    Send,
    /// Decide later: the database is unavailable.
    RetryLater,
}

impl Hub {
    /// `GET /api/push/log`: the latest notifications, newest first, each as JSON text.
    pub fn push_log(&self) -> Vec<String> {
        read_entries(&*self.rt)
    }

    /// Starts the deliveries that are due, each in a task of its own.
    pub(in crate::hub) fn start_due_deliveries(self: &Arc<Self>, now: u64) {
        let due = {
            let mut turn = self.turn();
            for session in turn.push.queue.remove_expired_cooldowns(now) {
                self.rt.kv_delete(&cooldown_key(&session));
            }
            turn.push.queue.start_due(now)
        };
        for (id, delivery) in due {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.run_round(id, delivery).await }));
        }
    }

    /// Runs one round of a delivery: sends the notification to every target that is due.
    async fn run_round(self: &Arc<Self>, id: u64, mut delivery: Delivery) {
        match self.choose_next_step(&mut delivery).await {
            NextStep::Finish(outcome) => {
                let outcome = if delivery.is_held() { delivery.outcome() } else { outcome };
                return self.turn().finish(id, delivery, outcome);
            }
            NextStep::Send => {}
            NextStep::RetryLater => return self.retry_round(id, delivery),
        }
        let Ok(subscribers) = self.load_push_subscribers().await else { return self.retry_round(id, delivery) };
        let is_first_round = delivery.targets.is_empty();
        if is_first_round && subscribers.is_empty() {
            let is_toast = self.turn().send_toast(&delivery.notification);
            let outcome = if is_toast { DeliveryOutcome::Toast } else { DeliveryOutcome::NoSubscribers };
            return self.turn().finish(id, delivery, outcome);
        }
        let now = self.rt.now();
        if is_first_round {
            delivery.set_targets(subscribers.iter().map(|subscriber| subscriber.id), now);
        }
        delivery.remove_unsubscribed(|target| find_subscriber(&subscribers, target).is_some());
        self.hold_back(&mut delivery, &subscribers, is_first_round, now);
        // After the toast, which needs no keys.
        let Ok(keys) = self.load_vapid_keys().await else { return self.retry_round(id, delivery) };
        delivery.failed_rounds = 0;
        if !self.turn().push.queue.begin_attempts(id, &delivery.targets) {
            return self.turn().push.log.put_replaced(&*self.rt, id, delivery);
        }
        let due = delivery.take_due_targets(now);
        let attempts = due.into_iter().filter_map(|target| {
            let subscriber = find_subscriber(&subscribers, target.id)?;
            Some(self.send_throttled(&delivery.notification, &keys, target, subscriber))
        });
        let results = join_all(attempts).await;
        let now = self.rt.now();
        if !results.is_empty() {
            let rate_limiter = self.turn().push.rate_limiter.encode();
            self.rt.kv_put(RATE_LIMITER_KEY, &rate_limiter);
        }
        let mut gone = Vec::new();
        for (target, result, failure) in results {
            if let Some(subscriber) = find_subscriber(&subscribers, target.id).filter(|_| result == SendResult::Gone) {
                gone.push(subscriber.subscription.endpoint.clone());
            }
            delivery.record_result(target, result, failure, now);
        }
        if !gone.is_empty() {
            // After a failure, the next notification gets the same responses, and the deletion is tried again.
            let _ = self.delete_subscriptions(&gone).await;
        }
        let is_held = delivery.is_held();
        let outcome = if is_held || delivery.is_done() { delivery.outcome() } else { DeliveryOutcome::Sending };
        // Notifications that are held back must leave room in the queue for pushes to other devices.
        let is_final = delivery.is_done() || is_held && !self.turn().push.queue.can_hold();
        match is_final {
            true => self.turn().finish(id, delivery, outcome),
            false => self.turn().put_back(id, delivery, outcome),
        }
    }

    /// Holds back the pushes to devices in use. These devices get a toast instead. In the first round, other visible web
    /// clients get the toast, too.
    fn hold_back(&self, delivery: &mut Delivery, subscribers: &[Subscriber], is_first_round: bool, now: u64) {
        let mut turn = self.turn();
        let is_in_use = |target, since| {
            let device = find_subscriber(subscribers, target).and_then(|known| known.subscription.device.as_deref());
            turn.connections.has_visible_client(device, since, now)
        };
        if delivery.hold_back(is_in_use, now) || is_first_round {
            turn.send_toast(&delivery.notification);
        }
    }

    /// Decides from the current state whether a notification is sent. A notification of several permission requests is replaced
    /// by a notification of those requests that are still pending.
    async fn choose_next_step(self: &Arc<Self>, delivery: &mut Delivery) -> NextStep {
        match self.load_session(&delivery.notification.session_id).await {
            Ok(()) => {}
            Err(Error::NotFound(Kind::Session) | Error::Forbidden(_)) => {
                return NextStep::Finish(DeliveryOutcome::SessionGone);
            }
            Err(_) => return NextStep::RetryLater,
        }
        let turn = self.turn();
        let notification = &delivery.notification;
        let session = turn.cache.entry(&notification.session_id).map(|entry| &entry.session);
        if let Some(request) = &notification.request_id {
            let ids = notification.superseded.iter().chain([request]);
            let pending = session.and_then(|session| {
                let requests = agent_state::find_pending(session.agent_state.json(), ids.map(String::as_str));
                notification_for(session, &requests)
            });
            let Some(pending) = pending else { return NextStep::Finish(DeliveryOutcome::Answered) };
            delivery.notification = pending;
        } else if delivery.is_held() && session.is_some_and(|session| session.thinking || !session.active) {
            return NextStep::Finish(DeliveryOutcome::Answered);
        }
        NextStep::Send
    }

    /// Sends a notification to one subscriber once a slot is free, unless the rate limit is reached.
    async fn send_throttled(
        &self,
        notification: &Notification,
        keys: &VapidKeys,
        target: Target,
        Subscriber { service, .. }: &Subscriber,
    ) -> (Target, SendResult, Failure) {
        let granted = self.turn().push.slots.acquire(service);
        // Cannot fail: the senders are dropped only with the hub.
        let _ = granted.await;
        let acquired = self.turn().push.rate_limiter.try_acquire(self.rt.now());
        let (result, status, reason) = match acquired {
            // Boxed, because thousands of these futures may wait for a slot.
            Ok(()) => Box::pin(self.send_push(notification, keys, &target)).await,
            Err(until) => {
                let reason = format!("The limit of {MAX_PUSHES_PER_MINUTE} push messages per minute is reached.");
                (SendResult::RateLimited(until), None, reason)
            }
        };
        self.turn().push.slots.release(service);
        (target, result, Failure { service: service.clone(), status, reason })
    }

    /// Sends a notification to one subscriber. Returns the result, the status if there was a response, and the error text.
    async fn send_push(
        &self,
        notification: &Notification,
        keys: &VapidKeys,
        target: &Target,
    ) -> (SendResult, Option<u16>, String) {
        // Encryption blocks the thread for a millisecond or two, so other tasks get a turn before it.
        self.rt.sleep(0).await;
        // The client may have unsubscribed during the wait for a slot.
        let Ok(subscribers) = self.load_push_subscribers().await else {
            return (SendResult::Retry(None), None, "The database was unavailable.".into());
        };
        let Some(subscriber) = find_subscriber(&subscribers, target.id) else {
            return (SendResult::Rejected, None, UNSUBSCRIBED.into());
        };
        let request = match self.build_request(notification, &subscriber.subscription, keys, target.is_short) {
            Ok(request) => request,
            Err(reason) => return (SendResult::Rejected, None, reason),
        };
        match self.rt.push(request).await {
            Ok(PushResponse { status, retry_after }) => {
                let result = SendResult::from_response(status, retry_after.as_deref(), self.rt.now());
                let reason = match &result {
                    SendResult::Accepted => "",
                    SendResult::Gone => "The subscription no longer exists, and was deleted.",
                    SendResult::TooLong => "The message was too long for the push service.",
                    SendResult::Retry(Some(delay)) if *delay > MAX_PUSH_RETRY_MS => {
                        "The push service asked to retry after more than an hour."
                    }
                    SendResult::Retry(_) | SendResult::RateLimited(_) => "The push service was busy.",
                    SendResult::Rejected => "The push service rejected the message.",
                };
                (result, Some(status), reason.into())
            }
            Err(reason) => (SendResult::Retry(None), None, reason),
        }
    }

    /// Builds the request to the push service. The error is a sentence for the push log.
    fn build_request(
        &self,
        notification: &Notification,
        subscription: &PushSubscription,
        vapid: &VapidKeys,
        is_short: bool,
    ) -> Result<Request<Vec<u8>>, String> {
        // Validated again, because the subscription may have been stored under other settings.
        let endpoint = Endpoint::parse(&subscription.endpoint, self.config.push.insecure);
        let endpoint = endpoint.map_err(|error| format!("The endpoint {}.", error.0))?;
        let keys = Keys::parse(&subscription.p256dh, &subscription.auth);
        let keys = keys.map_err(|_| "The keys of the subscription are invalid.")?;
        let subject = self.config.push.subject.as_deref().or(subscription.hub.as_deref());
        let now = self.rt.now() / 1000;
        let tokens = &mut self.turn().push.subscribers.tokens;
        let authorization = tokens.authorization(vapid, &endpoint.origin(), subject, now);
        let message = PushMessage {
            payload: notification.payload(if is_short { SHORT_PAYLOAD_BYTES } else { MAX_PAYLOAD_BYTES }),
            ttl: TTL,
            topic: &notification.topic(),
            urgency: notification.urgency(),
            authorization: &authorization.ok_or("The VAPID token could not be signed.")?,
        };
        // `request::build` panics without a random source.
        self.rt.random(&mut [0]).map_err(|error| error.to_string())?;
        request::build(&endpoint, &keys, message).map_err(|error| error.to_string())
    }

    /// Schedules another round after the database was unavailable, or ends the delivery after several failed rounds.
    fn retry_round(&self, id: u64, mut delivery: Delivery) {
        match delivery.retry_round(self.rt.now()) {
            true => self.turn().put_back(id, delivery, DeliveryOutcome::Waiting),
            false => self.turn().finish(id, delivery, DeliveryOutcome::Unavailable),
        }
    }
}

impl Turn<'_> {
    /// Returns a delivery to the queue until its next round.
    fn put_back(&mut self, id: u64, delivery: Delivery, outcome: DeliveryOutcome) {
        let PushState { queue, log, .. } = &mut self.state.push;
        if let Some(replaced) = queue.put_back(id, delivery) {
            log.put_replaced(&*self.hub.rt, id, replaced);
        } else if let Some(delivery) = queue.get(id) {
            self.hub.rt.kv_put(&delivery_key(id), &delivery.encode());
            log.put(&*self.hub.rt, id, delivery, outcome);
        }
        let next = self.state.push.queue.next_deadline();
        self.request_alarm(next);
    }

    /// Removes a delivery from the queue and logs its outcome.
    fn finish(&mut self, id: u64, delivery: Delivery, outcome: DeliveryOutcome) {
        self.state.push.queue.remove(id);
        self.hub.rt.kv_delete(&delivery_key(id));
        self.state.push.log.put(&*self.hub.rt, id, &Delivery { targets: Vec::new(), ..delivery }, outcome);
    }
}
