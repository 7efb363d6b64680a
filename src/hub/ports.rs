//! What the hub needs from the runtime around it. The database is the other port: [`crate::store::Database`].

use futures::future::BoxFuture;
use http::Request;
use strum::EnumString;
use thiserror::Error;

/// A socket of this object, for as long as the object stays in memory; numbers are not used twice.
pub type ConnId = u32;

/// Why the body of an upload was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum UploadFault {
    /// The file is larger than the hub takes.
    TooLarge,
    /// What stands beside the content is larger than any file name.
    RestTooLarge,
    /// The content is not base64.
    BadBase64,
    /// The body is not UTF-8.
    NotUtf8,
    /// The client stopped sending.
    Stalled,
    /// The client is gone.
    Broken,
}

/// The body of an upload. Its content is as large as all else that the hub may hold, and only passes through: it stays
/// outside of the hub's memory.
pub trait UploadBody: Send + Sync {
    /// The length that the client declared, in bytes.
    fn declared(&self) -> Option<u64>;
    /// Reads the body; answers it as JSON text in which an empty string stands for the content.
    fn read(&self) -> BoxFuture<'_, Result<String, UploadFault>>;
    /// How many bytes of it were read.
    fn length(&self) -> u64;
    /// Sends one text frame: the content between two texts of ASCII. Once, after the body was read.
    fn send(&self, to: ConnId, head: &str, tail: &str);
}

/// The platform's random source failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("The platform's random source failed.")]
pub struct RandomSourceError;

/// How long a push service may take to answer, in milliseconds from the call. No more are called at a time than the platform
/// opens connections ([`throttle`](super::push::throttle)), so no call waits for one.
pub const PUSH_LIMIT_MS: u32 = 10_000;

/// What a push service answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushAnswer {
    /// The status of the answer.
    pub status: u16,
    /// The header `Retry-After`.
    pub retry_after: Option<String>,
}

/// The runtime of one namespace's object: clock, sockets, alarm, notebook, push services.
pub trait Runtime: Send + Sync {
    /// Unix time in milliseconds.
    fn now(&self) -> u64;
    /// Fills the buffer with bytes from the platform's cryptographic random source.
    fn random(&self, bytes: &mut [u8]) -> Result<(), RandomSourceError>;
    /// Sends one text frame to each of the sockets; a socket that is gone is passed over.
    fn send(&self, to: &[ConnId], text: &str);
    /// Keeps what a socket is, so that it is known again after the object slept (at most 16,384 bytes: platform limit).
    fn attach(&self, conn: ConnId, attachment: &str);
    /// Closes a socket.
    fn close(&self, conn: ConnId, code: u16, reason: &str);
    /// Sets the object's one alarm, in place of the one set before. Answers whether it is set.
    fn set_alarm(&self, at: u64) -> BoxFuture<'static, bool>;
    /// Lets a task run beside the caller.
    fn spawn(&self, task: BoxFuture<'static, ()>);
    /// Waits. Keeps the object awake: for short back-offs only, deadlines belong to the alarm.
    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()>;
    /// Posts a message to a push service. Follows no redirect, and waits no longer than [`PUSH_LIMIT_MS`]; the error says
    /// why there is no answer.
    fn push(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<PushAnswer, String>>;
    /// Notes a value in the object's own storage, which survives sleep and restarts.
    fn kv_put(&self, key: &str, value: &str);
    /// Removes a note.
    fn kv_delete(&self, key: &str);
    /// Whether something other than a sleep may have ended the hub before this one, although the sockets are still there.
    fn was_interrupted(&self) -> bool;
    /// All notes whose key starts with the prefix.
    fn kv_list(&self, prefix: &str) -> Vec<(String, String)>;
}
