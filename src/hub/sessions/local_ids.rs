//! Looking up local ids that are not in memory: older ones of a session with many messages. All messages that wait share a query,
//! also with those that are queued behind them, and one query of the namespace is in flight at a time.

use std::sync::Arc;

use futures::channel::oneshot;

use crate::hub::error::Error;
use crate::hub::sessions::messages::Draft;
use crate::hub::state::evictions::Key;
use crate::hub::state::local_ids::{LocalIds, Seen};
use crate::hub::state::lookup::{LocalIdLookup, LocalIdLookups};
use crate::hub::{Hub, State};
use crate::limits::{MAX_LOCAL_ID_LOOKUPS, MAX_SEARCHED_FRAME_BYTES};
use crate::store::messages::find_by_local_ids;
use crate::wire::cli::{CliEvent, NewMessage, decode_frame};

impl Hub {
    /// Looks up the local id of a message in the database. Then memory knows it, unless its session was evicted meanwhile.
    pub(super) async fn look_up_local_id(self: &Arc<Self>, draft: &Draft) -> Result<(), Error> {
        let Some(local_id) = draft.local_id() else { return Ok(()) };
        let (sender, receiver) = oneshot::channel();
        let pair = (draft.session.clone(), local_id.to_owned());
        let is_first = {
            let lookups = &mut self.state().local_id_lookups;
            lookups.waiting.push(LocalIdLookup { pair, conn: draft.from, sender });
            !std::mem::replace(&mut lookups.is_running, true)
        };
        if is_first {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.run_local_id_lookups().await }));
        }
        let interrupted = || Error::Unavailable("The hub was interrupted. Send the message again.".into());
        receiver.await.unwrap_or_else(|_| Err(interrupted()))
    }

    async fn run_local_id_lookups(self: &Arc<Self>) {
        loop {
            // The runtime delivers frames that have arrived meanwhile, and lets other namespaces of the thread run.
            self.rt.sleep(0).await;
            let waiting = {
                let LocalIdLookups { waiting, is_running } = &mut self.state().local_id_lookups;
                let rest = waiting.split_off(waiting.len().min(MAX_LOCAL_ID_LOOKUPS));
                *is_running = !waiting.is_empty();
                std::mem::replace(waiting, rest)
            };
            if waiting.is_empty() {
                return;
            }
            let result = self.look_up_local_ids(&waiting).await;
            for lookup in waiting {
                // The request may have ended.
                let _ = lookup.sender.send(result.clone());
            }
        }
    }

    async fn look_up_local_ids(self: &Arc<Self>, waiting: &[LocalIdLookup]) -> Result<(), Error> {
        // Queued messages may have local ids that are no longer in memory.
        self.flushed().await?;
        let (generation, pairs) = {
            let mut state = self.state();
            (state.cache.evictions.generation(), state.pairs_to_look_up(waiting))
        };
        let found = find_by_local_ids(&self.db, &self.config.namespace, &pairs).await?;
        let mut state = self.state();
        for ((session, local_id), message) in pairs.into_iter().zip(found) {
            let is_stale = state.cache.evictions.contains_since(generation, Key::Id(&session));
            if let Some(local_ids) = state.local_ids_mut(&session).filter(|_| !is_stale)
                && local_ids.look_up(&local_id) == Seen::Unknown
                && local_ids.insert(local_id, message)
            {
                state.cache.evictions.record(&[Key::Id(&session)]);
            }
        }
        Ok(())
    }
}

impl State {
    /// Returns the sessions and local ids of waiting messages, and of messages that are queued behind them.
    fn pairs_to_look_up(&mut self, waiting: &[LocalIdLookup]) -> Vec<(String, String)> {
        let mut pairs: Vec<(String, String)> = waiting.iter().map(|lookup| lookup.pair.clone()).collect();
        for (session, _) in &pairs {
            self.local_ids_mut(session).into_iter().for_each(LocalIds::make_room);
        }
        let mut bytes = 0;
        let conns = waiting.iter().filter_map(|lookup| lookup.conn);
        for frame in conns.flat_map(|conn| self.connections.queued_frames(conn)) {
            bytes += frame.memory_bytes();
            if pairs.len() >= MAX_LOCAL_ID_LOOKUPS || bytes > MAX_SEARCHED_FRAME_BYTES {
                break;
            }
            if let Some(CliEvent::Message(NewMessage { sid, local_id: Some(local_id), .. })) =
                decode_frame(&frame.text, &["message"])
                && let Some(local_ids) = self.cache.entry(&sid).and_then(|entry| entry.local_ids.as_ref())
                && local_ids.look_up(&local_id) == Seen::Unknown
            {
                pairs.push((sid, local_id));
            }
        }
        pairs
    }

    fn local_ids_mut(&mut self, session: &str) -> Option<&mut LocalIds> {
        self.cache.entry_mut_keeping_summary(session)?.local_ids.as_mut()
    }
}
