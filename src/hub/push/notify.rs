//! Queueing push notifications.

use crate::hub::core::config::Config;
use crate::hub::core::push::delivery::{Delivery, DeliveryOutcome};
use crate::hub::core::push::queue::{EnqueueResult, PUSH_COOLDOWN_MS};
use crate::hub::core::push::state::{COOLDOWNS, DELIVERIES};
use crate::hub::core::state::State;
use crate::hub::turn::Turn;
use crate::model::agent_state::PendingRequest;
use crate::model::catalog;
use crate::model::pending_request::PendingCall;
use crate::model::session::Session;
use crate::push::payload::{Call, Details, MAX_PAYLOAD_BYTES, Notification, NotificationKind};

impl State {
    /// Returns the current details of a notification's session and request. Omits the arguments of a large request.
    pub fn notification_details(&self, config: &Config, notification: &Notification) -> Details {
        let Some(entry) = self.cache.entry(&notification.session_id) else { return Details::default() };
        let session = &entry.session;
        // The requests of a large agent state are excerpts.
        let request = notification.request_id.as_deref();
        let request = request.and_then(|id| PendingCall::find(session.agent_state.inline(), id));
        let tool = request.as_ref().and_then(PendingCall::tool);
        let arguments = request.as_ref().and_then(PendingCall::arguments);
        let arguments = arguments.filter(|arguments| arguments.get().len() < MAX_PAYLOAD_BYTES);
        let call = tool.clone().zip(arguments).map(|(tool, arguments)| Call { tool, arguments: arguments.to_owned() });
        let details = Details {
            session: Some(session.title()),
            agent: Some(config.agent_label(session)),
            request: call,
            tool,
            detail: request.as_ref().and_then(PendingCall::detail),
            ..Details::default()
        };
        details.shorten_texts()
    }
}

impl Turn<'_> {
    /// Queues a notification, or logs why it is dropped. Without push subscribers, it can only be a toast, which is not stored or logged.
    pub fn queue_notification(&mut self, notification: Notification) {
        let now = self.hub.rt.now();
        let State { push, connections, .. } = &mut *self.state;
        let is_recorded = !self.hub.subscriptions.is_assumed_empty(now);
        if !is_recorded && !connections.has_visible_client(None, 0, now) {
            return;
        }
        let (kind, session) = (notification.kind, notification.session_id.clone());
        match push.queue.enqueue(notification.clone(), now, is_recorded) {
            dropped @ (EnqueueResult::InCooldown | EnqueueResult::Full) => {
                let is_full = dropped == EnqueueResult::Full;
                let outcome = if is_full { DeliveryOutcome::Overloaded } else { DeliveryOutcome::CoolingDown };
                let id = push.queue.next_id(now);
                push.log.put(&*self.hub.rt, id, &Delivery::new(notification, now, now, is_recorded), outcome);
            }
            EnqueueResult::Queued { id, replaced } => {
                for (id, delivery) in replaced {
                    self.hub.rt.kv_delete(&format!("{DELIVERIES}{id}"));
                    push.log.put_as_replaced(&*self.hub.rt, id, delivery);
                }
                if kind == NotificationKind::Ready && is_recorded {
                    self.hub.rt.kv_put(&format!("{COOLDOWNS}{session}"), &(now + PUSH_COOLDOWN_MS).to_string());
                }
                if let Some(delivery) = push.queue.get(id).filter(|_| is_recorded) {
                    self.hub.rt.kv_put(&format!("{DELIVERIES}{id}"), &delivery.encode());
                    push.log.put(&*self.hub.rt, id, delivery, DeliveryOutcome::Waiting);
                }
                self.request_alarm(self.state.push.queue.next_deadline());
            }
        }
    }
}

impl Config {
    pub(in crate::hub) fn ready_notification(&self, session: &Session) -> Notification {
        Notification::ready(&session.id, &session.title(), &self.agent_label(session))
    }

    /// Returns the name of a session's agent for people.
    fn agent_label(&self, session: &Session) -> String {
        let fields = session.metadata_fields();
        let vocabulary = &self.vocabulary;
        let label_of_flavor =
            || catalog::label(vocabulary, fields.flavor().as_deref().unwrap_or_else(|| vocabulary.default_agent()));
        fields.agent_name().unwrap_or_else(label_of_flavor)
    }
}

/// Returns the notification for the last of the requests, which supersedes the notifications for the other requests.
pub(in crate::hub) fn notification_for(session: &Session, requests: &[PendingRequest]) -> Option<Notification> {
    let title = session.title();
    let for_one = |PendingRequest { id, tool }: &PendingRequest| {
        Notification::permission(&session.id, &title, id, tool.as_deref().unwrap_or("a tool"))
    };
    requests.iter().map(for_one).reduce(|earlier, mut last| {
        last.supersede(&earlier);
        last
    })
}
