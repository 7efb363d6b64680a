//! Running effects: what the hub sends, publishes and stores once a change is durable.

use std::ops::Range;

use super::error::Error;
use super::ports::ConnId;
use super::state::effect::Effect;
use super::storage_keys::alive_key;
use super::{Hub, State};
use crate::model::event::Event;
use crate::wire::update::{UpdateBody, update_frame};

impl Hub {
    /// Runs the effects of a durable change. `event_numbers` are those reserved for its events.
    pub(in crate::hub) fn run_effects(&self, effects: Vec<Effect>, mut event_numbers: Range<u64>) {
        let mut state = self.state();
        let mut inactive = 0;
        for effect in effects {
            match effect {
                Effect::Send { conn, frame } => self.send_reply(&mut state, conn, &frame),
                Effect::Disconnect { conn } => self.disconnect(&mut state, conn, 1000, ""),
                Effect::Reply { conn, on_commit, .. } => self.send_reply(&mut state, conn, &on_commit.concat()),
                Effect::Publish(event) => self.publish(&mut state, event_numbers.next(), || event),
                Effect::Update { owner, except, parts } => {
                    let to = others(state.connections.of_owner(&owner), except);
                    if !to.is_empty() {
                        self.send_update(&mut state, &to, &parts.concat());
                    }
                }
                Effect::Message { session, except, message, update_seq, event } => {
                    let to = others(state.connections.of_session(&session), except);
                    if !to.is_empty() {
                        let parts = message.serialize_in_parts(|message| {
                            let body = UpdateBody::NewMessage { sid: &session, message };
                            update_frame(&self.new_id(), update_seq, message.created_at, &body)
                        });
                        self.send_update(&mut state, &to, &parts.concat());
                    }
                    let State { live_texts, reservations, .. } = &mut *state;
                    live_texts.remove(&session, message.local_id.as_deref(), reservations);
                    let event = || event.into_inner().unwrap_or_else(|| Event::message_received(&session, &message));
                    self.publish(&mut state, event_numbers.next(), event);
                }
                Effect::Notify(notification) => self.notify(&mut state, notification),
                Effect::DeleteTimer(owner) => {
                    if !state.liveness.is_running(&owner) {
                        self.rt.kv_delete(&alive_key(&owner));
                    }
                    inactive += 1;
                }
                Effect::Resolve(waiter) => {
                    let _ = waiter.send(Ok(()));
                }
            }
        }
        self.persist_last_published(&mut state);
        // An inactive session may leave the cache.
        if inactive > 0 {
            state.cache.record_inactive(inactive);
            state.evict_sessions();
        }
    }

    /// Runs effects that do not wait for a commit. None of them publishes an event, so they need no event numbers.
    pub(super) fn run_effects_without_commit(&self, effects: Vec<Effect>) {
        self.run_effects(effects, 0..0);
    }

    /// Handles the effects of a change that was not committed: sends the error to CLIs and callers that wait for the commit, and
    /// drops events. `Send` and `Disconnect` run as usual, because they do not depend on the change.
    pub(super) fn fail_effects(&self, effects: impl Iterator<Item = Effect>, error: &Error) {
        for effect in effects {
            match effect {
                Effect::Reply { conn, on_failure, .. } => self.send_reply(&mut self.state(), conn, &on_failure),
                Effect::Resolve(waiter) => {
                    let _ = waiter.send(Err(error.clone()));
                }
                // The session or machine was to become inactive. It is still active in the database, so the hub tries again
                // after another timeout.
                Effect::DeleteTimer(owner) => self.begin_timeout(&mut self.state(), owner),
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
