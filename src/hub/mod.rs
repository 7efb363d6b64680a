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
//! - `access`: credentials, devices and push subscriptions, which need no lock of the state
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
//! - `devices`: revocations of tokens
//! - `inbound`: frames of CLIs
//! - `entry`: the alarm, and the restoring of the hub when the object starts

pub mod access;
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

use std::sync::{Arc, Mutex, Weak};

use crate::limits::MIN_CACHED_BYTES;
use crate::memory_budget::Evictable;
use crate::store::DbError;
use crate::store::counts::Counts;
use crate::store::fence::FencedDb;
use crate::store::memory::ReadMemory;
use crate::store::places::{Databases, Placed};
use access::Access;
pub use core::config::Config;
use core::ids::Ids;
use core::ports::Runtime;
use core::state::State;
use core::telemetry::Telemetry;
pub use core::uploads::{FrameUploadSlot, FrameUploadTicket};
use push::subscriptions::Subscriptions;

/// The databases of a deployment with several. Its methods are in [`namespace::databases`].
struct Places {
    databases: Arc<Databases>,
    placed: Arc<Placed>,
    /// The same as [`Hub::db`].
    own: FencedDb,
    /// All databases by number, for a move and a deletion. Not for the namespace's own database, which has the same fence as `own`.
    fenced_by_number: Vec<FencedDb>,
    config: Arc<Config>,
    rt: Arc<dyn Runtime>,
}

/// Reads large values from the database. Its methods are in [`write::large`].
struct LargeValues {
    db: FencedDb,
    config: Arc<Config>,
    /// Held while a large value is copied from JavaScript into reserved memory, so that only one is copied at a time.
    reads: futures::lock::Mutex<()>,
}

pub struct Hub {
    pub config: Arc<Config>,
    pub(crate) db: FencedDb,
    pub access: Access,
    pub subscriptions: Subscriptions,
    /// `None` if there is only one database.
    places: Option<Places>,
    rt: Arc<dyn Runtime>,
    pub telemetry: Arc<Telemetry>,
    state: Mutex<State>,
    ids: Ids,
    large_values: LargeValues,
    /// Held while the event log is loaded. Has the time, in Unix milliseconds, and the error of the last failed load.
    log_reads: futures::lock::Mutex<Option<(u64, DbError)>>,
    /// Held while a request reads the list of sessions into memory, for all that wait. Has the time and the error, like `log_reads`.
    list_reads: futures::lock::Mutex<Option<(u64, DbError)>>,
    /// Held while a request counts what the namespace has, for all that wait. Has the counts and their time, in Unix milliseconds.
    status_reads: futures::lock::Mutex<Option<(u64, Counts, u64)>>,
    /// Held while a request imports, moves or deletes the namespace.
    row_changes: futures::lock::Mutex<()>,
    pub memory: ReadMemory,
    /// The hub itself, for background tasks.
    this: Weak<Self>,
}

impl Hub {
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce(Arc<Self>) -> F) {
        if let Some(hub) = self.this.upgrade() {
            self.rt.spawn(Box::pin(task(hub)));
        }
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
