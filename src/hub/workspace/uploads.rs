//! Uploads of files from web clients to a session's CLI (PROTOCOL-WEB.md "Uploads"). The content stays outside of wasm
//! memory ([`UploadBody`]): the hub builds only the frames around it.

use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::{Either, select};

use crate::hub::core::error::Error;
use crate::hub::core::peers::connections::{Connection, Peer};
use crate::hub::core::peers::rpc::RpcError;
use crate::hub::core::ports::{ConnId, UploadBody, UploadFault};
use crate::hub::turn::Turn;
use crate::hub::workspace::chunks::{ChunkedUpload, UPLOAD_CHUNK_CHARS};
use crate::hub::workspace::upload_body::{
    FileLimit, MAX_FRAME_FILE_BYTES, UploadFields, check_length, fault_to_error, read_upload, send_with_content,
    to_upload_error,
};
use crate::hub::{FrameUploadTicket, Hub};
use crate::limits::{
    CONTESTED_UPLOAD_BYTES_PER_MS, FRAME_UPLOAD_BYTES_PER_MS, FRAME_UPLOAD_SLOT_TIMEOUT_MS, MIN_CACHED_BYTES,
    PROGRESS_TIMEOUT_MS,
};
use crate::memory_budget::{MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};
use crate::model::json::Json;
use crate::model::method::Method;
use crate::model::owner::Owner;

/// The memory of an upload in chunks, in bytes: one read of the body (128 KiB), a chunk, and a frame in flight.
pub const UPLOAD_MEMORY_BYTES: usize = 128 * 1024 + 2 * 512 * 1024;
const _: () = assert!(UPLOAD_MEMORY_BYTES + MIN_CACHED_BYTES < NAMESPACE_SHARE_BYTES);

/// The longest path of an uploaded file, in characters.
const MAX_UPLOAD_PATH_CHARS: usize = 4_096;
/// The memory that an upload in one large frame reserves, in bytes: half of the pool. The reservation covers the content of up to
/// 67 MiB, which is in the isolate's JavaScript memory, outside of wasm memory.
const FRAME_UPLOAD_MEMORY_BYTES: usize = MAX_POOL_BYTES / 2;
/// The interval at which a waiting upload tries again, in milliseconds: one object cannot wake a request of another object.
const FRAME_UPLOAD_POLL_MS: u64 = 100;
/// For this time, in milliseconds, the throughput of a client is not checked.
const FRAME_UPLOAD_GRACE_MS: u64 = 60_000;
/// The assumed throughput of a CLI's connection, in bytes a millisecond (2 Mbit/s). The timeout of an upload is computed from
/// this throughput.
const UPLOAD_BYTES_PER_MS: u64 = 256;

/// The number of base64 characters of the largest file that is sent in one frame.
const MAX_FRAME_CHARS: u64 = MAX_FRAME_FILE_BYTES.div_ceil(3) * 4;

const NO_FRAME_UPLOAD_SLOT: &str = "The session's CLI does not accept uploads in chunks. The hub sends such CLIs one large \
    file at a time, and was busy for 60 seconds.";

/// A slot in [`UploadSlots`](crate::hub::core::uploads::UploadSlots), released on drop.
struct UploadSlot<'a> {
    hub: &'a Hub,
    session: &'a str,
    /// Resolves when the slot is granted. `None` after that.
    grant: Option<oneshot::Receiver<()>>,
}

impl Drop for UploadSlot<'_> {
    fn drop(&mut self) {
        // A request that is canceled while it waits may just have been granted the slot.
        let was_granted = self.grant.as_mut().is_none_or(|grant| matches!(grant.try_recv(), Ok(Some(()))));
        self.hub.turn().upload_slots.release(self.session, was_granted);
    }
}

impl Hub {
    /// Sends a file to the session's CLI, and returns the CLI's result as JSON text.
    pub async fn upload(self: &Arc<Self>, id: &str, body: &dyn UploadBody) -> Result<String, Error> {
        let _slot = self.acquire_upload_slot(id).await?;
        let _memory = self.wait_for_memory(UPLOAD_MEMORY_BYTES).await?;
        let limit = self.upload_limit();
        let upload = read_upload(body, UPLOAD_CHUNK_CHARS, limit).await?;
        self.require_active(id).await?;
        let owner = Owner::Session(id.to_owned());
        let conn = self.find_upload_socket(&owner).await.map_err(to_upload_error)?;
        if self.turn().accepts_chunks(conn) {
            return ChunkedUpload::new(self, &owner, conn).send(body, upload).await;
        }
        self.send_in_frame(body, upload, &owner, limit.for_one_frame()).await
    }

    /// Sends a file in one frame. `upload` is `None` if the file is longer than the first chunk, so that the whole file must still
    /// be read.
    async fn send_in_frame(
        self: &Arc<Self>,
        body: &dyn UploadBody,
        upload: Option<UploadFields>,
        owner: &Owner,
        limit: FileLimit,
    ) -> Result<String, Error> {
        let (upload, slot_and_memory) = match upload {
            Some(upload) => (upload, None),
            None => {
                let slot = self.acquire_frame_upload_slot().await?;
                let memory = self.wait_for_memory(FRAME_UPLOAD_MEMORY_BYTES).await?;
                (self.read_whole_file(body, limit, &slot).await?, Some((slot, memory)))
            }
        };
        let timeout_ms = self.upload_timeout_ms(body.file_bytes());
        let call = self.open_call(owner, Method::UploadFile, timeout_ms).await.map_err(to_upload_error)?;
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
        let ping = self.turn().ping_after_frame(conn);
        while !self.has_answered_ping(conn, ping) {
            self.rt.sleep(FRAME_UPLOAD_POLL_MS).await;
        }
    }

    /// Reads the whole file. Fails if the client is slow, because other uploads wait for the slot.
    async fn read_whole_file(
        &self,
        body: &dyn UploadBody,
        limit: FileLimit,
        ticket: &FrameUploadTicket,
    ) -> Result<UploadFields, Error> {
        let started_at = self.rt.now();
        // When another namespace began to wait for the slot, and the bytes that were read before.
        let mut contested_since = None;
        let mut reading = std::pin::pin!(read_upload(body, MAX_FRAME_CHARS, limit));
        loop {
            match select(reading.as_mut(), self.rt.sleep(PROGRESS_TIMEOUT_MS.into())).await {
                Either::Left((upload, _)) => {
                    return upload?.ok_or_else(|| fault_to_error(UploadFault::TooLarge, limit));
                }
                Either::Right(_) => {
                    let now = self.rt.now();
                    let bytes = body.file_bytes();
                    contested_since = ticket.is_contested(now).then(|| contested_since.unwrap_or((now, bytes)));
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

    pub(super) fn upload_limit(&self) -> FileLimit {
        FileLimit::new(self.config.uploads.max_file_bytes)
    }

    /// Returns how long the CLI may take to answer a call with `bytes` of a file, in milliseconds.
    pub(super) fn upload_timeout_ms(&self, bytes: u64) -> u64 {
        self.config.rpc_timeout_ms + bytes / UPLOAD_BYTES_PER_MS
    }

    /// Returns the socket of the CLI that accepts uploads to a session. Waits for a CLI that may reconnect.
    async fn find_upload_socket(&self, owner: &Owner) -> Result<ConnId, RpcError> {
        let call = self.open_call(owner, Method::UploadFile, self.config.rpc_timeout_ms).await?;
        self.turn().rpc.cancel(&call);
        Ok(call.conn)
    }

    /// Waits until no other upload in the isolate needs the memory for a large frame.
    async fn acquire_frame_upload_slot(&self) -> Result<FrameUploadTicket, Error> {
        let deadline = self.rt.now() + u64::from(FRAME_UPLOAD_SLOT_TIMEOUT_MS);
        let mut ticket = self.config.uploads.frame_upload_slot.join_queue(self.config.namespace.as_ref(), deadline);
        while !ticket.try_acquire(self.rt.now()) {
            if self.rt.now() >= deadline {
                return Err(Error::TooManyUploads(NO_FRAME_UPLOAD_SLOT));
            }
            self.rt.sleep(FRAME_UPLOAD_POLL_MS).await;
        }
        Ok(ticket)
    }

    /// Deletes an uploaded file through the session's CLI, and returns the CLI's result as JSON text.
    pub async fn delete_upload(self: &Arc<Self>, id: &str, path: &str) -> Result<String, Error> {
        check_length("path", path, 1..=MAX_UPLOAD_PATH_CHARS)?;
        self.require_active(id).await?;
        let params = Json::object(&[("path", Json::of(path))]);
        let deleted = self.call(&Owner::Session(id.to_owned()), Method::DeleteUploadFile, params.text()).await;
        deleted.map_err(to_upload_error)
    }

    async fn acquire_upload_slot<'a>(&'a self, session: &'a str) -> Result<UploadSlot<'a>, Error> {
        let grant = self.turn().upload_slots.request(session)?;
        let mut slot = UploadSlot { hub: self, session, grant: Some(grant) };
        if let Some(grant) = &mut slot.grant {
            // The sender is in the hub's state, so it is never dropped first.
            let _ = grant.await;
        }
        slot.grant = None;
        Ok(slot)
    }
}

impl Turn<'_> {
    fn accepts_chunks(&mut self, conn: ConnId) -> bool {
        matches!(self.state.connections.get(conn), Some(Connection { peer: Peer::Cli(cli), .. }) if cli.accepts_upload_chunks)
    }
}
