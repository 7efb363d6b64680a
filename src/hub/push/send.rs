//! Sends queued notifications as a push to each subscriber. A device in use gets a toast first, and the push if its user ignores it.

use std::time::Duration;

use futures::future::join_all;
use http::Request;

use crate::auth::answer_token::{AnswerClaims, AnswerKey, fingerprint};
use crate::hub::Hub;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::ports::PushResponse;
use crate::hub::core::push::delivery::{
    Delivery, DeliveryOutcome, Failure, MAX_PUSH_RETRY_MS, SendResult, Target, UNSUBSCRIBED,
};
use crate::hub::core::push::log::read_entries;
use crate::hub::core::push::state::{COOLDOWNS, DELIVERIES, PushState, RATE_LIMITER_KEY, Subscriber, find_subscriber};
use crate::hub::core::push::throttle::MAX_PUSHES_PER_MINUTE;
use crate::hub::push::answer::fingerprint_of;
use crate::hub::push::notify::notification_for;
use crate::log::{Level, LogLine};
use crate::metrics::Counter;
use crate::model::agent_state;
use crate::model::json::Json;
use crate::model::pending_request::PendingCall;
use crate::push::endpoint::Endpoint;
use crate::push::payload::{Details, MAX_PAYLOAD_BYTES, MAX_SHORT_PAYLOAD_BYTES, Notification, NotificationKind};
use crate::push::request::{self, Keys, PushMessage};
use crate::push::vapid::VapidKeys;
use crate::store::push::PushSubscription;

/// One round of the delivery that has this id in the queue.
struct Round<'a> {
    hub: &'a Hub,
    id: u64,
}

/// A notification that is sent, the key that signs requests to push services, and the key that signs answer tokens.
struct Sending<'a> {
    hub: &'a Hub,
    notification: &'a Notification,
    vapid: VapidKeys,
    answers: Option<AnswerKey>,
}

impl Hub {
    /// `GET /api/push/log`: the latest notifications, newest first.
    pub fn push_log(&self) -> Vec<Json> {
        read_entries(&*self.rt)
    }

    /// Starts the deliveries that are due, each in a task of its own.
    pub(in crate::hub) fn start_due_deliveries(&self, now: u64) {
        let mut turn = self.turn();
        for session in turn.push.queue.remove_expired_cooldowns(now) {
            self.rt.kv_delete(&format!("{COOLDOWNS}{session}"));
        }
        let due = turn.push.queue.start_due(now);
        drop(turn);
        for (id, delivery) in due {
            self.spawn(|hub| async move { Round { hub: &hub, id }.run(delivery).await });
        }
    }
}

impl Round<'_> {
    /// Sends the notification to every target that is due.
    async fn run(&self, mut delivery: Delivery) {
        let Self { hub, id } = *self;
        let Ok(unneeded) = self.update_notification(&mut delivery).await else { return self.retry(delivery) };
        if let Some(outcome) = unneeded {
            // All remaining targets are held back: a toast has shown the notification, so the delivery has an outcome of its own.
            let outcome = if delivery.is_held_back() { delivery.outcome() } else { outcome };
            return self.finish(delivery, outcome);
        }
        let Ok(subscribers) = hub.subscriptions.load().await else { return self.retry(delivery) };
        let is_first_round = delivery.targets.is_empty();
        let kind = delivery.notification.kind;
        let wants_notification =
            |subscriber: &&Subscriber| kind == NotificationKind::Permission || !subscriber.subscription.requests_only;
        if is_first_round && !subscribers.iter().any(|subscriber| wants_notification(&subscriber)) {
            let is_toast = hub.turn().send_toast(&delivery.notification);
            let outcome = if is_toast { DeliveryOutcome::Toast } else { DeliveryOutcome::NoSubscribers };
            return self.finish(delivery, outcome);
        }
        let now = hub.rt.now();
        if is_first_round {
            delivery.set_targets(subscribers.iter().filter(wants_notification).map(|subscriber| subscriber.id), now);
        }
        delivery.remove_unsubscribed(|target| find_subscriber(&subscribers, target).is_some());
        self.hold_back(&mut delivery, &subscribers, is_first_round, now);
        // The keys are loaded after the toast is sent, because a toast needs no keys.
        let Ok(vapid) = hub.subscriptions.load_vapid_keys().await else { return self.retry(delivery) };
        // If this key cannot be loaded, the notification is sent without the means to answer it.
        let answers = match kind {
            NotificationKind::Permission => hub.access.load_answer_key().await.ok(),
            NotificationKind::Ready => None,
        };
        delivery.failed_rounds = 0;
        // Fails if a newer notification has replaced this one.
        if !hub.turn().push.queue.begin_attempts(id, &delivery.targets) {
            return hub.turn().push.log.put_as_replaced(&*hub.rt, id, delivery);
        }
        let due = delivery.take_due_targets(now);
        let sending = Sending { hub, notification: &delivery.notification, vapid, answers };
        let attempts = due.into_iter().filter_map(|target| {
            let subscriber = find_subscriber(&subscribers, target.id)?;
            Some(sending.send_throttled(target, &subscriber.service))
        });
        let results = join_all(attempts).await;
        let now = hub.rt.now();
        if !results.is_empty() {
            hub.rt.kv_put(RATE_LIMITER_KEY, &hub.turn().push.rate_limiter.encode());
        }
        let mut gone = Vec::new();
        for (target, result, failure) in results {
            if let Some(subscriber) = find_subscriber(&subscribers, target.id).filter(|_| result == SendResult::Gone) {
                gone.push(subscriber.subscription.endpoint.clone());
            }
            delivery.record_result(target, result, failure, now);
        }
        if !gone.is_empty() {
            // If the deletion fails, the next notification gets the same responses, and repeats the deletion.
            let _ = hub.subscriptions.delete(&gone).await;
        }
        let (is_complete, is_held_back) = (delivery.targets.is_empty(), delivery.is_held_back());
        let outcome = if is_complete || is_held_back { delivery.outcome() } else { DeliveryOutcome::Sending };
        // If too many notifications are held back, this one ends with its toast, so that the queue has room for others.
        let is_final = is_complete || is_held_back && !hub.turn().push.queue.can_hold();
        if is_final { self.finish(delivery, outcome) } else { self.put_back(delivery, outcome) }
    }

    /// Holds back the pushes to devices in use, which get a toast instead, in the first round with other visible web clients.
    fn hold_back(&self, delivery: &mut Delivery, subscribers: &[Subscriber], is_first_round: bool, now: u64) {
        let mut turn = self.hub.turn();
        let is_in_use = |target, since| {
            let device = find_subscriber(subscribers, target).and_then(|known| known.subscription.device.as_deref());
            turn.connections.has_visible_client(device, since, now)
        };
        if delivery.hold_back(is_in_use, now) || is_first_round {
            turn.send_toast(&delivery.notification);
        }
    }

    /// Replaces a notification of several permission requests by a notification of the requests that are still pending. Returns the
    /// outcome of the delivery if the notification is no longer needed. Fails if the database is unavailable.
    async fn update_notification(&self, delivery: &mut Delivery) -> Result<Option<DeliveryOutcome>, Error> {
        match self.hub.load_session(&delivery.notification.session_id).await {
            Err(Error::NotFound(Kind::Session) | Error::Forbidden(_)) => return Ok(Some(DeliveryOutcome::SessionGone)),
            loaded => loaded?,
        }
        let turn = self.hub.turn();
        let notification = &delivery.notification;
        let session = turn.cache.entry(&notification.session_id).map(|entry| &entry.session);
        if session.is_some_and(|session| session.settings.muted) {
            return Ok(Some(DeliveryOutcome::Muted));
        }
        if let Some(request) = &notification.request_id {
            let ids = notification.superseded.iter().chain([request]);
            let pending = session.and_then(|session| {
                let requests = agent_state::find_pending(session.agent_state.json(), ids.map(String::as_str));
                notification_for(session, &requests)
            });
            let Some(pending) = pending else { return Ok(Some(DeliveryOutcome::Obsolete)) };
            delivery.notification = pending;
        } else if delivery.is_held_back() && session.is_some_and(|session| session.thinking || !session.active) {
            return Ok(Some(DeliveryOutcome::Obsolete));
        }
        Ok(None)
    }

    /// Schedules another round after the database was unavailable, or ends the delivery after several failed rounds.
    fn retry(&self, mut delivery: Delivery) {
        match delivery.retry_round(self.hub.rt.now()) {
            true => self.put_back(delivery, DeliveryOutcome::Waiting),
            false => self.finish(delivery, DeliveryOutcome::Unavailable),
        }
    }

    /// Returns the delivery to the queue until its next round.
    fn put_back(&self, delivery: Delivery, outcome: DeliveryOutcome) {
        let mut turn = self.hub.turn();
        let PushState { queue, log, .. } = &mut turn.push;
        if let Some(replaced) = queue.put_back(self.id, delivery) {
            log.put_as_replaced(&*self.hub.rt, self.id, replaced);
        } else if let Some(delivery) = queue.get(self.id) {
            self.hub.rt.kv_put(&format!("{DELIVERIES}{}", self.id), &delivery.encode());
            log.put(&*self.hub.rt, self.id, delivery, outcome);
        }
        turn.request_alarm(turn.push.queue.next_deadline());
    }

    fn finish(&self, delivery: Delivery, outcome: DeliveryOutcome) {
        let PushState { queue, log, .. } = &mut self.hub.turn().push;
        queue.remove(self.id);
        self.hub.rt.kv_delete(&format!("{DELIVERIES}{}", self.id));
        log.put(&*self.hub.rt, self.id, &Delivery { targets: Vec::new(), ..delivery }, outcome);
    }
}

impl Sending<'_> {
    /// Sends the notification to one subscriber once a slot is free, unless the rate limit is reached.
    async fn send_throttled(&self, target: Target, service: &str) -> (Target, SendResult, Failure) {
        let granted = self.hub.turn().push.slots.acquire(service);
        // Cannot fail: the senders are dropped only with the hub.
        let _ = granted.await;
        let acquired = self.hub.turn().push.rate_limiter.try_acquire(self.hub.rt.now());
        let (result, status, reason) = match acquired {
            // Boxed, because thousands of these futures may wait for a slot.
            Ok(()) => Box::pin(self.send(&target)).await,
            Err(until) => {
                let reason = format!("The limit of {MAX_PUSHES_PER_MINUTE} push messages per minute is reached.");
                (SendResult::RateLimited(until), None, reason)
            }
        };
        self.hub.turn().push.slots.release(service);
        self.hub.telemetry.metrics.count(match result {
            SendResult::Accepted => Counter::PushAccepted,
            SendResult::Gone => Counter::PushGone,
            SendResult::RateLimited(_) => Counter::PushLimited,
            SendResult::Retry(_) | SendResult::TooLong => Counter::PushRetried,
            SendResult::Rejected => Counter::PushRejected,
        });
        if !matches!(result, SendResult::Accepted | SendResult::Gone) {
            let line = LogLine::new(Level::Warn, "push-failed").number("status", status.unwrap_or(0).into());
            self.hub.telemetry.log(line.text("reason", &reason));
        }
        (target, result, Failure { service: service.to_owned(), status, reason })
    }

    /// Sends the notification to one subscriber. Returns the result, the status if there was a response, and the error text.
    async fn send(&self, target: &Target) -> (SendResult, Option<u16>, String) {
        // Encryption blocks the thread for a millisecond or two, so other tasks run first.
        self.hub.rt.sleep(0).await;
        // The client may have unsubscribed, or its token may have been revoked, during the wait for a slot.
        let Ok(subscribers) = self.hub.subscriptions.load().await else {
            return (SendResult::Retry(None), None, "The database was unavailable.".into());
        };
        let is_valid = |known: &&Subscriber| {
            known.subscription.token_device.as_ref().is_none_or(|device| !self.hub.access.is_device_revoked(device))
        };
        let Some(subscriber) = find_subscriber(&subscribers, target.id).filter(is_valid) else {
            return (SendResult::Rejected, None, UNSUBSCRIBED.into());
        };
        let (request, length) = match self.build_request(&subscriber.subscription, target.is_short) {
            Ok(request) => request,
            Err(reason) => return (SendResult::Rejected, None, reason),
        };
        match self.hub.rt.push(request).await {
            Ok(PushResponse { status, retry_after }) => {
                let result = SendResult::from_response(status, retry_after.as_deref(), self.hub.rt.now());
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
                let is_final = result == SendResult::TooLong && length <= MAX_SHORT_PAYLOAD_BYTES;
                (if is_final { SendResult::Rejected } else { result }, Some(status), reason.into())
            }
            Err(reason) => (SendResult::Retry(None), None, reason),
        }
    }

    /// Builds the request to the push service. Also returns the length of the payload. The error is a sentence for the push log.
    fn build_request(
        &self,
        subscription: &PushSubscription,
        is_short: bool,
    ) -> Result<(Request<Vec<u8>>, usize), String> {
        let Self { hub, notification, vapid, .. } = self;
        // Validated again, because the subscription may have been stored under other settings.
        let endpoint = Endpoint::parse(&subscription.endpoint, hub.config.push.allows_insecure_endpoints);
        let endpoint = endpoint.map_err(|error| format!("The endpoint {}.", error.0))?;
        let keys = Keys::parse(&subscription.p256dh, &subscription.auth);
        let keys = keys.map_err(|_| "The keys of the subscription are invalid.")?;
        let subject = hub.config.push.subject.as_deref().or(subscription.hub_origin.as_deref());
        let details = self.details_for(subscription);
        let payload =
            notification.payload(&details, if is_short { MAX_SHORT_PAYLOAD_BYTES } else { MAX_PAYLOAD_BYTES });
        let length = payload.len();
        let now = hub.rt.now() / 1000;
        let tokens = &mut hub.turn().push.tokens;
        let authorization = tokens.authorization(vapid, &endpoint.origin(), subject, now);
        let message = PushMessage {
            payload,
            // How long a push service stores the message for a browser that is offline.
            ttl: Duration::from_secs(24 * 3600),
            topic: &notification.topic(),
            urgency: notification.urgency(),
            authorization: &authorization.ok_or("The VAPID token could not be signed.")?,
        };
        // `request::build` panics without a random source.
        hub.rt.random(&mut [0]).map_err(|error| error.to_string())?;
        request::build(&endpoint, &keys, message).map(|request| (request, length)).map_err(|error| error.to_string())
    }

    /// Returns what the notification says, with a token for this subscriber if the request can be answered from the notification.
    fn details_for(&self, subscription: &PushSubscription) -> Details {
        let Self { hub, notification, .. } = self;
        let turn = hub.turn();
        let details = turn.notification_details(&hub.config, notification);
        let state = turn.cache.entry(&notification.session_id).and_then(|entry| entry.session.agent_state.inline());
        let call = notification.request_id.as_deref().and_then(|id| Some((id, PendingCall::find(state, id)?)));
        let sent_at = hub.rt.now();
        let issue = |(request, call): (&str, PendingCall<'_>)| {
            let claims = AnswerClaims {
                namespace: hub.config.namespace.clone(),
                session: notification.session_id.clone(),
                request: request.to_owned(),
                content: fingerprint(&[call.text]),
                subscription: fingerprint_of(subscription),
                device: subscription.token_device.clone().unwrap_or_default(),
                issued_at: sent_at,
            };
            self.answers.as_ref().filter(|_| details.request.is_some()).map(|key| key.issue(&claims))
        };
        let answer_token = call.filter(|(_, call)| call.is_yes_or_no()).and_then(issue);
        let namespace = Some(hub.config.namespace.as_str().to_owned());
        Details { answer_token, sent_at: Some(sent_at), namespace, ..details }
    }
}
