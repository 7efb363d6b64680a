//! REST requests to the object's router.

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use session_gateway_hub::http::{finalize, router};
use tower::ServiceExt;

use super::World;
use super::faults::names;

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    /// Reads an answer whole.
    pub async fn of(response: axum::response::Response) -> Self {
        let (parts, body) = finalize(response).await.into_parts();
        Self { status: parts.status, headers: parts.headers, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    /// The body.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("not JSON ({e}): {self:?}"))
    }

    /// The body of a 200.
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Fails unless the answer refuses with this status and code, in the shape that every refusal has.
    pub fn assert_error(&self, status: u16, code: &str) -> Value {
        let body = self.json();
        assert_eq!((self.status.as_u16(), body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert!(body["error"].as_str().is_some_and(|sentence| sentence.len() > 10), "{self:?}");
        assert_eq!(self.headers["content-type"], "application/json");
        assert_eq!(self.headers["cache-control"], "no-store");
        assert_eq!(self.headers["x-content-type-options"], "nosniff");
        body
    }
}

impl Reply {
    /// What is wrong with an answer that has to be this refusal, in the shape that every refusal has: status, code, the
    /// field that is at fault (or empty), a sentence that names it, and the headers that belong to the status.
    pub fn error_mismatch(&self, status: u16, code: &str, field: &str) -> Option<String> {
        let body: Value = serde_json::from_str(&self.text).unwrap_or_default();
        let word = |name: &str| body[name].as_str().unwrap_or_default();
        let header = |name| self.headers.get(name).map(|value| value.to_str().unwrap());
        let of_status = |only: u16, value| (status == only).then_some(value);
        let right = (self.status.as_u16(), word("code")) == (status, code)
            && word("error").len() > 10
            && word("error").contains(word("field"))
            && names(word("field"), field)
            && body.as_object().is_some_and(|body| body.len() == 2 + usize::from(!field.is_empty()))
            && header("content-type") == Some("application/json")
            && header("cache-control") == Some("no-store")
            && header("x-content-type-options") == Some("nosniff")
            && header("www-authenticate") == of_status(401, "Bearer")
            && header("retry-after") == of_status(503, "1")
            && header("allow").is_some() == (status == 405)
            // What the neighbour of a scene has.
            && !self.text.contains("secret-");
        let shown = self.text.get(..300).unwrap_or(&self.text);
        (!right).then(|| format!("not {status} {code} {field}, but {} {:?} {shown}", self.status, self.headers))
    }
}

/// An answer that may be waited for later.
pub struct PendingReply(tokio::task::JoinHandle<Reply>);

impl PendingReply {
    /// The answer that a task brings.
    pub fn of(answer: impl Future<Output = Reply> + Send + 'static) -> Self {
        Self(tokio::spawn(answer))
    }

    /// Whether the answer is there.
    pub fn is_ready(&self) -> bool {
        self.0.is_finished()
    }

    /// The request dies with the object that worked on it.
    pub fn abort(self) {
        self.0.abort();
    }

    /// The answer. A wait that nothing can end fails at once.
    pub async fn reply(self) -> Reply {
        let answer = tokio::time::timeout(std::time::Duration::from_secs(1), self.0).await;
        answer.expect("the answer never comes").unwrap()
    }
}

impl World {
    /// Sends a request; its answer may be waited for later.
    pub fn start(&self, method: &str, path: &str, body: impl Into<axum::body::Body>) -> PendingReply {
        let request = http::Request::builder().method(method).uri(path).body(body.into()).unwrap();
        let router = router(self.hub());
        PendingReply::of(async move { Reply::of(router.oneshot(request).await.unwrap()).await })
    }

    /// Sends a request and waits for its answer.
    pub async fn request(&self, method: &str, path: &str, body: impl Into<axum::body::Body>) -> Reply {
        self.start(method, path, body).reply().await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.request("GET", path, "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.request("POST", path, body.to_string()).await
    }
}
