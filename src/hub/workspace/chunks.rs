//! Uploads in chunks (PROTOCOL-CLI.md "Uploads in chunks").

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::peers::rpc::{Call, RpcError, rejection_reason};
use crate::hub::core::ports::{ConnId, UploadBody};
use crate::hub::workspace::upload_body::{UploadFields, read_upload, send_with_content, to_upload_error};
use crate::model::json::Json;
use crate::model::method::Method;
use crate::model::owner::Owner;
use futures::future::try_join;

/// The content of a chunk of an upload, in characters of base64: a multiple of 4.
pub const UPLOAD_CHUNK_CHARS: u64 = 512 * 1024;

/// An upload in chunks. If the upload is dropped before its end, the CLI gets a call to discard the part that it has.
pub struct ChunkedUpload<'a> {
    hub: &'a Hub,
    owner: &'a Owner,
    conn: ConnId,
    id: String,
    /// Whether the CLI has a part of the file, and expects the rest.
    is_partial: bool,
}

impl<'a> ChunkedUpload<'a> {
    /// Creates an upload to the CLI with the socket `conn`.
    pub fn new(hub: &'a Hub, owner: &'a Owner, conn: ConnId) -> Self {
        Self { hub, owner, conn, id: hub.new_id(), is_partial: false }
    }

    /// Sends the buffered content and the rest of the body, one chunk at a time. While the CLI processes a chunk, the hub reads
    /// the next one. `fields` is `Some` once the whole body has been read. Returns the CLI's result of the last chunk, or of a
    /// chunk that the CLI refused, as JSON text.
    pub async fn send(mut self, body: &dyn UploadBody, mut fields: Option<UploadFields>) -> Result<String, Error> {
        let mut offset = 0;
        loop {
            let bytes = body.file_bytes() - offset;
            let timeout_ms = self.hub.upload_timeout_ms(bytes);
            let call = self.open_call(timeout_ms).await.map_err(to_upload_error)?;
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
            let next_fields =
                async { read_upload(body, UPLOAD_CHUNK_CHARS, self.hub.upload_limit()).await.map_err(Err) };
            fields = match try_join(next_fields, accepted).await {
                Ok((fields, ())) => fields,
                Err(outcome) => {
                    self.is_partial = outcome.is_err();
                    return outcome;
                }
            };
        }
    }

    /// Opens a call to the socket that received the first chunk.
    async fn open_call(&self, timeout_ms: u64) -> Result<Call, RpcError> {
        let call = self.hub.open_call(self.owner, Method::UploadChunk, timeout_ms).await?;
        if call.conn == self.conn {
            return Ok(call);
        }
        self.hub.turn().rpc.cancel(&call);
        Err(RpcError::Disconnected(Method::UploadChunk.to_string()))
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
