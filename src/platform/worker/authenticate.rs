//! Signing in, and the requests of new devices, in the worker.

use wasm_bindgen::JsValue;
use web_sys::Response;

use super::{IncomingRequest, MAX_AUTH_BODY_BYTES, Result};
use crate::http::devices::PairingStep;
use crate::platform::convert;
use crate::platform::settings::generate_secret;
use crate::platform::time::now;

impl IncomingRequest {
    /// Signs in, or handles a request of a new device.
    pub(super) async fn authenticate(&self, step: Option<PairingStep>) -> Result<Response> {
        let response = self.try_authenticate(step).await;
        convert::discard_body(&self.request).await;
        response
    }

    async fn try_authenticate(&self, step: Option<PairingStep>) -> Result<Response> {
        let prefix = step.map_or("", PairingStep::attempts_prefix);
        if let Some(refusal) = self.count_attempt(prefix).await? {
            return Ok(refusal);
        }
        let declared = convert::declared_length(&self.request);
        let body = match convert::read_body(&self.request, declared, MAX_AUTH_BODY_BYTES, &JsValue::UNDEFINED).await? {
            Ok(body) => body,
            Err(error) => return Ok(convert::to_js_error(error)),
        };
        let edge = &self.state.edge;
        let response = match step {
            None => edge.authentication.sign_in(&body, now(), &generate_secret).await,
            Some(step) => edge.pair(step, &self.head, &body, now(), &generate_secret).await,
        };
        Ok(convert::to_js_response(&response))
    }
}
