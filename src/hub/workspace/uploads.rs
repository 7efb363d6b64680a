//! Uploads of files from web clients to a session's CLI (PROTOCOL.md "Uploads"). The content stays outside of wasm
//! memory ([`UploadBody`]): the hub builds only the frame around it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use futures::channel::oneshot;
use serde::{Deserialize, Serialize};

use crate::hub::Hub;
use crate::hub::error::Error;
use crate::hub::peers::rpc::{Call, RpcError};
use crate::hub::ports::{UploadBody, UploadFault};
use crate::limits::{
    MAX_FILE_BYTES, MAX_FILE_NAME_CHARS, MAX_UPLOAD_BYTES, MAX_UPLOAD_FIELDS_BYTES, MAX_UPLOAD_PATH_CHARS,
    UPLOAD_BYTES_PER_MS,
};
use crate::model::method::Method;
use crate::model::owner::Owner;
use crate::wire::fields::read_object;

/// The body of an upload. `content` is an empty string in place of the content.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Upload {
    filename: String,
    content: String,
    mime_type: String,
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

/// A slot in [`UploadSlots`](crate::hub::state::upload_slots::UploadSlots), released on drop.
struct UploadSlot<'a> {
    hub: &'a Hub,
    session: &'a str,
    bytes: u64,
    /// Resolves when the memory is granted. `None` after that.
    granted: Option<oneshot::Receiver<()>>,
}

impl UploadSlot<'_> {
    /// Releases the memory beyond `bytes`.
    fn shrink_to(&mut self, bytes: u64) {
        let spare = self.bytes.saturating_sub(bytes);
        self.bytes -= spare;
        self.hub.state().upload_slots.shrink(spare);
    }
}

impl Drop for UploadSlot<'_> {
    fn drop(&mut self) {
        // A request that is canceled while it waits may have been granted the memory just before.
        let is_granted = self.granted.as_mut().is_none_or(|granted| matches!(granted.try_recv(), Ok(Some(()))));
        let bytes = if is_granted { self.bytes } else { 0 };
        self.hub.state().upload_slots.release(self.session, bytes);
    }
}

impl Hub {
    /// Sends a file to the session's CLI, and returns the CLI's result as JSON text.
    pub async fn upload(self: &Arc<Self>, id: &str, body: &dyn UploadBody) -> Result<String, Error> {
        let mut slot = self.acquire_upload_slot(id, body.declared_length().unwrap_or(MAX_UPLOAD_BYTES)).await?;
        let fields = body.read().await?;
        slot.shrink_to(body.length());
        let upload: Upload = read_object(&fields).map_err(Error::from_body)?;
        upload.check()?;
        self.require_active(id).await?;
        let timeout_ms = self.config.rpc_timeout_ms + slot.bytes / UPLOAD_BYTES_PER_MS;
        let owner = Owner::Session(id.to_owned());
        let call = self.open_call(&owner, Method::UploadFile, timeout_ms).await.map_err(upload_failed)?;
        let (before_content, after_content) = upload.split_frame(&call);
        body.send(call.conn, &before_content, &after_content);
        call.result().await.map_err(upload_failed)
    }

    /// Deletes an uploaded file through the session's CLI, and returns the CLI's result as JSON text.
    pub async fn delete_upload(self: &Arc<Self>, id: &str, path: &str) -> Result<String, Error> {
        check_length("path", path, 1..=MAX_UPLOAD_PATH_CHARS)?;
        self.require_active(id).await?;
        let params = serde_json::to_string(&DeleteParams { path }).unwrap_or_default();
        self.call(&Owner::Session(id.to_owned()), Method::DeleteUploadFile, &params).await.map_err(upload_failed)
    }

    /// Waits for memory. An upload above the limit gets a slot too: `UploadBody::read` rejects it.
    async fn acquire_upload_slot<'a>(&'a self, session: &'a str, bytes: u64) -> Result<UploadSlot<'a>, Error> {
        let bytes = bytes.min(MAX_UPLOAD_BYTES);
        let granted = self.state().upload_slots.acquire(session, bytes)?;
        let mut slot = UploadSlot { hub: self, session, bytes, granted: Some(granted) };
        if let Some(granted) = &mut slot.granted {
            // The sender is in the hub's state, so it is never dropped first.
            let _ = granted.await;
        }
        slot.granted = None;
        Ok(slot)
    }
}

impl Upload {
    fn check(&self) -> Result<(), Error> {
        check_length("filename", &self.filename, 1..=MAX_FILE_NAME_CHARS)?;
        // A browser reports an empty type for a file that it does not know.
        check_length("mimeType", &self.mime_type, 0..=MAX_FILE_NAME_CHARS)
    }

    /// Returns the frame of the call before and after the content. The frame is ASCII, as base64 is, because JavaScript
    /// stores ASCII text in one byte a character, and any other text in two.
    fn split_frame(&self, call: &Call) -> (String, String) {
        let params = UploadParams { content: &self.content, filename: &self.filename, mime_type: &self.mime_type };
        let frame = escape_non_ascii(&call.frame(&serde_json::to_string(&params).unwrap_or_default()));
        // The last match is the content: the method's name comes before it, and quotes in a file name are escaped once
        // more.
        let split = frame.rfind(CONTENT_START).map_or(frame.len(), |at| at + CONTENT_START.len());
        let (before_content, after_content) = frame.split_at(split);
        (before_content.to_owned(), after_content.to_owned())
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

fn upload_failed(error: RpcError) -> Error {
    Error::UploadFailed(error.to_string())
}

impl From<UploadFault> for Error {
    fn from(fault: UploadFault) -> Self {
        match fault {
            UploadFault::TooLarge => Self::TooLarge {
                what: "The file in field `content`".into(),
                limit: MAX_FILE_BYTES,
                remedy: "Send a smaller file.",
            },
            UploadFault::FieldsTooLarge => Self::TooLarge {
                what: "The request body without field `content`".into(),
                limit: MAX_UPLOAD_FIELDS_BYTES,
                remedy: "Shorten its other fields.",
            },
            UploadFault::BadBase64 => Self::field(
                "content",
                "Field `content` must be base64 (RFC 4648), of either alphabet, with all of its padding or none.",
            ),
            UploadFault::NotUtf8 => Self::InvalidBody("It is not valid UTF-8. Encode it as UTF-8.".into()),
            UploadFault::Broken => Self::InvalidBody("It ended early. Send it again.".into()),
            UploadFault::Stalled => Self::UploadStalled,
        }
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
