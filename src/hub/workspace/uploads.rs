//! Uploads: a file on its way from a web client to a session's CLI. Its content only passes through, outside of the hub's
//! memory ([`UploadBody`]); what the hub adds is written around it.

use std::sync::Arc;

use futures::channel::oneshot;
use serde::{Deserialize, Serialize};

use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::limits::MAX_UPLOAD_BYTES;
use crate::hub::limits::{
    MAX_FILE_BYTES, MAX_FILE_NAME_CHARS, MAX_UPLOAD_FIELDS_BYTES, MAX_UPLOAD_PATH_CHARS, MIN_UPLOAD_BYTES,
    STALL_TIMEOUT_MS, UPLOAD_BYTES_PER_MS,
};
use crate::hub::peers::rpc::{Call, RpcError};
use crate::hub::ports::{UploadBody, UploadFault};
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::wire::fields::read_object;

/// The body of an upload; `content` is an empty string, since the content stays outside.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Upload {
    filename: String,
    content: String,
    mime_type: String,
}

/// The params of `uploadFile`.
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

/// An upload's place among [`UploadSlots`](crate::hub::state::upload_slots::UploadSlots), released when it is dropped.
struct UploadSlot<'a> {
    hub: &'a Hub,
    session: &'a str,
    bytes: u64,
    /// Resolves when the memory is granted; `None` once that was received.
    granted: Option<oneshot::Receiver<()>>,
}

impl UploadSlot<'_> {
    /// Returns the memory beyond `bytes`.
    fn shrink_to(&mut self, bytes: u64) {
        let spare = self.bytes.saturating_sub(bytes);
        self.bytes -= spare;
        self.hub.state().upload_slots.shrink(spare);
    }
}

impl Drop for UploadSlot<'_> {
    fn drop(&mut self) {
        // A canceled upload may have been granted its memory without having received that.
        let is_granted = self.granted.as_mut().is_none_or(|granted| matches!(granted.try_recv(), Ok(Some(()))));
        let bytes = if is_granted { self.bytes } else { 0 };
        self.hub.state().upload_slots.release(self.session, bytes);
    }
}

impl Hub {
    /// Hands a file to the session's CLI; answers what the CLI answered, as JSON text.
    pub async fn upload(self: &Arc<Self>, id: &str, body: &dyn UploadBody) -> Result<String, Error> {
        let mut slot = self.acquire_upload_slot(id, body.declared_length().unwrap_or(MAX_UPLOAD_BYTES)).await?;
        let rest = body.read().await?;
        slot.shrink_to(body.length());
        let upload: Upload = read_object(&rest).map_err(Error::from_body)?;
        upload.check()?;
        self.require_active(id).await?;
        let limit = self.config.rpc_timeout_ms + slot.bytes / UPLOAD_BYTES_PER_MS;
        let call = self.open_call(&Owner::Session(id.to_owned()), Method::UploadFile, limit).await.map_err(failed)?;
        let (head, tail) = upload.around(&call);
        body.send(call.conn, &head, &tail);
        call.result().await.map_err(failed)
    }

    /// Has the session's CLI delete an uploaded file; answers what it answered, as JSON text.
    pub async fn delete_upload(self: &Arc<Self>, id: &str, path: &str) -> Result<String, Error> {
        check_length("path", path, MAX_UPLOAD_PATH_CHARS)?;
        self.require_active(id).await?;
        let params = serde_json::to_string(&DeleteParams { path }).unwrap_or_default();
        self.call(&Owner::Session(id.to_owned()), Method::DeleteUploadFile, &params).await.map_err(failed)
    }

    /// Waits until an upload may be in memory. An upload larger than the limit gets a slot, and is refused while it is read.
    async fn acquire_upload_slot<'a>(&'a self, session: &'a str, bytes: u64) -> Result<UploadSlot<'a>, Error> {
        let bytes = bytes.min(MAX_UPLOAD_BYTES);
        let granted = self.state().upload_slots.acquire(session, bytes)?;
        let mut slot = UploadSlot { hub: self, session, bytes, granted: Some(granted) };
        if let Some(granted) = &mut slot.granted {
            // Not canceled: the sender lives as long as the hub.
            let _ = granted.await;
        }
        slot.granted = None;
        Ok(slot)
    }
}

impl Upload {
    fn check(&self) -> Result<(), Error> {
        check_length("filename", &self.filename, MAX_FILE_NAME_CHARS)?;
        check_length("mimeType", &self.mime_type, MAX_FILE_NAME_CHARS)
    }

    /// The frame of the call, cut in two where the content belongs. ASCII, so that with the content, which is ASCII too, it
    /// takes one byte a character.
    fn around(&self, call: &Call) -> (String, String) {
        let params = UploadParams { content: &self.content, filename: &self.filename, mime_type: &self.mime_type };
        let frame = ascii(&call.frame(&serde_json::to_string(&params).unwrap_or_default()));
        // From behind: what the CLI registered stands before it, and a file name would have its quotes escaped once more.
        let place = frame.rfind(CONTENT).map_or(frame.len(), |at| at + CONTENT.len());
        let (head, tail) = frame.split_at(place);
        (head.to_owned(), tail.to_owned())
    }
}

/// How the content begins in the frame: params are JSON inside a JSON string.
const CONTENT: &str = r#"\"content\":\""#;

/// JSON text with everything but ASCII escaped.
fn ascii(text: &str) -> String {
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

fn check_length(field: &str, text: &str, longest: usize) -> Result<(), Error> {
    if (1..=longest).contains(&text.chars().count()) {
        return Ok(());
    }
    Err(Error::field(field, format!("Field `{field}` must have 1 to {longest} characters.")))
}

fn failed(error: RpcError) -> Error {
    Error::UploadFailed(error.to_string())
}

impl From<UploadFault> for Error {
    fn from(fault: UploadFault) -> Self {
        match fault {
            UploadFault::TooLarge => Self::TooLarge { what: "file", limit: MAX_FILE_BYTES },
            UploadFault::FieldsTooLarge => {
                Self::TooLarge { what: "body beside its `content`", limit: MAX_UPLOAD_FIELDS_BYTES }
            }
            UploadFault::BadBase64 => {
                Self::field("content", "Field `content` must be base64 with padding: A-Z a-z 0-9 + / and = at its end.")
            }
            UploadFault::NotUtf8 => Self::InvalidBody("It is not valid UTF-8.".into()),
            UploadFault::Broken => Self::InvalidBody("It broke off before its end.".into()),
            UploadFault::Stalled => {
                Self::UploadStalled { kib: MIN_UPLOAD_BYTES / 1024, seconds: STALL_TIMEOUT_MS / 1000 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_around_a_content_is_ascii_and_still_says_the_same() {
        let text = "{\"filename\":\"\u{fc}\u{1f600}\"}";
        let escaped = ascii(text);
        assert!(escaped.is_ascii());
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&escaped), read(text));
    }
}
