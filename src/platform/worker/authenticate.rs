//! Signing in, the requests of new devices, and reads whose token is checked meanwhile, in the worker.

use std::rc::Rc;

use futures::future::join;
use wasm_bindgen::JsValue;
use web_sys::Response;

use super::{IncomingRequest, MAX_AUTH_BODY_BYTES, Result, ServedResponse};
use crate::http::devices::PairingStep;
use crate::http::edge::Action;
use crate::platform::convert;
use crate::platform::settings::generate_secret;
use crate::platform::time::now;

impl IncomingRequest {
    /// Performs a read while its token is checked. Discards the response if the token is not valid.
    pub(super) async fn serve_unchecked(self: Rc<Self>, read: Action) -> Result<ServedResponse> {
        let check = self.state.edge.verify_token(&self.head, now(), &generate_secret);
        let (served, checked) = join(Box::pin(Rc::clone(&self).serve(read)), check).await;
        let Err(error) = checked else { return served };
        if let Some(body) = served.ok().and_then(|served| served.response.body()) {
            // Frees what the object holds for the response.
            let _ = body.cancel();
        }
        Ok(convert::to_js_error(error).into())
    }

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
