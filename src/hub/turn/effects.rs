//! Running effects: what the hub sends, publishes and stores once a change is durable.

use std::ops::Range;

use crate::hub::core::effect::{Effect, Reply};
use crate::hub::core::error::Error;
use crate::hub::core::ports::ConnId;
use crate::hub::core::state::State;
use crate::hub::core::storage_keys::deadline_key;
use crate::hub::turn::Turn;
use crate::model::event::Event;
use crate::model::large::VersionedField;
use crate::model::owner::Owner;
use crate::model::text_parts::TextParts;
use crate::wire::cli::{VALUE_PLACEHOLDER, new_message, new_version, update_frame};

impl Turn<'_> {
    /// Runs the effects of a durable change. `event_numbers` are reserved for the events that the effects publish.
    pub fn run_effects(&mut self, effects: Vec<Effect>, mut event_numbers: Range<u64>) {
        let mut inactive_count = 0;
        for effect in effects {
            let to = self.state.recipients(&effect);
            match effect {
                Effect::Reply(reply) => self.send_committed_reply(&reply),
                Effect::Publish(event) => self.publish(event_numbers.next(), || event),
                Effect::AddMachine(machine) => self.state.cache.insert_durable_machine(*machine),
                Effect::Update { parts, .. } if !to.is_empty() => self.send_update(&to, &parts.concat()),
                Effect::Update { .. } => {}
                Effect::Message { session, message, update_seq, event, .. } => {
                    if !to.is_empty() {
                        let parts = message.serialize_in_parts(|message| {
                            let body = new_message(&session, message);
                            update_frame(&self.hub.ids.uuid(), update_seq, message.created_at, body)
                        });
                        self.send_update(&to, &parts.concat());
                    }
                    let State { live_texts, memory_reservations, .. } = &mut *self.state;
                    live_texts.remove(&session, message.local_id.as_deref(), memory_reservations);
                    let event = || event.into_inner().unwrap_or_else(|| Event::message_received(&session, &message));
                    self.publish(event_numbers.next(), event);
                }
                Effect::Notify(notification) => self.queue_notification(notification),
                Effect::BecameInactive(owner) => {
                    if !self.state.liveness.is_live(&owner) {
                        self.hub.rt.kv_delete(&deadline_key(&owner));
                    }
                    inactive_count += 1;
                }
                Effect::Resolve(waiter) => drop(waiter.send(Ok(()))),
            }
        }
        self.persist_last_published();
        // Inactive sessions may be evicted. The count includes machines: it only decides when the cache is checked.
        if inactive_count > 0 {
            self.state.cache.changes_since_ranking += inactive_count;
            self.state.evict_sessions();
        }
    }

    pub fn send_committed_reply(&mut self, reply: &Reply) {
        self.send_frame(reply.conn, &reply.on_commit.concat());
    }

    /// Queues an update of a versioned field, whose value is `text`, for the CLIs of its owner, except the CLI that made the change.
    pub fn queue_update(
        &mut self,
        owner: Owner,
        except: Option<ConnId>,
        field: VersionedField,
        version: u64,
        text: TextParts,
    ) {
        let now = self.hub.rt.now();
        let body = new_version(owner.id(), field, version);
        let frame = update_frame(&self.hub.ids.uuid(), self.state.events.next_unused(now), now, body);
        // Replaces the null value, so that the frame shares the value instead of copying it.
        let parts = text.insert_into(&frame, VALUE_PLACEHOLDER);
        self.state.write_queue.on_commit(Effect::Update { owner, except, parts });
    }

    /// Handles the effects of an uncommitted change: sends the error to CLIs and callers that wait for the commit. Drops the others.
    pub fn fail_effects(&mut self, effects: impl Iterator<Item = Effect>, error: &Error) {
        for effect in effects {
            match effect {
                Effect::Reply(reply) => self.send_frame(reply.conn, &reply.on_failure),
                Effect::Resolve(waiter) => drop(waiter.send(Err(error.clone()))),
                // The session or machine is still active in the database. The hub tries again at the next deadline.
                Effect::BecameInactive(owner) => self.start_deadline(owner),
                Effect::Publish(_)
                | Effect::AddMachine(_)
                | Effect::Update { .. }
                | Effect::Message { .. }
                | Effect::Notify(_) => {}
            }
        }
    }
}

impl State {
    /// Returns the CLIs to which an effect sends an update: all that serve the owner, except the one that caused the change.
    pub fn recipients(&self, effect: &Effect) -> Vec<ConnId> {
        let (conns, except) = match effect {
            Effect::Update { owner, except, .. } => (self.connections.clis_of_owner(owner), except),
            Effect::Message { session, except, .. } => (self.connections.clis_of_session(session), except),
            _ => return Vec::new(),
        };
        conns.iter().copied().filter(|conn| Some(*conn) != *except).collect()
    }
}
