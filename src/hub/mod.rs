//! The hub of one namespace. One Durable Object runs one hub on one thread.
//!
//! **Problem**: many CLIs and web clients share sessions that live in a database of high latency, in an object that the
//! platform stops and starts at will.
//! **Guarantee**: a change is durable before any client sees it, each client sees changes in order, and a wake after
//! hibernation, a deploy or a crash continues where the last instance stopped.
//! **Source**: `docs/PROTOCOL.md`; platform limits are named where they apply.
//!
//! The floors, from the bottom up (`tests/it/layers.rs` reads this list, and names the files of a topic that are on a lower floor
//! than its folder, for example what runs under the lock). A method calls only methods of its own floor and of floors below:
//!
//! - `core::ports`: the ports to the platform, the keys of the storage
//! - `core::peers`: connected sockets and calls in flight
//! - `core::error`: errors and effects
//! - `core::local_ids`: the local ids of messages
//! - `core::memory`: reservations of memory
//! - `core::events`: event numbers and the event log
//! - `core::push`: the queue of notifications
//! - `core::namespace`: quotas and the deletion of old data
//! - `core::sessions`: sessions and machines in memory
//! - `core`: the whole state in memory, and the configuration
//! - `mod`: the hub itself
//! - `turn`: what runs under the lock of the state, and sends frames
//! - `write`: commits changes to the database and runs their effects
//! - `calls`: calls the methods of CLIs
//! - `machines`: the use cases of machines
//! - `sessions`: the use cases of sessions
//! - `workspace`: a session's files and uploads
//! - `push`: sends notifications
//! - `status`: what the hub reports about itself
//! - `namespace`: what concerns a whole namespace: its place in a database, its deletion
//! - `events`: connects web clients
//! - `devices`: devices and revocations of tokens
//! - `inbound`: frames of CLIs
//! - `entry`: the alarm, and the restoring of the hub when the object starts

pub mod alarm;
pub mod calls;
pub mod core;
pub mod devices;
pub mod events;
pub mod inbound;
pub mod machines;
pub mod namespace;
pub mod push;
pub mod sessions;
pub mod status;
pub mod turn;
pub mod wake;
pub mod workspace;
pub mod write;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::future::BoxFuture;

use crate::limits::MIN_CACHED_BYTES;
use crate::memory_budget::{Evictable, Reservation};
use crate::model::ids::uuid_v7;
use crate::store::DbError;
use crate::store::counts::Counts;
use crate::store::fence::Fenced;
use crate::store::memory::ReadMemory;
use crate::store::places::{Databases, Placed};
use crate::store::retry::Retrying;
use crate::store::wrong_tokens::WrongTokens;
pub use core::config::Config;
use core::error::Error;
use core::ports::Runtime;
use core::state::State;
use core::telemetry::Telemetry;
pub use core::uploads::{FrameUploadSlot, FrameUploadTicket};

/// How many random bytes are read at once, for several ids.
const RANDOM_READ_BYTES: usize = 640;

/// A database with retries and a fence.
type FencedDb = Arc<Retrying<Fenced>>;

/// The databases of a deployment with several.
struct Places {
    databases: Arc<Databases>,
    placed: Arc<Placed>,
    /// All databases by number, for a move and a deletion. Not for the namespace's own database, which has the same fence as [`Hub::db`].
    fenced_by_number: Vec<FencedDb>,
}

pub struct Hub {
    pub config: Config,
    pub(crate) db: FencedDb,
    /// The database with the tables of access. The same as `db` if there is only one.
    access: FencedDb,
    /// `None` if there is only one database.
    places: Option<Places>,
    rt: Arc<dyn Runtime>,
    pub telemetry: Arc<Telemetry>,
    state: Mutex<State>,
    id_bytes: Mutex<Vec<u8>>,
    /// Makes ids unique when the random source fails.
    next_id: AtomicU64,
    /// Held while a large value is copied from JavaScript into reserved memory, so that only one is copied at a time.
    large_reads: futures::lock::Mutex<()>,
    /// Held while the event log is loaded. Has the time, in Unix milliseconds, and the error of the last failed load.
    log_reads: futures::lock::Mutex<Option<(u64, DbError)>>,
    /// Held while a request reads the list of sessions into memory, for all that wait. Has the time and the error, like `log_reads`.
    list_reads: futures::lock::Mutex<Option<(u64, DbError)>>,
    /// Held while a request counts what the namespace has, for all that wait. Has the counts and their time, in Unix milliseconds.
    status_reads: futures::lock::Mutex<Option<(u64, Counts, u64)>>,
    /// Held while a request imports, moves or deletes the namespace.
    row_changes: futures::lock::Mutex<()>,
    pub memory: ReadMemory,
    /// The tokens of CONNECT packets that the object reads.
    wrong_tokens: WrongTokens,
    /// The hub itself, for background tasks.
    this: Weak<Self>,
}

impl Hub {
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce(Arc<Self>) -> F) {
        if let Some(hub) = self.this.upgrade() {
            self.rt.spawn(Box::pin(task(hub)));
        }
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
            let remaining_bytes = unused.len() - N;
            unused.truncate(remaining_bytes);
            return bytes;
        }
        let mut bytes = [0; N];
        let count = self.next_id.fetch_add(1, Ordering::Relaxed);
        // The count is in the last bytes, because the version and the variant of a UUID overwrite some bits of the first bytes.
        bytes.iter_mut().rev().zip(count.to_le_bytes()).for_each(|(byte, of_count)| *byte = of_count);
        bytes
    }

    /// Reserves memory without waiting. Fails if too little is free.
    pub fn reserve_memory(&self, bytes: usize) -> Result<Reservation, Error> {
        self.memory.budget.reserve(bytes).ok_or(Error::MemoryInUse)
    }

    /// Waits for memory up to [`MEMORY_TIMEOUT_MS`](crate::limits::MEMORY_TIMEOUT_MS): not with a lock that a task that frees it needs.
    pub fn wait_for_memory(&self, bytes: usize) -> BoxFuture<'_, Result<Reservation, Error>> {
        Box::pin(async move { Ok(self.memory.reserve(bytes, self.memory.deadline()).await?) })
    }
}

impl Evictable for Hub {
    fn evict(&self, bytes: usize) {
        // The code that requests memory may hold the lock, and may be changing a cached session.
        let Ok(mut state) = self.state.try_lock() else { return };
        if state.memory_reservations.cache.bytes() > MIN_CACHED_BYTES {
            state.shrink_cache(|_| bytes);
        }
    }
}
