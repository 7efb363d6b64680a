//! The hub's state in memory: state machines without I/O.

use std::collections::HashSet;

use crate::hub::core::effect::{Effect, Reply};
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::events::stream::EventStream;
use crate::hub::core::memory::MemoryReservations;
use crate::hub::core::namespace::quotas::{MessageRate, StoredBytes};
use crate::hub::core::namespace::{ClosedFor, Retention, Sweep};
use crate::hub::core::peers::connections::Connections;
use crate::hub::core::peers::rpc::Rpc;
use crate::hub::core::ports::ConnId;
use crate::hub::core::push::state::PushState;
use crate::hub::core::schedule::Schedule;
use crate::hub::core::sessions::cache::Cache;
use crate::hub::core::sessions::cached_session::{CachedSession, HubQueue};
use crate::hub::core::sessions::evictions::{Lookup, UnknownLocalId};
use crate::hub::core::sessions::in_flight::{ActivationWaiters, InFlight};
use crate::hub::core::sessions::live_text::LiveTexts;
use crate::hub::core::sessions::liveness::{KeptRequests, Liveness, Reminders};
use crate::hub::core::sessions::tags::Tags;
use crate::hub::core::uploads::UploadSlots;
use crate::limits::{MAX_QUEUED_BYTES, MIN_CACHED_BYTES};
use crate::memory_budget::NamespaceBudget;
use crate::model::owner::Owner;

/// The part of the pool that growing caches leave free, in bytes.
pub const CACHE_HEADROOM_BYTES: usize = 16 * 1024 * 1024;

/// How many bytes of JSON of the session list stay in memory. Above this limit, all JSON is dropped; it can be read again.
const MAX_CACHED_SUMMARY_BYTES: usize = 4_000_000;

/// When a `session-alive`, `machine-alive` or `session-end` is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckTiming {
    /// Immediately, because the event changed nothing that must be written.
    Now,
    /// When the writes queued so far are durable.
    OnCommit,
}

/// Everything the hub holds in memory. Never locked across an await.
pub(in crate::hub) struct State {
    pub connections: Connections,
    pub memory_reservations: MemoryReservations,
    pub rpc: Rpc,
    pub liveness: Liveness,
    pub kept_requests: KeptRequests,
    pub sweep: Sweep,
    pub retention: Retention,
    pub stored_bytes: StoredBytes,
    pub message_rate: MessageRate,
    pub events: EventStream,
    pub schedule: Schedule,
    pub cache: Cache,
    /// The sockets whose attachments must be written, once for each change: while the length grows, a burst of changes continues.
    pub unwritten_attachments: Vec<ConnId>,
    /// The lookups whose batch has not begun.
    pub lookups: Vec<Lookup>,
    /// The messages that wait for the lookups of the next batch.
    pub unknown_local_ids: Vec<UnknownLocalId>,
    pub write_queue: HubQueue,
    /// `None` while the namespace is open.
    pub closed_for: Option<ClosedFor>,
    /// Whether the object must restart after the current request.
    pub must_restart: bool,
    /// Whether the namespace's name is in the object's storage.
    pub is_namespace_stored: bool,
    pub activation_waiters: ActivationWaiters,
    pub in_flight: InFlight,
    pub upload_slots: UploadSlots,
    pub reminders: Reminders,
    pub live_texts: LiveTexts,
    pub push: PushState,
    /// The names of the unknown events of CLIs that were logged.
    pub unknown_events: HashSet<String>,
}

impl State {
    /// Returns a cached session for a change, or the not-found error.
    pub fn session_mut(&mut self, id: &str) -> Result<&mut CachedSession, Error> {
        self.cache.entry_mut(id, self.write_queue.queued_images()).ok_or(Error::NotFound(Kind::Session))
    }

    /// Returns when to acknowledge an event: after the queued writes also if it changed nothing, because it may repeat a queued value.
    pub fn ack_timing(&self, changed: bool) -> AckTiming {
        if changed || self.write_queue.has_pending() { AckTiming::OnCommit } else { AckTiming::Now }
    }

    /// Sends a reply when all writes queued so far are durable.
    pub fn reply_on_commit(&mut self, reply: Option<Reply>) {
        reply.into_iter().for_each(|reply| self.write_queue.on_commit(Effect::Reply(reply)));
    }

    /// Fails with [`Error::Overloaded`] if a change of `bytes` would make the queue larger than [`MAX_QUEUED_BYTES`], or if there
    /// is no memory for the change. Small changes pass 0, and need no free memory.
    pub fn ensure_write_queue_has_room(&self, bytes: usize) -> Result<(), Error> {
        let pending = self.write_queue.pending_bytes() + bytes;
        let is_full =
            pending > MAX_QUEUED_BYTES || (bytes > 0 && !self.memory_reservations.make_room_for_write_queue(pending));
        if is_full { Err(Error::Overloaded) } else { Ok(()) }
    }

    /// Evicts sessions from the cache to stay within its limits, and to leave memory for other buffers. Sessions with work in
    /// progress or queued writes stay; active and connected ones are evicted last.
    pub fn evict_sessions(&mut self) {
        self.shrink_cache(|budget| budget.memory_budget.shortfall(CACHE_HEADROOM_BYTES));
    }

    /// Evicts sessions to free `surplus(budget)` bytes, then drops the JSON of the session list if necessary. Updates the reservation.
    pub fn shrink_cache(&mut self, surplus: impl FnOnce(&NamespaceBudget) -> usize) {
        let Self {
            cache, connections, liveness, in_flight, activation_waiters, write_queue, memory_reservations, ..
        } = self;
        let is_evictable = |id: &str| {
            let is_ending = liveness.is_expired(&Owner::Session(id.to_owned()));
            !(is_ending
                || in_flight.has_any(id)
                || activation_waiters.has_waiter(id)
                || write_queue.is_session_queued(id))
        };
        let is_in_use =
            |id: &str| !connections.clis_of_session(id).is_empty() || liveness.is_live(&Owner::Session(id.to_owned()));
        let session_bytes = cache.session_bytes();
        let tag_bytes = cache.tags().map_or(0, Tags::bytes);
        let other_bytes = cache.machine_bytes() + tag_bytes + cache.committed_bytes(write_queue);
        memory_reservations.cache.resize(session_bytes + other_bytes + cache.session_list.bytes());
        let surplus = surplus(&memory_reservations.budget);
        let min_bytes = MIN_CACHED_BYTES.saturating_sub(cache.session_list.bytes_without_json());
        let max_bytes = session_bytes.saturating_sub(surplus).max(min_bytes);
        let remaining_bytes = cache.evict(max_bytes, is_evictable, is_in_use);
        let is_short = surplus > session_bytes - remaining_bytes;
        let must_shrink = is_short && remaining_bytes + cache.session_list.bytes() > MIN_CACHED_BYTES;
        cache.session_list.shrink(if must_shrink { 0 } else { MAX_CACHED_SUMMARY_BYTES });
        memory_reservations.cache.resize(remaining_bytes + other_bytes + cache.session_list.bytes());
    }
}
