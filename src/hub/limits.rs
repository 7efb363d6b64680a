//! Every limit of the hub: bytes, counts and times. The runtime gives an object 128 MB of memory and one thread, so whatever
//! a client can make grow has a limit here.

// Connections

/// The largest frame a CLI may send, in bytes: the runtime closes a WebSocket on a larger one.
pub const MAX_FRAME_BYTES: u64 = 32 * 1024 * 1024;
/// The bytes sent to a client that it may leave unacknowledged before the hub disconnects it: twice the largest event.
pub const MAX_UNACKED_BYTES: usize = 16 * 1024 * 1024;
/// The unacknowledged bytes, replies included, above which the hub disconnects a CLI that sends another frame. The largest
/// update fits beside [`MAX_UNACKED_BYTES`].
pub const MAX_UNACKED_BYTES_WITH_REPLIES: usize = 3 * MAX_UNACKED_BYTES;
/// After how many bytes the hub sends a CLI an extra ping: [`PING_INTERVAL_MS`] is too long to measure a backlog.
pub const PING_AFTER_BYTES: usize = 2 * 1024 * 1024;

// Timers

/// The interval of heartbeats to web clients, in milliseconds (PROTOCOL.md "Events for web clients").
pub const HEARTBEAT_INTERVAL_MS: u64 = 30_000;
/// The interval of pings to CLIs, in milliseconds, as announced in the Engine.IO open packet. Long, because each ping wakes
/// the object.
pub const PING_INTERVAL_MS: u64 = 60_000;
/// The time a CLI has to answer a ping, in milliseconds, as announced in the Engine.IO open packet.
pub const PING_TIMEOUT_MS: u64 = 20_000;
/// How long a session stays active after its last keep-alive, in milliseconds (PROTOCOL.md "Liveness").
pub const SESSION_TIMEOUT_MS: u64 = 30_000;
/// How long a machine stays online after its last keep-alive, in milliseconds (PROTOCOL.md "Liveness").
pub const MACHINE_TIMEOUT_MS: u64 = 45_000;
/// The age from which a keep-alive is ignored, in milliseconds (PROTOCOL.md "Liveness").
pub const MAX_KEEP_ALIVE_AGE_MS: u64 = 600_000;
/// How often an unchanged presence is published again to web clients, in milliseconds.
pub const PRESENCE_INTERVAL_MS: u64 = 10_000;
/// How many reminders of unchanged presence, counted once for each web client, may be sent per millisecond. With many
/// sessions and many web clients, reminders get rarer instead of delaying changes.
pub const REMINDERS_PER_MS: u64 = 5;
/// How long a visibility report of a client that acknowledges heartbeats is valid, in milliseconds: two heartbeats, and
/// time for the acknowledgement.
pub const HEARTBEAT_ACK_TIMEOUT_MS: u64 = 2 * HEARTBEAT_INTERVAL_MS + 15_000;
/// How long a visibility report of any other client is valid, in milliseconds: the lifetime of a JWT. A client of an SSE
/// stream has no way to acknowledge heartbeats.
pub const VISIBILITY_TIMEOUT_MS: u64 = 15 * 60_000;
/// The minimum time between two writes of a web client's heartbeat acknowledgement to its attachment, in milliseconds.
pub const MIN_ACK_WRITE_INTERVAL_MS: u64 = 1_000;

// RPC calls

/// The time a CLI has to answer a call, in milliseconds, unless `RPC_TIMEOUT_MS` is set.
pub const DEFAULT_RPC_TIMEOUT_MS: u64 = 30_000;
/// The largest valid `RPC_TIMEOUT_MS`.
pub const MAX_RPC_TIMEOUT_MS: u64 = 600_000;
/// How long a call waits for a disconnected CLI to register the method again, in milliseconds (PROTOCOL.md "Limits").
pub const RECONNECT_GRACE_MS: u64 = 2_000;
/// The same after a restart of the hub, which closes all sockets: the official client reconnects within 7.5 s.
pub const RESTART_GRACE_MS: u64 = 10_000;
/// How many methods of disconnected CLIs the hub remembers for [`RECONNECT_GRACE_MS`].
pub const MAX_LOST_METHODS: usize = 10_000;

// Memory

/// How many sessions stay in memory while some of them are idle.
pub const MAX_CACHED_SESSIONS: usize = 1_000;
/// How many bytes of sessions stay in memory while some of them are idle.
pub const MAX_CACHED_BYTES: usize = 24_000_000;
/// How many bytes of sessions stay in memory when all are in use. Active sessions beyond it are loaded again for each of
/// their keep-alives.
pub const MAX_CACHED_BYTES_IN_USE: usize = 48_000_000;
/// How many evictions the cache remembers, so that a result read before an eviction is recognized as stale.
pub const MAX_TRACKED_EVICTIONS: usize = 1_000;
/// How many local ids of a session's messages stay in memory; older ones are looked up in the database.
pub const MAX_LOCAL_IDS: usize = 5_000;
/// How many completed permission requests an update to a CLI contains. The full list can be larger than a frame;
/// `GET /api/sessions/:id` returns it.
pub const MAX_RECENT_COMPLETED: usize = 100;
/// How many bytes of completed permission requests an update to a CLI contains.
pub const MAX_RECENT_COMPLETED_BYTES: usize = 1_000_000;

// Uploads

/// How many bytes of uploads are in memory at once: the largest file as base64 in JSON. Further uploads wait.
pub const MAX_UPLOAD_BYTES: u64 = 72 * 1024 * 1024;
/// How many uploads may wait for memory.
pub const MAX_WAITING_UPLOADS: usize = 32;
/// How many uploads a session may have, waiting ones included (PROTOCOL.md "Limits"), so that one session cannot fill the
/// queue with uploads that send nothing.
pub const MAX_UPLOADS_OF_SESSION: usize = 16;

// Events

/// How long events are logged after the last web client disconnected, in milliseconds (PROTOCOL.md "Events for web clients").
pub const LOG_RETENTION_MS: u64 = 600_000;
/// The log retains at least this many events, unless fewer have [`RETAINED_BYTES`].
pub const RETAINED_EVENTS: usize = 1_000;
/// The log retains at least this many bytes of events, unless fewer are [`RETAINED_EVENTS`].
pub const RETAINED_BYTES: usize = 2_000_000;
/// The largest logged event, in bytes. With its number and audience it fits a parameter of a D1 statement (2 MB).
pub const MAX_LOGGED_EVENT_BYTES: usize = 1_900_000;

// Push notifications

/// How long a permission request is held back, so that further ones of its session are sent with it, in milliseconds
/// (PROTOCOL.md "Push notifications").
pub const PUSH_DEBOUNCE_MS: u64 = 500;
/// How long after a `Ready` notification further ones of its session are dropped, in milliseconds.
pub const PUSH_COOLDOWN_MS: u64 = 5_000;
/// The most queued notifications.
pub const MAX_QUEUED_PUSHES: usize = 200;
/// The most attempts to send a notification to one subscriber, and to read the database for it.
pub const MAX_PUSH_ATTEMPTS: u32 = 5;
/// The longest `Retry-After` of a push service that is followed, in milliseconds: a later notification is of no use.
pub const MAX_PUSH_RETRY_MS: u64 = 3_600_000;
/// How many errors a queued notification stores: of this many subscribers that failed and this many that are retried. With
/// 1,000 subscribers it must fit a value of the key-value storage (2 MB).
pub const MAX_PUSH_FAILURES: usize = 10;
/// The most requests of a namespace to push services in flight. The platform opens at most six connections of an object at
/// a time, and those to D1 are among them: one is reserved, so that slow push services cannot block the database.
pub const MAX_PUSHES_IN_FLIGHT: usize = 5;
/// The most requests in flight to one push service, so that an unresponsive one leaves slots to the others.
pub const MAX_PUSHES_IN_FLIGHT_PER_SERVICE: usize = 3;
/// The most push messages of a namespace in a minute. Each costs a millisecond or two of a thread that other namespaces may
/// share, and goes to a URL that a client chose.
pub const MAX_PUSHES_PER_MINUTE: u32 = 600;
/// The default of `PUSH_MAX_SUBSCRIPTIONS`: on its smallest plan, the platform limits an event of an object to 50 outgoing
/// requests.
pub const DEFAULT_PUSH_SUBSCRIPTIONS: u64 = 50;
/// How many notifications the push log shows.
pub const MAX_PUSH_LOG_ENTRIES: usize = 100;
