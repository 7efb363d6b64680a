//! The body of an upload, held on the JavaScript side (`upload.js`).

use std::sync::Arc;

use futures::future::BoxFuture;
use wasm_bindgen_futures::JsFuture;
use worker::send::{SendFuture, SendWrapper};

use super::glue;
use super::runtime::ObjectRuntime;
use crate::hub::limits::{MAX_FILE_BYTES, MAX_UPLOAD_FIELDS_BYTES, MIN_UPLOAD_BYTES, STALL_TIMEOUT_MS};
use crate::hub::ports::{ConnId, UploadBody, UploadFault};

/// The body of a request that nobody has read yet.
pub struct JsUpload {
    upload: SendWrapper<glue::Upload>,
    runtime: Arc<ObjectRuntime>,
}

impl JsUpload {
    /// Takes the body of a request.
    pub fn new(request: &web_sys::Request, runtime: Arc<ObjectRuntime>) -> Self {
        Self { upload: SendWrapper::new(glue::Upload::of(request)), runtime }
    }
}

impl UploadBody for JsUpload {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A length in bytes, or -1.
    fn declared(&self) -> Option<u64> {
        Some(self.upload.declared()).filter(|length| *length >= 0.0).map(|length| length as u64)
    }

    #[allow(clippy::cast_precision_loss)] // A JavaScript number holds all four exactly.
    fn read(&self) -> BoxFuture<'_, Result<String, UploadFault>> {
        let read = self.upload.read(
            MAX_FILE_BYTES as f64,
            MAX_UPLOAD_FIELDS_BYTES as f64,
            MIN_UPLOAD_BYTES as f64,
            STALL_TIMEOUT_MS as f64,
        );
        Box::pin(SendFuture::new(async move {
            let read = JsFuture::from(read).await.map_err(|_| UploadFault::Broken)?;
            let read = js_sys::Array::from(&read);
            let text = |at| read.get(at).as_string().unwrap_or_default();
            fault(&text(0)).map_or_else(|| Ok(text(1)), Err)
        }))
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A length in bytes.
    fn length(&self) -> u64 {
        self.upload.length() as u64
    }

    fn send(&self, to: ConnId, head: &str, tail: &str) {
        match self.upload.frame(head, tail) {
            Ok(frame) => self.runtime.send_text(to, &frame),
            // The call ends with its time-out.
            Err(error) => worker::console_error!("the frame of an upload could not be made: {error:?}"),
        }
    }
}

impl Drop for JsUpload {
    fn drop(&mut self) {
        self.upload.drop();
    }
}

/// The faults by their words in `upload.js`.
fn fault(word: &str) -> Option<UploadFault> {
    Some(match word {
        "" => return None,
        "too-large" => UploadFault::TooLarge,
        "rest-too-large" => UploadFault::RestTooLarge,
        "bad-base64" => UploadFault::BadBase64,
        "not-utf8" => UploadFault::NotUtf8,
        "stalled" => UploadFault::Stalled,
        _ => UploadFault::Broken,
    })
}
