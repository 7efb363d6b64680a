//! A fixture in which a request to a route succeeds, and all conditions under which it fails.

use session_gateway_hub::auth::pairing::hash;
use session_gateway_hub::hub::core::namespace::quotas::{MAX_SESSIONS, Quotas};
use session_gateway_hub::limits::{MAX_CONTENT_BYTES, MAX_QUEUED_BYTES};

use super::edge::EdgeRequest;
use super::field_faults::valid_object;
use super::prelude::*;
use super::pushes::{Browser, ENDPOINT};
use super::route::{Condition, Route, Scope, SessionState};
use super::session_list::add_sessions;
use super::socket::Socket;

/// The machines of the namespace and of the neighbour.
const MACHINES: [&str; 2] = ["box-1", "their-box"];
/// The pending permission request.
const REQUEST_ID: &str = "r1";

const COUNT_CHANGED_ROWS: &str = "SELECT total_changes()";

pub struct RouteFixture {
    pub world: World,
    pub route: &'static Route,
    pub session: String,
    /// The placeholders in texts with their values.
    placeholders: Vec<(&'static str, String)>,
    pub cli: Cli,
    pub runner: Cli,
    subscribers: [Socket; 2],
    /// The number of rows that were written before the request of the test. A refused write changes none.
    changed_rows: i64,
}

/// An agent state with the pending request, which asks for a command.
fn pending(command: &str) -> Value {
    json!({"requests": {REQUEST_ID: {"tool": "T", "arguments": {"command": command}}}})
}

/// Adds a device, a code and the approved request of a device.
fn add_pairings(world: &World) {
    let (now, secret) = (world.now(), hash("s".repeat(43)));
    let [code, request] = ["ABCDEFGH", "RBCDEFGH"].map(hash);
    world.db.execute(&format!(
        "INSERT INTO devices VALUES ('d1', 'team', 'desk', 'browser', 'h', {now}, {now}, NULL);
         INSERT INTO pairings (selector, code_hash, claim_hash, device_id, namespace, name, kind, is_approved, claims_left, created_at, expires_at)
         VALUES ('ABCDE', '{code}', '{code}', 'd2', 'other', NULL, NULL, 1, 1, {now}, {now} + 1000),
           ('RBCDE', '{request}', '{secret}', 'd3', 'team', 'phone', 'phone', 1, 2, {now}, {now} + 1000)"
    ));
}

impl RouteFixture {
    /// The session is in the state that the route requires.
    pub async fn new(route: &'static Route) -> Self {
        Self::create(route, route.session_state != SessionState::Inactive).await
    }

    /// The session is in the wrong state, or the required method is not registered.
    pub async fn in_wrong_state(route: &'static Route) -> Self {
        let mut fixture = Self::create(route, route.session_state == SessionState::Inactive).await;
        if route.call.is_some() {
            fixture.unregister().await;
        }
        fixture
    }

    /// Creates the fixture. `active`: whether the session is active.
    async fn create(route: &'static Route, active: bool) -> Self {
        let world = World::new();
        let neighbour = world.neighbour();
        let session =
            world.create_session_with("/code", json!({"machineId": MACHINES[0], "alphaSessionId": "a-1"})).await;
        let foreign = neighbour.create_session("/secret-path").await;
        neighbour.post("/cli/machines", &json!({"id": MACHINES[1], "metadata": {"host": "secret-host"}})).await.ok();
        let mut runner = world.spawner(MACHINES[0], "box").await;
        for method in ["checkPathExists", "forkSession"] {
            runner.register(method).await;
        }
        let mut cli = world.live_cli(&session).await;
        let methods = "abort switch set-session-config set-session-option queue permission uploadFile deleteUploadFile";
        for method in methods.split(' ') {
            cli.register(method).await;
        }
        let is_answer = route.path == "/api/answers";
        let browser = if is_answer { Some(Browser::subscribed(&world, ENDPOINT, 1).await) } else { None };
        cli.update_agent_state(&session, 1, &pending("ls")).await;
        let answer_token = match &browser {
            Some(browser) => {
                world.advance(600).await;
                let pushes = world.rt.take_pushes();
                browser.read(&pushes[0])["data"]["answerToken"].as_str().expect("a token").to_owned()
            }
            None => String::new(),
        };
        if !active {
            cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
        }
        let mut subscribers = [&world, &neighbour].map(|world| (world, None));
        for (world, socket) in &mut subscribers {
            *socket = Some(world.open_event_stream("", None, Default::default()).await.unwrap());
        }
        let mut subscribers = subscribers.map(|(_, socket)| socket.unwrap());
        let mut subscriptions = Vec::new();
        for socket in &mut subscribers {
            let first_event: Value = serde_json::from_str(&socket.next_text().await).unwrap();
            subscriptions.push(first_event["data"]["subscriptionId"].as_str().unwrap().to_owned());
        }
        run_until_idle().await;
        cli.socket.drain().await;
        let [own_subscription, foreign_subscription] = <[String; 2]>::try_from(subscriptions).unwrap();
        let placeholders = vec![
            ("$foreign_session", foreign),
            ("$foreign_machine", MACHINES[1].to_owned()),
            ("$foreign_subscription", foreign_subscription),
            ("$session", session.clone()),
            ("$machine", MACHINES[0].to_owned()),
            ("$subscription", own_subscription),
            ("$token", world.token()),
            ("$answer", answer_token),
            ("$device", "d1".to_owned()),
            ("$code", "ABCD-EFGH".to_owned()),
            ("$request", "RBCD-EFGH".to_owned()),
            ("$secret", "s".repeat(43)),
        ];
        if route.path.starts_with("/api/devices") {
            add_pairings(&world);
        }
        if route.path.ends_with("{localId}") {
            let sql = format!("INSERT INTO held_messages VALUES ('{session}', '{REQUEST_ID}', 1, '{{}}')");
            world.db.execute(&sql);
            world.hibernate_and_wake().await;
        }
        let changed_rows = world.db.number(COUNT_CHANGED_ROWS);
        Self { world, route, session, placeholders, cli, runner, subscribers, changed_rows }
    }

    /// Replaces the placeholders in a text.
    pub fn substitute(&self, text: &str) -> String {
        self.placeholders.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// The path of the route with this id.
    pub fn path(&self, id: &str) -> String {
        self.route
            .path
            .replace("{id}", id)
            .replace("{code}", id)
            .replace("{deviceId}", id)
            .replace("{requestId}", REQUEST_ID)
            .replace("{ruleId}", "rule-1")
            .replace("{localId}", REQUEST_ID)
            .replace("{seq}", "1")
    }

    /// A request that succeeds if the session is in the required state.
    pub fn valid_request(&self) -> EdgeRequest {
        let Route { method, path, scope, body, query, .. } = self.route;
        let device = self.substitute(if path.contains("{code}") { "$request" } else { "$device" });
        let id = match scope {
            Scope::Machine => MACHINES[0],
            _ if path.starts_with("/api/devices") => &device,
            _ => &self.session,
        };
        let is_socket = path.starts_with("/socket.io");
        let required = query.iter().filter(|param| param.is_required()).map(|p| format!("{}={}", p.name, p.valid()));
        let query = if is_socket { "EIO=4&transport=websocket".into() } else { required.collect::<Vec<_>>().join("&") };
        EdgeRequest {
            method: (*method).to_owned(),
            url: format!("{}?{query}", self.path(id)),
            token: (*scope != Scope::Public).then(|| self.world.token()),
            is_upgrade: is_socket,
            origin: None,
            body: if body.is_empty() {
                Vec::new()
            } else {
                self.substitute(&valid_object(body).to_string()).into_bytes()
            },
        }
    }

    pub async fn run_valid_request(&mut self) -> Reply {
        self.run(self.valid_request()).await
    }

    /// Sends a request, and responds to the call that it makes.
    pub async fn run(&mut self, request: EdgeRequest) -> Reply {
        let reply = self.world.send_to_edge(request);
        if let Some((method, result)) = self.route.call {
            let request = self.callee().next_call().await;
            assert!(request.method.ends_with(method), "{request:?}");
            self.callee().respond_raw(&request, &json!(result).to_string());
            if self.route.path.ends_with("/resume") {
                self.cli.send_keep_alive(&self.world, &self.session).await;
            }
        }
        reply.reply().await
    }

    /// Sends the request under a condition.
    pub async fn run_with(&mut self, condition: Condition) -> Reply {
        let mut request = self.valid_request();
        let path = |id: &str| self.path(id);
        match condition {
            Condition::NoToken => request.token = None,
            Condition::Token(token) => request.token = Some(token.to_owned()),
            Condition::WebToken => request.token = Some(self.web_token().await),
            Condition::UnsupportedMethod => request.method = "PUT".into(),
            Condition::UnknownId => request.url = path("unknown"),
            Condition::ForeignId => {
                request.url =
                    path(&self.substitute(if self.is_of_machine() { "$foreign_machine" } else { "$foreign_session" }))
            }
            Condition::UnknownPartId => {
                request.url = request.url.replace("/r1", "/r2");
                request.body = String::from_utf8(request.body).unwrap().replace(r#""r1""#, r#""r2""#).into_bytes();
            }
            Condition::Body(body) => request.body = self.substitute(body).into_bytes(),
            Condition::OversizedBody => request.body = vec![b' '; 8 * 1024 * 1024 + 1],
            Condition::Query(query) => {
                request.url = format!("{}?{}", request.url.split('?').next().unwrap(), self.substitute(query))
            }
            Condition::ForeignOrigin => {
                (request.is_upgrade, request.origin) = (true, Some("https://evil.example".into()))
            }
            Condition::NoUpgrade => request.is_upgrade = false,
            Condition::WrongState => *self = Self::in_wrong_state(self.route).await,
            Condition::FullMetadata => self.fill_metadata().await,
            Condition::NoAgentId => self.put_metadata(json!({"path": "/code", "host": "box"})).await,
            Condition::OtherFlavor => {
                self.put_metadata(json!({"path": "/code", "host": "box", "flavor": "beta"})).await
            }
            Condition::FailingReads => {
                self.world.hibernate_and_wake().await;
                self.world.db.fail_all(BatchKind::Reads, DbError::Unavailable("D1 did not answer in time".into()));
            }
            Condition::FailingWrites => {
                self.world.db.fail_all(BatchKind::Writes, DbError::Refused("constraint failed".into()))
            }
            Condition::FullWriteQueue => self.fill_write_queue().await,
            Condition::TooManyCodes => {
                for _ in 0..5 {
                    self.world.send_to_edge(request.clone()).reply().await;
                }
            }
            Condition::TooManySessions => {
                add_sessions(&self.world, 0..MAX_SESSIONS, "'{}'");
                self.world.hibernate_and_wake().await;
            }
            Condition::FullStorage => {
                self.world.redeploy_with_quotas(Quotas { max_bytes: Some(0), ..Quotas::default() })
            }
            Condition::TooManyMessages => {
                let quotas = Quotas { max_messages_per_minute: Some(1), ..Quotas::default() };
                self.world.redeploy_with_quotas(quotas);
                self.world.post(&request.url, &json!({"text": "the first"})).await.ok();
            }
            Condition::UploadFails(fault) => {
                let (reply, sender) = self.world.start_upload(&request.url);
                sender.send(Err(fault)).unwrap();
                return reply.reply().await;
            }
            Condition::TooManyUploads => {
                let _waiting: Vec<_> = (0..33).map(|_| self.world.start_upload(&request.url)).collect();
                run_until_idle().await;
                return self.world.send_to_edge(request).reply().await;
            }
            Condition::MethodNotRegistered => self.unregister().await,
            Condition::NoRequest => drop(self.cli.update_agent_state(&self.session, 2, &json!({"requests": {}})).await),
            Condition::ChangedRequest => drop(self.cli.update_agent_state(&self.session, 2, &pending("rm")).await),
            Condition::Repeated => assert_eq!(self.run_valid_request().await.status, 200),
            Condition::TenMinutesLater => self.world.advance(600_000).await,
            Condition::Unsubscribed => {
                let body = json!({"endpoint": ENDPOINT}).to_string();
                self.world.request("DELETE", "/api/push/subscribe", body).await.ok();
            }
            Condition::CliResponds(_) | Condition::CliDisconnects | Condition::CliTimesOut | Condition::NeverActive => {
            }
        }
        if condition == Condition::WrongState {
            request = self.valid_request();
        }
        let reply = self.world.send_to_edge(request);
        let is_called = matches!(
            condition,
            Condition::CliResponds(_)
                | Condition::CliDisconnects
                | Condition::CliTimesOut
                | Condition::NeverActive
                | Condition::FailingWrites
        );
        if let Some((_, result)) = self.route.call.filter(|_| is_called) {
            self.react(condition, result).await;
        }
        reply.reply().await
    }

    /// Lets the CLI or runner react to the call as the condition requires.
    async fn react(&mut self, condition: Condition, result: &str) {
        let request = self.callee().next_call().await;
        match condition {
            Condition::CliTimesOut => self.world.advance(RPC_TIMEOUT_MS).await,
            Condition::CliDisconnects => self.callee().socket.close(),
            Condition::CliResponds(result) => self.callee().respond_raw(&request, &json!(result).to_string()),
            _ => self.callee().respond_raw(&request, &json!(result).to_string()),
        }
        if condition == Condition::NeverActive {
            self.world.advance(15_000).await;
        }
    }

    /// The CLI or runner that the route calls.
    fn callee(&mut self) -> &mut Cli {
        match self.route.call {
            Some(("spawnSession" | "forkSession" | "checkPathExists", _)) => &mut self.runner,
            _ => &mut self.cli,
        }
    }

    /// Unregisters the method that the route calls.
    async fn unregister(&mut self) {
        let (method, _) = self.route.call.unwrap();
        self.callee().emit_with_ack("rpc-unregister", &json!({"method": method})).await;
    }

    /// Whether the route accesses a machine.
    fn is_of_machine(&self) -> bool {
        self.route.scope == Scope::Machine
    }

    async fn web_token(&self) -> String {
        let body = json!({"accessToken": self.world.token()}).to_string().into_bytes();
        let request = EdgeRequest { method: "POST".into(), url: "/api/auth".into(), body, ..EdgeRequest::default() };
        self.world.send_to_edge(request).reply().await.ok()["token"].as_str().unwrap().to_owned()
    }

    async fn put_metadata(&mut self, metadata: Value) {
        let update = json!({"sid": self.session, "expectedVersion": 1, "metadata": metadata});
        assert_eq!(self.cli.emit_with_ack("update-metadata", &update).await["result"], "success");
    }

    async fn fill_metadata(&mut self) {
        let mut metadata = json!({"path": "/code", "host": "box", "padding": ""});
        let padding_bytes = MAX_CONTENT_BYTES - metadata.to_string().len();
        metadata["padding"] = json!("x".repeat(padding_bytes));
        self.put_metadata(metadata).await;
    }

    /// Fills the write queue while the database does not respond.
    async fn fill_write_queue(&mut self) {
        self.world.db.hold_results(BatchKind::Writes);
        // Each message counts twice, as a row and as an event.
        for _ in 0..=MAX_QUEUED_BYTES / 2_000_000 {
            self.cli.emit("message", &json!({"sid": self.session, "message": "x".repeat(1_000_000)}));
            run_until_idle().await;
        }
    }

    /// Fails if the request has caused a write, a call or an event.
    pub async fn assert_no_effect(&mut self) {
        let [own, foreign] = &mut self.subscribers;
        for socket in [&mut self.cli.socket, &mut self.runner.socket, own, foreign] {
            socket.assert_no_frames().await;
        }
        if self.route.path.ends_with("{code}") {
            // The hub counts each code in a path as a guess, which is a write.
            return;
        }
        assert_eq!(
            self.world.db.number(COUNT_CHANGED_ROWS),
            self.changed_rows,
            "{} {}: unexpected write",
            self.route.method,
            self.route.path
        );
    }
}
