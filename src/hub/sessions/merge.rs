//! Putting the history of a session in front of another's: its CLI came back under another id.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::hub::error::{Error, Kind};
use crate::hub::large::unreadable;
use crate::hub::sessions::changes::Changes;
use crate::hub::state::effect::Effect;
use crate::hub::storage_keys::alive_key;
use crate::hub::{Hub, State};
use crate::model::event::Event;
use crate::model::json::{Json, JsonObject};
use crate::model::large::Field;
use crate::model::owner::Owner;
use crate::model::session::Session;
use crate::store::journal::Extent;
use crate::store::values::{self, LargeValue};
use crate::store::{DbError, Found, sessions as store};

impl Hub {
    /// Puts the history of `old` in front of `new`'s; `old` is gone then.
    pub(in crate::hub) async fn merge(self: &Arc<Self>, old: &str, new: &str) -> Result<(), Error> {
        for id in [old, new] {
            self.state().in_flight.begin_merge(id);
        }
        let merged = self.merge_exclusively(old, new).await;
        for id in [old, new] {
            self.state().in_flight.end_merge(id);
        }
        self.flush();
        merged
    }

    async fn merge_exclusively(self: &Arc<Self>, old: &str, new: &str) -> Result<(), Error> {
        loop {
            match self.load_session_during_merge(old).await {
                Ok(()) => {}
                // Somebody deleted it: there is no history to bring along.
                Err(Error::Missing(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
            self.load_session_during_merge(new).await?;
            self.hold_journal().await;
            let still_loaded = {
                let state = self.state();
                [old, new].into_iter().all(|id| state.cache.entry(id).is_some())
            };
            let merged = if still_loaded { Some(self.merge_held(old, new).await) } else { None };
            self.state().journal.unlock();
            match merged {
                Some(merged) => return merged,
                // What was to be written before failed, and memory forgot the two with it.
                None => self.flush(),
            }
        }
    }

    /// Nothing else may be written during a merge: it would carry numbers of before.
    async fn hold_journal(self: &Arc<Self>) {
        loop {
            let held = {
                let mut state = self.state();
                let State { journal, cache, .. } = &mut *state;
                journal.lock(&self.config.namespace, cache)
            };
            self.flush();
            match held {
                Some(held) => {
                    if held.await.is_ok() {
                        return;
                    }
                }
                // Another merge goes first; how that ends is its own affair.
                None => drop(self.flushed().await),
            }
        }
    }

    async fn merge_held(&self, old: &str, new: &str) -> Result<(), Error> {
        let namespace = &self.config.namespace;
        // What is carried over goes into the same batch: a crash leaves all of it done, or nothing.
        let gone = self.state().cache.entry(old).map(|entry| entry.session.clone());
        let gone = gone.ok_or(Error::Missing(Kind::Session))?;
        let stays = self.state().cache.entry(new).map(|entry| entry.session.clone());
        let stays = stays.ok_or(Error::Missing(Kind::Session))?;
        let whole = match &stays.metadata_large {
            Some(large) => Some(self.durable_whole(new, large).await?.ok_or_else(unreadable)?),
            None => stays.metadata.clone(),
        };
        let (remaining, large) = self.carry_over(&gone, stays, whole.as_ref());
        for statements in values::write_parts(namespace, large.as_slice()) {
            self.commit(statements).await?;
        }
        let mut batch = store::merge(namespace, old, &remaining);
        // Seqs that were told before say nothing any more.
        let (number, after) = self.log_gap(&mut batch).await?;
        let committed = self.commit(batch).await;
        let may_be_done = committed.as_ref().err().is_none_or(DbError::may_have_committed);
        let merged = match committed {
            Ok(()) => store::load_by_id(&self.db, namespace, new).await,
            Err(error) => Err(error),
        };
        let merged = match merged {
            Ok(Found::Owned(session)) => session,
            Ok(_) => return Err(Error::Missing(Kind::Session)),
            Err(error) => {
                // Nothing that memory holds of the two is to be trusted, nor what anybody was told of them.
                self.discard_uncommitted(Vec::new(), &Error::from(error.clone()));
                if may_be_done {
                    let clis = [old, new].map(|id| self.state().connections.of_session(id).to_vec());
                    self.disconnect_to_resync(clis.into_iter().flatten());
                }
                self.handle_failed_batch(&DbError::Retryable(error.to_string())).await;
                return Err(error.into());
            }
        };
        let mut state = self.state();
        // Whatever was noted for the one that is gone would find no row.
        state.journal.delete_session(old);
        state.cache.remove(old);
        let owner = Owner::Session(old.to_owned());
        state.liveness.stop(&owner);
        self.rt.kv_delete(&alive_key(&owner));
        // The merge is durable already, whatever becomes of what is noted after it.
        self.publish(&mut state, Some(number), || Event::session_removed(old));
        if let Some(log) = &mut state.log {
            log.push_gap(after);
        }
        state.cache.invalidate(new);
        let State { cache, journal, .. } = &mut *state;
        let entry = cache.session_mut(new)?;
        entry.session.seq = merged.seq;
        (entry.local_ids, entry.completed) = (None, None);
        journal.trim_completed_requests(new);
        entry.session.todos = entry.session.todos.take().or(gone.todos.clone());
        let s = &mut entry.session;
        let noted = s.metadata_large.as_ref().and_then(|large| journal.find_queued_value(large));
        let now_is = if s.metadata_large.is_some() { noted.or(whole) } else { s.metadata.clone() };
        let metadata = carried_over(&gone, now_is.as_ref());
        s.metadata_large = s.metadata_large.take().or(large.map(|value| value.large));
        let event = Event::session_updated(new, &Changes::presence(&entry.session));
        state.journal.queue_session(new, Extent::Whole);
        state.journal.on_commit(Effect::Publish(event));
        self.set_metadata(&mut state, new, metadata, None)?;
        Ok(())
    }

    /// The session that stays with what it takes over from the one that goes; and its metadata, when they are large.
    /// `metadata` are its own, whole.
    fn carry_over(&self, gone: &Session, stays: Session, metadata: Option<&Json>) -> (Session, Option<LargeValue>) {
        let version = stays.metadata_version + 1;
        let metadata = carried_over(gone, metadata);
        let (head, large) = match Field::Metadata.is_large(&metadata) {
            true => {
                (Field::Metadata.excerpt(&metadata), Some(LargeValue::new(&stays.id, version, self.new_id(), metadata)))
            }
            false => (metadata, None),
        };
        let taken_over = Session {
            metadata: Some(head),
            metadata_large: large.as_ref().map(|value| value.large.clone()),
            metadata_version: version,
            todos: stays.todos.clone().or(gone.todos.clone()),
            ..stays
        };
        (taken_over, large)
    }
}

/// The metadata of the session that stays, with the name, the newer summary and the worktree of the one that goes.
fn carried_over(gone: &Session, stays: Option<&Json>) -> Json {
    let old = gone.metadata.as_ref().and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    let mut new = stays.and_then(|m| JsonObject::parse(m.text())).unwrap_or_default();
    for name in ["name", "worktree"] {
        if let (Some(value), None) = (old.get(name), new.get(name)) {
            new.set(name, value);
        }
    }
    let written_at = |summary: Option<&RawValue>| -> Option<u64> {
        JsonObject::parse(summary?.get())?.get("updatedAt")?.get().parse().ok()
    };
    if let Some(summary) = old.get("summary")
        && (new.get("summary").is_none() || written_at(Some(summary)) > written_at(new.get("summary")))
    {
        new.set("summary", summary);
    }
    new.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::namespace::Namespace;

    fn session(metadata: &str) -> Session {
        let metadata = Some(Json::parse(metadata).unwrap());
        Session::new("s".into(), Namespace::default(), "t".into(), metadata, 0)
    }

    #[test]
    fn what_a_person_gave_the_session_is_carried_over() {
        let gone =
            session(r#"{"path":"/w","name":"mine","worktree":{"name":"w"},"summary":{"text":"new","updatedAt":9}}"#);
        let stays = session(r#"{"path":"/w","host":"h","summary":{"text":"old","updatedAt":5}}"#);
        assert_eq!(
            carried_over(&gone, stays.metadata.as_ref()).text(),
            r#"{"path":"/w","host":"h","summary":{"text":"new","updatedAt":9},"name":"mine","worktree":{"name":"w"}}"#
        );
        let named = session(r#"{"path":"/w","name":"other","summary":{"text":"newer","updatedAt":10}}"#);
        assert!(
            carried_over(&gone, named.metadata.as_ref())
                .text()
                .starts_with(r#"{"path":"/w","name":"other","summary":{"text":"newer""#)
        );
    }
}
