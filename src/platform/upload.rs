//! The body of an upload, which stays in JavaScript (`upload.js`).

use std::sync::Arc;

use futures::future::BoxFuture;
use wasm_bindgen_futures::JsFuture;
use worker::send::{SendFuture, SendWrapper};

use super::glue;
use super::runtime::ObjectRuntime;
use crate::hub::ports::{ConnId, UploadBody, UploadFault};
use crate::limits::{MAX_FILE_BYTES, MAX_UPLOAD_BYTES, MAX_UPLOAD_FIELDS_BYTES, MIN_PROGRESS_BYTES, STALL_TIMEOUT_MS};

pub struct JsUpload {
    upload: SendWrapper<glue::Upload>,
    runtime: Arc<ObjectRuntime>,
}

impl JsUpload {
    pub fn new(request: &web_sys::Request, runtime: Arc<ObjectRuntime>) -> Self {
        Self { upload: SendWrapper::new(glue::Upload::of(request)), runtime }
    }
}

impl UploadBody for JsUpload {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A length in bytes, or -1.
    fn declared_length(&self) -> Option<u64> {
        Some(self.upload.declared()).filter(|length| *length >= 0.0).map(|length| length as u64)
    }

    #[allow(clippy::cast_precision_loss)] // A JavaScript number represents each limit exactly.
    fn read(&self) -> BoxFuture<'_, Result<String, UploadFault>> {
        let read = self.upload.read(
            MAX_UPLOAD_BYTES as f64,
            MAX_FILE_BYTES as f64,
            MAX_UPLOAD_FIELDS_BYTES as f64,
            MIN_PROGRESS_BYTES.into(),
            STALL_TIMEOUT_MS.into(),
        );
        Box::pin(SendFuture::new(async move {
            let result = JsFuture::from(read).await.map_err(|_| UploadFault::Broken)?;
            let result = js_sys::Array::from(&result);
            let text = |index| result.get(index).as_string().unwrap_or_default();
            match text(0).as_str() {
                "" => Ok(text(1)),
                fault => Err(fault.parse().unwrap_or(UploadFault::Broken)),
            }
        }))
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A length in bytes.
    fn length(&self) -> u64 {
        self.upload.length() as u64
    }

    fn send(&self, to: ConnId, head: &str, tail: &str) {
        match self.upload.frame(head, tail) {
            Ok(frame) => self.runtime.send_text(to, &frame),
            // Nothing is sent, so the RPC call times out.
            Err(error) => worker::console_error!("building the frame of an upload failed: {error:?}"),
        }
    }
}

impl Drop for JsUpload {
    fn drop(&mut self) {
        self.upload.drop();
    }
}
