//! Limits on bytes, counts and times that several modules share, by subject. Any other limit is at the top of the file that enforces it.
//!
//! The runtime gives a worker or an object 128 MB of memory and one thread, so everything whose size a client controls has a limit.
//! Large buffers also reserve bytes in the [`memory_budget`](crate::memory_budget): objects may share an isolate.

// Requests and responses

/// The bytes of a body that a client must send every [`PROGRESS_TIMEOUT_MS`].
pub const MIN_PROGRESS_BYTES: u32 = 64 * 1024;
/// The time to send [`MIN_PROGRESS_BYTES`] of a body or upload, in milliseconds: a stalled client must not block others.
pub const PROGRESS_TIMEOUT_MS: u32 = 15_000;
/// How long a client may take to send a JSON body, in milliseconds. Meanwhile, the memory for the body is reserved.
pub const BODY_TIMEOUT_MS: u32 = 120_000;
/// The largest response that is copied to JavaScript at once, in bytes. A larger one is reserved until the client has received it.
pub const MAX_UNRESERVED_BYTES: usize = 1024 * 1024;
/// How long the worker reads the database for a request, in milliseconds: after a disconnect, the platform ends it within 30 s.
pub const EDGE_TIMEOUT_MS: u64 = 20_000;
const _: () = assert!(EDGE_TIMEOUT_MS < 30_000);

// Times

/// The interval of heartbeats to web clients, in milliseconds (PROTOCOL-EVENTS.md "Events for web clients").
pub const HEARTBEAT_INTERVAL_MS: u64 = 30_000;
/// The announced interval of pings to CLIs, in milliseconds. Not shorter, because each ping wakes the object. Not much longer,
/// because proxies close connections that are idle for 100 s.
pub const PING_INTERVAL_MS: u64 = 30_000;
/// How long a session stays active after its last keep-alive, in milliseconds (PROTOCOL-CLI.md "Liveness").
pub const SESSION_TIMEOUT_MS: u64 = 30_000;
/// How often an unchanged presence is published again to web clients, in milliseconds.
pub const PRESENCE_INTERVAL_MS: u64 = 10_000;
/// The minimum time between two writes of keep-alives or acknowledgements to the attachment of a socket, in milliseconds.
pub const MIN_ATTACHMENT_WRITE_INTERVAL_MS: u64 = 1_000;

// Writes

/// The total size of queued changes and effects, in bytes, above which new changes are refused with `overloaded`.
pub const MAX_QUEUED_BYTES: usize = 40_000_000;
/// How long a query with an unknown outcome is repeated, in milliseconds: longer than the stalls of 60 to 90 s that D1 is known
/// for. Requests and acknowledgements wait meanwhile.
pub const DB_RETRY_PERIOD_MS: u64 = 120_000;
/// The time without a result after which a query counts as stalled, in milliseconds. During a stall, no session or machine
/// expires, because CLIs may wait for the database.
pub const DB_STALL_MS: u64 = 5_000;
/// How long D1 may take for a query, in milliseconds; D1 itself times out after 30 s.
pub const DB_TIMEOUT_MS: u64 = 35_000;
const _: () = assert!(DB_STALL_MS < DB_TIMEOUT_MS && DB_TIMEOUT_MS < DB_RETRY_PERIOD_MS);
/// The pause after a failed background query (a sweep, a read of the event log), and the longest pause of a sweep, in milliseconds.
pub const BACKGROUND_RETRY_MS: u64 = 60_000;

// Memory

/// How long a request waits for memory, in milliseconds.
pub const MEMORY_TIMEOUT_MS: u64 = 10_000;
/// How many bytes of sessions and of the list stay in memory if little is free. An upload in chunks fits the rest of the share.
pub const MIN_CACHED_BYTES: usize = 900_000;
/// How many local ids of a session's messages stay in memory. Older local ids are looked up in the database.
pub const MAX_LOCAL_IDS: usize = 5_000;
/// How many local ids one query looks up. The unique index needs some microseconds for each.
pub const MAX_LOCAL_ID_LOOKUPS: usize = 1_000;
const _: () = assert!(MAX_LOCAL_ID_LOOKUPS <= MAX_LOCAL_IDS);

// Large values

/// The largest row of D1, in bytes.
pub const MAX_ROW_BYTES: usize = 2_000_000;
/// The largest state that is not a large value, in bytes.
pub const MAX_INLINE_BYTES: usize = 1_000_000;
/// The largest part of a large value, in bytes: it fits a row of D1 (2 MB), also with the other columns of a message.
pub const MAX_PART_BYTES: usize = 1_500_000;
const _: () = assert!(MAX_INLINE_BYTES < MAX_PART_BYTES && MAX_PART_BYTES < MAX_ROW_BYTES);

// Fields and error messages

/// The longest name of a mode, an agent or a method, in bytes.
pub const MAX_KEYWORD_BYTES: usize = 255;
/// The longest part of an invalid value that an error message repeats, in characters.
pub const MAX_ECHO_CHARS: usize = 100;

// Sessions

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
/// How long a CLI may take to end when its session is archived, in milliseconds (PROTOCOL-WEB.md "Life cycle and modes").
pub const KILL_TIMEOUT_MS: u64 = 5_000;
/// How long a resumed session may take to become active, in milliseconds (PROTOCOL-WEB.md "Life cycle and modes").
pub const RESUME_TIMEOUT_MS: u64 = 15_000;

// Machines

/// The maximum number of machines of a namespace, all in memory. A further machine replaces the one that has been offline longest.
pub const MAX_MACHINES: usize = 1_000;
/// If the machines in memory have more bytes than this, a new value above `SMALL_VALUE_BYTES` is stored as a large value.
pub const MAX_MACHINE_BYTES: usize = 8_000_000;

// Uploads

/// The largest upload body without its content, in bytes.
pub const MAX_UPLOAD_FIELDS_BYTES: usize = 64 * 1024;
/// How long an upload in one large frame may wait for other such uploads in the isolate, in milliseconds.
pub const FRAME_UPLOAD_SLOT_TIMEOUT_MS: u32 = 60_000;
/// The lowest average throughput of an upload in one large frame, in bytes per millisecond.
pub const FRAME_UPLOAD_BYTES_PER_MS: u64 = 64;
/// The lowest average throughput of such an upload while another namespace waits for the slot, in bytes per millisecond.
pub const CONTESTED_UPLOAD_BYTES_PER_MS: u64 = 1_000;
const _: () = assert!(FRAME_UPLOAD_BYTES_PER_MS < CONTESTED_UPLOAD_BYTES_PER_MS);

// Events

/// The log retains at least the last [`RETAINED_EVENTS`] or [`RETAINED_BYTES`], whichever is reached first.
pub const RETAINED_EVENTS: usize = 1_000;
/// See [`RETAINED_EVENTS`].
pub const RETAINED_BYTES: usize = 2_000_000;

// Sizes of values

/// The largest message content, metadata, agent state (without completed requests) and runner state, in bytes: it fits
/// a frame of a CLI together with its event. A value that does not fit a row of D1 is stored in parts.
pub const MAX_CONTENT_BYTES: usize = 30 * 1024 * 1024;
/// The largest pending permission request, in bytes: it may contain a large file that a tool is to write.
pub const MAX_REQUEST_BYTES: usize = 8 * 1024 * 1024;
/// The largest completed permission request, in bytes: it fits a row of D1 (2 MB). A larger request is shortened.
pub const MAX_COMPLETED_REQUEST_BYTES: usize = 1_900_000;
const _: () = assert!(MAX_COMPLETED_REQUEST_BYTES < MAX_ROW_BYTES && MAX_REQUEST_BYTES < MAX_CONTENT_BYTES);
/// The largest todo list, in bytes: it fits the row of its session together with the other values.
pub const MAX_TODOS_BYTES: usize = 250_000;
