//! What the hub needs from the runtime. The database is the other port: [`crate::store::Database`].

use futures::future::BoxFuture;
use http::Request;
use strum::EnumString;
use thiserror::Error;

use crate::log::LogLine;

/// How long a push service may take to respond, in milliseconds. Does not include a wait for a free connection.
pub const PUSH_TIMEOUT_MS: u32 = 10_000;

/// A socket of this instance. Numbers are not reused.
pub type ConnId = u32;

/// The attachment of a socket that the hub has closed. The platform lists the socket until the client answers the close frame or
/// the connection ends, after two hibernations as an open one. A hub that wakes must ignore it: closing it again would keep the
/// object in memory (measured). A version of the hub that does not know this text closes it.
pub const CLOSED_ATTACHMENT: &str = "closed";

/// Why the body of an upload was rejected. `platform/upload.js` names the faults in kebab case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum UploadFault {
    /// The file is larger than the limit.
    TooLarge,
    /// The other fields are larger than [`MAX_UPLOAD_FIELDS_BYTES`](crate::limits::MAX_UPLOAD_FIELDS_BYTES).
    FieldsTooLarge,
    BadBase64,
    NotUtf8,
    /// The client stopped sending.
    Stalled,
    /// The client disconnected.
    Broken,
}

/// The body of an upload. The content of the file, which may be too large for the hub's memory, stays outside of it as base64: in
/// the standard alphabet, padded, without line breaks.
pub trait UploadBody: Send + Sync {
    /// Reads until `buffer_chars` characters of base64, a multiple of 4, are buffered; then returns `None`. At the end of the body,
    /// returns the body as JSON text with an empty string in place of the content. A file above `max_file_bytes` is a fault.
    fn read(&self, buffer_chars: u64, max_file_bytes: u64) -> BoxFuture<'_, Result<Option<String>, UploadFault>>;
    /// Returns the size of the file as far as it was read, in bytes.
    fn file_bytes(&self) -> u64;
    /// Sends one text frame: the buffered content between `prefix` and `suffix`, which are ASCII. Empties the buffer.
    fn send(&self, to: ConnId, prefix: &str, suffix: &str);
}

/// The platform's random source failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("The platform's random source failed. Try again.")]
pub struct RandomSourceError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushResponse {
    pub status: u16,
    pub retry_after: Option<String>,
}

/// The cost of queries, as the platform counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatabaseUsage {
    pub batches: u64,
    pub rows_read: u64,
    pub rows_written: u64,
}

/// The runtime of one namespace's object: clock, sockets, alarm, key-value storage, push services.
pub trait Runtime: Send + Sync {
    /// Returns the Unix time in milliseconds.
    fn now(&self) -> u64;
    /// Fills the buffer from the platform's cryptographic random source.
    fn random(&self, bytes: &mut [u8]) -> Result<(), RandomSourceError>;
    /// Sends a text frame to those of the sockets that are open.
    fn send(&self, to: &[ConnId], text: &str);
    /// Sets the attachment of a socket, which survives hibernation (at most 16,384 bytes: platform limit).
    fn attach(&self, conn: ConnId, attachment: &str);
    /// Closes a socket for this and all later instances ([`CLOSED_ATTACHMENT`]).
    fn close(&self, conn: ConnId, code: u16, reason: &str) {
        self.attach(conn, CLOSED_ATTACHMENT);
        self.send_close(conn, code, reason);
    }
    /// Sends a close frame, the last frame to the socket. Callers use [`close`](Self::close), which also sets the attachment.
    fn send_close(&self, conn: ConnId, code: u16, reason: &str);
    /// Returns the number of sockets that the platform counts: open ones, and closed ones whose clients have not answered.
    fn socket_count(&self) -> usize;
    /// Sets the object's only alarm, in place of an earlier one. Returns whether the alarm was set.
    fn set_alarm(&self, at: u64) -> BoxFuture<'static, bool>;
    /// Starts a background task. If a panic interrupts the task, all sockets of the object are closed.
    fn spawn(&self, task: BoxFuture<'static, ()>);
    /// Sleeps. Only for short pauses, because a sleep keeps the object awake; deadlines use the alarm.
    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()>;
    /// Posts a message to a push service, without following redirects, and with the timeout
    /// [`PUSH_TIMEOUT_MS`]. The error says why there is no response.
    fn push(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<PushResponse, String>>;
    /// Sets a value in the object's own storage, which survives hibernation and restarts.
    fn kv_put(&self, key: &str, value: &str);
    /// Deletes a value of the object's own storage. Does nothing if there is none.
    fn kv_delete(&self, key: &str);
    /// Returns all keys with the prefix, and their values.
    fn kv_list(&self, prefix: &str) -> Vec<(String, String)>;
    /// Writes a line to the log of the platform.
    fn log(&self, line: LogLine);
    /// Returns what the object's queries cost since it was loaded.
    fn database_usage(&self) -> DatabaseUsage;
    /// Returns a value of the object's own storage.
    fn kv_get(&self, key: &str) -> Option<String> {
        self.kv_list(key).into_iter().find(|(found, _)| found == key).map(|(_, value)| value)
    }
    /// Whether the previous instance may have crashed instead of hibernated, although its sockets are open.
    fn previous_instance_crashed(&self) -> bool;
}
