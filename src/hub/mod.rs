//! The hub of one namespace. One Durable Object runs one hub on one thread.
//!
//! **Problem**: many CLIs and web clients share sessions that live in a database of high latency, in an object that the
//! platform stops and starts at will.
//! **Guarantee**: a change is durable before any client sees it, each client sees changes in order, and a wake after
//! hibernation, a deploy or a crash continues where the last instance stopped.
//! **Source**: `docs/PROTOCOL.md`; platform limits are named where they apply.
//!
//! From the bottom up: [`ports`], [`error`]; the state machines without IO in [`state`] and [`peers`];
//! [`commit`], [`effects`] and [`outbox`], through which every change and every frame goes; the use cases in [`sessions`],
//! [`machines`], [`workspace`], [`events`] and [`push`]; [`inbound`] for frames of CLIs; [`alarm`] and [`wake`] on top.
//! `tests/it/layers.rs` checks which module may use which.

pub mod alarm;
pub mod calls;
pub mod commit;
pub mod config;
pub mod effects;
pub mod error;
pub mod events;
pub mod inbound;
pub mod keep_alive;
pub mod large;
pub mod local_ids;
pub mod lookups;
pub mod machines;
pub mod memory;
pub mod outbox;
pub mod peers;
pub mod ports;
pub mod push;
pub mod sessions;
pub mod state;
pub mod storage_keys;
pub mod turn;
pub mod versioned;
pub mod wake;
pub mod workspace;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::model::ids::uuid_v7;
use crate::store::fence::Fenced;
use crate::store::journal::Journal;
use crate::store::memory::Memory;
use crate::store::retry::Retrying;
use crate::store::{Database, DbError};
pub use config::Config;
use events::log::EventLog;
use events::numbering::EventNumbers;
use peers::connections::Connections;
use peers::rpc::Rpc;
use ports::{ConnId, Runtime};
use push::state::PushState;
use state::activation_waiters::ActivationWaiters;
use state::cache::Cache;
use state::effect::Effect;
use state::in_flight::InFlight;
use state::kept_requests::KeptRequests;
use state::live_text::LiveTexts;
use state::liveness::Liveness;
use state::lookup::{Lookup, UnknownLocalId};
use state::reminders::Reminders;
use state::reservations::Reservations;
use state::schedule::Schedule;
use state::sweep::Sweep;
use state::upload_slots::UploadSlots;
pub use state::upload_slots::{FrameSlot, FrameTicket};

/// How many random bytes are read at once, for several ids.
const RANDOM_READ_BYTES: usize = 640;

/// The hub of one namespace.
pub struct Hub {
    pub config: Config,
    db: Retrying<Fenced>,
    rt: Arc<dyn Runtime>,
    state: Mutex<State>,
    /// Random bytes for the next ids.
    id_bytes: Mutex<Vec<u8>>,
    /// Makes ids unique when the random source fails.
    next_id: AtomicU64,
    /// Held while a large value is read, after its memory is reserved: one at a time is copied from JavaScript.
    large_reads: futures::lock::Mutex<()>,
    /// Held while the event log is loaded. Has the time, in Unix milliseconds, and the error of the last failed load.
    log_reads: futures::lock::Mutex<Option<(u64, DbError)>>,
    /// Held while a request reads the list of sessions: others then find it in memory.
    list_reads: futures::lock::Mutex<()>,
    memory: Memory,
    /// The hub itself, for background tasks.
    this: Weak<Self>,
}

/// Everything the hub holds in memory. Never locked across an await.
struct State {
    connections: Connections,
    reservations: Reservations,
    rpc: Rpc,
    liveness: Liveness,
    kept_requests: KeptRequests,
    sweep: Sweep,
    event_numbers: EventNumbers,
    /// The replay log; `None` while no web client is connected or may resume.
    log: Option<EventLog>,
    schedule: Schedule,
    cache: Cache,
    /// The sockets whose attachments are older than their peers in memory. A socket appears once for each change, so that the
    /// length shows whether the burst goes on.
    unwritten_attachments: Vec<ConnId>,
    /// The lookups whose batch has not begun.
    lookups: Vec<Lookup>,
    /// The messages that wait for the lookups of the next batch.
    unknown_local_ids: Vec<UnknownLocalId>,
    journal: Journal<Effect>,
    /// Whether the namespace's name is in the object's storage.
    namespace_stored: bool,
    activation_waiters: ActivationWaiters,
    in_flight: InFlight,
    upload_slots: UploadSlots,
    reminders: Reminders,
    live_texts: LiveTexts,
    push: PushState,
    /// How often each unknown event of CLIs was received.
    unknown_events: HashMap<String, u64>,
}

impl Hub {
    /// The database, for reads that need no live state.
    pub fn database(&self) -> &dyn Database {
        &self.db
    }

    fn new_id(&self) -> String {
        uuid_v7(self.rt.now(), &self.unique_bytes())
    }

    /// Returns unique, not secret bytes: random ones, or a counter when the random source fails.
    fn unique_bytes<const N: usize>(&self) -> [u8; N] {
        let mut unused = self.id_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < N {
            // A call of the platform's random source takes longer than everything else that an id needs.
            unused.resize(RANDOM_READ_BYTES, 0);
            if self.rt.random(&mut unused).is_err() {
                unused.clear();
            }
        }
        if let Some(bytes) = unused.last_chunk().copied() {
            let rest = unused.len() - N;
            unused.truncate(rest);
            return bytes;
        }
        let mut bytes = [0; N];
        let count = self.next_id.fetch_add(1, Ordering::Relaxed);
        // The first bytes of a UUID have its version and variant in place of some bits.
        bytes.iter_mut().rev().zip(count.to_le_bytes()).for_each(|(byte, of_count)| *byte = of_count);
        bytes
    }
}

impl State {
    /// Whether no CLI and no web client is connected.
    fn is_idle(&self) -> bool {
        self.connections.clis().next().is_none() && self.connections.subscriptions().next().is_none()
    }
}
