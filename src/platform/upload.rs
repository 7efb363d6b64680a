//! The body of an upload, which stays in JavaScript (`upload.js`).

use std::sync::Arc;

use futures::future::BoxFuture;
use wasm_bindgen_futures::JsFuture;
use worker::send::{SendFuture, SendWrapper};

use super::glue;
use super::runtime::ObjectRuntime;
use crate::hub::core::ports::{ConnId, UploadBody, UploadFault};
use crate::limits::{MAX_UPLOAD_FIELDS_BYTES, MIN_PROGRESS_BYTES, PROGRESS_TIMEOUT_MS};

/// The size of the largest body, in percent of the size of the file. The body is JSON with the file in base64: 4 bytes for 3
/// (133%), line breaks (`\r\n` after 76 characters, escaped in JSON: 140%), and the other fields.
const UPLOAD_BODY_PERCENT: u64 = 144;

pub struct JsUpload {
    upload: SendWrapper<glue::Upload>,
    runtime: Arc<ObjectRuntime>,
}

impl JsUpload {
    pub fn new(request: &web_sys::Request, runtime: Arc<ObjectRuntime>) -> Self {
        let upload = glue::Upload::of(request, MAX_UPLOAD_FIELDS_BYTES, MIN_PROGRESS_BYTES, PROGRESS_TIMEOUT_MS);
        Self { upload: SendWrapper::new(upload), runtime }
    }
}

pub fn max_body_bytes(max_file_bytes: u64) -> u64 {
    max_file_bytes / 100 * UPLOAD_BODY_PERCENT
}

impl UploadBody for JsUpload {
    #[allow(clippy::cast_precision_loss)] // A JavaScript number represents each limit exactly.
    fn read(&self, buffer_chars: u64, max_file_bytes: u64) -> BoxFuture<'_, Result<Option<String>, UploadFault>> {
        let max_body_bytes = max_body_bytes(max_file_bytes);
        let read = self.upload.read(buffer_chars as f64, max_file_bytes as f64, max_body_bytes as f64);
        Box::pin(SendFuture::new(async move {
            let result = JsFuture::from(read).await.map_err(|_| UploadFault::Broken)?;
            let result = js_sys::Array::from(&result);
            match result.get(0).as_string().unwrap_or_default().as_str() {
                "" => Ok(result.get(1).as_string()),
                fault => Err(fault.parse().unwrap_or(UploadFault::Broken)),
            }
        }))
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A length in bytes.
    fn file_bytes(&self) -> u64 {
        self.upload.size() as u64
    }

    fn send(&self, to: ConnId, prefix: &str, suffix: &str) {
        // Without a frame, the RPC call times out.
        if let Some(frame) = self.upload.frame(prefix, suffix) {
            self.runtime.send_text(to, &frame);
        }
    }
}

impl Drop for JsUpload {
    fn drop(&mut self) {
        self.upload.release();
    }
}
