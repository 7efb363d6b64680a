//! Uploads of files from web clients to a session's CLI (PROTOCOL.md "Uploads"). The content stays outside of wasm
//! memory ([`UploadBody`]): the hub builds only the frames around it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::{Either, select};
use serde::{Deserialize, Serialize};

use crate::hub::error::Error;
use crate::hub::peers::connections::{Connection, Peer};
use crate::hub::peers::rpc::{Call, RpcError};
use crate::hub::ports::{ConnId, UploadBody, UploadFault};
use crate::hub::workspace::chunks::ChunkedUpload;
use crate::hub::{FrameSlotGuard, Hub};
use crate::limits::{
    FRAME_UPLOAD_POLL_MS, FRAME_UPLOAD_TIMEOUT_MS, FRAME_UPLOAD_WAIT_MS, MAX_FILE_NAME_CHARS, MAX_FRAME_FILE_BYTES,
    MAX_UPLOAD_FIELDS_BYTES, MAX_UPLOAD_PATH_CHARS, UPLOAD_BYTES_PER_MS, UPLOAD_CHUNK_CHARS, UPLOAD_MEMORY_BYTES,
};
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::wire::fields::read_object;

/// The body of an upload. `content` is an empty string in place of the content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Upload {
    pub filename: String,
    content: String,
    pub mime_type: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UploadParams<'a> {
    content: &'a str,
    filename: &'a str,
    mime_type: &'a str,
}

#[derive(Serialize)]
struct DeleteParams<'a> {
    path: &'a str,
}

/// The limit of a file.
#[derive(Debug, Clone, Copy)]
pub struct FileLimit {
    bytes: u64,
    remedy: &'static str,
}

impl FileLimit {
    /// Returns the limit for a CLI that does not accept uploads in chunks.
    fn in_frame(self) -> Self {
        if self.bytes <= MAX_FRAME_FILE_BYTES {
            return self;
        }
        let remedy = "Send a smaller file, or update the session's CLI: it does not accept uploads in chunks.";
        Self { bytes: MAX_FRAME_FILE_BYTES, remedy }
    }
}

/// A slot in [`UploadSlots`](crate::hub::state::upload_slots::UploadSlots), released on drop.
struct UploadSlot<'a> {
    hub: &'a Hub,
    session: &'a str,
    /// Resolves when the slot is granted. `None` after that.
    granted: Option<oneshot::Receiver<()>>,
}

impl Drop for UploadSlot<'_> {
    fn drop(&mut self) {
        // A request that is canceled while it waits may have been granted the slot just before.
        let was_granted = self.granted.as_mut().is_none_or(|granted| matches!(granted.try_recv(), Ok(Some(()))));
        self.hub.state().upload_slots.release(self.session, was_granted);
    }
}

impl Hub {
    /// Sends a file to the session's CLI, and returns the CLI's result as JSON text.
    pub async fn upload(self: &Arc<Self>, id: &str, body: &dyn UploadBody) -> Result<String, Error> {
        let _slot = self.acquire_upload_slot(id).await?;
        let _memory = self.wait_for_memory(UPLOAD_MEMORY_BYTES).await?;
        let limit = self.upload_limit();
        let mut upload = read_upload(body, UPLOAD_CHUNK_CHARS, limit).await?;
        self.require_active(id).await?;
        let owner = Owner::Session(id.to_owned());
        let conn = self.upload_socket(&owner).await.map_err(upload_failed)?;
        if self.accepts_chunks(conn) {
            return ChunkedUpload::new(self, &owner, conn).send(body, upload).await;
        }
        let mut frame_slot = None;
        let frame_limit = limit.in_frame();
        if upload.is_none() {
            let slot = self.acquire_frame_slot().await?;
            let bytes = body.declared_length().unwrap_or(MAX_FRAME_CHARS).min(MAX_FRAME_CHARS);
            frame_slot = Some((slot, self.wait_for_memory(usize::try_from(bytes).unwrap_or(usize::MAX)).await?));
            let reading = read_upload(body, MAX_FRAME_CHARS, frame_limit);
            let timeout = self.rt.sleep(FRAME_UPLOAD_TIMEOUT_MS);
            upload = match select(std::pin::pin!(reading), timeout).await {
                Either::Left((upload, _)) => upload?,
                Either::Right(_) => return Err(Error::UploadTooSlow),
            };
        }
        let Some(upload) = upload else { return Err(fault_error(UploadFault::TooLarge, frame_limit)) };
        let timeout_ms = self.upload_timeout_ms(body.file_bytes());
        let call = self.open_call(&owner, Method::UploadFile, timeout_ms).await.map_err(upload_failed)?;
        let params =
            UploadParams { content: &upload.content, filename: &upload.filename, mime_type: &upload.mime_type };
        send_with_content(body, &call, &serde_json::to_string(&params).unwrap_or_default());
        let result = call.result().await.map_err(upload_failed);
        drop(frame_slot);
        result
    }

    pub(super) fn upload_limit(&self) -> FileLimit {
        FileLimit { bytes: self.config.uploads.max_file_bytes, remedy: "Send a smaller file." }
    }

    /// Returns how long the CLI may take to answer a call with this part of a file, in milliseconds.
    pub(super) fn upload_timeout_ms(&self, bytes: u64) -> u64 {
        self.config.rpc_timeout_ms + bytes / UPLOAD_BYTES_PER_MS
    }

    /// Returns the socket of the CLI that accepts uploads to a session. Waits for a CLI that reconnects.
    async fn upload_socket(&self, owner: &Owner) -> Result<ConnId, RpcError> {
        let call = self.open_call(owner, Method::UploadFile, self.config.rpc_timeout_ms).await?;
        self.state().rpc.cancel(&call);
        Ok(call.conn)
    }

    fn accepts_chunks(&self, conn: ConnId) -> bool {
        let state = self.state();
        matches!(state.connections.get(conn), Some(Connection { peer: Peer::Cli(cli), .. }) if cli.upload_chunks)
    }

    /// Waits until no other upload in the isolate needs the memory for a large frame.
    async fn acquire_frame_slot(&self) -> Result<FrameSlotGuard, Error> {
        let deadline = self.rt.now() + u64::from(FRAME_UPLOAD_WAIT_MS);
        loop {
            if let Some(slot) = self.config.uploads.frame_slot.try_acquire() {
                return Ok(slot);
            }
            if self.rt.now() >= deadline {
                return Err(Error::TooManyUploads(FRAME_SLOT_TIMEOUT));
            }
            self.rt.sleep(FRAME_UPLOAD_POLL_MS).await;
        }
    }

    /// Deletes an uploaded file through the session's CLI, and returns the CLI's result as JSON text.
    pub async fn delete_upload(self: &Arc<Self>, id: &str, path: &str) -> Result<String, Error> {
        check_length("path", path, 1..=MAX_UPLOAD_PATH_CHARS)?;
        self.require_active(id).await?;
        let params = serde_json::to_string(&DeleteParams { path }).unwrap_or_default();
        self.call(&Owner::Session(id.to_owned()), Method::DeleteUploadFile, &params).await.map_err(upload_failed)
    }

    async fn acquire_upload_slot<'a>(&'a self, session: &'a str) -> Result<UploadSlot<'a>, Error> {
        let granted = self.state().upload_slots.acquire(session)?;
        let mut slot = UploadSlot { hub: self, session, granted: Some(granted) };
        if let Some(granted) = &mut slot.granted {
            // The sender is in the hub's state, so it is never dropped first.
            let _ = granted.await;
        }
        slot.granted = None;
        Ok(slot)
    }
}

const FRAME_SLOT_TIMEOUT: &str =
    "Another file is being uploaded to a CLI that does not accept uploads in chunks: only one at a time is possible.";

/// The characters of base64 that the largest file in one frame has.
const MAX_FRAME_CHARS: u64 = MAX_FRAME_FILE_BYTES.div_ceil(3) * 4;

/// Reads a part of the body; at its end returns its other fields.
pub(super) async fn read_upload(
    body: &dyn UploadBody,
    capacity: u64,
    limit: FileLimit,
) -> Result<Option<Upload>, Error> {
    let fields = body.read(capacity, limit.bytes).await.map_err(|fault| fault_error(fault, limit))?;
    fields.map(|fields| Upload::parse(&fields)).transpose()
}

/// Sends a call with the buffered content in place of the empty string of the field `content`.
pub(super) fn send_with_content(body: &dyn UploadBody, call: &Call, params: &str) {
    // The frame is ASCII, as base64 is, because JavaScript stores ASCII text in one byte a character, and any other text in two.
    let frame = escape_non_ascii(&call.frame(params));
    // The last match is the content: the method's name comes before it, and quotes in a file name are escaped once more.
    let split = frame.rfind(CONTENT_START).map_or(frame.len(), |at| at + CONTENT_START.len());
    let (before_content, after_content) = frame.split_at(split);
    body.send(call.conn, before_content, after_content);
}

impl Upload {
    fn parse(fields: &str) -> Result<Self, Error> {
        let upload: Self = read_object(fields).map_err(Error::from_body)?;
        check_length("filename", &upload.filename, 1..=MAX_FILE_NAME_CHARS)?;
        // A browser reports an empty type for a file that it does not know.
        check_length("mimeType", &upload.mime_type, 0..=MAX_FILE_NAME_CHARS)?;
        Ok(upload)
    }
}

/// The text before the content in the frame. Params are JSON in a JSON string.
const CONTENT_START: &str = r#"\"content\":\""#;

/// Escapes all characters of JSON text that are not ASCII.
fn escape_non_ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

fn check_length(field: &str, text: &str, chars: RangeInclusive<usize>) -> Result<(), Error> {
    if chars.contains(&text.chars().count()) {
        return Ok(());
    }
    let (min, max) = chars.into_inner();
    Err(Error::field(field, format!("Field `{field}` must have {min} to {max} characters.")))
}

pub(super) fn upload_failed(error: RpcError) -> Error {
    Error::UploadFailed(error.to_string())
}

fn fault_error(fault: UploadFault, limit: FileLimit) -> Error {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_is_ascii_and_has_the_same_value() {
        let text = "{\"filename\":\"\u{fc}\u{1f600}\"}";
        let escaped = escape_non_ascii(text);
        assert!(escaped.is_ascii());
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&escaped), parse(text));
    }
}
