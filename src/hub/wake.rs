//! Restoring a hub when its object starts: after hibernation, a deploy or a crash.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, Weak};

use futures::future::BoxFuture;

use crate::hub::base::events::stream::EventStream;
use crate::hub::base::peers::connections::{Connections, Peer};
use crate::hub::base::ports::{ConnId, Runtime};
use crate::hub::base::push::state::{PUSH_KEY_PREFIX, PushState};
use crate::hub::base::state::State;
use crate::hub::base::state::kept_requests::KeptRequests;
use crate::hub::base::state::liveness::{Liveness, StoredDeadline};
use crate::hub::base::state::memory_reservations::MemoryReservations;
use crate::hub::base::state::schedule::Schedule;
use crate::hub::base::state::sweep::Sweep;
use crate::hub::base::storage_keys::{
    ALIVE, EPOCH, KEPT_REQUESTS, LAST_DB_STALL, LAST_TICK, NAMESPACE, REACTIVATION, SWEEP, alive_owner,
};
use crate::hub::{Config, Hub};
use crate::memory_budget::{Evictable, MemoryBudget};
use crate::store::Database;
use crate::store::fence::{Epoch, Fenced};
use crate::store::memory::Memory;
use crate::store::retry::{Environment, Retrying};
use crate::store::watchdog::Watchdog;

impl Hub {
    /// Restores the hub from the sockets' attachments and the object's storage. `memory_budget` is shared by all namespaces of
    /// the isolate.
    pub fn wake(
        config: Config,
        memory_budget: &Arc<MemoryBudget>,
        db: Arc<dyn Database>,
        rt: Arc<dyn Runtime>,
        sockets: Vec<(ConnId, String)>,
    ) -> Arc<Self> {
        let now = rt.now();
        let budget = memory_budget.namespace_budget(config.namespace.as_ref());
        let mut state = State::restore(&config, MemoryReservations::new(&budget), &*rt, now);
        state.restore_sockets(&config, &*rt, sockets, now);
        state.restore_keep_alives(&*rt, now);
        state.restore_kept_requests(&*rt);
        state.restore_reactivations(&*rt, now);
        let db = Arc::new(Watchdog::new(db, Box::new(HubEnvironment(Arc::clone(&rt)))));
        let db = fence(&config, db, &rt, &state, now);
        let db = Retrying::new(db, Box::new(HubEnvironment(Arc::clone(&rt))));
        let memory = Memory::new(budget, Arc::new(HubEnvironment(Arc::clone(&rt))));
        let hub = Arc::new_cyclic(|this| Self {
            config,
            db,
            rt,
            state: Mutex::new(state),
            id_bytes: Mutex::default(),
            // Greater than all ids of earlier instances.
            next_id: AtomicU64::new(now << 12),
            large_reads: futures::lock::Mutex::default(),
            log_reads: futures::lock::Mutex::default(),
            list_reads: futures::lock::Mutex::default(),
            memory,
            this: Weak::clone(this),
        });
        let cache: Weak<dyn Evictable> = hub.this.clone();
        memory_budget.add_cache(cache);
        hub.turn().restore_event_stream();
        // In a task, so that an alarm that woke the object is handled first. The handler of the alarm sets the next alarm;
        // setting it twice would cost another write.
        let woken = Arc::clone(&hub);
        hub.rt.spawn(Box::pin(async move { woken.turn().set_next_alarm() }));
        hub
    }

    /// Disconnects the clients of an object that was replaced by a change of `HUB_JURISDICTION`. The clients reconnect to the
    /// new object of the namespace. Returns whether the storage can be deleted: not while a sweep is recorded in the storage.
    /// If the change is reverted, this object reads the record and continues the sweep.
    pub fn retire(rt: &dyn Runtime, sockets: &[(ConnId, String)]) -> bool {
        for (conn, _) in sockets {
            rt.close(*conn, 1012, "The namespace has moved. Reconnect.");
        }
        rt.kv_get(SWEEP).is_none()
    }
}

/// The parts of the hub's runtime that the database layer needs.
struct HubEnvironment(Arc<dyn Runtime>);

impl Environment for HubEnvironment {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        self.0.sleep(ms)
    }

    fn random(&self) -> u8 {
        let mut byte = [u8::MAX];
        // If this fails, the byte stays at its maximum, which means the longest pause before a retry.
        let _ = self.0.random(&mut byte);
        let [byte] = byte;
        byte
    }

    fn record_stall(&self, ended_at: u64) {
        self.0.kv_put(LAST_DB_STALL, &ended_at.to_string());
    }

    fn log_warning(&self, line: &str) {
        self.0.log_warning(line);
    }
}

/// Returns the fenced database. The epoch continues after hibernation, because no batch was in flight. Any other wake begins a new
/// epoch, because the last batch of the earlier instance may still be in flight.
fn fence(config: &Config, db: Arc<dyn Database>, rt: &Arc<dyn Runtime>, state: &State, now: u64) -> Fenced {
    // A deploy disconnects all sockets, a crash may not. So sockets without a crash mean hibernation.
    let hibernated = state.has_clients() && !rt.previous_instance_crashed();
    let stored = rt.kv_get(EPOCH);
    let epoch = Epoch::at_start(stored.as_deref(), hibernated, now);
    let storage = Arc::clone(rt);
    let persist = Box::new(move |epoch: Epoch| storage.kv_put(EPOCH, &epoch.encode()));
    if stored.is_some() && !hibernated {
        // Overwrites the stored epoch now: after a later hibernation, the stored epoch is read and continued. If nothing is
        // stored, there is nothing to overwrite.
        persist(epoch);
    }
    Fenced::new(db, config.namespace.clone(), epoch, persist)
}

impl State {
    fn restore(config: &Config, memory_reservations: MemoryReservations, rt: &dyn Runtime, now: u64) -> Self {
        let last_tick = rt.kv_get(LAST_TICK).and_then(|at| at.parse().ok());
        Self {
            connections: Connections::default(),
            memory_reservations,
            rpc: Default::default(),
            liveness: Liveness::default(),
            kept_requests: KeptRequests::default(),
            sweep: Sweep::new(rt.kv_get(SWEEP).map(|_| now)),
            events: EventStream::new(&config.namespace, now),
            event_appender: Default::default(),
            schedule: Schedule::new(last_tick.unwrap_or(now)),
            cache: Default::default(),
            unwritten_attachments: Vec::new(),
            lookups: Vec::new(),
            unknown_local_ids: Vec::new(),
            write_queue: Default::default(),
            is_namespace_stored: rt.kv_get(NAMESPACE).is_some(),
            activation_waiters: Default::default(),
            in_flight: Default::default(),
            upload_slots: Default::default(),
            reminders: Default::default(),
            live_texts: Default::default(),
            push: PushState::restore(rt.kv_list(PUSH_KEY_PREFIX)),
            unknown_events: HashMap::new(),
        }
    }

    fn restore_sockets(&mut self, config: &Config, rt: &dyn Runtime, sockets: Vec<(ConnId, String)>, now: u64) {
        for (conn, attachment) in sockets {
            let Ok(peer) = serde_json::from_str(&attachment) else {
                // An attachment of another version: the client reconnects.
                rt.close(conn, 1012, "Please reconnect");
                continue;
            };
            if let Peer::Cli(cli) = &peer {
                for (owner, method, name) in cli.registrations(&config.vocabulary) {
                    self.rpc.register(owner, &method, &name, conn, now);
                }
            }
            self.connections.insert(conn, peer);
        }
    }

    fn restore_keep_alives(&mut self, rt: &dyn Runtime, now: u64) {
        for (key, value) in rt.kv_list(ALIVE) {
            let Some(owner) = alive_owner(&key) else { continue };
            let conns = self.connections.clis_of_owner(&owner);
            let keep_alives = conns.iter().filter_map(|conn| self.connections.cli(*conn)?.last_keep_alive_at(&owner));
            let stored = StoredDeadline::parse(&value);
            if conns.is_empty() {
                self.rpc.grace.owner_lost(owner.clone(), stored.active_at, now);
            }
            if self.liveness.restore(owner.clone(), stored, keep_alives.max(), now) {
                rt.kv_put(&key, &self.liveness.stored_deadline(&owner).to_string());
            }
        }
        if let Some(at) = rt.kv_get(LAST_DB_STALL).and_then(|at| at.parse().ok()) {
            self.liveness.restart_deadlines_before(at);
        }
    }

    fn restore_kept_requests(&mut self, rt: &dyn Runtime) {
        for (key, until) in rt.kv_list(KEPT_REQUESTS) {
            if let (Some(session), Ok(until)) = (key.strip_prefix(KEPT_REQUESTS), until.parse()) {
                self.kept_requests.set(session, until);
            }
        }
    }

    fn restore_reactivations(&mut self, rt: &dyn Runtime, now: u64) {
        for (key, until) in rt.kv_list(REACTIVATION) {
            match (key.strip_prefix(REACTIVATION), until.parse()) {
                (Some(session), Ok(until)) if until > now => self.in_flight.expect_reactivation(session, until),
                _ => rt.kv_delete(&key),
            }
        }
    }
}
