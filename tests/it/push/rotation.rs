//! A rotation of the access secret: subscriptions that were made with a refused secret get no push and answer no request.

use session_gateway_hub::auth::token::TokenVerifier;
use session_gateway_hub::http::edge::Edge;

use crate::support::SECRET;
use crate::support::edge::{EdgeRequest, worker_edge_with};
use crate::support::prelude::*;
use crate::support::pushes::Browser;

const NEW_SECRET: &str = "another secret of the operator";

/// A deployment with a session whose agent asks for permission.
struct Deployment {
    world: World,
    worker: Edge,
    session: String,
    cli: Cli,
    asked: u64,
}

impl Deployment {
    async fn new() -> Self {
        let world = World::new();
        let session = world.create_session("/code/demo").await;
        let worker = worker_edge_with(&world.db, TokenVerifier::new(SECRET, false));
        let cli = connect_cli(&world, &session).await;
        Self { world, worker, session, cli, asked: 0 }
    }

    /// Deploys other access secrets.
    async fn set_secrets(&mut self, secret: &'static str, previous: Option<&'static str>) {
        let tokens = TokenVerifier::parse(Some(secret), previous, None).unwrap();
        self.world.redeploy_with_secrets(secret, previous);
        self.worker = worker_edge_with(&self.world.db, tokens);
        self.cli = connect_cli(&self.world, &self.session).await;
    }

    async fn post(&self, url: &str, token: Option<&str>, body: &Value) -> Reply {
        let (method, url, token) = ("POST".into(), url.into(), token.map(str::to_owned));
        let body = body.to_string().into_bytes();
        self.world
            .send_to_worker(&self.worker, EdgeRequest { method, url, token, body, ..EdgeRequest::default() })
            .await
    }

    async fn sign_in(&self, token: &str) -> String {
        let signed_in = self.post("/api/auth", None, &json!({"accessToken": token})).await.ok();
        signed_in["token"].as_str().unwrap().to_owned()
    }

    /// Adds a device. Returns its token.
    async fn add_device(&self) -> String {
        let code = self.post("/api/devices/codes", Some(&self.world.token()), &json!({})).await.ok()["code"].clone();
        let added = self.post("/api/devices", None, &json!({"code": code, "name": "phone", "kind": "phone"})).await;
        added.ok()["token"].as_str().unwrap().to_owned()
    }

    async fn subscribe(&self, browser: &Browser, token: &str) {
        self.post("/api/push/subscribe", Some(token), &browser.subscription()).await.ok();
    }

    /// Asks for permission. Returns the answer token that each browser got; `None` for a browser without a push.
    async fn ask<const N: usize>(&mut self, browsers: [&Browser; N]) -> [Option<String>; N] {
        self.asked += 1;
        let request = json!({"tool": "Bash", "arguments": {"command": format!("make {}", self.asked)}});
        let requests = json!({"requests": {format!("r{}", self.asked): request}});
        self.cli.update_agent_state(&self.session, self.asked, &requests).await;
        let pushes = self.world.pushes_after(6_000).await;
        browsers.map(|browser| {
            let message = pushes.iter().find(|message| message.uri().to_string() == browser.endpoint)?;
            Some(browser.read(message)["data"]["answerToken"].as_str().expect("a token").to_owned())
        })
    }

    /// Answers with a token, which must be refused.
    async fn assert_unsubscribed(&mut self, token: &str) {
        let answer = json!({"token": token, "decision": "approved"});
        self.post("/api/answers", None, &answer).await.assert_error(410, "push_unsubscribed");
        assert!(self.cli.try_call().await.is_none(), "the CLI was called");
    }
}

async fn connect_cli(world: &World, session: &str) -> Cli {
    let mut cli = world.live_cli(session).await;
    cli.register("permission").await;
    cli
}

fn browser(number: u8) -> Browser {
    Browser::new(&format!("https://push.service.com/send/{number}"), number)
}

#[tokio::test(start_paused = true)]
async fn a_subscription_ends_with_the_access_secret_of_its_token() {
    let mut hub = Deployment::new().await;
    let [direct, signed_in, device] = [1, 2, 3].map(browser);
    let (old, phone) = (hub.world.token(), hub.add_device().await);
    let jwt = hub.sign_in(&old).await;
    hub.subscribe(&direct, &old).await;
    hub.subscribe(&signed_in, &jwt).await;
    hub.subscribe(&device, &phone).await;
    let tokens = hub.ask([&direct, &signed_in, &device]).await.map(Option::unwrap);

    // The old secret has leaked.
    hub.set_secrets(NEW_SECRET, None).await;
    for token in &tokens[..2] {
        hub.assert_unsubscribed(token).await;
    }
    let [first, second, third] = hub.ask([&direct, &signed_in, &device]).await;
    assert_eq!((first, second), (None, None));
    assert!(third.is_some(), "the token of a device does not depend on the secret");

    // A JWT is valid for some minutes more, but its subscription has no effect.
    hub.subscribe(&browser(4), &jwt).await;
    hub.subscribe(&direct, &jwt).await;
    assert_eq!(hub.ask([&direct, &browser(4)]).await, [None, None]);
    // The hub does not assume that there are no subscriptions.
    hub.subscribe(&direct, &hub.world.token()).await;
    assert!(hub.ask([&direct]).await[0].is_some());
}

#[tokio::test(start_paused = true)]
async fn subscriptions_move_to_the_new_secret_while_the_previous_one_is_valid() {
    let mut hub = Deployment::new().await;
    let [moved, idle, late] = [1, 2, 3].map(browser);
    for browser in [&moved, &idle] {
        hub.subscribe(browser, &hub.world.token()).await;
    }
    hub.set_secrets(NEW_SECRET, Some(SECRET)).await;
    let jwt = hub.sign_in(&hub.world.token()).await;
    hub.subscribe(&moved, &jwt).await;
    hub.subscribe(&late, &format!("{SECRET}:team")).await;
    let tokens = hub.ask([&moved, &idle, &late]).await.map(|token| token.expect("a push"));

    hub.set_secrets(NEW_SECRET, None).await;
    for token in &tokens[1..] {
        hub.assert_unsubscribed(token).await;
    }
    let [first, second, third] = hub.ask([&moved, &idle, &late]).await;
    assert!(first.is_some());
    assert_eq!((second, third), (None, None));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_know_the_new_secret_yet_keeps_its_subscriptions() {
    let mut hub = Deployment::new().await;
    let browser = browser(1);
    // The worker is deployed before the object restarts.
    let tokens = TokenVerifier::new(NEW_SECRET, false);
    hub.worker = worker_edge_with(&hub.world.db, tokens);
    hub.subscribe(&browser, &format!("{NEW_SECRET}:team")).await;
    assert_eq!(hub.ask([&browser]).await, [None]);
    hub.set_secrets(NEW_SECRET, None).await;
    assert!(hub.ask([&browser]).await[0].is_some());
}

#[tokio::test(start_paused = true)]
async fn a_subscription_of_an_earlier_version_belongs_to_the_oldest_valid_secret() {
    let mut hub = Deployment::new().await;
    let browser = browser(1);
    hub.subscribe(&browser, &hub.world.token()).await;
    hub.world.db.execute("UPDATE push_subscriptions SET secret = NULL");
    hub.set_secrets(NEW_SECRET, Some(SECRET)).await;
    assert!(hub.ask([&browser]).await[0].is_some());
    hub.set_secrets(NEW_SECRET, None).await;
    assert_eq!(hub.ask([&browser]).await, [None]);
}
