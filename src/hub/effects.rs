//! Running effects: what the hub sends, publishes and stores once a change is durable.

use std::ops::Range;

use super::Hub;
use super::error::Error;
use super::ports::ConnId;
use super::state::effect::Effect;
use super::storage_keys::alive_key;
use crate::model::event::Event;
use crate::wire::update::{UpdateBody, update_frame};

impl Hub {
    /// Runs the effects of a durable change. `event_numbers` are those reserved for its events.
    pub(super) fn run_effects(&self, effects: Vec<Effect>, mut event_numbers: Range<u64>) {
        let mut state = self.state();
        let mut has_ended = false;
        for effect in effects {
            match effect {
                Effect::Send { conn, frame } => self.send_reply(&mut state, conn, &frame),
                Effect::Disconnect { conn } => self.disconnect(&mut state, conn, 1000, ""),
                Effect::Reply { conn, done, .. } => self.send_reply(&mut state, conn, &done.concat()),
                Effect::Publish(event) => self.publish(&mut state, event_numbers.next(), || event),
                Effect::Update { owner, except, frame } => {
                    let to = others(state.connections.of_owner(&owner), except);
                    if !to.is_empty() {
                        self.send_update(&mut state, &to, &frame.concat());
                    }
                }
                Effect::Message { session, except, message, number } => {
                    let to = others(state.connections.of_session(&session), except);
                    if !to.is_empty() {
                        let frame = message.serialize_in_parts(|message| {
                            let body = UpdateBody::NewMessage { sid: &session, message };
                            update_frame(&self.new_id(), number, message.created_at, &body)
                        });
                        self.send_update(&mut state, &to, &frame.concat());
                    }
                    let event = || Event::message_received(&session, &message);
                    self.publish(&mut state, event_numbers.next(), event);
                }
                Effect::Notify(notification) => self.notify(&mut state, notification),
                Effect::Ended(owner) => {
                    if !state.liveness.is_running(&owner) {
                        self.rt.kv_delete(&alive_key(&owner));
                    }
                    has_ended = true;
                }
                Effect::Resolve(waiter) => {
                    let _ = waiter.send(Ok(()));
                }
            }
        }
        self.persist_last_published(&mut state);
        if has_ended {
            state.evict();
        }
    }

    /// Runs effects that do not wait for a commit. None of them publishes an event, so they need no event numbers.
    pub(super) fn run_effects_without_commit(&self, effects: Vec<Effect>) {
        self.run_effects(effects, 0..0);
    }

    /// Fails effects whose change was not committed: callers get the error, events are dropped.
    pub(super) fn fail_effects(&self, effects: impl Iterator<Item = Effect>, error: &Error) {
        for effect in effects {
            match effect {
                Effect::Reply { conn, failed, .. } => self.send_reply(&mut self.state(), conn, &failed),
                Effect::Resolve(waiter) => {
                    let _ = waiter.send(Err(error.clone()));
                }
                // The owner is still active in the database, so its end is retried after another timeout.
                Effect::Ended(owner) => self.begin_timeout(&mut self.state(), owner),
                Effect::Send { conn, frame } => self.send_reply(&mut self.state(), conn, &frame),
                Effect::Disconnect { conn } => self.disconnect(&mut self.state(), conn, 1000, ""),
                Effect::Publish(_) | Effect::Update { .. } | Effect::Message { .. } | Effect::Notify(_) => {}
            }
        }
    }
}

/// Returns the sockets without the one that caused the change.
pub(super) fn others(conns: &[ConnId], except: Option<ConnId>) -> Vec<ConnId> {
    conns.iter().copied().filter(|conn| Some(*conn) != except).collect()
}
