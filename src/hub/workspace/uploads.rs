//! Uploads of files to a session's CLI (PROTOCOL-WEB.md "Uploads"): in chunks, or in one frame if the CLI does not accept chunks.
//! The content stays outside of wasm memory ([`UploadBody`]): the hub builds only the frames around it.

use futures::channel::oneshot;
use futures::future::{Either, select, try_join};
use serde::Deserialize;

use crate::hub::core::error::{Error, check_length};
use crate::hub::core::peers::rpc::{Call, RpcError, rejection_reason};
use crate::hub::core::ports::{ConnId, UploadBody, UploadFault};
use crate::hub::{Config, FrameUploadTicket, Hub};
use crate::limits::{
    CONTESTED_UPLOAD_BYTES_PER_MS, FRAME_UPLOAD_BYTES_PER_MS, FRAME_UPLOAD_SLOT_TIMEOUT_MS, MAX_UPLOAD_FIELDS_BYTES,
    MIN_CACHED_BYTES, PROGRESS_TIMEOUT_MS,
};
use crate::memory_budget::{MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};
use crate::model::json::Json;
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::wire::fields::read_object;

/// The content of a chunk of an upload, in characters of base64: a multiple of 4.
pub const UPLOAD_CHUNK_CHARS: u64 = 512 * 1024;
/// The memory of an upload in chunks, in bytes: one read of the body (128 KiB), a chunk, and a frame in flight.
pub const UPLOAD_MEMORY_BYTES: usize = 128 * 1024 + 2 * 512 * 1024;
const _: () = assert!(UPLOAD_MEMORY_BYTES + MIN_CACHED_BYTES < NAMESPACE_SHARE_BYTES);

/// The largest file that is sent to a CLI in one frame, in bytes.
const MAX_FRAME_FILE_BYTES: u64 = 50 * 1024 * 1024;
/// The longest `filename` and `mimeType`, in characters (docs/openapi.yaml).
const MAX_FILE_NAME_CHARS: usize = 255;
const MAX_UPLOAD_PATH_CHARS: usize = 4_096;
/// The memory for an upload in one large frame, in bytes: half of the pool, for up to 67 MiB of content outside of wasm memory.
const FRAME_UPLOAD_MEMORY_BYTES: usize = MAX_POOL_BYTES / 2;
/// The interval at which a waiting upload tries again, in milliseconds: one object cannot wake a request of another object.
const FRAME_UPLOAD_POLL_MS: u64 = 100;
/// For this time, in milliseconds, the throughput of a client is not checked.
const FRAME_UPLOAD_GRACE_MS: u64 = 60_000;
/// The assumed throughput of a CLI's connection, in bytes a millisecond (2 Mbit/s), for the timeout of an upload.
const UPLOAD_BYTES_PER_MS: u64 = 256;

/// The text before the content in the frame. Params are JSON in a JSON string.
const CONTENT_START: &str = r#"\"content\":\""#;

/// A slot in [`UploadSlots`](crate::hub::core::uploads::UploadSlots), released on drop.
struct UploadSlot<'a> {
    hub: &'a Hub,
    session: &'a str,
    /// Resolves when the slot is granted.
    grant: oneshot::Receiver<()>,
}

impl Drop for UploadSlot<'_> {
    fn drop(&mut self) {
        // `Ok(None)` only while the request waits. A request that is canceled may just have been granted the slot.
        let was_granted = !matches!(self.grant.try_recv(), Ok(None));
        self.hub.turn().upload_slots.release(self.session, was_granted);
    }
}

impl Hub {
    /// Sends a file to the session's CLI, and returns the CLI's result as JSON text.
    pub async fn upload(&self, id: &str, body: &dyn UploadBody) -> Result<String, Error> {
        let grant = self.turn().upload_slots.request(id)?;
        let mut slot = UploadSlot { hub: self, session: id, grant };
        // The sender is in the hub's state, so it is never dropped first.
        let _ = (&mut slot.grant).await;
        let _memory = self.memory.reserve(UPLOAD_MEMORY_BYTES).await?;
        let limit = FileLimit { bytes: self.config.uploads.max_file_bytes, remedy: "Send a smaller file." };
        let upload = read_upload(body, UPLOAD_CHUNK_CHARS, limit).await?;
        self.require_active(id).await?;
        let owner = Owner::Session(id.to_owned());
        // Waits for a CLI that may reconnect.
        let opened = self.open_call(&owner, Method::UploadFile, self.config.rpc_timeout_ms).await;
        let call = opened.map_err(to_upload_error)?;
        self.turn().rpc.cancel(&call);
        let accepts_chunks = self.turn().connections.cli(call.conn).is_some_and(|cli| cli.accepts_upload_chunks);
        if accepts_chunks {
            let (owner, conn, id) = (&owner, call.conn, self.ids.uuid());
            return ChunkedUpload { hub: self, owner, conn, id, limit, is_partial: false }.send(body, upload).await;
        }
        FrameUpload { hub: self, owner: &owner, limit: limit.for_one_frame() }.send(body, upload).await
    }

    /// Deletes an uploaded file through the session's CLI, and returns the CLI's result as JSON text.
    pub async fn delete_upload(&self, id: &str, path: &str) -> Result<String, Error> {
        check_length("path", path, 1..=MAX_UPLOAD_PATH_CHARS)?;
        self.require_active(id).await?;
        let params = Json::object(&[("path", Json::of(path))]);
        let deleted = self.call(&Owner::Session(id.to_owned()), Method::DeleteUploadFile, &params).await;
        deleted.map_err(to_upload_error)
    }
}

/// An upload in chunks. If the upload is dropped before its end, the CLI gets a call to discard the part that it has.
struct ChunkedUpload<'a> {
    hub: &'a Hub,
    owner: &'a Owner,
    conn: ConnId,
    id: String,
    limit: FileLimit,
    /// Whether the CLI has a part of the file, and expects the rest.
    is_partial: bool,
}

impl ChunkedUpload<'_> {
    /// Sends the buffered content and the rest of the body in chunks. While the CLI processes a chunk, the hub reads the next one. `fields`
    /// is `Some` once the whole body has been read. Returns the CLI's result of the last chunk, or of a chunk that it refused.
    async fn send(mut self, body: &dyn UploadBody, mut fields: Option<UploadFields>) -> Result<String, Error> {
        let mut offset = 0;
        loop {
            let bytes = body.file_bytes() - offset;
            let timeout_ms = upload_timeout_ms(&self.hub.config, bytes);
            let opened = self.hub.open_call(self.owner, Method::UploadChunk, timeout_ms).await;
            let call = opened.map_err(to_upload_error)?;
            if call.conn != self.conn {
                // Only the socket that received the first chunk can continue.
                self.hub.turn().rpc.cancel(&call);
                return Err(to_upload_error(RpcError::Disconnected(Method::UploadChunk.to_string())));
            }
            let params = Json::object_of_some(&[
                ("content", Some(Json::of(""))),
                ("uploadId", Some(Json::of(&self.id))),
                ("offset", Some(Json::of(&offset))),
                ("last", Some(Json::of(&fields.is_some()))),
                ("filename", fields.as_ref().map(|fields| Json::of(&fields.filename))),
                ("mimeType", fields.as_ref().map(|fields| Json::of(&fields.mime_type))),
            ]);
            send_with_content(body, &call, params.text());
            self.is_partial = true;
            offset += bytes;
            let result = async { call.result().await.map_err(to_upload_error) };
            if fields.is_some() {
                let result = result.await?;
                self.is_partial = false;
                return Ok(result);
            }
            let accepted = async {
                let result = result.await.map_err(Err)?;
                // `Err(Ok(result))` ends the upload; the CLI's answer is the outcome.
                if rejection_reason(&result).is_some() { Err(Ok(result)) } else { Ok(()) }
            };
            let next_fields = async { read_upload(body, UPLOAD_CHUNK_CHARS, self.limit).await.map_err(Err) };
            fields = match try_join(next_fields, accepted).await {
                Ok((fields, ())) => fields,
                Err(outcome) => {
                    self.is_partial = outcome.is_err();
                    return outcome;
                }
            };
        }
    }
}

impl Drop for ChunkedUpload<'_> {
    fn drop(&mut self) {
        if self.is_partial {
            let params = Json::object(&[("uploadId", Json::of(&self.id)), ("abort", Json::of(&true))]);
            self.hub.turn().call_ignoring_result(self.owner, Some(self.conn), Method::UploadChunk, params.text());
        }
    }
}

/// An upload in one frame, to a CLI that does not accept chunks.
struct FrameUpload<'a> {
    hub: &'a Hub,
    owner: &'a Owner,
    limit: FileLimit,
}

impl FrameUpload<'_> {
    /// Sends a file in one frame. `upload` is `None` if the file is longer than the first chunk, and so must still be read.
    async fn send(self, body: &dyn UploadBody, upload: Option<UploadFields>) -> Result<String, Error> {
        let (upload, slot_and_memory) = match upload {
            Some(upload) => (upload, None),
            None => {
                let slot = self.acquire_slot().await?;
                let memory = self.hub.memory.reserve(FRAME_UPLOAD_MEMORY_BYTES).await?;
                (self.read_whole_file(body, &slot).await?, Some((slot, memory)))
            }
        };
        let timeout_ms = upload_timeout_ms(&self.hub.config, body.file_bytes());
        let call = self.hub.open_call(self.owner, Method::UploadFile, timeout_ms).await.map_err(to_upload_error)?;
        let UploadFields { filename, content, mime_type } = &upload;
        let (content, filename) = (("content", Json::of(content)), ("filename", Json::of(filename)));
        let params = Json::object(&[content, filename, ("mimeType", Json::of(mime_type))]);
        send_with_content(body, &call, params.text());
        let Some(slot_and_memory) = slot_and_memory else { return call.result().await.map_err(to_upload_error) };
        let until_read = std::pin::pin!(self.wait_until_read(call.conn));
        let result = match select(std::pin::pin!(call.result()), until_read).await {
            Either::Left((result, _)) => result,
            Either::Right(((), result)) => {
                drop(slot_and_memory);
                result.await
            }
        };
        result.map_err(to_upload_error)
    }

    /// Waits until a CLI has read the frames that were sent to it: until then, the runtime holds the frames in memory.
    async fn wait_until_read(&self, conn: ConnId) {
        let ping = self.hub.turn().ping_after_frame(conn);
        let is_waiting = || {
            let turn = self.hub.turn();
            turn.connections.get(conn).is_some_and(|connection| !connection.send_window.is_acknowledged(ping))
        };
        while is_waiting() {
            self.hub.rt.sleep(FRAME_UPLOAD_POLL_MS).await;
        }
    }

    /// Reads the whole file. Fails if the client is slow, because other uploads wait for the slot.
    async fn read_whole_file(&self, body: &dyn UploadBody, slot: &FrameUploadTicket) -> Result<UploadFields, Error> {
        let started_at = self.hub.rt.now();
        // When another namespace began to wait for the slot, and the bytes that were read before.
        let mut contested_since = None;
        let max_chars = MAX_FRAME_FILE_BYTES.div_ceil(3) * 4;
        let mut reading = std::pin::pin!(read_upload(body, max_chars, self.limit));
        loop {
            match select(reading.as_mut(), self.hub.rt.sleep(PROGRESS_TIMEOUT_MS.into())).await {
                Either::Left((upload, _)) => {
                    return upload?.ok_or_else(|| fault_to_error(UploadFault::TooLarge, self.limit));
                }
                Either::Right(_) => {
                    let now = self.hub.rt.now();
                    let bytes = body.file_bytes();
                    contested_since = slot.is_contested(now).then(|| contested_since.unwrap_or((now, bytes)));
                    let checked_ms = now.saturating_sub(started_at + FRAME_UPLOAD_GRACE_MS);
                    let is_too_slow = |(since, bytes_before): (u64, u64)| {
                        let contested_ms = checked_ms.min(now.saturating_sub(since + u64::from(PROGRESS_TIMEOUT_MS)));
                        bytes - bytes_before < contested_ms * CONTESTED_UPLOAD_BYTES_PER_MS
                    };
                    if bytes < checked_ms * FRAME_UPLOAD_BYTES_PER_MS || contested_since.is_some_and(is_too_slow) {
                        return Err(Error::UploadTooSlow);
                    }
                }
            }
        }
    }

    /// Waits until no other upload in the isolate needs the memory for a large frame.
    async fn acquire_slot(&self) -> Result<FrameUploadTicket, Error> {
        let config = &self.hub.config;
        let deadline = self.hub.rt.now() + u64::from(FRAME_UPLOAD_SLOT_TIMEOUT_MS);
        let mut ticket = config.uploads.frame_upload_slot.join_queue(config.namespace.as_str(), deadline);
        while !ticket.try_acquire(self.hub.rt.now()) {
            if self.hub.rt.now() >= deadline {
                return Err(Error::TooManyUploads(
                    "The session's CLI does not accept uploads in chunks. The hub sends such CLIs one large file at a time, and was \
                    busy for 60 seconds.",
                ));
            }
            self.hub.rt.sleep(FRAME_UPLOAD_POLL_MS).await;
        }
        Ok(ticket)
    }
}

/// The fields of an upload. `content` is always an empty string: the content stays outside of wasm memory.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UploadFields {
    filename: String,
    content: String,
    mime_type: String,
}

/// The limit on the size of a file, and what a user can do about a larger file.
#[derive(Debug, Clone, Copy)]
struct FileLimit {
    bytes: u64,
    remedy: &'static str,
}

impl FileLimit {
    fn for_one_frame(self) -> Self {
        if self.bytes <= MAX_FRAME_FILE_BYTES {
            return self;
        }
        let remedy = "Send a smaller file, or update the session's CLI: it does not accept uploads in chunks.";
        Self { bytes: MAX_FRAME_FILE_BYTES, remedy }
    }
}

/// Reads up to `max_chars` characters of the content. Returns the fields if the body has been read to its end, and `None` otherwise.
async fn read_upload(body: &dyn UploadBody, max_chars: u64, limit: FileLimit) -> Result<Option<UploadFields>, Error> {
    let fields = body.read(max_chars, limit.bytes).await.map_err(|fault| fault_to_error(fault, limit))?;
    let Some(fields) = fields else { return Ok(None) };
    let upload: UploadFields = read_object(&fields)?;
    check_length("filename", &upload.filename, 1..=MAX_FILE_NAME_CHARS)?;
    // A browser reports an empty type for a file that it does not know.
    check_length("mimeType", &upload.mime_type, 0..=MAX_FILE_NAME_CHARS)?;
    Ok(Some(upload))
}

/// Sends a call with the buffered content in place of the empty string of the field `content`.
fn send_with_content(body: &dyn UploadBody, call: &Call, params: &str) {
    // The whole frame is ASCII, because JavaScript stores ASCII text in one byte a character, and other text in two.
    let frame = escape_non_ascii(&call.frame(params));
    // The last match is the content: the method's name comes before it, and quotes in a file name are escaped once more.
    let split = frame.rfind(CONTENT_START).map_or(frame.len(), |at| at + CONTENT_START.len());
    let (prefix, suffix) = frame.split_at(split);
    body.send(call.conn, prefix, suffix);
}

fn escape_non_ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("\\u{unit:04x}")),
        }
    }
    escaped
}

/// Returns how long the CLI may take to answer a call with `bytes` of a file, in milliseconds.
fn upload_timeout_ms(config: &Config, bytes: u64) -> u64 {
    config.rpc_timeout_ms + bytes / UPLOAD_BYTES_PER_MS
}

fn to_upload_error(error: RpcError) -> Error {
    Error::UploadFailed(error.to_string())
}

fn fault_to_error(fault: UploadFault, limit: FileLimit) -> Error {
    match fault {
        UploadFault::TooLarge => Error::TooLarge {
            what: "The file in field `content`".into(),
            limit: usize::try_from(limit.bytes).unwrap_or(usize::MAX),
            remedy: limit.remedy,
        },
        UploadFault::FieldsTooLarge => Error::TooLarge {
            what: "The request body without field `content`".into(),
            limit: MAX_UPLOAD_FIELDS_BYTES,
            remedy: "Shorten its other fields.",
        },
        UploadFault::BadBase64 => Error::field(
            "content",
            "Field `content` must be base64 (RFC 4648), of either alphabet, with all of its padding or none.",
        ),
        UploadFault::NotUtf8 => Error::InvalidBody("It is not valid UTF-8. Encode it as UTF-8.".into()),
        UploadFault::Broken => Error::InvalidBody("It ended early. Send it again.".into()),
        UploadFault::Stalled => Error::UploadStalled,
    }
}
