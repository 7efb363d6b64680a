//! Every limit that protects memory, time or another namespace: bytes, counts and times, by subject. The runtime gives a worker
//! or an object 128 MB of memory and one thread, so everything whose size a client controls has a limit here. Objects may
//! share an isolate and its memory, so what is large also reserves its bytes in the [`memory_budget`](crate::memory_budget).
//!
//! A limit that is part of a format, such as the maximum length of a host name, is defined next to its parser.

mod push;

pub use push::*;

// Tokens

/// The longest token that is verified, in bytes: limits the cost of a request without a valid token.
pub const MAX_TOKEN_BYTES: usize = 1024;
/// The largest number of valid tokens in the worker's cache.
pub const MAX_VERIFIED_TOKENS: usize = 256;
/// The lifetime of the JWT of a web client, in seconds (PROTOCOL.md "Authentication").
pub const JWT_LIFETIME_SECS: i64 = 15 * 60;
/// The largest body of `POST /api/auth`, in bytes.
pub const MAX_AUTH_BODY_BYTES: usize = 16 * 1024;

// Requests and responses

/// The largest JSON body, in bytes: a text of 1 MiB in which every character is escaped, and attachments.
pub const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;
/// The bytes of a body that a client must send every [`PROGRESS_TIMEOUT_MS`].
pub const MIN_PROGRESS_BYTES: u32 = 64 * 1024;
/// The largest body that needs no reservation of memory, in bytes: what is read at once.
pub const MAX_UNRESERVED_BODY_BYTES: usize = MIN_PROGRESS_BYTES as usize;
/// The time to send [`MIN_PROGRESS_BYTES`] of a body or upload, in milliseconds: a stalled client must not block others.
pub const PROGRESS_TIMEOUT_MS: u32 = 15_000;
/// How long a client may take to send a JSON body, in milliseconds. Its memory is reserved while it is sent.
pub const BODY_TIMEOUT_MS: u32 = 120_000;
/// How many bytes of a refused body are read, so that its client gets the response: the limit of the platform's smaller plans.
pub const MAX_DISCARDED_BYTES: u32 = 100_000_000;
/// How long the client of a refused body may pause until the hub stops reading and sends the response, in milliseconds.
pub const DISCARD_PAUSE_MS: u32 = 2_000;
/// How long a refused body is read at most, in milliseconds: a client that sends slowly must not keep the object awake.
pub const DISCARD_TIMEOUT_MS: u32 = 60_000;
/// The largest response that is copied to JavaScript at once, in bytes. A larger one needs a reservation until it is received.
pub const MAX_UNRESERVED_BYTES: usize = 1024 * 1024;
/// The chunk size of a streamed response, in bytes.
pub const RESPONSE_CHUNK_BYTES: usize = 1024 * 1024;
/// The bytes of a streamed response that a client must read in a second on average. Its first chunk has as many.
pub const MIN_READ_BYTES_PER_SECOND: u32 = 64 * 1024;
/// The time to read a chunk of a streamed response, in milliseconds. All of it has this time and that of [`MIN_READ_BYTES_PER_SECOND`].
pub const READ_TIMEOUT_MS: u32 = 60_000;
/// The time to read the first chunk, in milliseconds: with [`EDGE_TIMEOUT_MS`] less than the worker's 30 s.
pub const FIRST_READ_TIMEOUT_MS: u32 = 8_000;
/// How long the worker reads the database for a request, in milliseconds. After a disconnect the platform ends it within 30 s.
pub const EDGE_TIMEOUT_MS: u64 = 20_000;
/// How long the worker waits for the object beyond the timeout of an RPC call, in milliseconds: a request may wait for a stalled
/// database, and a resume for its session to become active.
pub const OBJECT_TIMEOUT_MARGIN_MS: u64 = DB_RETRY_MS + DB_TIMEOUT_MS + RESUME_TIMEOUT_MS + 5_000;
/// The delay of an alarm that fires while the configuration is invalid, in milliseconds.
pub const INVALID_CONFIG_DELAY_MS: u64 = 10_000;

// Connections

/// The largest frame a CLI may send, in bytes: the runtime closes a WebSocket on a larger one.
pub const MAX_FRAME_BYTES: u64 = 32 * 1024 * 1024;
/// The largest frame before CONNECT is answered, in bytes.
pub const MAX_UNAUTHENTICATED_FRAME_BYTES: usize = 16 * 1024;
/// The largest frame, in bytes, that needs no free memory: keep-alives and pongs must count.
pub const SMALL_FRAME_BYTES: usize = 16 * 1024;
/// How many bytes of frames a namespace may have that were admitted without free memory. A quarter is for small ones.
pub const MAX_UNRESERVED_FRAME_BYTES: usize = 2 * 1024 * 1024;
/// The memory of a queued frame besides its text, in bytes.
pub const FRAME_OVERHEAD_BYTES: usize = 64;
/// How many sockets a namespace may have, including closed ones whose clients have not answered. The platform allows 32,768.
pub const MAX_SOCKETS: usize = 32_000;
/// How many sockets without a token may wait for their CONNECT (PROTOCOL-CLI.md "The socket of a CLI").
pub const MAX_UNAUTHENTICATED: usize = 200;
/// How long a socket may take to send a valid CONNECT, in milliseconds.
pub const CONNECT_TIMEOUT_MS: u64 = 10_000;
/// The number of refused frames before CONNECT after which the hub closes a socket.
pub const MAX_REFUSALS: u32 = 3;
/// The number of frames without effect before CONNECT after which the hub closes a socket: each wakes the hub.
pub const MAX_IDLE_FRAMES: u32 = 16;
/// How many frames the worker queues for a socket until it knows the socket's namespace.
pub const MAX_QUEUED_FRAMES: u32 = 256;
/// The total size of the frames that the worker queues for a socket, in characters or bytes.
pub const MAX_QUEUED_FRAME_BYTES: u32 = 256 * 1024;
/// How many names of unknown events are counted and logged.
pub const MAX_UNKNOWN_EVENTS: usize = 100;
/// The largest attachment of a socket, in bytes as the platform stores it. Its limit is 16,384, framing included.
pub const MAX_ATTACHMENT_BYTES: usize = 16_000;
/// The bytes sent to a client that it may leave unacknowledged before the hub disconnects it: twice the largest event.
pub const MAX_UNACKED_BYTES: usize = 16 * 1024 * 1024;
/// The unread bytes of all event streams (SSE) in an isolate: twice the largest event. They do not count in [`MAX_BUFFER_BYTES`].
pub const MAX_STREAM_BYTES: usize = 16 * 1024 * 1024;
/// The unacknowledged bytes above which a web client gets no `message-delta`: the rest is for events that it must not miss.
pub const MAX_UNACKED_BYTES_WITH_DELTAS: usize = MAX_UNACKED_BYTES / 4;
/// The unacknowledged bytes, replies included, above which the hub disconnects a CLI that sends another frame. The largest
/// update fits beside [`MAX_UNACKED_BYTES`].
pub const MAX_UNACKED_BYTES_WITH_REPLIES: usize = 3 * MAX_UNACKED_BYTES;
/// The sent bytes after which a CLI gets an extra ping: [`PING_INTERVAL_MS`] is too long to measure a backlog.
pub const PING_AFTER_BYTES: usize = 2 * 1024 * 1024;

// Timers

/// The interval of heartbeats to web clients, in milliseconds (PROTOCOL-EVENTS.md "Events for web clients").
pub const HEARTBEAT_INTERVAL_MS: u64 = 30_000;
/// The announced interval of pings to CLIs, in milliseconds. Each wakes the object; proxies close connections idle for 100 s.
pub const PING_INTERVAL_MS: u64 = 30_000;
/// The `pingTimeout` that is announced in the Engine.IO open packet, in milliseconds. A client disconnects when it gets no ping
/// for 90 s, the sum of `pingInterval` and `pingTimeout`: an alarm that is less than a minute late loses no connection.
pub const PING_TIMEOUT_MS: u64 = 60_000;
/// The time a CLI has to answer a ping before the hub disconnects it, in milliseconds: two pings.
pub const PONG_TIMEOUT_MS: u64 = 2 * PING_INTERVAL_MS;
/// How late an alarm may be before the hub sets it again, in milliseconds: the platform's alarms can be a minute late.
pub const LATE_ALARM_MS: u64 = 60_000;
/// The age of the last keep-alive, in milliseconds, up to which an object is expected to stay in memory until the next one.
pub const RECENT_KEEP_ALIVE_MS: u64 = 5_000;
/// How long a session stays active after its last keep-alive, in milliseconds (PROTOCOL-CLI.md "Liveness").
pub const SESSION_TIMEOUT_MS: u64 = 30_000;
/// How long a machine stays online after its last keep-alive, in milliseconds (PROTOCOL-CLI.md "Liveness").
pub const MACHINE_TIMEOUT_MS: u64 = 45_000;
/// How long the pending permission requests of an inactive session are kept, in milliseconds (PROTOCOL-CLI.md "Liveness").
pub const KEEP_REQUESTS_MS: u64 = 24 * 60 * 60_000;
/// How often an unchanged presence is published again to web clients, in milliseconds.
pub const PRESENCE_INTERVAL_MS: u64 = 10_000;
/// How many repetitions of unchanged presence are sent to web clients per millisecond, counted for each client: changes come first.
pub const REMINDERS_PER_MS: u64 = 5;
/// How long a visibility report is valid if the client acknowledges heartbeats or names its device, in milliseconds: two
/// heartbeats and 15 s.
pub const HEARTBEAT_ACK_TIMEOUT_MS: u64 = 2 * HEARTBEAT_INTERVAL_MS + 15_000;
/// How long a visibility report of any other client, such as one of SSE, is valid, in milliseconds: the lifetime of a JWT.
pub const VISIBILITY_TIMEOUT_MS: u64 = 15 * 60_000;
/// The minimum time between two writes of a keep-alive or acknowledgement to its socket's attachment, in milliseconds.
pub const MIN_ATTACHMENT_WRITE_INTERVAL_MS: u64 = 1_000;

// RPC calls

/// The time a CLI has to answer a call, in milliseconds, unless `RPC_TIMEOUT_MS` is set.
pub const DEFAULT_RPC_TIMEOUT_MS: u64 = 30_000;
/// The largest valid `RPC_TIMEOUT_MS`.
pub const MAX_RPC_TIMEOUT_MS: u64 = 600_000;
/// How long the hub expects a disconnected CLI to reconnect, and the shortest wait of a call for it, in milliseconds.
pub const RECONNECT_GRACE_MS: u64 = 2_000;
/// How long after a restart of the hub a call waits for a CLI, in milliseconds: the official client reconnects within 7.5 s.
pub const RESTART_GRACE_MS: u64 = 10_000;
/// How many methods of disconnected CLIs the hub remembers for [`RECONNECT_GRACE_MS`].
pub const MAX_LOST_METHODS: usize = 10_000;

// Writes

/// The total size of queued changes and effects, in bytes. Above it new changes are refused with `overloaded`.
pub const MAX_QUEUED_BYTES: usize = 40_000_000;
/// The size of queued rows and their effects above which they are sealed, in bytes. JavaScript copies the rows, about half of it.
pub const MAX_BATCH_BYTES: usize = 4_000_000;
/// The size above which a JSON array of rows gets no further row, in bytes. With twice [`LARGE_ROW_BYTES`] it fits D1's 2 MB.
pub const FULL_ARRAY_BYTES: usize = 1_000_000;
/// The size above which a row gets a statement of its own, in bytes: escaping can double the length of a text in a JSON array.
pub const LARGE_ROW_BYTES: usize = 250_000;
/// How long a read or write of the database whose outcome is unknown is repeated, in milliseconds: longer than the stalls of
/// 60 to 90 s that D1 is known for. Requests and acknowledgements wait for it.
pub const DB_RETRY_MS: u64 = 120_000;
/// The longest pause after the first failed attempt, in milliseconds. It doubles up to [`MAX_DB_PAUSE_MS`].
pub const FIRST_DB_PAUSE_MS: u64 = 100;
/// The longest pause between two attempts, in milliseconds: what waits for the database continues this soon after a stall.
pub const MAX_DB_PAUSE_MS: u64 = 2_000;
/// The time without a result after which a query counts as stalled, in milliseconds. Nothing expires then: clients wait for it.
pub const DB_STALL_MS: u64 = 5_000;
/// How long D1 may take for a query, in milliseconds; D1 itself times out after 30 s.
pub const DB_TIMEOUT_MS: u64 = 35_000;
/// The time without a result after which a query is lost if the database answers a later one, in milliseconds.
pub const DB_SILENCE_MS: u64 = 2_000;
/// The bytes above which a query is followed by a turn of the event loop: the local runtime then serves other namespaces, too.
pub const LARGE_QUERY_BYTES: usize = 1_000_000;
/// The number of queued changes that is a burst: a commit waits for its end. A single message queues fewer.
pub const BURST_CHANGES: usize = 6;
/// How many turns of the event loop a commit, a lookup or a write of attachments waits for a growing burst.
pub const MAX_BURST_TURNS: usize = 64;
/// The largest number of session lookups in one batch: each may return a row of 2 MB.
pub const MAX_GROUPED_LOOKUPS: usize = 16;
/// A commit of more bytes than this is followed by eviction from the cache.
pub const EVICT_AFTER_BYTES: usize = 100_000;
/// The pause after a batch of a sweep, as a multiple of its duration: requests come first.
pub const SWEEP_PAUSE_FACTOR: u64 = 4;
/// A session is merged only if it has at most this many times 5,000 messages and 10 MB: D1 has 30 s for the batch.
pub const MAX_MERGE_UNITS: u64 = 60;
/// The pause after a failed background query (a sweep, a read of the event log), and the longest pause of a sweep, in milliseconds.
pub const BACKGROUND_RETRY_MS: u64 = 60_000;
/// How often the hub reads the event log after a failed batch if D1 rejects each read.
pub const MAX_REJECTED_LOG_READS: u32 = 10;
/// How long the hub waits after it failed to set an alarm, in milliseconds. Then it tries again.
pub const ALARM_RETRY_MS: u64 = 1_000;

// Memory

/// The total size of the buffers of all namespaces in an isolate, in bytes: half of its memory. JavaScript needs the other half.
pub const MAX_BUFFER_BYTES: usize = 64 * 1024 * 1024;
/// The part of [`MAX_BUFFER_BYTES`] that namespaces may use beyond their shares, in bytes. The rest are the shares of eight
/// namespaces; the pool shrinks when more of them are in use.
pub const MAX_POOL_BYTES: usize = 48 * 1024 * 1024;
/// The bytes that are always free for a namespace: enough for the largest message of one row (1.5 MB), because a change takes over
/// the memory of its frame. Not more, because the number of namespaces in an isolate is unknown.
pub const NAMESPACE_SHARE_BYTES: usize = 2 * 1024 * 1024;
/// How much of the pool may be in use, in bytes, when more than the pool is reserved: for a session with two values of 30 MiB.
pub const MAX_POOL_USE_FOR_OVERSIZED: usize = 8 * 1024 * 1024;
/// The part of the pool that growing caches leave free, in bytes.
pub const CACHE_HEADROOM_BYTES: usize = 16 * 1024 * 1024;
/// The part of the pool that queued changes leave free, in bytes, for frames that are refused with `overloaded`.
pub const WRITE_QUEUE_HEADROOM_BYTES: usize = 8 * 1024 * 1024;
/// How long a request waits for memory, in milliseconds.
pub const MEMORY_TIMEOUT_MS: u64 = 10_000;
/// How long a frame of a CLI waits for memory, in milliseconds: several times what the hub takes to store the largest one.
pub const FRAME_MEMORY_TIMEOUT_MS: u64 = 30_000;
/// How long a web client that resumes waits for the memory to read the event log, in milliseconds.
pub const LOG_MEMORY_TIMEOUT_MS: u64 = 2_000;
/// How often a request that waits for memory tries again, in milliseconds.
pub const MEMORY_RETRY_MS: u64 = 100;
/// How many reads of pages below [`SMALL_PAGE_BYTES`] run in an isolate at a time: they reserve no memory.
pub const MAX_SMALL_READS: usize = 32;
/// How many of them a namespace has at a time: a place is free for another one.
pub const MAX_SMALL_READS_OF_NAMESPACE: usize = 24;
/// How many reads of larger pages run in an isolate at a time: JavaScript makes copies of what is read at once. A namespace has as
/// many that run or wait for memory.
pub const MAX_LARGE_READS: usize = 2;
/// How often a read that waits for its turn tries again, in milliseconds, for each round of reads ahead of it.
pub const READ_RETRY_MS: u64 = 10;
/// How many sessions stay in memory while some of them are idle.
pub const MAX_CACHED_SESSIONS: usize = 1_000;
/// How many bytes of sessions stay in memory while some of them are idle.
pub const MAX_CACHED_BYTES: usize = 24_000_000;
/// How many idle sessions stay in memory however many are in use: what concurrent requests load must stay until each is done.
pub const MIN_CACHED_IDLE_SESSIONS: usize = 250;
/// How many bytes of idle sessions stay in memory however many are in use.
pub const MIN_CACHED_IDLE_BYTES: usize = 4_000_000;
/// How many bytes of JSON of the session list stay in memory: several pages. Above it, all JSON is dropped, to be read again.
pub const MAX_CACHED_SUMMARY_BYTES: usize = 4_000_000;
/// The most sessions of a page of the list, and of one read for it.
pub const MAX_LISTED_SESSIONS: usize = 1_000;
/// The size at which a page of the list ends, in bytes.
pub const MAX_LIST_BYTES: usize = 2 * 1024 * 1024;
/// How many bytes of the list are read from the database at once: with the summaries made from them they fit a namespace's share.
/// The SQL in `store::summaries` repeats the number.
pub const LIST_READ_BYTES: usize = 500_000;
/// How many bytes of sessions and of the list stay in memory however little memory is free. An upload in chunks still fits the
/// namespace's share.
pub const MIN_CACHED_BYTES: usize = 900_000;
/// How many ids and tags of evicted sessions the cache remembers, about 50 bytes each: a result read before is stale.
pub const MAX_TRACKED_EVICTIONS: usize = 20_000;
/// How many local ids of a session's messages stay in memory; older ones are looked up in the database.
pub const MAX_LOCAL_IDS: usize = 5_000;
/// How many local ids one query looks up. The unique index needs some microseconds for each.
pub const MAX_LOCAL_ID_LOOKUPS: usize = 1_000;
/// How many bytes of queued frames are searched for local ids to look up together.
pub const MAX_SEARCHED_FRAME_BYTES: usize = 2_000_000;
/// How many completed permission requests an update to a CLI contains at most: the full list can be larger than a frame.
pub const MAX_RECENT_COMPLETED: usize = 100;
/// How many bytes of completed permission requests an update to a CLI contains at most.
pub const MAX_RECENT_COMPLETED_BYTES: usize = 1_000_000;

// Large values

/// The largest metadata that is stored in its row, in bytes. It shares the row with a state: together less than 2 MB.
pub const MAX_INLINE_METADATA_BYTES: usize = 600_000;
/// The largest state that is stored in its row, in bytes.
pub const MAX_INLINE_BYTES: usize = 1_000_000;
/// The longest text in the `summary` or `worktree` of metadata, in bytes.
pub const MAX_METADATA_TEXT_BYTES: usize = 65_536;
/// The longest JSON of a `summary` or `worktree`, in bytes. Both fit the excerpt of large metadata.
pub const MAX_METADATA_TEXTS_BYTES: usize = 128_000;
/// How much the list of sessions shows of a text in metadata, in bytes of JSON. The SQL in `store::summaries` repeats the number.
pub const MAX_LISTED_TEXT_BYTES: usize = 512;
/// The largest number of `…SessionId` fields in an excerpt: one for each alias of the agent.
pub const MAX_EXCERPT_AGENT_IDS: usize = 50;
/// The largest `host` of a machine in an excerpt, in bytes of JSON. That of a session has at most 255 bytes.
pub const MAX_EXCERPT_HOST_BYTES: usize = 2_000;
/// The largest request id in an excerpt, in bytes of JSON: [`MAX_PENDING_REQUESTS`] fit a row.
pub const MAX_EXCERPT_ID_BYTES: usize = 600;
/// The largest name of a tool in an excerpt, in bytes of JSON.
pub const MAX_EXCERPT_TOOL_BYTES: usize = 200;
/// The largest part of a large value, in bytes: it fits a row of D1 (2 MB), also with the other columns of a message.
pub const MAX_PART_BYTES: usize = 1_500_000;
/// How many parts are written or read at once: no reservation covers the copies that JavaScript makes of them.
pub const PARTS_AT_ONCE: usize = 2;
/// The total content size at which a page of history ends, in bytes.
pub const MAX_PAGE_BYTES: u64 = 8 * 1024 * 1024;
/// The content of a message above which a page of history has an excerpt on request, in bytes. An excerpt has at most half of that.
pub const MAX_BYTES_WITHOUT_EXCERPT: u64 = 64 * 1024;
/// The content size below which a page of history reserves no memory, in bytes: with the JSON around 200 messages, it is smaller
/// than [`MAX_UNRESERVED_BYTES`].
pub const SMALL_PAGE_BYTES: u64 = 640 * 1024;
/// How much content of messages is read at once for a larger page, in bytes: no reservation covers the copies that JavaScript
/// makes of it.
pub const MAX_BYTES_AT_ONCE: usize = PARTS_AT_ONCE * MAX_PART_BYTES;
/// The message size, in bytes, above which [`MAX_QUEUED_BYTES`] is checked before the message is copied out of its frame.
pub const LARGE_MESSAGE_BYTES: usize = 1_000_000;

// Fields and error messages

/// The deepest nesting of an object that the hub or D1 reads. SQLite's JSON functions support 1,000 levels.
pub const MAX_JSON_DEPTH: usize = 500;
/// The longest name of a mode, an agent or a method, in bytes.
pub const MAX_KEYWORD_BYTES: usize = 255;
/// The largest number of aliases in a section of the setting `VOCABULARY`.
pub const MAX_ALIASES: usize = 100;
/// The largest number of methods or models that an error message lists.
pub const MAX_LISTED_NAMES: usize = 30;
/// The longest part of an invalid value that an error message repeats, in characters.
pub const MAX_ECHO_CHARS: usize = 100;
/// The longest error message to a CLI, in characters. It may contain names and ids that the CLI sent.
pub const MAX_ERROR_CHARS: usize = 1_000;
/// The longest id in an error message to a CLI, in characters. Valid ids are not longer.
pub const MAX_ERROR_ID_CHARS: usize = 255;

// Sessions

/// The largest number of sessions in a namespace: about 3 MB of the list always stay in memory.
pub const MAX_SESSIONS: usize = 20_000;
/// The longest session name, in Unicode code points (PROTOCOL.md "Limits").
pub const MAX_NAME_CHARS: usize = 255;
/// The longest tag, in bytes: a path of any common file system fits.
pub const MAX_TAG_BYTES: usize = 4096;
/// The longest local id of a message, in bytes.
pub const MAX_LOCAL_ID_BYTES: usize = 255;
/// The longest text of a message from a web client, in bytes (PROTOCOL.md "Limits").
pub const MAX_TEXT_BYTES: usize = 1024 * 1024;
/// The largest number of pending permission requests in one state.
pub const MAX_PENDING_REQUESTS: usize = 1_000;
/// The longest id of a permission request, in bytes.
pub const MAX_REQUEST_ID_BYTES: usize = 255;
/// The longest reason of an abort or archive, in Unicode code points.
pub const MAX_REASON_CHARS: usize = 1_000;
/// How many messages are searched for a todo list at a time.
pub const TODO_CANDIDATES: u64 = 50;
/// How long a CLI may take to end when its session is archived, in milliseconds (PROTOCOL-WEB.md "Life cycle and modes").
pub const KILL_TIMEOUT_MS: u64 = 5_000;
/// How long a resumed session may take to become active, in milliseconds (PROTOCOL-WEB.md "Life cycle and modes").
pub const RESUME_TIMEOUT_MS: u64 = 15_000;
/// How long after a resume a CLI may still reopen its archived session, in milliseconds: agents may start slowly.
pub const REOPEN_MS: u64 = 600_000;

// Machines

/// The longest machine id, in bytes.
pub const MAX_MACHINE_ID_BYTES: usize = 255;
/// The maximum number of machines in a namespace. All are in memory; another one replaces the one that has been offline longest.
pub const MAX_MACHINES: usize = 1_000;
/// The total size of machines in memory, in bytes, above which new values above [`SMALL_VALUE_BYTES`] are stored externally.
pub const MAX_MACHINE_BYTES: usize = 8_000_000;
/// A machine's value up to this size is always held in memory, in bytes.
pub const SMALL_VALUE_BYTES: usize = 4_000;
/// How many paths one `POST /api/machines/:id/paths/exists` checks (PROTOCOL-WEB.md "Machines").
pub const MAX_PATHS: usize = 1000;

// Uploads

/// The default of `MAX_UPLOAD_MB`: the largest uploaded file, in MiB (PROTOCOL.md "Limits").
pub const DEFAULT_UPLOAD_MB: u64 = 50;
/// The largest valid `MAX_UPLOAD_MB`, more than the platform accepts in the body of a request.
pub const MAX_UPLOAD_MB: u64 = 1_000;
/// The largest file that is sent to a CLI in one frame, in bytes.
pub const MAX_FRAME_FILE_BYTES: u64 = 50 * 1024 * 1024;
/// The largest body of an upload in percent of the largest file: base64 with line breaks in JSON.
pub const UPLOAD_BODY_PERCENT: u64 = 144;
/// The memory of an upload in chunks, in bytes: what is read of the body at once (128 KiB), a chunk, and a frame in flight.
pub const UPLOAD_MEMORY_BYTES: usize = 128 * 1024 + 2 * 512 * 1024;
/// The content of a chunk of an upload, in characters of base64: a multiple of 4.
pub const UPLOAD_CHUNK_CHARS: u64 = 512 * 1024;
/// How many uploads a namespace processes at a time. Further uploads wait.
pub const MAX_UPLOADS_AT_ONCE: usize = 8;
/// How many uploads may wait.
pub const MAX_WAITING_UPLOADS: usize = 32;
/// How many uploads a session may have, waiting ones included (PROTOCOL.md "Limits"): one session must not fill the queue.
pub const MAX_UPLOADS_OF_SESSION: usize = 16;
/// The longest `filename` and `mimeType`, in characters (PROTOCOL-WEB.md "Uploads").
pub const MAX_FILE_NAME_CHARS: usize = 255;
/// The longest path of an uploaded file, in characters.
pub const MAX_UPLOAD_PATH_CHARS: usize = 4_096;
/// The largest upload body without its content, in bytes.
pub const MAX_UPLOAD_FIELDS_BYTES: usize = 64 * 1024;
/// What an upload in one large frame reserves, in bytes: half of the pool. Its content, up to 67 MiB, is in JavaScript's memory.
pub const FRAME_UPLOAD_MEMORY_BYTES: usize = MAX_POOL_BYTES / 2;
/// How long an upload in one large frame may wait for another one in the same isolate, in milliseconds.
pub const FRAME_UPLOAD_WAIT_MS: u32 = 60_000;
/// How often a waiting upload tries again, in milliseconds: one object cannot resume another's request.
pub const FRAME_UPLOAD_POLL_MS: u64 = 100;
/// The slowest average pace of an upload in one large frame, in bytes per millisecond.
pub const FRAME_UPLOAD_BYTES_PER_MS: u64 = 64;
/// The same while an upload of another namespace waits for the slot.
pub const CONTESTED_UPLOAD_BYTES_PER_MS: u64 = 1_000;
/// The time before the pace is checked, in milliseconds.
pub const FRAME_UPLOAD_GRACE_MS: u64 = 60_000;
/// The time after which a slot whose object has ended is free, in milliseconds.
pub const FRAME_SLOT_MS: u64 = 1_800_000;
/// The throughput a CLI's connection is assumed to have, in bytes a millisecond (2 Mbit/s): it sets an upload's timeout.
pub const UPLOAD_BYTES_PER_MS: u64 = 256;

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
/// How many deltas of a session are sent in a second. Further ones are dropped.
pub const MAX_DELTAS_PER_SECOND: usize = 50;
/// How many bytes of delta text of a session are sent in a second. Further ones are dropped.
pub const MAX_DELTA_BYTES_PER_SECOND: usize = 128 * 1024;
/// How many deltas a namespace sends to web clients in a second, counted for each client: the thread is shared.
pub const MAX_SENT_DELTAS_PER_SECOND: usize = 2_000;
/// How many bytes of delta text a namespace sends to web clients in a second, counted for each client.
pub const MAX_SENT_DELTA_BYTES_PER_SECOND: usize = 4 * 1024 * 1024;
/// How many sessions of a namespace have live text at a time.
pub const MAX_LIVE_SESSIONS: usize = 1_000;
/// How many messages of a session have live text at a time.
pub const MAX_LIVE_MESSAGES: usize = 8;
/// The longest live text of a message that is kept for web clients that connect, in bytes. The beginning of a longer one is dropped.
pub const MAX_LIVE_TEXT_BYTES: usize = 128 * 1024;
/// The bytes of all live texts of a namespace that are kept for web clients that connect.
pub const MAX_LIVE_BYTES: usize = 1024 * 1024;
/// How long a text without deltas is shown to web clients that connect, in milliseconds. A session without deltas counts in
/// [`MAX_LIVE_SESSIONS`] as long.
pub const LIVE_TEXT_RETENTION_MS: u64 = 30_000;

// Sizes of values

/// The largest message content, metadata, agent state (without completed requests) and runner state, in bytes: it fits
/// a frame of a CLI together with its event. What does not fit a row of D1 is stored in parts.
pub const MAX_CONTENT_BYTES: usize = 30 * 1024 * 1024;
/// The largest pending permission request, in bytes: it may contain a large file that a tool is to write.
pub const MAX_REQUEST_BYTES: usize = 8 * 1024 * 1024;
/// The largest total size of pending permission requests, in bytes: all are completed at once when a session ends.
pub const MAX_PENDING_BYTES: usize = 2 * MAX_REQUEST_BYTES;
/// The largest completed permission request, in bytes: it fits a row of D1 (2 MB). A larger one is shortened.
pub const MAX_COMPLETED_REQUEST_BYTES: usize = 1_900_000;
/// The size above which the record of a session's completed requests is trimmed, in bytes, overhead included. The record is read
/// whole and is in memory several times while it is sent. The SQL in `store::completed_requests` repeats this number.
pub const MAX_COMPLETED_REQUESTS_BYTES: usize = 10_000_000;
/// The size to which a record is trimmed, in bytes. The SQL repeats it, too.
pub const TRIMMED_COMPLETED_REQUESTS_BYTES: usize = 9_000_000;
/// The largest todo list, in bytes: it fits the row of its session together with the other values.
pub const MAX_TODOS_BYTES: usize = 250_000;
