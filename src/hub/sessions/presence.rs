//! The life of sessions by the signs that CLIs give: alive, thinking, ended, or silent for too long.
//! A keep-alive writes nothing to the database: only changes are persisted.

use std::sync::Arc;

use crate::hub::commit::AckTiming;
use crate::hub::error::{Error, Kind};
use crate::hub::large::{METADATA, PENDING};
use crate::hub::limits::PRESENCE_INTERVAL_MS;
use crate::hub::ports::ConnId;
use crate::hub::sessions::updates::Changes;
use crate::hub::state::effect::Effect;
use crate::hub::state::liveness::is_fresh;
use crate::hub::storage_keys::alive_key;
use crate::hub::{Hub, State};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::owner::Owner;
use crate::model::session::{Session, mark_running};
use crate::store::journal::Extent;
use crate::wire::cli::{SessionAlive, SessionEnd};

impl Hub {
    /// `session-alive`: a sign of life. Changes are persisted and told at once, the rest at most every ten seconds.
    pub async fn session_alive(self: &Arc<Self>, alive: SessionAlive, from: ConnId) -> Result<AckTiming, Error> {
        let now = self.rt.now();
        if !is_fresh(alive.time, now) {
            return Ok(AckTiming::Now);
        }
        self.load_session(&alive.sid).await?;
        let archived = self.metadata_to_bring_back(&alive.sid).await?;
        let (effect, tell) = {
            let mut state = self.state();
            let entry = state.cache.entry(&alive.sid).ok_or(Error::Missing(Kind::Session))?;
            if archived.is_none() && entry.session.metadata_fields().is_archived() {
                return Ok(AckTiming::Now);
            }
            self.record_heartbeat(&mut state, Owner::Session(alive.sid.clone()), Some(from));
            state.check_queue()?;
            if let Some(metadata) = archived {
                self.set_metadata(&mut state, &alive.sid, mark_running(Some(&metadata), now), None)?;
            }
            let may_remind = state.reminders.is_allowed(now);
            let entry = state.cache.entry_mut(&alive.sid).ok_or(Error::Missing(Kind::Session))?;
            let changed = apply_alive(&mut entry.session, &alive, now);
            let reminds = !changed && may_remind && now >= entry.presence_published_at + PRESENCE_INTERVAL_MS;
            let tell = changed || reminds;
            if tell {
                entry.presence_published_at = now;
                let event = Event::session_updated(&alive.sid, &Changes::presence(&entry.session));
                if changed {
                    state.journal.queue_session(&alive.sid, Extent::Counters);
                }
                // It shows counters that may still be on their way to the database: it waits for what is under way.
                state.journal.on_commit(Effect::Publish(event));
            }
            if reminds {
                let web_clients = state.connections.subscriptions().count();
                state.reminders.record(web_clients, now);
            }
            state.in_flight.clear_reactivation(&alive.sid);
            state.activation_waiters.complete(&alive.sid, &Ok(alive.sid.clone()));
            (state.ack_timing(changed), tell)
        };
        if tell {
            self.flush();
        }
        Ok(effect)
    }

    /// The metadata of an archived session that a sign of life may bring back: by a resume, or when a CLI asks for it by its
    /// tag; not by a CLI that lingers, and not by one that has archived it and is about to end.
    async fn metadata_to_bring_back(self: &Arc<Self>, id: &str) -> Result<Option<Json>, Error> {
        let comes_back = |state: &State| {
            let entry = state.cache.entry(id);
            entry.is_some_and(|entry| entry.session.metadata_fields().is_archived() && !entry.session.active)
                && state.in_flight.expects_reactivation(id, self.rt.now())
        };
        if !comes_back(&self.state()) {
            return Ok(None);
        }
        self.change(id, &METADATA, |state, metadata| Ok(metadata.filter(|_| comes_back(state)))).await
    }

    /// `session-end`: the CLI is done with the session. One that was long under way means an earlier life.
    pub async fn session_end(self: &Arc<Self>, end: &SessionEnd) -> Result<AckTiming, Error> {
        if !is_fresh(end.time, self.rt.now()) {
            return Ok(AckTiming::Now);
        }
        self.state().check_queue()?;
        self.session_ended(&end.sid).await?;
        Ok(AckTiming::OnCommit)
    }

    /// By `session-end`, an abort or the web, or because the clock ran out: the session is inactive.
    pub async fn session_ended(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        self.change(id, &PENDING, |state, base| {
            let owner = Owner::Session(id.to_owned());
            state.liveness.stop(&owner);
            state.in_flight.clear_reactivation(id);
            let now = self.rt.now();
            let Some(entry) = state.cache.entry_mut(id) else { return Ok(()) };
            let s = &mut entry.session;
            if s.active || s.thinking {
                s.thinking_at = if s.thinking { now } else { s.thinking_at };
                (s.active, s.thinking, s.updated_at) = (false, false, now);
                let event = Event::session_updated(id, &Changes::presence(s));
                state.journal.queue_session(id, Extent::Counters);
                state.journal.on_commit(Effect::Publish(event));
                state.journal.on_commit(Effect::Ended(owner));
            } else {
                self.rt.kv_delete(&alive_key(&owner));
            }
            self.cancel_pending(state, id, base);
            Ok(())
        })
        .await?;
        self.flush();
        Ok(())
    }
}

/// Takes over what an alive event says; answers whether anything changed that must be persisted and told at once.
fn apply_alive(s: &mut Session, alive: &SessionAlive, now: u64) -> bool {
    s.active_at = now;
    let mut changed = !std::mem::replace(&mut s.active, true);
    if let Some(thinking) = alive.thinking.filter(|thinking| *thinking != s.thinking) {
        (s.thinking, s.thinking_at, changed) = (thinking, now, true);
    }
    let mut take = |held: &mut Option<String>, said: &Option<String>| {
        if said.is_some() && held != said {
            held.clone_from(said);
            changed = true;
        }
    };
    take(&mut s.permission_mode, &alive.permission_mode);
    take(&mut s.model_mode, &alive.model_mode);
    if alive.mode.is_some() && s.mode != alive.mode {
        (s.mode, changed) = (alive.mode, true);
    }
    if changed {
        s.updated_at = now;
    }
    changed
}
