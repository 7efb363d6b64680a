//! Queues notifications and sends them: as a toast to visible web clients, and to the push services of the other subscribers.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Request;

use crate::hub::error::{Error, Kind};
use crate::hub::ports::PushAnswer;
use crate::hub::push::delivery::{Delivery, DeliveryOutcome, Failure, SendResult, Target, UNSUBSCRIBED};
use crate::hub::push::log::read_entries;
use crate::hub::push::queue::EnqueueResult;
use crate::hub::push::state::{PushState, RATE_LIMITER_KEY, cooldown_key, delivery_key};
use crate::hub::push::subscribers::{Subscriber, find};
use crate::hub::{Hub, State};
use crate::limits::{MAX_PUSH_RETRY_MS, MAX_PUSHES_PER_MINUTE, PUSH_COOLDOWN_MS, SHORT_PAYLOAD_BYTES};
use crate::model::agent_state::{self, PendingRequest};
use crate::model::catalog;
use crate::model::json::Json;
use crate::model::session::Session;
use crate::push::endpoint::Endpoint;
use crate::push::payload::{MAX_PAYLOAD_BYTES, Notification, NotificationKind};
use crate::push::request::{self, Keys, Message};
use crate::push::vapid::VapidKeys;
use crate::store::push::PushSubscription;

/// How long a push service stores a message for a browser that is offline.
const TTL: Duration = Duration::from_secs(24 * 3600);

/// What to do with a notification at the start of a round.
enum Decision {
    /// It is no longer needed.
    Finish(DeliveryOutcome),
    Send,
    /// The database is unavailable.
    Unknown,
}

impl Hub {
    /// Returns the notification for the permission requests that are new in `state`.
    pub(in crate::hub) fn permission_notification(
        &self,
        session: &Session,
        state: Option<&Json>,
    ) -> Option<Notification> {
        let requests = agent_state::new_requests(session.agent_state.as_ref(), state);
        session.active.then(|| notification_for(session, &requests)).flatten()
    }

    /// Returns the notification that the session's agent waits for input.
    pub(in crate::hub) fn ready_notification(&self, session: &Session) -> Notification {
        let fields = session.metadata_fields();
        let vocabulary = &self.config.vocabulary;
        let label_of_flavor =
            || catalog::label(vocabulary, fields.flavor().as_deref().unwrap_or_else(|| vocabulary.default_agent()));
        let agent = fields.agent_name().unwrap_or_else(label_of_flavor);
        Notification::ready(&session.id, &session.title(), &agent)
    }

    /// Queues a notification, or logs why it is dropped. While there are no subscribers, nothing is stored or logged: a notification
    /// is at most a toast.
    pub(in crate::hub) fn notify(&self, state: &mut State, notification: Notification) {
        let now = self.rt.now();
        let push = &mut state.push;
        let is_recorded = !push.subscribers.is_assumed_empty(now);
        if !is_recorded && !state.connections.has_visible_client(None, now) {
            return;
        }
        let (kind, session) = (notification.kind, notification.session_id.clone());
        match push.queue.enqueue(notification.clone(), now, is_recorded) {
            EnqueueResult::InCooldown | EnqueueResult::Full if !is_recorded => {}
            EnqueueResult::InCooldown => self.log_dropped(push, notification, DeliveryOutcome::CoolingDown),
            EnqueueResult::Full => self.log_dropped(push, notification, DeliveryOutcome::Overloaded),
            EnqueueResult::Queued { id, replaced } => {
                for (id, delivery) in replaced {
                    self.rt.kv_delete(&delivery_key(id));
                    push.log.put_replaced(&*self.rt, id, delivery);
                }
                if kind == NotificationKind::Ready && is_recorded {
                    self.rt.kv_put(&cooldown_key(&session), &(now + PUSH_COOLDOWN_MS).to_string());
                }
                if let Some(delivery) = push.queue.get(id).filter(|_| is_recorded) {
                    self.rt.kv_put(&delivery_key(id), &encode(delivery));
                    push.log.put(&*self.rt, id, delivery, DeliveryOutcome::Waiting);
                }
                let next = push.queue.next_deadline();
                self.request_alarm(state, next);
            }
        }
    }

    fn log_dropped(&self, push: &mut PushState, notification: Notification, outcome: DeliveryOutcome) {
        let now = self.rt.now();
        let id = push.queue.next_id(now);
        push.log.put(&*self.rt, id, &Delivery::new(notification, now, now, true), outcome);
    }

    /// `GET /api/push/log`: the latest notifications, newest first, each as JSON text.
    pub fn push_log(&self) -> Vec<String> {
        read_entries(&*self.rt)
    }

    /// Starts the deliveries that are due, each in a task of its own.
    pub(in crate::hub) fn send_due(self: &Arc<Self>, now: u64) {
        let due = {
            let mut state = self.state();
            for session in state.push.queue.remove_expired_cooldowns(now) {
                self.rt.kv_delete(&cooldown_key(&session));
            }
            state.push.queue.start_due(now)
        };
        for (id, delivery) in due {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.process(id, delivery).await }));
        }
    }

    /// Runs one round of a delivery: sends it to every target that is due.
    async fn process(self: &Arc<Self>, id: u64, mut delivery: Delivery) {
        match self.decide(&mut delivery).await {
            Decision::Finish(outcome) => {
                let outcome = if delivery.is_held() { delivery.outcome() } else { outcome };
                return self.finish(id, delivery, outcome);
            }
            Decision::Send => {}
            Decision::Unknown => return self.retry_round(id, delivery),
        }
        let Ok(subscribers) = self.push_subscribers().await else { return self.retry_round(id, delivery) };
        let is_first_round = delivery.targets.is_empty();
        if is_first_round && subscribers.is_empty() {
            let is_toast = self.send_toast(&mut self.state(), &delivery.notification);
            let outcome = if is_toast { DeliveryOutcome::Toast } else { DeliveryOutcome::NoSubscribers };
            return self.finish(id, delivery, outcome);
        }
        let now = self.rt.now();
        if is_first_round {
            delivery.set_targets(subscribers.iter().map(|subscriber| subscriber.id), now);
        }
        delivery.remove_unsubscribed(|target| find(&subscribers, target).is_some());
        self.hold_back(&mut delivery, &subscribers, is_first_round, now);
        // After the toast, which needs no keys.
        let Ok(keys) = self.vapid_keys().await else { return self.retry_round(id, delivery) };
        delivery.failed_rounds = 0;
        if !self.state().push.queue.begin_attempts(id, &delivery.targets) {
            return self.state().push.log.put_replaced(&*self.rt, id, delivery);
        }
        let due = delivery.take_due_targets(now);
        let attempts = due.into_iter().filter_map(|target| {
            let subscriber = find(&subscribers, target.id)?;
            Some(self.send_throttled(&delivery.notification, &keys, target, subscriber))
        });
        let results = join_all(attempts).await;
        let now = self.rt.now();
        if !results.is_empty() {
            let rate_limiter = self.state().push.rate_limiter.encode();
            self.rt.kv_put(RATE_LIMITER_KEY, &rate_limiter);
        }
        let mut gone = Vec::new();
        for (target, result, failure) in results {
            if let Some(subscriber) = find(&subscribers, target.id).filter(|_| result == SendResult::Gone) {
                gone.push(subscriber.subscription.endpoint.clone());
            }
            delivery.record_result(target, result, failure, now);
        }
        if !gone.is_empty() {
            // If it fails, the next notification gets the same response and deletes them.
            let _ = self.delete_subscriptions(&gone).await;
        }
        let is_held = delivery.is_held();
        let outcome = if is_held || delivery.is_done() { delivery.outcome() } else { DeliveryOutcome::Sending };
        // Notifications that are held back must leave room in the queue for pushes to other devices.
        let is_final = delivery.is_done() || is_held && !self.state().push.queue.can_hold();
        match is_final {
            true => self.finish(id, delivery, outcome),
            false => self.put_back(id, delivery, outcome),
        }
    }

    /// Holds the pushes to devices in use back, which get a toast instead. In the first round, other visible web clients get the
    /// toast, too.
    fn hold_back(&self, delivery: &mut Delivery, subscribers: &[Subscriber], is_first_round: bool, now: u64) {
        let mut state = self.state();
        let is_in_use = |target| {
            let device = find(subscribers, target).and_then(|known| known.subscription.device.as_deref());
            state.connections.has_visible_client(device, now)
        };
        if delivery.hold_back(is_in_use, now) || is_first_round {
            self.send_toast(&mut state, &delivery.notification);
        }
    }

    /// Decides from the current state whether a notification is sent, and changes it to the last permission request that is
    /// still pending.
    async fn decide(self: &Arc<Self>, delivery: &mut Delivery) -> Decision {
        match self.load_session(&delivery.notification.session_id).await {
            Ok(()) => {}
            Err(Error::NotFound(Kind::Session) | Error::Forbidden(_)) => {
                return Decision::Finish(DeliveryOutcome::SessionGone);
            }
            Err(_) => return Decision::Unknown,
        }
        let state = self.state();
        let notification = &delivery.notification;
        let session = state.cache.entry(&notification.session_id).map(|entry| &entry.session);
        if let Some(request) = &notification.request_id {
            let ids = notification.superseded.iter().chain([request]);
            let pending = session.and_then(|session| {
                let requests = agent_state::find_pending(session.agent_state.as_ref(), ids.map(String::as_str));
                notification_for(session, &requests)
            });
            let Some(pending) = pending else { return Decision::Finish(DeliveryOutcome::Answered) };
            delivery.notification = pending;
        } else if delivery.is_held() && session.is_some_and(|session| session.thinking || !session.active) {
            return Decision::Finish(DeliveryOutcome::Answered);
        }
        Decision::Send
    }

    /// Sends a notification to one subscriber once a slot is free, unless the rate limit is reached.
    async fn send_throttled(
        &self,
        notification: &Notification,
        keys: &VapidKeys,
        target: Target,
        Subscriber { service, .. }: &Subscriber,
    ) -> (Target, SendResult, Failure) {
        let granted = self.state().push.slots.acquire(service);
        // Cannot fail: the senders are dropped only with the hub.
        let _ = granted.await;
        let acquired = self.state().push.rate_limiter.try_acquire(self.rt.now());
        let (result, status, reason) = match acquired {
            // Boxed, because thousands of these futures may wait for a slot.
            Ok(()) => Box::pin(self.send_push(notification, keys, &target)).await,
            Err(until) => {
                let reason = format!("The limit of {MAX_PUSHES_PER_MINUTE} push messages per minute is reached.");
                (SendResult::RateLimited(until), None, reason)
            }
        };
        self.state().push.slots.release(service);
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
        let Ok(subscribers) = self.push_subscribers().await else {
            return (SendResult::Retry(None), None, "The database was unavailable.".into());
        };
        let Some(subscriber) = find(&subscribers, target.id) else {
            return (SendResult::Rejected, None, UNSUBSCRIBED.into());
        };
        let request = match self.build_request(notification, &subscriber.subscription, keys, target.is_short) {
            Ok(request) => request,
            Err(reason) => return (SendResult::Rejected, None, reason),
        };
        match self.rt.push(request).await {
            Ok(PushAnswer { status, retry_after }) => {
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
        // Validated again: it may have been stored under other settings.
        let endpoint = Endpoint::parse(&subscription.endpoint, self.config.push.insecure);
        let endpoint = endpoint.map_err(|error| format!("The endpoint {}.", error.0))?;
        let keys = Keys::parse(&subscription.p256dh, &subscription.auth);
        let keys = keys.map_err(|_| "The keys of the subscription are invalid.")?;
        let subject = self.config.push.subject.as_deref().or(subscription.hub.as_deref());
        let now = self.rt.now() / 1000;
        let tokens = &mut self.state().push.subscribers.tokens;
        let authorization = tokens.authorization(vapid, &endpoint.origin(), subject, now);
        let message = Message {
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

    /// Schedules another round after the database was unavailable, or ends the delivery after several of them.
    fn retry_round(&self, id: u64, mut delivery: Delivery) {
        match delivery.retry_round(self.rt.now()) {
            true => self.put_back(id, delivery, DeliveryOutcome::Waiting),
            false => self.finish(id, delivery, DeliveryOutcome::Unavailable),
        }
    }

    /// Returns a delivery to the queue until its next round.
    fn put_back(&self, id: u64, delivery: Delivery, outcome: DeliveryOutcome) {
        let mut state = self.state();
        let PushState { queue, log, .. } = &mut state.push;
        if let Some(replaced) = queue.put_back(id, delivery) {
            log.put_replaced(&*self.rt, id, replaced);
        } else if let Some(delivery) = queue.get(id) {
            self.rt.kv_put(&delivery_key(id), &encode(delivery));
            log.put(&*self.rt, id, delivery, outcome);
        }
        let next = state.push.queue.next_deadline();
        self.request_alarm(&mut state, next);
    }

    /// Removes a delivery from the queue and logs its outcome.
    fn finish(&self, id: u64, delivery: Delivery, outcome: DeliveryOutcome) {
        let mut state = self.state();
        state.push.queue.remove(id);
        self.rt.kv_delete(&delivery_key(id));
        state.push.log.put(&*self.rt, id, &Delivery { targets: Vec::new(), ..delivery }, outcome);
    }
}

/// Returns the notification for the last of the requests. It supersedes the others.
fn notification_for(session: &Session, requests: &[PendingRequest]) -> Option<Notification> {
    let title = session.title();
    let for_one = |PendingRequest { id, tool }: &PendingRequest| {
        Notification::permission(&session.id, &title, id, tool.as_deref().unwrap_or("a tool"))
    };
    requests.iter().map(for_one).reduce(|earlier, mut last| {
        last.supersede(&earlier);
        last
    })
}

fn encode(delivery: &Delivery) -> String {
    serde_json::to_string(delivery).unwrap_or_default()
}
