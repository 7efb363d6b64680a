//! Restoring a hub when its object starts: after hibernation, a deploy or a crash.

use std::sync::{Arc, Mutex, Weak};

use futures::future::BoxFuture;

use crate::hub::access::Access;
use crate::hub::core::events::stream::EventStream;
use crate::hub::core::ids::Ids;
use crate::hub::core::memory::MemoryReservations;
use crate::hub::core::namespace::{ClosedFor, Retention, Sweep};
use crate::hub::core::peers::connections::{Connections, Peer};
use crate::hub::core::ports::{ConnId, Runtime};
use crate::hub::core::push::state::{PUSH_KEY_PREFIX, PushState, SubscriberCache};
use crate::hub::core::schedule::Schedule;
use crate::hub::core::sessions::liveness::{KeptRequests, Liveness, StoredDeadline};
use crate::hub::core::state::State;
use crate::hub::core::storage_keys::{
    ACCESS_EPOCH, ALIVE, EPOCH, KEPT_REQUESTS, LAST_DB_STALL, LAST_TICK, NAMESPACE, PLACE, REACTIVATION, RETENTION,
    REVOKING, SWEEP, USED_DATABASES, alive_owner,
};
use crate::hub::core::telemetry::Telemetry;
use crate::hub::push::subscriptions::Subscriptions;
use crate::hub::{Config, Hub, LargeValues, Places};
use crate::log::LogLine;
use crate::memory_budget::MemoryBudget;
use crate::metrics::Counter;
use crate::store::Database;
use crate::store::fence::{Epoch, Fenced, FencedDb};
use crate::store::memory::ReadMemory;
use crate::store::places::{DIRECTORY, Databases, Placed, access_key};
use crate::store::retry::{Environment, Retrying};
use crate::store::watchdog::Watchdog;

/// The time over which the first deletions of old data are spread, in milliseconds.
const FIRST_RETENTION_SPREAD_MS: u64 = 3_600_000;

impl Hub {
    /// Restores the hub from the sockets' attachments and the object's storage. All namespaces of the isolate share `memory_budget`.
    pub fn wake(
        config: Config,
        memory_budget: &Arc<MemoryBudget>,
        databases: Databases,
        rt: Arc<dyn Runtime>,
        sockets: Vec<(ConnId, String)>,
    ) -> Arc<Self> {
        let (config, now) = (Arc::new(config), rt.now());
        let budget = memory_budget.namespace_budget(config.namespace.as_str());
        let push_entries = rt.kv_list(PUSH_KEY_PREFIX);
        let subscribers = SubscriberCache::restore(&push_entries);
        let mut state = State::restore(&config, MemoryReservations::new(&budget), &*rt, now);
        state.push = PushState::restore(push_entries);
        state.restore_sockets(&config, &*rt, sockets, now);
        state.restore_deadlines(&*rt, now);
        let telemetry = Arc::new(Telemetry::new(Arc::clone(&rt)));
        // A deploy disconnects all sockets. So if there are sockets and no crash, the object has hibernated.
        let is_after_hibernation = state.connections.has_clients() && !rt.previous_instance_crashed();
        let (db, access, places) = open_databases(&config, databases, &telemetry, is_after_hibernation);
        let memory = ReadMemory::new(budget, Arc::new(Arc::clone(&telemetry)));
        let hub = Arc::new_cyclic(|this| Self {
            subscriptions: Subscriptions::new(Arc::clone(&access), Arc::clone(&config), Arc::clone(&rt), subscribers),
            access: Access::new(access, Arc::clone(&config), Arc::clone(&rt)),
            places,
            state: Mutex::new(state),
            ids: Ids::new(Arc::clone(&rt)),
            large_values: LargeValues { db: Arc::clone(&db), config: Arc::clone(&config), reads: Default::default() },
            config,
            db,
            rt,
            telemetry,
            log_reads: futures::lock::Mutex::default(),
            list_reads: futures::lock::Mutex::default(),
            status_reads: futures::lock::Mutex::default(),
            row_changes: futures::lock::Mutex::default(),
            memory,
            this: Weak::clone(this),
        });
        memory_budget.add_cache(hub.this.clone());
        hub.turn().restore_event_stream();
        // A crash may have interrupted revocations.
        hub.rt.kv_list(REVOKING).iter().for_each(|(key, _)| hub.end_revocation(key));
        // In a task: the handler of an alarm that woke the object sets the next alarm, and a second call would cost another write.
        hub.spawn(|hub| async move { hub.turn().set_next_alarm() });
        hub
    }
}

/// Disconnects the clients of an object that a change of `HUB_JURISDICTION` has replaced. Returns whether the storage can be deleted:
/// not while it records a sweep, which this object continues if the change is reverted.
pub fn retire(rt: &dyn Runtime, sockets: &[(ConnId, String)]) -> bool {
    for (conn, _) in sockets {
        rt.close(*conn, 1012, "The namespace has moved. Reconnect.");
    }
    rt.kv_get(SWEEP).is_none()
}

/// What the database layer needs of the runtime.
impl Environment for Arc<Telemetry> {
    fn now(&self) -> u64 {
        self.rt.now()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        self.rt.sleep(ms)
    }

    fn random(&self) -> u8 {
        let mut byte = [u8::MAX];
        // If the call fails, the byte stays at its maximum, which means the longest pause before a retry.
        let _ = self.rt.random(&mut byte);
        let [byte] = byte;
        byte
    }

    fn record_stall(&self, ended_at: u64) {
        self.rt.kv_put(LAST_DB_STALL, &ended_at.to_string());
    }

    fn record_retry(&self) {
        self.metrics.count(Counter::Retry);
    }

    fn log(&self, line: LogLine) {
        Telemetry::log(self, line);
    }
}

/// Returns the fenced database of the namespace, and the one with the tables of access.
fn open_databases(
    config: &Arc<Config>,
    databases: Databases,
    telemetry: &Arc<Telemetry>,
    is_after_hibernation: bool,
) -> (FencedDb, FencedDb, Option<Places>) {
    let namespace = config.namespace.to_string();
    let fence = |db, key, stored_as| fence(telemetry, is_after_hibernation, db, key, stored_as);
    let known = telemetry.rt.kv_get(PLACE).and_then(|number| number.parse().ok());
    let single =
        databases.get(DIRECTORY).ok().filter(|_| databases.is_single() && known.is_none_or(|n| n == DIRECTORY));
    if let Some(single) = single {
        let db = fence(Arc::clone(single), namespace, Some(EPOCH));
        return (Arc::clone(&db), db, None);
    }
    let databases = Arc::new(databases);
    let storage = Arc::clone(&telemetry.rt);
    let persist = Box::new(move |number: u64, is_chosen: bool| {
        storage.kv_put(PLACE, &number.to_string());
        if is_chosen {
            storage.kv_put(USED_DATABASES, &number.to_string());
        }
    });
    let environment = Box::new(Arc::clone(telemetry));
    let placed = Placed::new(Arc::clone(&databases), config.namespace.clone(), known, environment, persist);
    let placed = Arc::new(placed);
    let db = fence(Arc::clone(&placed) as _, namespace.clone(), Some(EPOCH));
    let all = || databases.numbers().filter_map(|number| databases.get(number).ok().map(Arc::clone));
    let fenced_by_number: Vec<_> = all().map(|db| fence(db, namespace.clone(), None)).collect();
    // The database with the tables of access may also be the database of the namespace, so its fence has another key.
    let access = all().next().map(|directory| fence(directory, access_key(&config.namespace), Some(ACCESS_EPOCH)));
    let (access, rt) = (access.unwrap_or_else(|| Arc::clone(&db)), Arc::clone(&telemetry.rt));
    let places = Places { databases, placed, own: Arc::clone(&db), fenced_by_number, config: Arc::clone(config), rt };
    (db, access, Some(places))
}

/// Wraps a database. `stored_as` is the key of its epoch in the object's storage. The epoch continues after hibernation, because no
/// batch was in flight. Any other wake begins a new epoch, because the last batch of the earlier instance may still be in flight.
fn fence(
    telemetry: &Arc<Telemetry>,
    is_after_hibernation: bool,
    db: Arc<dyn Database>,
    key: String,
    stored_as: Option<&'static str>,
) -> FencedDb {
    let db = Arc::new(Watchdog::new(db, Box::new(Arc::clone(telemetry))));
    let stored = telemetry.rt.kv_get(stored_as.unwrap_or(EPOCH));
    let continues = is_after_hibernation && stored_as.is_some();
    let epoch = Epoch::at_start(stored.as_deref(), continues, telemetry.loaded_at);
    let storage = Arc::clone(&telemetry.rt);
    let persist = Box::new(move |epoch: Epoch| {
        if let Some(key) = stored_as {
            storage.kv_put(key, &epoch.encode());
        }
    });
    if stored.is_some() && !continues {
        // Overwrites the stored epoch now, because the object would continue it after a later hibernation.
        persist(epoch);
    }
    Arc::new(Retrying::new(Fenced::new(db, key, epoch, persist), Box::new(Arc::clone(telemetry))))
}

/// Returns when the deletion of old data is due; `None` without a setting, and for an object without data. The first run is spread
/// over an hour, because a deployment starts all objects at the same time.
fn next_retention(config: &Config, rt: &dyn Runtime, now: u64) -> Option<u64> {
    rt.kv_get(NAMESPACE).filter(|_| config.quotas.has_retention())?;
    let stored = rt.kv_get(RETENTION).and_then(|at| at.parse().ok());
    stored.or_else(|| {
        let mut byte = [0];
        // If this fails, the run begins at once.
        let _ = rt.random(&mut byte);
        let [byte] = byte;
        let at = now + u64::from(byte) * FIRST_RETENTION_SPREAD_MS / 256;
        rt.kv_put(RETENTION, &at.to_string());
        Some(at)
    })
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
            retention: Retention::new(next_retention(config, rt, now)),
            stored_bytes: Default::default(),
            message_rate: Default::default(),
            events: EventStream::new(&config.namespace, now),
            schedule: Schedule::new(last_tick.unwrap_or(now)),
            cache: Default::default(),
            unwritten_attachments: Vec::new(),
            lookups: Vec::new(),
            unknown_local_ids: Vec::new(),
            write_queue: Default::default(),
            closed_for: ClosedFor::load(rt),
            must_restart: false,
            is_namespace_stored: rt.kv_get(NAMESPACE).is_some(),
            activation_waiters: Default::default(),
            in_flight: Default::default(),
            upload_slots: Default::default(),
            reminders: Default::default(),
            live_texts: Default::default(),
            push: Default::default(),
            unknown_events: Default::default(),
        }
    }

    fn restore_sockets(&mut self, config: &Config, rt: &dyn Runtime, sockets: Vec<(ConnId, String)>, now: u64) {
        for (conn, attachment) in sockets {
            let peer = serde_json::from_str(&attachment).ok().filter(|_| self.closed_for.is_none());
            let Some(peer) = peer else {
                // The client of an attachment of another version reconnects. After a crash, a closed namespace may have sockets: the
                // hub keeps none, and so begins an epoch.
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

    fn restore_deadlines(&mut self, rt: &dyn Runtime, now: u64) {
        for (key, value) in rt.kv_list(ALIVE) {
            let Some(owner) = alive_owner(&key) else { continue };
            let conns = self.connections.clis_of_owner(&owner);
            let activities = conns.iter().filter_map(|conn| self.connections.cli(*conn)?.last_activity_at(&owner));
            let stored = StoredDeadline::parse(&value);
            if conns.is_empty() {
                self.rpc.grace.on_owner_lost(owner.clone(), stored.active_at, now);
            }
            if self.liveness.restore(owner.clone(), stored, activities.max(), now) {
                rt.kv_put(&key, &self.liveness.deadline_to_store(&owner).to_string());
            }
        }
        if let Some(at) = rt.kv_get(LAST_DB_STALL).and_then(|at| at.parse().ok()) {
            self.liveness.restart_deadlines_before(at);
        }
        for (key, until) in rt.kv_list(KEPT_REQUESTS) {
            if let (Some(session), Ok(until)) = (key.strip_prefix(KEPT_REQUESTS), until.parse()) {
                self.kept_requests.set(session, until);
            }
        }
        for (key, until) in rt.kv_list(REACTIVATION) {
            match (key.strip_prefix(REACTIVATION), until.parse()) {
                (Some(session), Ok(until)) if until > now => self.in_flight.expect_reactivation(session, until),
                _ => rt.kv_delete(&key),
            }
        }
    }
}
