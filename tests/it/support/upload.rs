//! A fake of [`ExternalBody`], the body of an upload that stays in JavaScript.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use serde_json::value::RawValue;
use session_gateway_hub::http::extract::ExternalBody;
use session_gateway_hub::http::router;
use session_gateway_hub::hub::ports::{ConnId, Runtime, UploadBody, UploadFault};
use session_gateway_hub::model::json::{Json, JsonObject};
use tower::ServiceExt;

use super::World;
use super::rest::{PendingReply, Reply};
use super::runtime::FakeRuntime;

/// A body that is received immediately, or when the test sends it.
struct Body {
    rt: Arc<FakeRuntime>,
    declared_length: Option<u64>,
    arrival: Mutex<Option<oneshot::Receiver<Result<String, UploadFault>>>>,
    content: Mutex<String>,
}

impl UploadBody for Body {
    fn declared_length(&self) -> Option<u64> {
        self.declared_length
    }

    fn read(&self) -> BoxFuture<'_, Result<String, UploadFault>> {
        let arrival = self.arrival.lock().unwrap().take().expect("a body is read once");
        async move {
            let text = arrival.await.unwrap_or(Err(UploadFault::Broken))?;
            let Some(mut body) = JsonObject::parse(&text) else { return Ok(text) };
            let contents: Vec<&RawValue> =
                body.members().filter(|(name, _)| *name == "content").map(|(_, value)| value).collect();
            let [content] = contents[..] else { return Ok(text) };
            if !content.get().starts_with('"') {
                return Ok(text);
            }
            let content: String = serde_json::from_str(content.get()).map_err(|_| UploadFault::BadBase64)?;
            let content = normalize(&content);
            STANDARD.decode(&content).map_err(|_| UploadFault::BadBase64)?;
            *self.content.lock().unwrap() = content;
            let empty = Json::parse(r#""""#).unwrap();
            body.set("content", empty.raw());
            Ok(serde_json::to_string(&body).unwrap())
        }
        .boxed()
    }

    fn length(&self) -> u64 {
        self.declared_length.unwrap_or(1_000)
    }

    fn send(&self, to: ConnId, head: &str, tail: &str) {
        assert!(head.is_ascii() && tail.is_ascii(), "{head} {tail}");
        self.rt.send(&[to], &format!("{head}{}{tail}", self.content.lock().unwrap()));
    }
}

/// Returns base64 in the form that the CLI receives, as `src/platform/upload.js` does.
fn normalize(content: &str) -> String {
    let content = content.replace(['\r', '\n'], "").replace('-', "+").replace('_', "/");
    let missing = if content.contains('=') { 0 } else { (4 - content.len() % 4) % 4 };
    format!("{content}{}", "=".repeat(missing))
}

/// Sends the body of an upload, or a fault.
pub type BodySender = oneshot::Sender<Result<String, UploadFault>>;

/// A body that is received when the sender sends it.
fn pending_body(rt: &Arc<FakeRuntime>, declared_length: Option<u64>) -> (ExternalBody, BodySender) {
    let (arrival, receiver) = oneshot::channel();
    let body =
        Body { rt: Arc::clone(rt), declared_length, arrival: Mutex::new(Some(receiver)), content: Mutex::default() };
    (ExternalBody(Arc::new(body)), arrival)
}

/// A body that is received immediately.
pub fn received_body(rt: &Arc<FakeRuntime>, body: Vec<u8>) -> ExternalBody {
    let (external, sender) = pending_body(rt, Some(body.len() as u64));
    sender.send(String::from_utf8(body).map_err(|_| UploadFault::NotUtf8)).unwrap();
    external
}

impl World {
    /// Starts an upload whose body the test sends later.
    pub fn start_upload(&self, path: &str, declared_length: Option<u64>) -> (PendingReply, BodySender) {
        let (body, arrival) = pending_body(&self.object.rt, declared_length);
        let mut request = http::Request::post(path).body(axum::body::Body::empty()).unwrap();
        request.extensions_mut().insert(body);
        let router = router(self.hub());
        let reply = PendingReply::of(async move { Reply::of(router.oneshot(request).await.unwrap()).await });
        (reply, arrival)
    }

    /// Starts an upload.
    pub fn start_complete_upload(&self, path: &str, body: &str) -> PendingReply {
        let (reply, arrival) = self.start_upload(path, Some(body.len() as u64));
        arrival.send(Ok(body.to_owned())).unwrap();
        reply
    }

    pub async fn upload(&self, path: &str, body: &str) -> Reply {
        self.start_complete_upload(path, body).reply().await
    }
}
