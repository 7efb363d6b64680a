//! The hub of one namespace: its sockets, its live state, its pending calls. One object runs one hub, in one thread.
//!
//! State machines without IO: [`connections`], [`rpc`] with [`grace`], [`liveness`], [`events`],
//! [`schedule`], [`memory`] with [`local_ids`] and [`record`], [`in_flight`], [`activation_waiters`], [`push_queue`], [`push_lanes`].
//! Use cases over the ports: [`sessions`], [`updates`], [`presence`], [`lifecycle`], [`resume`] with [`merge`], [`modes`],
//! [`permissions`], [`messages`], [`machines`], [`workspace`], [`uploads`]; [`admission`], [`sockets`], [`cli`],
//! [`registrations`] and [`pings`] for CLIs, [`subscribers`] and [`replay`] for web clients, [`push`] with
//! [`push_subscriptions`] and [`push_log`] for those who are away. [`commit`] is the way of
//! every write: nobody hears of a change before it is durable.

pub mod commit;
pub mod error;
pub mod events;
pub mod inbound;
pub mod large;
pub mod limits;
pub mod machines;
pub mod peers;
pub mod ports;
pub mod push;
pub mod sessions;
pub mod state;
pub mod workspace;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::channel::oneshot;
use futures::future::BoxFuture;

use crate::auth::token::AccessTokens;
use crate::model::ids::uuid_v7;
use crate::model::method::Method;
use crate::model::namespace::Namespace;
use crate::model::owner::Owner;
use crate::model::vocabulary::Vocabulary;
use crate::store::Database;
use crate::store::fence::{Epoch, Fenced};
use crate::store::journal::Journal;
use crate::store::response_budget::{Reservation, ResponseBudget};
use events::log::EventLog;
use events::numbering::EventNumbers;
use inbound::admission::OPENING_MS;
use limits::{HEARTBEAT_INTERVAL_MS, PING_INTERVAL_MS, RECONNECT_GRACE_MS};
use peers::connections::{Connections, Peer};
use peers::rpc::{Answer, Call, Rpc, RpcError};
use ports::{ConnId, Runtime};
use push::config::PushConfig;
use push::state::PushState;
use state::activation_waiters::ActivationWaiters;
use state::cache::Cache;
use state::effect::Effect;
use state::in_flight::InFlight;
use state::liveness::Liveness;
use state::reminders::Reminders;
use state::schedule::Schedule;
use state::upload_slots::UploadSlots;

/// How long the hub waits before it sets an alarm again that could not be set, in milliseconds.
const ALARM_PAUSE_MS: u64 = 1_000;

/// What a hub is told about itself.
pub struct Config {
    /// The namespace that the hub is for.
    pub namespace: Namespace,
    /// Which access tokens are good.
    pub tokens: AccessTokens,
    /// How long a CLI may take to answer a call, in milliseconds.
    pub rpc_timeout_ms: u64,
    /// The words of the deployment's CLIs.
    pub vocabulary: Vocabulary,
    /// How pushes are sent.
    pub push: PushConfig,
}

/// The hub of one namespace.
pub struct Hub {
    /// What it was told about itself.
    pub config: Config,
    db: Fenced,
    rt: Arc<dyn Runtime>,
    state: Mutex<State>,
    /// The next id of a hub whose random source fails.
    next_id: AtomicU64,
    /// Whose turn it is to read large values: of all that ask, one has them in memory.
    large_reads: futures::lock::Mutex<()>,
    response_budget: Arc<ResponseBudget>,
    /// Itself, for tasks that run beside.
    this: Weak<Self>,
}

/// How many bytes of large answers may be under way at once: one of the largest, a session with two values of 30 MiB and its
/// completed requests. The runtime gives an object 128 MB for everything.
const MAX_ANSWERS_BYTES: usize = 72 * 1024 * 1024;

/// All that the hub holds in memory. Locked for moments only, never across an await.
struct State {
    connections: Connections,
    /// How many bytes of frames are being handled, or wait behind those.
    frame_bytes: usize,
    rpc: Rpc,
    liveness: Liveness,
    event_numbers: EventNumbers,
    /// What web clients that come back may ask for; none while nobody can come back.
    log: Option<EventLog>,
    schedule: Schedule,
    cache: Cache,
    journal: Journal<Effect>,
    /// Whether the notebook keeps the namespace: somebody with a good token was here.
    noted: bool,
    activation_waiters: ActivationWaiters,
    in_flight: InFlight,
    upload_slots: UploadSlots,
    reminders: Reminders,
    push: PushState,
    /// Lives whose clock ran out and whose end is being written, with the time when each was last heard of.
    ending: HashMap<Owner, u64>,
}

impl Hub {
    /// A hub that takes up where its object left off: the sockets with their attachments, and the notebook's clocks.
    pub fn wake(
        config: Config,
        db: Arc<dyn Database>,
        rt: Arc<dyn Runtime>,
        sockets: Vec<(ConnId, String)>,
    ) -> Arc<Self> {
        let now = rt.now();
        let noted = rt.kv_list(NOTE_BEATEN).pop().and_then(|(_, at)| at.parse().ok());
        let beaten: u64 = noted.unwrap_or(now);
        let mut state = State {
            connections: Connections::default(),
            frame_bytes: 0,
            rpc: Rpc::default(),
            liveness: Liveness::default(),
            event_numbers: EventNumbers::new(&config.namespace, now),
            log: None,
            schedule: Schedule::new(beaten),
            cache: Cache::default(),
            journal: Journal::default(),
            noted: !rt.kv_list(NOTE_NAMESPACE).is_empty(),
            activation_waiters: ActivationWaiters::default(),
            in_flight: InFlight::default(),
            upload_slots: UploadSlots::default(),
            reminders: Reminders::default(),
            push: PushState::restore(rt.kv_list(push::state::KEY_PREFIX)),
            ending: HashMap::new(),
        };
        for (conn, attachment) in sockets {
            let Ok(peer) = serde_json::from_str(&attachment) else {
                // Not one of ours, or of a version that is gone: the client comes back and starts anew.
                rt.close(conn, 1012, "Please reconnect");
                continue;
            };
            if let Peer::Cli(cli) = &peer {
                for name in &cli.methods {
                    if let Some((owner, method)) = cli.scope(name, &config.vocabulary) {
                        state.rpc.register(owner, method, name, conn, now);
                    }
                }
            }
            state.connections.put(conn, peer);
        }
        for (key, note) in rt.kv_list(NOTE_ALIVE) {
            let Some(owner) = note_owner(&key) else { continue };
            let signs = state.connections.clis().filter_map(|(_, c)| match &c.peer {
                Peer::Cli(cli) => cli.alive_at(&owner),
                _ => None,
            });
            // The note tells when the socket left; while it is there, the sign stands in its attachment. Without either
            // all sockets were lost at once, and whoever comes back gets a whole clock to do so, but only once.
            let left = note.parse().ok();
            let sign = signs.max().or(left);
            if sign.is_none() {
                rt.kv_put(&key, &now.to_string());
            }
            if state.connections.of(&owner).is_empty() {
                state.rpc.grace.cut_off(owner.clone(), left, now);
            }
            state.liveness.restore(owner, sign, now, left.is_some() || sign.is_none());
        }
        // Whoever is there was there before a sleep, into which no batch goes: a restart takes all sockets.
        let rested = !state.is_alone() && !rt.was_interrupted();
        let note = rt.kv_list(NOTE_EPOCH).pop().map(|(_, note)| note);
        let epoch = Epoch::of_wake(note.as_deref(), rested, now);
        let notebook = Arc::clone(&rt);
        let keep = Box::new(move |epoch: Epoch| notebook.kv_put(NOTE_EPOCH, &epoch.note()));
        if note.is_some() && !rested {
            // Or a hub that finds sockets after the next sleep would go on in the epoch of before.
            keep(epoch);
        }
        let db = Fenced::new(db, config.namespace.clone(), epoch, keep);
        let hub = Arc::new_cyclic(|this| Self {
            config,
            db,
            rt,
            state: Mutex::new(state),
            // Above every id that an earlier object of the namespace counted.
            next_id: AtomicU64::new(now << 12),
            large_reads: futures::lock::Mutex::default(),
            response_budget: ResponseBudget::new(MAX_ANSWERS_BYTES, MAX_ANSWERS_BYTES),
            this: Weak::clone(this),
        });
        hub.restore_event_log();
        // An alarm that woke it sets the next one before this does: each setting is a write.
        let woken = Arc::clone(&hub);
        hub.rt.spawn(Box::pin(async move { woken.arm() }));
        hub
    }

    /// The database, for what is read without the hub's live state.
    pub fn database(&self) -> &dyn Database {
        &self.db
    }

    /// The budget of large responses.
    pub fn response_budget(&self) -> &Arc<ResponseBudget> {
        &self.response_budget
    }

    /// Reserves bytes for a large response.
    pub fn reserve_response(&self, bytes: usize) -> Result<Reservation, error::Error> {
        self.response_budget.reserve(self.config.namespace.as_ref(), bytes).ok_or(error::Error::AnswersWait)
    }

    /// The state. A panic while it was held cannot have left it half-changed in a way that matters more than going on.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_id(&self) -> String {
        uuid_v7(self.rt.now(), &self.unique_bytes())
    }

    /// Returns bytes for an id, which need not be secret: random ones, or a counter's when the random source fails.
    fn unique_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        if self.rt.random(&mut bytes).is_err() {
            let count = self.next_id.fetch_add(1, Ordering::Relaxed);
            // The first bytes of a UUID have its version and variant in place of some bits.
            bytes.iter_mut().rev().zip(count.to_le_bytes()).for_each(|(byte, of_count)| *byte = of_count);
        }
        bytes
    }

    /// Sees to it that the alarm comes early enough for every deadline.
    fn arm(&self) {
        let mut state = self.state();
        let next = state.next_deadline();
        self.want_alarm(&mut state, next);
    }

    fn want_alarm(&self, state: &mut State, at: Option<u64>) {
        // An alarm in the past, set while one is being handled, gets lost in the runtime (measured).
        let at = at.map(|at| at.max(self.rt.now() + 1));
        let Some(at) = at.filter(|at| state.schedule.request_alarm(*at)) else { return };
        let (set, hub) = (self.rt.set_alarm(at), Weak::clone(&self.this));
        self.rt.spawn(Box::pin(async move {
            if !set.await
                && let Some(hub) = hub.upgrade()
            {
                hub.alarm_failed(at).await;
            }
        }));
    }

    /// Without an alarm nothing that is due would be done: it is set again after a while, or with the next one wanted.
    async fn alarm_failed(&self, at: u64) {
        self.state().schedule.alarm_failed(at);
        self.rt.sleep(ALARM_PAUSE_MS).await;
        self.arm();
    }

    /// The alarm went off: whatever is due is done, and the alarm set anew.
    pub fn on_alarm(self: &Arc<Self>) {
        let now = self.rt.now();
        let (beats, heard) = {
            let mut state = self.state();
            (state.schedule.on_alarm(now), !state.is_alone())
        };
        if heard {
            self.rt.kv_put(NOTE_BEATEN, &now.to_string());
        }
        self.state().rpc.expire(now);
        self.expire_watches(now);
        self.expire_opening(now);
        if beats.ping {
            self.ping_clis();
        }
        if beats.heartbeat {
            self.send_heartbeats();
            self.resolve_uncertain_commits();
            // After it, so that whoever has to come back has an id that the hub still knows, whatever it slept through.
            self.close_expired(now);
        }
        self.stop_expired_log(now);
        self.send_due(now);
        // Beside the alarm: a slow database must not hold up the next beats.
        let expired = self.take_expired(now);
        if !expired.is_empty() {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.end_lives(expired).await }));
        }
        self.arm();
    }

    /// Whoever comes first after a time without sockets does not hear the beats of that time.
    fn begin_beats(&self, state: &mut State) {
        if state.is_alone() {
            let now = self.rt.now();
            state.schedule.skip_ticks(now);
            self.rt.kv_put(NOTE_BEATEN, &now.to_string());
        }
    }

    /// Calls a method of a CLI and waits for its answer, as JSON text.
    pub async fn call(&self, owner: &Owner, method: Method, params: &str) -> Answer {
        self.call_within(owner, method, params, self.config.rpc_timeout_ms).await
    }

    /// Calls a method with a time limit of its own, in milliseconds.
    pub fn call_within<'a>(
        &'a self,
        owner: &'a Owner,
        method: Method,
        params: &'a str,
        limit: u64,
    ) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let call = self.open_call(owner, method, limit).await?;
            self.send_answer(&mut self.state(), call.conn, &call.frame(params));
            call.answered().await
        })
    }

    /// Opens a call that the caller sends; waits a moment for a method whose CLI is on its way back.
    async fn open_call(&self, owner: &Owner, method: Method, limit: u64) -> Result<Call, RpcError> {
        let deadline = self.rt.now() + limit;
        let patience = deadline.min(self.rt.now() + RECONNECT_GRACE_MS);
        loop {
            let back = match self.try_call(owner, method, deadline, patience) {
                Ok(call) => return Ok(call),
                Err(Some(back)) => back.await,
                Err(None) => Err(oneshot::Canceled),
            };
            back.map_err(|_| RpcError::NoHandler(method.as_str().to_owned()))?;
        }
    }

    /// Opens a call, or tells where to wait until it may be tried again, if that can help.
    fn try_call(
        &self,
        owner: &Owner,
        method: Method,
        deadline: u64,
        patience: u64,
    ) -> Result<Call, Option<oneshot::Receiver<()>>> {
        let mut state = self.state();
        let ack = self.fresh_ack_id(&state.rpc);
        if let Some(call) = state.rpc.call(owner, method.as_str(), ack, deadline) {
            self.want_alarm(&mut state, Some(deadline));
            return Ok(call);
        }
        // Whoever said goodbye does not come back.
        let alive = state.liveness.is_running(owner);
        let wait = |rpc: &mut Rpc| rpc.grace.wait(owner, method.as_str(), self.rt.now(), patience);
        let back = alive.then(|| wait(&mut state.rpc)).flatten();
        self.want_alarm(&mut state, back.is_some().then_some(patience));
        Err(back)
    }

    /// Random, so that a late answer from before a restart never meets a new call.
    fn fresh_ack_id(&self, rpc: &Rpc) -> u64 {
        loop {
            let ack = u64::from_be_bytes(self.unique_bytes()) & crate::wire::socketio::MAX_ACK_ID;
            if !rpc.is_pending(ack) {
                return ack;
            }
        }
    }
}

impl State {
    /// Whether nobody is there to hear the beats.
    fn is_alone(&self) -> bool {
        self.connections.clis().next().is_none() && self.connections.subscriptions().next().is_none()
    }

    /// When something active was last heard of, in Unix milliseconds; 0 when only the database knows. Signs of life are
    /// not written, so after a sleep this is newer than what was read.
    fn heard(&self, owner: &Owner) -> u64 {
        self.ending.get(owner).copied().unwrap_or_else(|| self.liveness.active_at(owner))
    }

    fn next_deadline(&self) -> Option<u64> {
        let clis = self.connections.clis().next().map(|_| self.schedule.next_tick(PING_INTERVAL_MS));
        let web = self.connections.subscriptions().next().map(|_| self.schedule.next_tick(HEARTBEAT_INTERVAL_MS));
        let opening = self.connections.silent().map(|(_, opening)| opening.since + OPENING_MS).min();
        let log = self.log.as_ref().and_then(EventLog::ends_at);
        let push = self.push.queue.next_deadline();
        [
            clis,
            web,
            opening,
            log,
            push,
            self.rpc.next_deadline(),
            self.liveness.next_deadline(),
            self.activation_waiters.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// The note of the namespace's name: an alarm comes without it.
pub const NOTE_NAMESPACE: &str = "namespace";
/// The note of the moment up to which beats were sounded.
const NOTE_BEATEN: &str = "beaten";
/// The note of the last epoch that began ([`Epoch::note`]).
const NOTE_EPOCH: &str = "epoch";
/// Notes of this prefix tell what is active: empty while its socket is there, else the time when it left.
const NOTE_ALIVE: &str = "alive:";

fn note_key(owner: &Owner) -> String {
    match owner {
        Owner::Session(id) => format!("{NOTE_ALIVE}s:{id}"),
        Owner::Machine(id) => format!("{NOTE_ALIVE}m:{id}"),
    }
}

fn note_owner(key: &str) -> Option<Owner> {
    let (kind, id) = key.strip_prefix(NOTE_ALIVE)?.split_once(':')?;
    match kind {
        "s" => Some(Owner::Session(id.to_owned())),
        "m" => Some(Owner::Machine(id.to_owned())),
        _ => None,
    }
}
