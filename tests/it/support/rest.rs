//! HTTP requests to the router of the object.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use session_gateway_hub::http::respond;
use session_gateway_hub::http::response::Response;

use super::field_faults::names_field;
use super::prelude::*;

/// A response.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    /// Reads a response and its body.
    pub fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        Self { status: parts.status, headers: parts.headers, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("not JSON ({e}): {self:?}"))
    }

    /// The body of a response with status 200.
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Fails unless this is a well-formed error response with a status and code. Returns its body.
    pub fn assert_error(&self, status: u16, code: &str) -> Value {
        let body = self.json();
        assert_eq!((self.status.as_u16(), body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert!(body["error"].as_str().is_some_and(|message| message.len() > 10), "{self:?}");
        assert_eq!(self.headers["content-type"], "application/json");
        assert_eq!(self.headers["cache-control"], "no-store");
        assert_eq!(self.headers["x-content-type-options"], "nosniff");
        body
    }
}

impl Reply {
    /// Compares with an expected error response: the status and its headers, the code, and the invalid field (or empty),
    /// which the message must name. Returns a description of the difference.
    pub fn error_mismatch(&self, status: u16, code: &str, field: &str) -> Option<String> {
        let body: Value = serde_json::from_str(&self.text).unwrap_or_default();
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let header = |name| self.headers.get(name).map(|value| value.to_str().unwrap());
        let expected_for = |header_status: u16, value| (status == header_status).then_some(value);
        let is_expected = (self.status.as_u16(), text("code")) == (status, code)
            && text("error").len() > 10
            && text("error").contains(text("field"))
            && names_field(text("field"), field)
            && body.as_object().is_some_and(|body| body.len() == 2 + usize::from(!field.is_empty()))
            && header("content-type") == Some("application/json")
            && header("cache-control") == Some("no-store")
            && header("x-content-type-options") == Some("nosniff")
            && header("www-authenticate") == expected_for(401, "Bearer")
            && header("retry-after") == expected_for(503, "1").or(expected_for(429, "60"))
            && header("allow").is_some() == (status == 405)
            // The data of the other namespace in `RouteFixture` has this prefix.
            && !self.text.contains("secret-");
        let text = self.text.get(..300).unwrap_or(&self.text);
        (!is_expected).then(|| {
            format!("expected {status} {code} {field}, but received {} {:?} {text}", self.status, self.headers)
        })
    }
}

/// The response to a request that was started.
pub struct PendingReply(tokio::task::JoinHandle<Reply>);

impl PendingReply {
    pub fn of(reply: impl Future<Output = Reply> + Send + 'static) -> Self {
        Self(tokio::spawn(reply))
    }

    pub fn is_ready(&self) -> bool {
        self.0.is_finished()
    }

    /// Runs until idle. Returns whether the response has arrived.
    pub async fn has_response(&self) -> bool {
        run_until_idle().await;
        self.is_ready()
    }

    /// Aborts the request, as a crash of the object does.
    pub fn abort(self) {
        self.0.abort();
    }

    /// Waits for the response. A wait that can't end fails immediately.
    pub async fn reply(self) -> Reply {
        let reply = tokio::time::timeout(std::time::Duration::from_secs(1), self.0).await;
        reply.expect("no response").unwrap()
    }
}

/// Waits for the responses, which must have status 200.
pub async fn all_ok(replies: impl IntoIterator<Item = PendingReply>) {
    for reply in replies {
        reply.reply().await.ok();
    }
}

impl World {
    /// Sends a request without waiting for the response.
    pub fn start(&self, method: &str, path: &str, body: impl Into<Bytes>) -> PendingReply {
        let request = http::Request::builder().method(method).uri(path).body(body.into()).unwrap();
        let hub = self.hub();
        PendingReply::of(async move { Reply::of(respond(&hub, request).await) })
    }

    /// Like [`start`](Self::start). Runs until idle.
    pub async fn start_and_run(&self, method: &str, path: &str, body: impl Into<Bytes>) -> PendingReply {
        let reply = self.start(method, path, body);
        run_until_idle().await;
        reply
    }

    pub async fn request(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Reply {
        self.start(method, path, body).reply().await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.request("GET", path, "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.request("POST", path, body.to_string()).await
    }
}
