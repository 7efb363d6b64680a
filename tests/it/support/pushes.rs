//! A browser with a push subscription: its keys, and the push messages that it receives.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use web_push_native::p256::SecretKey;
use web_push_native::p256::elliptic_curve::sec1::ToEncodedPoint;
use web_push_native::{Auth, decrypt};

use super::prelude::*;

/// The endpoint of the browser in [`push_fixture`].
pub const ENDPOINT: &str = "https://push.service.com/send/a";

/// An active session with flavor beta, its CLI, and a subscribed browser.
pub async fn push_fixture() -> (World, String, Cli, Browser) {
    let world = World::new();
    let (session, cli) = world.active_session_with("/code/demo", json!({"flavor": "beta"})).await;
    let browser = Browser::subscribed(&world, ENDPOINT, 1).await;
    (world, session, cli, browser)
}

/// An agent state with these pending requests.
pub fn pending(requests: &[&str]) -> Value {
    let requests: serde_json::Map<String, Value> =
        requests.iter().map(|id| ((*id).to_owned(), json!({"tool": "Bash", "arguments": {}}))).collect();
    json!({"requests": requests})
}

/// Another subscribed browser, whose push service sends these responses.
pub async fn second_browser(world: &World, responses: &[(u16, Option<&str>)]) -> Browser {
    let endpoint = "https://other.service.com:8443/b";
    world.rt.respond_to_pushes(endpoint, responses);
    Browser::subscribed(world, endpoint, 2).await
}

pub struct Browser {
    pub endpoint: String,
    secret: SecretKey,
    auth: [u8; 16],
}

impl Browser {
    /// A browser with this endpoint, and keys derived from `seed`.
    pub fn new(endpoint: &str, seed: u8) -> Self {
        let secret = SecretKey::from_slice(&[seed; 32]).unwrap();
        Self { endpoint: endpoint.to_owned(), secret, auth: [seed; 16] }
    }

    /// Subscribes a browser with this endpoint, and keys derived from `key_seed`.
    pub async fn subscribed(world: &World, endpoint: &str, key_seed: u8) -> Self {
        let browser = Self::new(endpoint, key_seed);
        assert_eq!(world.post("/api/push/subscribe", &browser.subscription()).await.ok(), json!({"ok": true}));
        browser
    }

    /// Subscribes the browser, which names its device.
    pub async fn subscribe_on(&self, world: &World, device: &str) {
        let mut body = self.subscription();
        body["device"] = device.into();
        assert_eq!(world.post("/api/push/subscribe", &body).await.ok(), json!({"ok": true}));
    }

    /// The body of `POST /api/push/subscribe`, without a device.
    pub fn subscription(&self) -> Value {
        let point = self.secret.public_key().to_encoded_point(false);
        let keys = json!({"p256dh": URL_SAFE_NO_PAD.encode(point), "auth": URL_SAFE_NO_PAD.encode(self.auth)});
        json!({"endpoint": self.endpoint, "keys": keys})
    }

    /// Decrypts the payload of a push message to this browser.
    pub fn read(&self, request: &Request<Vec<u8>>) -> Value {
        assert_eq!(request.uri().to_string(), self.endpoint);
        let text = decrypt(request.body().clone(), &self.secret, &Auth::clone_from_slice(&self.auth)).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Decrypts the payload of the only push message.
    pub fn read_one(&self, requests: &[Request<Vec<u8>>]) -> Value {
        let [request] = requests else { panic!("not one message, but {}", requests.len()) };
        self.read(request)
    }
}

/// A header of a push message.
pub fn header<'r>(request: &'r Request<Vec<u8>>, name: &str) -> &'r str {
    let found = request.headers().get(name).unwrap_or_else(|| panic!("no header {name}: {:?}", request.headers()));
    found.to_str().unwrap()
}

impl World {
    /// Advances the clock. Returns the push messages since the last call.
    pub async fn pushes_after(&self, ms: u64) -> Vec<Request<Vec<u8>>> {
        self.advance(ms).await;
        self.rt.take_pushes()
    }

    /// The entries of `GET /api/push/log`, newest first.
    pub async fn push_log(&self) -> Vec<Value> {
        run_until_idle().await;
        self.get("/api/push/log").await.ok()["log"].as_array().unwrap().clone()
    }

    /// The outcomes of the notifications in the push log.
    pub async fn outcomes_newest_first(&self) -> Vec<String> {
        self.push_log().await.iter().map(|entry| entry["outcome"].as_str().unwrap().to_owned()).collect()
    }
}
