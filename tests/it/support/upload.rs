//! A fake of [`ExternalBody`]: the body of an upload, which stays in JavaScript.

use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use serde_json::value::RawValue;
use session_gateway_hub::http::extract::ExternalBody;
use session_gateway_hub::http::respond;
use session_gateway_hub::hub::core::ports::{ConnId, UploadBody, UploadFault};
use session_gateway_hub::hub::workspace::uploads::UPLOAD_CHUNK_CHARS;
use session_gateway_hub::model::json::{Json, JsonObject};

use super::prelude::*;
use super::runtime::FakeRuntime;

/// A body that is received immediately, or when the test sends it.
struct Body {
    rt: Arc<FakeRuntime>,
    arrival: Mutex<Option<oneshot::Receiver<Result<String, UploadFault>>>>,
    received: Mutex<Received>,
    /// The rate at which the content arrives after the first chunk. `None`: at once.
    bytes_per_ms: Option<u64>,
    /// When the first chunk had arrived, in Unix milliseconds.
    first_chunk_at: Mutex<Option<u64>>,
}

/// The received part of a body.
#[derive(Default)]
struct Received {
    /// The content that was not read yet, as base64.
    unread: String,
    buffered: String,
    /// The body with an empty content.
    fields: String,
    file_bytes: u64,
}

impl Received {
    fn parse(text: String) -> Result<Self, UploadFault> {
        let received = Self { fields: text, ..Self::default() };
        let Some(mut body) = JsonObject::parse(&received.fields) else { return Ok(received) };
        let contents: Vec<&RawValue> =
            body.members().filter(|(name, _)| *name == "content").map(|(_, value)| value).collect();
        let [content] = contents[..] else { return Ok(received) };
        if !content.get().starts_with('"') {
            return Ok(received);
        }
        let content: String = serde_json::from_str(content.get()).map_err(|_| UploadFault::BadBase64)?;
        let unread = normalize(&content);
        STANDARD.decode(&unread).map_err(|_| UploadFault::BadBase64)?;
        let empty = Json::parse(r#""""#).unwrap();
        body.set("content", empty.raw());
        Ok(Self { unread, fields: serde_json::to_string(&body).unwrap(), ..Self::default() })
    }
}

impl UploadBody for Body {
    fn read(&self, buffer_chars: u64, max_file: u64) -> BoxFuture<'_, Result<Option<String>, UploadFault>> {
        let arrival = self.arrival.lock().unwrap().take();
        async move {
            if let Some(arrival) = arrival {
                *self.received.lock().unwrap() = Received::parse(arrival.await.unwrap_or(Err(UploadFault::Broken))?)?;
            }
            if self.bytes_per_ms.is_some() && buffer_chars > UPLOAD_CHUNK_CHARS {
                *self.first_chunk_at.lock().unwrap() = Some(self.rt.now());
                std::future::pending::<()>().await;
            }
            let mut received = self.received.lock().unwrap();
            let length = received.unread.len().min(usize::try_from(buffer_chars).unwrap() - received.buffered.len());
            let remaining = received.unread.split_off(length);
            let read = std::mem::replace(&mut received.unread, remaining);
            received.file_bytes += STANDARD.decode(&read).unwrap().len() as u64;
            received.buffered += &read;
            if received.file_bytes > max_file {
                return Err(UploadFault::TooLarge);
            }
            Ok(received.unread.is_empty().then(|| received.fields.clone()))
        }
        .boxed()
    }

    fn file_bytes(&self) -> u64 {
        let ms_since_first_chunk = self.first_chunk_at.lock().unwrap().map_or(0, |since| self.rt.now() - since);
        self.received.lock().unwrap().file_bytes + ms_since_first_chunk * self.bytes_per_ms.unwrap_or(0)
    }

    fn send(&self, to: ConnId, prefix: &str, suffix: &str) {
        assert!(prefix.is_ascii() && suffix.is_ascii(), "{prefix} {suffix}");
        let content = std::mem::take(&mut self.received.lock().unwrap().buffered);
        self.rt.send(&[to], &format!("{prefix}{content}{suffix}"));
    }
}

/// Returns base64 in the form that the CLI receives, as `src/platform/upload.js` does.
fn normalize(content: &str) -> String {
    let content = content.replace(['\r', '\n'], "").replace('-', "+").replace('_', "/");
    let missing = if content.contains('=') { 0 } else { (4 - content.len() % 4) % 4 };
    format!("{content}{}", "=".repeat(missing))
}

/// Sends the body of an upload, or a fault, to the fake.
pub type BodySender = oneshot::Sender<Result<String, UploadFault>>;

/// A body that is received when the test sends it.
fn pending_body(rt: &Arc<FakeRuntime>, bytes_per_ms: Option<u64>) -> (ExternalBody, BodySender) {
    let (arrival, receiver) = oneshot::channel();
    let body = Body {
        rt: Arc::clone(rt),
        arrival: Mutex::new(Some(receiver)),
        received: Mutex::default(),
        bytes_per_ms,
        first_chunk_at: Mutex::default(),
    };
    (ExternalBody(Arc::new(body)), arrival)
}

/// A body that is received immediately.
pub fn received_body(rt: &Arc<FakeRuntime>, body: Vec<u8>) -> ExternalBody {
    let (external, sender) = pending_body(rt, None);
    sender.send(String::from_utf8(body).map_err(|_| UploadFault::NotUtf8)).unwrap();
    external
}

impl World {
    /// Starts an upload whose body the test sends later.
    pub fn start_upload(&self, path: &str) -> (PendingReply, BodySender) {
        self.start_pending_upload(path, None)
    }

    /// Starts an upload whose content never ends. It arrives at this rate after the first chunk.
    pub fn start_slow_upload(&self, path: &str, body: &str, bytes_per_ms: u64) -> PendingReply {
        let (reply, arrival) = self.start_pending_upload(path, Some(bytes_per_ms));
        arrival.send(Ok(body.to_owned())).unwrap();
        reply
    }

    fn start_pending_upload(&self, path: &str, bytes_per_ms: Option<u64>) -> (PendingReply, BodySender) {
        let (body, arrival) = pending_body(&self.object.rt, bytes_per_ms);
        let mut request = http::Request::post(path).body(bytes::Bytes::new()).unwrap();
        request.extensions_mut().insert(body);
        let hub = self.hub();
        let reply = PendingReply::of(async move { Reply::of(respond(&hub, request).await) });
        (reply, arrival)
    }

    pub fn start_upload_with_body(&self, path: &str, body: &str) -> PendingReply {
        let (reply, arrival) = self.start_upload(path);
        arrival.send(Ok(body.to_owned())).unwrap();
        reply
    }

    pub async fn upload(&self, path: &str, body: &str) -> Reply {
        self.start_upload_with_body(path, body).reply().await
    }
}
