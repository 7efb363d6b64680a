//! `POST /api/answers` in the worker.

use js_sys::Uint8Array;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Request, RequestInit, Response};

use super::{IncomingRequest, MAX_AUTH_BODY_BYTES, Result};
use crate::platform::convert;
use crate::platform::settings::generate_secret;
use crate::platform::time::now;

impl IncomingRequest {
    /// `POST /api/answers`. Limited like signing in, because it needs no token in the header.
    pub(super) async fn answer(&self) -> Result<Response> {
        let response = self.try_answer().await;
        convert::discard_body(&self.request).await;
        response
    }

    async fn try_answer(&self) -> Result<Response> {
        if let Some(refusal) = self.count_attempt("answer ").await? {
            return Ok(refusal);
        }
        let declared = convert::declared_length(&self.request);
        let body = match convert::read_body(&self.request, declared, MAX_AUTH_BODY_BYTES, &JsValue::UNDEFINED).await? {
            Ok(body) => body,
            Err(error) => return Ok(convert::to_js_error(error)),
        };
        let namespace = match self.state.edge.verify_answer(&body, now(), &generate_secret).await {
            Ok(namespace) => namespace,
            Err(error) => return Ok(convert::to_js_error(error)),
        };
        let init = RequestInit::new();
        init.set_method("POST");
        init.set_body(&Uint8Array::from(body.as_slice()));
        let request = Request::new_with_str_and_init(&self.request.url(), &init)?;
        let (objects, timeout_ms) = (&self.state.objects, self.state.object_timeout_ms);
        let response = objects.forward(namespace.as_ref(), "", &request, timeout_ms, "", None);
        // The platform ends a request when its client disconnects. With `wait_until`, the object still receives it.
        let _ = self.context.wait_until(&response);
        Ok(JsFuture::from(response).await?.into())
    }
}
