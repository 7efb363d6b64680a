//! Signing in, the requests of new devices, answers from notifications, and reads whose token is checked meanwhile, in the worker.

use std::rc::Rc;

use futures::future::join;
use js_sys::Uint8Array;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Request, RequestInit, Response};

use super::{IncomingRequest, MAX_AUTH_BODY_BYTES, Result};
use crate::http::authentication::rate_limit_key;
use crate::http::edge::Action;
use crate::http::error::ErrorResponse;
use crate::platform::convert;
use crate::platform::settings::AUTH_RATE_LIMIT;
use crate::platform::time::now;

impl IncomingRequest {
    /// Performs a read while its token is checked. Discards the response if the token is not valid.
    pub(super) async fn serve_unchecked(self: Rc<Self>, read: Action) -> Result<(Response, bool)> {
        let check = self.state.edge.verify_token(&self.head, now());
        let (served, checked) = join(Box::pin(Rc::clone(&self).serve(read)), check).await;
        let Err(error) = checked else { return served };
        if let Some(body) = served.ok().and_then(|(response, _)| response.body()) {
            // Frees what the object holds for the response.
            let _ = body.cancel();
        }
        Ok((convert::to_js_error(error), false))
    }

    /// Signs in, handles a request of a new device, or forwards an answer from a notification.
    pub(super) async fn authenticate(&self, action: Action) -> Result<Response> {
        let prefix = match action {
            Action::Pair(step) => step.attempts_prefix(),
            Action::Answer => "answer ",
            _ => "",
        };
        if let Some(refusal) = self.count_attempt(prefix).await? {
            return Ok(refusal);
        }
        let declared = convert::declared_length(&self.request);
        let body = match convert::read_body(&self.request, declared, MAX_AUTH_BODY_BYTES, &JsValue::UNDEFINED).await? {
            Ok(body) => body,
            Err(error) => return Ok(convert::to_js_error(error)),
        };
        let edge = &self.state.edge;
        let response = match action {
            Action::Answer => match edge.verify_answer(&body, now()).await {
                Ok(namespace) => return self.forward_answer(namespace.as_str(), &body).await,
                Err(error) => return Ok(convert::to_js_error(error)),
            },
            Action::Pair(step) => edge.pair(step, &self.head, &body, now()).await,
            _ => edge.authentication.sign_in(&body, now()).await,
        };
        Ok(convert::to_js_response(&response))
    }

    /// Counts a request of this client address, separately for each `prefix`. Returns a 429 response if there were too many.
    pub(super) async fn count_attempt(&self, prefix: &str) -> Result<Option<Response>> {
        let key = prefix.to_owned() + &rate_limit_key(&self.head.client);
        if let Ok(limiter) = self.env.rate_limiter(AUTH_RATE_LIMIT)
            && !limiter.limit(key).await?.success
        {
            return Ok(Some(convert::to_js_error(ErrorResponse::rate_limited(60))));
        }
        Ok(None)
    }

    async fn forward_answer(&self, namespace: &str, body: &[u8]) -> Result<Response> {
        let init = RequestInit::new();
        init.set_method("POST");
        init.set_body(&Uint8Array::from(body));
        let request = Request::new_with_str_and_init(&self.request.url(), &init)?;
        let (objects, timeout_ms) = (&self.state.objects, self.state.object_timeout_ms);
        let response = objects.forward(namespace, "", &request, timeout_ms, "", None);
        // The platform ends a request when its client disconnects. With `wait_until`, the object still receives it.
        let _ = self.context.wait_until(&response);
        Ok(JsFuture::from(response).await?.into())
    }
}
