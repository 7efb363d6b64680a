//! Lookups of local ids in the database: memory lacks the older local ids of a session with many messages. Each batch of the write
//! queue ends with the waiting lookups. So a lookup costs no query of its own, and only one group of lookups is in flight.

use crate::hub::core::local_ids::{LocalIds, Seen};
use crate::hub::core::sessions::evictions::{Key, LocalIdLookup, UnknownLocalId};
use crate::hub::core::state::State;
use crate::hub::turn::Turn;
use crate::limits::{MAX_LOCAL_ID_BYTES, MAX_LOCAL_ID_LOOKUPS, MAX_LOCAL_IDS};
use crate::log::{Level, LogLine};
use crate::store::messages::read_by_local_ids;
use crate::store::{Row, Statement};
use crate::wire::cli::{CliEvent, NewMessage, decode_frame};

/// How many bytes of queued frames are searched for local ids to look up together.
pub const MAX_SEARCHED_FRAME_BYTES: usize = 2_000_000;

impl Turn<'_> {
    /// Stores the results of a lookup in memory. `results` are the results of the whole batch.
    pub(in crate::hub) fn insert_looked_up(
        &mut self,
        lookup: LocalIdLookup,
        batch: &[Statement],
        results: &mut [Vec<Row>],
    ) {
        let found = match read_by_local_ids(lookup.pairs.len(), batch, results) {
            Ok(found) => found,
            // The waiting messages repeat the lookup, and are rejected after several failures.
            Err(error) => {
                let line = LogLine::new(Level::Debug, "lookup-failed");
                return self.hub.telemetry.log(line.text("error", &error.to_string()));
            }
        };
        for ((session, local_id), message) in lookup.pairs.into_iter().zip(found) {
            if self.state.cache.evictions.redeem(&lookup.ticket, Key::Id(&session)).is_none() {
                continue;
            }
            if let Some(local_ids) = self.state.local_ids_mut(&session)
                && local_ids.look_up(&local_id) == Seen::Unknown
                && local_ids.insert(local_id, message)
            {
                self.state.cache.evictions.invalidate_reads(&session);
            }
        }
    }
}

impl State {
    /// Returns the local ids to look up with a batch: the ids of the waiting messages, and of the queued messages that the same
    /// CLIs have sent since.
    pub(in crate::hub) fn take_local_id_lookup(&mut self) -> LocalIdLookup {
        let (mut pairs, mut searched_bytes) = (Vec::new(), 0);
        for UnknownLocalId { session, local_id, from } in std::mem::take(&mut self.unknown_local_ids) {
            self.local_ids_mut(&session).into_iter().for_each(LocalIds::make_room);
            pairs.push((session, local_id));
            for frame in from.into_iter().flat_map(|conn| self.connections.queued_frames(conn)) {
                searched_bytes += frame.memory_bytes();
                if pairs.len() >= MAX_LOCAL_ID_LOOKUPS || searched_bytes > MAX_SEARCHED_FRAME_BYTES {
                    break;
                }
                let event = decode_frame(&frame.text, &["message"]);
                let Some(CliEvent::Message(NewMessage { sid, local_id: Some(local_id), .. })) = event else { continue };
                // A longer local id is rejected later, and would not fit the statement.
                if local_id.len() <= MAX_LOCAL_ID_BYTES {
                    pairs.push((sid, local_id));
                }
            }
        }
        pairs.retain(|(session, local_id)| self.can_look_up(session, local_id));
        LocalIdLookup { pairs, ticket: self.cache.evictions.take_ticket() }
    }

    /// Whether only the database knows if a message has the local id. `false` also if the session has too many messages that
    /// are not durable: memory and the database may then both lack the local id.
    fn can_look_up(&self, session: &str, local_id: &str) -> bool {
        let Some(entry) = self.cache.entry(session) else { return false };
        let durable_seq = match self.write_queue.committed_session(session) {
            Some(Some(committed)) => committed.session.seq,
            Some(None) => 0,
            None => entry.session.seq,
        };
        let is_unknown = entry.local_ids.as_ref().is_some_and(|ids| ids.look_up(local_id) == Seen::Unknown);
        is_unknown && entry.session.seq - durable_seq < MAX_LOCAL_IDS as u64
    }

    fn local_ids_mut(&mut self, session: &str) -> Option<&mut LocalIds> {
        self.cache.entry_mut_without_before_image(session)?.local_ids.as_mut()
    }
}
