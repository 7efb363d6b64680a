//! Limits on bytes, counts and times, by subject. A limit is here if it protects memory, time or another namespace, and if
//! several files or a test use it. A limit that one file uses is at the top of that file.
//!
//! The runtime gives a worker or an object 128 MB of memory and one thread, so everything whose size a client controls has a
//! limit. Objects may share an isolate and its memory, so large buffers also reserve their bytes in the
//! [`memory_budget`](crate::memory_budget).

// Tokens

/// The longest token that is verified, in bytes: limits the cost of a request without a valid token.
pub const MAX_TOKEN_BYTES: usize = 1024;
/// The largest number of valid tokens in the worker's cache. For a token that is not cached, the worker queries the database.
pub const MAX_VERIFIED_TOKENS: usize = 2_000;
/// The lifetime of the JWT of a web client, in seconds (PROTOCOL.md "Authentication").
pub const JWT_LIFETIME_SECS: i64 = 15 * 60;

// Requests and responses

/// The largest JSON body, in bytes: a text of 1 MiB in which every character is escaped, and attachments.
pub const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;
/// The bytes of a body that a client must send every [`PROGRESS_TIMEOUT_MS`].
pub const MIN_PROGRESS_BYTES: u32 = 64 * 1024;
/// The time to send [`MIN_PROGRESS_BYTES`] of a body or upload, in milliseconds: a stalled client must not block others.
pub const PROGRESS_TIMEOUT_MS: u32 = 15_000;
/// How long a client may take to send a JSON body, in milliseconds. Meanwhile, the memory for the body is reserved.
pub const BODY_TIMEOUT_MS: u32 = 120_000;
/// The largest response that is copied to JavaScript at once, in bytes. A larger response needs a reservation until the client
/// has received it.
pub const MAX_UNRESERVED_BYTES: usize = 1024 * 1024;
/// How long the worker reads the database for a request, in milliseconds. After a disconnect, the platform ends a request
/// within 30 s.
pub const EDGE_TIMEOUT_MS: u64 = 20_000;

// Connections

/// The memory of a queued frame besides its text, in bytes.
pub const FRAME_OVERHEAD_BYTES: usize = 64;
/// How many sockets a namespace may have, including closed ones whose clients have not answered. The platform allows 32,768.
pub const MAX_SOCKETS: usize = 32_000;
/// How many names of unknown events are counted and logged.
pub const MAX_UNKNOWN_EVENTS: usize = 100;
/// The bytes that a client may leave unacknowledged before the hub disconnects the client: twice the largest event.
pub const MAX_UNACKED_BYTES: usize = 16 * 1024 * 1024;
/// The unacknowledged bytes above which a web client gets no `message-delta`, so that it still gets events that it must not
/// miss.
pub const MAX_UNACKED_BYTES_WITH_DELTAS: usize = MAX_UNACKED_BYTES / 4;

// Times

/// The interval of heartbeats to web clients, in milliseconds (PROTOCOL-EVENTS.md "Events for web clients").
pub const HEARTBEAT_INTERVAL_MS: u64 = 30_000;
/// The announced interval of pings to CLIs, in milliseconds. Not shorter, because each ping wakes the object. Not much longer,
/// because proxies close connections that are idle for 100 s.
pub const PING_INTERVAL_MS: u64 = 30_000;
/// How long a session stays active after its last keep-alive, in milliseconds (PROTOCOL-CLI.md "Liveness").
pub const SESSION_TIMEOUT_MS: u64 = 30_000;
/// How long a machine stays online after its last keep-alive, in milliseconds (PROTOCOL-CLI.md "Liveness").
pub const MACHINE_TIMEOUT_MS: u64 = 45_000;
/// How often an unchanged presence is published again to web clients, in milliseconds.
pub const PRESENCE_INTERVAL_MS: u64 = 10_000;
/// The minimum time between two writes of keep-alives or acknowledgements to the attachment of a socket, in milliseconds.
pub const MIN_ATTACHMENT_WRITE_INTERVAL_MS: u64 = 1_000;

// RPC calls

/// How long the hub expects a disconnected CLI to reconnect, and how long a call waits for the CLI at least, in milliseconds.
pub const RECONNECT_GRACE_MS: u64 = 2_000;
/// How long after a restart of the hub a call waits for a CLI, in milliseconds: the official client reconnects within 7.5 s.
pub const RESTART_GRACE_MS: u64 = 10_000;

// Writes

/// The total size of queued changes and effects, in bytes, above which new changes are refused with `overloaded`.
pub const MAX_QUEUED_BYTES: usize = 40_000_000;
/// The size of queued rows and effects above which they are sealed as a batch, in bytes. About half of it are rows, which
/// JavaScript copies.
pub const MAX_BATCH_BYTES: usize = 4_000_000;
/// How long a query with an unknown outcome is repeated, in milliseconds: longer than the stalls of 60 to 90 s that D1 is known
/// for. Requests and acknowledgements wait meanwhile.
pub const DB_RETRY_PERIOD_MS: u64 = 120_000;
/// The longest pause between two attempts of a query, in milliseconds. After a stall, requests continue within this time.
pub const MAX_DB_PAUSE_MS: u64 = 2_000;
/// The time without a result after which a query counts as stalled, in milliseconds. During a stall, no session or machine
/// expires, because CLIs may wait for the database.
pub const DB_STALL_MS: u64 = 5_000;
/// How long D1 may take for a query, in milliseconds; D1 itself times out after 30 s.
pub const DB_TIMEOUT_MS: u64 = 35_000;
/// The time without a result after which a query is lost if the database has answered a later query, in milliseconds.
pub const DB_SILENCE_MS: u64 = 2_000;
/// The largest number of session lookups in one batch: each may return a row of 2 MB.
pub const MAX_GROUPED_LOOKUPS: usize = 16;
/// The pause after a failed background query (a sweep, a read of the event log), and the longest pause of a sweep, in milliseconds.
pub const BACKGROUND_RETRY_MS: u64 = 60_000;

// Memory

/// The total size of the buffers of all namespaces in an isolate, in bytes: half of its memory. JavaScript needs the other half.
pub const MAX_BUFFER_BYTES: usize = 64 * 1024 * 1024;
/// The part of [`MAX_BUFFER_BYTES`] that namespaces may use beyond their shares, in bytes. The other bytes are the shares
/// of eight namespaces. The pool shrinks when more than eight shares are in use.
pub const MAX_POOL_BYTES: usize = 48 * 1024 * 1024;
/// The bytes that are always free for a namespace: enough for the largest message of one row (1.5 MB), because a change takes over
/// the memory of its frame. Not more, because the number of namespaces in an isolate is unknown.
pub const NAMESPACE_SHARE_BYTES: usize = 2 * 1024 * 1024;
/// The part of the pool that growing caches leave free, in bytes.
pub const CACHE_HEADROOM_BYTES: usize = 16 * 1024 * 1024;
/// How long a request waits for memory, in milliseconds.
pub const MEMORY_TIMEOUT_MS: u64 = 10_000;
/// How long a frame of a CLI waits for memory, in milliseconds: several times the time that the hub takes to store the largest
/// frame.
pub const FRAME_MEMORY_TIMEOUT_MS: u64 = 30_000;
/// How often a request that waits for memory tries again, in milliseconds.
pub const MEMORY_RETRY_MS: u64 = 100;
/// How many reads of small pages of history a namespace runs at a time. Fewer than an isolate runs, so that other namespaces
/// can read too.
pub const MAX_SMALL_READS_OF_NAMESPACE: usize = 24;
/// How many sessions stay in memory if some of these sessions are idle. Sessions in use may exceed this limit.
pub const MAX_CACHED_SESSIONS: usize = 1_000;
/// How many bytes of sessions stay in memory if some of these sessions are idle. Sessions in use may exceed this limit.
pub const MAX_CACHED_BYTES: usize = 24_000_000;
/// The most sessions of a page of the list, and of one read for it.
pub const MAX_LISTED_SESSIONS: usize = 1_000;
/// How many bytes of sessions and of the list stay in memory even if little memory is free. Besides these bytes, an upload in chunks
/// fits the namespace's share.
pub const MIN_CACHED_BYTES: usize = 900_000;
/// How many local ids of a session's messages stay in memory. Older local ids are looked up in the database.
pub const MAX_LOCAL_IDS: usize = 5_000;
/// How many local ids one query looks up. The unique index needs some microseconds for each.
pub const MAX_LOCAL_ID_LOOKUPS: usize = 1_000;
/// How many bytes of queued frames are searched for local ids to look up together.
pub const MAX_SEARCHED_FRAME_BYTES: usize = 2_000_000;

// Large values

/// The largest metadata that is not a large value, in bytes. The row also has a state: together less than 2 MB.
pub const MAX_INLINE_METADATA_BYTES: usize = 600_000;
/// The largest state that is not a large value, in bytes.
pub const MAX_INLINE_BYTES: usize = 1_000_000;
/// The largest part of a large value, in bytes: it fits a row of D1 (2 MB), also with the other columns of a message.
pub const MAX_PART_BYTES: usize = 1_500_000;
/// How many parts are written or read at once. Limited because no reservation covers JavaScript's copies of the parts.
pub const PARTS_AT_ONCE: usize = 2;
/// The total content size at which a page of history ends, in bytes.
pub const MAX_PAGE_BYTES: u64 = 8 * 1024 * 1024;
/// On request, a page of history has an excerpt of each content above this size, in bytes. An excerpt has at most half of this
/// size.
pub const MAX_BYTES_WITHOUT_EXCERPT: u64 = 64 * 1024;

// Fields and error messages

/// The longest name of a mode, an agent or a method, in bytes.
pub const MAX_KEYWORD_BYTES: usize = 255;
/// The largest number of aliases in a section of the setting `VOCABULARY`.
pub const MAX_ALIASES: usize = 100;
/// The longest part of an invalid value that an error message repeats, in characters.
pub const MAX_ECHO_CHARS: usize = 100;

// Sessions

/// The largest number of sessions in a namespace: about 3 MB of the list always stay in memory.
pub const MAX_SESSIONS: usize = 20_000;
/// The longest local id of a message, in bytes.
pub const MAX_LOCAL_ID_BYTES: usize = 255;
/// The most messages of a session that wait until its CLI is back.
pub const MAX_HELD_MESSAGES: usize = 20;
/// The largest held message, as JSON, in bytes. All held messages of a session are in memory at once.
pub const MAX_HELD_MESSAGE_BYTES: usize = 32_768;
/// The longest text of a message from a web client, in bytes (PROTOCOL.md "Limits").
pub const MAX_TEXT_BYTES: usize = 1024 * 1024;
/// The largest number of pending permission requests in one state.
pub const MAX_PENDING_REQUESTS: usize = 1_000;
/// The longest id of a permission request, in bytes.
pub const MAX_REQUEST_ID_BYTES: usize = 255;
/// How long a CLI may take to end when its session is archived, in milliseconds (PROTOCOL-WEB.md "Life cycle and modes").
pub const KILL_TIMEOUT_MS: u64 = 5_000;
/// How long a resumed session may take to become active, in milliseconds (PROTOCOL-WEB.md "Life cycle and modes").
pub const RESUME_TIMEOUT_MS: u64 = 15_000;

// Machines

/// The maximum number of machines in a namespace, which are all in memory. A further machine replaces the machine that has been
/// offline longest.
pub const MAX_MACHINES: usize = 1_000;
/// If the machines in memory have more bytes than this, a new value above `SMALL_VALUE_BYTES` is stored as a large value.
pub const MAX_MACHINE_BYTES: usize = 8_000_000;

// Uploads

/// The largest valid `MAX_UPLOAD_MB`, more than the platform accepts in the body of a request.
pub const MAX_UPLOAD_MB: u64 = 1_000;
/// The largest file that is sent to a CLI in one frame, in bytes.
pub const MAX_FRAME_FILE_BYTES: u64 = 50 * 1024 * 1024;
/// The memory of an upload in chunks, in bytes: one read of the body (128 KiB), a chunk, and a frame in flight.
pub const UPLOAD_MEMORY_BYTES: usize = 128 * 1024 + 2 * 512 * 1024;
/// The content of a chunk of an upload, in characters of base64: a multiple of 4.
pub const UPLOAD_CHUNK_CHARS: u64 = 512 * 1024;
/// The largest upload body without its content, in bytes.
pub const MAX_UPLOAD_FIELDS_BYTES: usize = 64 * 1024;
/// How long an upload in one large frame may wait for other such uploads in the isolate, in milliseconds.
pub const FRAME_UPLOAD_SLOT_TIMEOUT_MS: u32 = 60_000;
/// The lowest average throughput of an upload in one large frame, in bytes per millisecond.
pub const FRAME_UPLOAD_BYTES_PER_MS: u64 = 64;
/// The lowest average throughput of an upload in one large frame while another namespace waits for the slot, in bytes per
/// millisecond.
pub const CONTESTED_UPLOAD_BYTES_PER_MS: u64 = 1_000;

// Events

/// How long events are logged after the last web client disconnected, in milliseconds (PROTOCOL-EVENTS.md "Events for web clients").
pub const LOG_RETENTION_MS: u64 = 600_000;
/// The log retains at least the last [`RETAINED_EVENTS`] or [`RETAINED_BYTES`], whichever is reached first.
pub const RETAINED_EVENTS: usize = 1_000;
/// See [`RETAINED_EVENTS`].
pub const RETAINED_BYTES: usize = 2_000_000;
/// The largest row of the log with more than one event, in bytes. The log is trimmed by whole rows.
pub const MAX_LOG_ROW_BYTES: usize = 256_000;
/// The largest logged event, in bytes. With its number and audience it fits a parameter of a D1 statement (2 MB).
pub const MAX_LOGGED_EVENT_BYTES: usize = 1_900_000;
/// The largest message content that an event carries, in bytes. An event is held in memory for each subscriber, so a larger
/// content is replaced by its size; clients read it from the history.
pub const MAX_EVENT_CONTENT_BYTES: usize = 8 * 1024 * 1024;

// Live text

/// The longest text of a `message-delta`, in bytes (PROTOCOL-EVENTS.md "Live text").
pub const MAX_DELTA_TEXT_BYTES: usize = 64 * 1024;
/// How many deltas of a session are sent in a second. Further deltas are dropped.
pub const MAX_DELTAS_PER_SECOND: usize = 50;
/// How many messages of a session have live text at a time.
pub const MAX_LIVE_MESSAGES: usize = 8;
/// The longest live text of a message that is kept for web clients that connect, in bytes. The beginning of a longer text is
/// dropped.
pub const MAX_LIVE_TEXT_BYTES: usize = 128 * 1024;
/// How long a text without deltas is shown to web clients that connect, in milliseconds. A session without deltas counts in
/// `MAX_LIVE_SESSIONS` for the same time.
pub const LIVE_TEXT_RETENTION_MS: u64 = 30_000;

// Sizes of values

/// The largest message content, metadata, agent state (without completed requests) and runner state, in bytes: it fits
/// a frame of a CLI together with its event. A value that does not fit a row of D1 is stored in parts.
pub const MAX_CONTENT_BYTES: usize = 30 * 1024 * 1024;
/// The largest pending permission request, in bytes: it may contain a large file that a tool is to write.
pub const MAX_REQUEST_BYTES: usize = 8 * 1024 * 1024;
/// The largest completed permission request, in bytes: it fits a row of D1 (2 MB). A larger request is shortened.
pub const MAX_COMPLETED_REQUEST_BYTES: usize = 1_900_000;
/// The size above which the record of a session's completed requests is trimmed, in bytes, overhead included. The record is read
/// whole and is in memory several times while it is sent. The SQL in `store::completed_requests` repeats this number.
pub const MAX_COMPLETED_REQUESTS_BYTES: usize = 10_000_000;
/// The largest todo list, in bytes: it fits the row of its session together with the other values.
pub const MAX_TODOS_BYTES: usize = 250_000;

// Push notifications

/// The longest endpoint of a subscription, in bytes.
pub const MAX_ENDPOINT_BYTES: usize = 2_048;
/// The payload limit for a push service that rejected a longer payload, in bytes. The ids and the namespace always fit.
pub const MAX_SHORT_PAYLOAD_BYTES: usize = 2_000;
/// How long a push service may take to respond, in milliseconds. Does not include a wait for a free connection.
pub const PUSH_TIMEOUT_MS: u32 = 10_000;
/// How long after a `Ready` notification further `Ready` notifications of the session are dropped, in milliseconds.
pub const PUSH_COOLDOWN_MS: u64 = 5_000;
/// The maximum number of queued notifications.
pub const MAX_QUEUED_PUSHES: usize = 200;
/// While the queue has at most this many notifications, a notification may be held back after its toast.
pub const MAX_HELD_PUSHES: usize = MAX_QUEUED_PUSHES / 2;
/// The maximum number of attempts to send a notification to one subscriber, and of rounds in a row in which the database is
/// unavailable.
pub const MAX_PUSH_ATTEMPTS: u32 = 5;
/// The longest `Retry-After` of a push service that is followed, in milliseconds: a later notification is of no use.
pub const MAX_PUSH_RETRY_MS: u64 = 3_600_000;
/// How many errors a queued notification stores of subscribers that failed, and how many of subscribers that are retried. With
/// `MAX_PUSH_SUBSCRIPTIONS` subscribers, the notification must fit a value of the key-value storage (2 MB).
pub const MAX_PUSH_FAILURES: usize = 10;
/// How many push messages a namespace sends in a minute. Each costs a millisecond or two of a thread that other namespaces may
/// share.
pub const MAX_PUSHES_PER_MINUTE: u32 = 600;
