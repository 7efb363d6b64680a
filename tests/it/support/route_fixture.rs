//! A namespace in which a route would do what it is for, and its neighbour; and everything that can be wrong there.

use serde_json::{Value, json};
use session_gateway_hub::hub::limits::MAX_CONTENT_BYTES;
use session_gateway_hub::hub::limits::MAX_QUEUED_BYTES;
use session_gateway_hub::store::DbError;

use super::cli::Cli;
use super::edge::EdgeRequest;
use super::faults::good;
use super::rest::Reply;
use super::route::{Given, Of, Route, When};
use super::socket::Socket;
use super::sqlite::BatchKind;
use super::{RPC_TIMEOUT_MS, World, run_until_idle};

/// The machine of the namespace, and its neighbour's.
const MACHINES: [&str; 2] = ["box-1", "their-box"];
/// The permission request that waits.
const REQUEST: &str = "r1";

/// The scene of one request.
pub struct Scene {
    pub world: World,
    pub route: &'static Route,
    pub session: String,
    /// What texts say for what has another name in each run.
    names: Vec<(&'static str, String)>,
    /// The session's CLI and the machine's runner.
    pub cli: Cli,
    pub runner: Cli,
    subscribers: [Socket; 2],
    /// How many batches the database was to write when the scene was set.
    written: usize,
}

impl Scene {
    /// The scene in which a route does what it is for.
    pub async fn of(route: &'static Route) -> Self {
        Self::with(route, route.when != When::Inactive).await
    }

    /// The scene in which the session's state keeps a route from it, or nobody is there to do it.
    pub async fn in_the_wrong_state(route: &'static Route) -> Self {
        let mut scene = Self::with(route, route.when == When::Inactive).await;
        if route.call.is_some() {
            scene.unregister().await;
        }
        scene
    }

    async fn with(route: &'static Route, active: bool) -> Self {
        let world = World::new();
        let neighbour = world.neighbour();
        let session =
            world.create_session_with("/code", json!({"machineId": MACHINES[0], "alphaSessionId": "a-1"})).await;
        let foreign = neighbour.create_session("/secret-path").await;
        neighbour.post("/cli/machines", &json!({"id": MACHINES[1], "metadata": {"host": "secret-host"}})).await.ok();
        let mut runner = world.spawner(MACHINES[0], "box").await;
        runner.register("checkPathExists").await;
        let mut cli = world.live_cli(&session).await;
        for method in ["abort", "switch", "set-session-config", "permission", "uploadFile", "deleteUploadFile"] {
            cli.register(method).await;
        }
        cli.update_state(&session, 1, &json!({"requests": {REQUEST: {"tool": "T", "arguments": {}}}})).await;
        if !active {
            cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
        }
        let mut subscribers = [&world, &neighbour].map(|world| (world, None));
        for (world, socket) in &mut subscribers {
            *socket = Some(world.try_subscribe("", None, Default::default()).await.unwrap());
        }
        let mut subscribers = subscribers.map(|(_, socket)| socket.unwrap());
        let mut subscriptions = Vec::new();
        for socket in &mut subscribers {
            let greeting: Value = serde_json::from_str(&socket.next_text().await).unwrap();
            subscriptions.push(greeting["data"]["subscriptionId"].as_str().unwrap().to_owned());
        }
        run_until_idle().await;
        cli.socket.drain().await;
        let [own, others] = <[String; 2]>::try_from(subscriptions).unwrap();
        let names = vec![
            ("$foreign_session", foreign),
            ("$foreign_machine", MACHINES[1].to_owned()),
            ("$foreign_subscription", others),
            ("$session", session.clone()),
            ("$machine", MACHINES[0].to_owned()),
            ("$subscription", own),
            ("$token", world.token()),
        ];
        let written = world.db.write_count();
        Self { world, route, session, names, cli, runner, subscribers, written }
    }

    /// A text of a table with the names of this run.
    pub fn named(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// The path of the route to a session or machine.
    pub fn path(&self, id: &str) -> String {
        self.route.path.replace("{id}", id).replace("{requestId}", REQUEST)
    }

    /// The request that does what the route is for.
    pub fn good(&self) -> EdgeRequest {
        let Route { method, path, of, body, query, .. } = self.route;
        let id = if *of == Of::Machine { MACHINES[0] } else { &self.session };
        let socket = path.starts_with("/socket.io");
        let required = query.iter().filter(|param| param.required()).map(|p| format!("{}={}", p.name, p.good()));
        let query = if socket { "EIO=4&transport=websocket".into() } else { required.collect::<Vec<_>>().join("&") };
        EdgeRequest {
            method: (*method).to_owned(),
            url: format!("{}?{query}", self.path(id)),
            token: (*of != Of::Anyone).then(|| self.world.token()),
            is_upgrade: socket,
            origin: None,
            body: if body.is_empty() { Vec::new() } else { self.named(&good(body).to_string()).into_bytes() },
        }
    }

    /// What the good request is answered with when the CLI does its part.
    pub async fn done(&mut self) -> Reply {
        let answer = self.world.send_to_edge(self.good());
        if let Some((method, result)) = self.route.call {
            let request = self.callee().next_call().await;
            assert!(request.method.ends_with(method), "{request:?}");
            self.callee().respond_raw(&request, &json!(result).to_string());
            if self.route.path.ends_with("/resume") {
                self.cli.send_heartbeat(&self.world, &self.session).await;
            }
        }
        answer.reply().await
    }

    /// What the request is answered with in this case.
    pub async fn provoke(&mut self, given: Given) -> Reply {
        let mut asked = self.good();
        let at = |id: &str| self.path(id);
        match given {
            Given::NoToken => asked.token = None,
            Given::Token(token) => asked.token = Some(token.to_owned()),
            Given::WebToken => asked.token = Some(self.web_token().await),
            Given::OtherMethod => asked.method = "PUT".into(),
            Given::UnknownId => asked.url = at("nobody"),
            Given::ForeignId => {
                asked.url = at(&self.named(if self.of_machine() { "$foreign_machine" } else { "$foreign_session" }))
            }
            Given::UnknownRequest => asked.url = asked.url.replace(REQUEST, "r2"),
            Given::Body(body) => asked.body = self.named(body).into_bytes(),
            Given::HugeBody => asked.body = vec![b' '; 8 * 1024 * 1024 + 1],
            Given::HugeAnswers => {
                asked.body = json!({"answers": {"q": ["x".repeat(2_000_000)]}}).to_string().into_bytes()
            }
            Given::Query(query) => {
                asked.url = format!("{}?{}", asked.url.split('?').next().unwrap(), self.named(query))
            }
            Given::ForeignOrigin => (asked.is_upgrade, asked.origin) = (true, Some("https://evil.example".into())),
            Given::NoUpgrade => asked.is_upgrade = false,
            Given::WrongState => *self = Self::in_the_wrong_state(self.route).await,
            Given::FullMetadata => self.fill_metadata().await,
            Given::NoAgentId => self.put_metadata(json!({"path": "/code", "host": "box"})).await,
            Given::OtherFlavor => self.put_metadata(json!({"path": "/code", "host": "box", "flavor": "beta"})).await,
            Given::NoReads => {
                self.world.hibernate_and_wake().await;
                self.world.db.fail_all(BatchKind::Reads, DbError::TimedOut("D1 did not answer in time".into()));
            }
            Given::NoWrites => self.world.db.fail_all(BatchKind::Writes, DbError::Refused("constraint failed".into())),
            Given::FullJournal => self.fill_journal().await,
            Given::UploadFails(fault) => {
                let (answer, arrival) = self.world.start_upload(&asked.url, None);
                arrival.send(Err(fault)).unwrap();
                return answer.reply().await;
            }
            Given::ManyUploads => {
                let _waiting: Vec<_> = (0..33).map(|_| self.world.start_upload(&asked.url, None)).collect();
                run_until_idle().await;
                return self.world.send_to_edge(asked).reply().await;
            }
            Given::NoHandler => self.unregister().await,
            Given::CliSays(_) | Given::CliLeaves | Given::CliIsSilent | Given::NeverActive => {}
        }
        if given == Given::WrongState {
            asked = self.good();
        }
        let answer = self.world.send_to_edge(asked);
        let called = matches!(
            given,
            Given::CliSays(_) | Given::CliLeaves | Given::CliIsSilent | Given::NeverActive | Given::NoWrites
        );
        if let Some((_, result)) = self.route.call.filter(|_| called) {
            self.play(given, result).await;
        }
        answer.reply().await
    }

    /// The part of the one who is called.
    async fn play(&mut self, given: Given, result: &str) {
        let request = self.callee().next_call().await;
        match given {
            Given::CliIsSilent => self.world.advance(RPC_TIMEOUT_MS).await,
            Given::CliLeaves => self.callee().socket.close(),
            Given::CliSays(result) => self.callee().respond_raw(&request, &json!(result).to_string()),
            _ => self.callee().respond_raw(&request, &json!(result).to_string()),
        }
        if given == Given::NeverActive {
            self.world.advance(15_000).await;
        }
    }

    /// Who serves the method that the route calls.
    fn callee(&mut self) -> &mut Cli {
        match self.route.call {
            Some(("spawnSession" | "checkPathExists", _)) => &mut self.runner,
            _ => &mut self.cli,
        }
    }

    async fn unregister(&mut self) {
        let (method, _) = self.route.call.unwrap();
        self.callee().emit_with_ack("rpc-unregister", &json!({"method": method})).await;
    }

    fn of_machine(&self) -> bool {
        self.route.of == Of::Machine
    }

    async fn web_token(&self) -> String {
        let body = json!({"accessToken": self.world.token()}).to_string().into_bytes();
        let asked = EdgeRequest { method: "POST".into(), url: "/api/auth".into(), body, ..EdgeRequest::default() };
        self.world.send_to_edge(asked).reply().await.ok()["token"].as_str().unwrap().to_owned()
    }

    async fn put_metadata(&mut self, metadata: Value) {
        let update = json!({"sid": self.session, "expectedVersion": 1, "metadata": metadata});
        assert_eq!(self.cli.emit_with_ack("update-metadata", &update).await["result"], "success");
    }

    async fn fill_metadata(&mut self) {
        let mut metadata = json!({"path": "/code", "host": "box", "filling": ""});
        let left = MAX_CONTENT_BYTES - metadata.to_string().len();
        metadata["filling"] = json!("x".repeat(left));
        self.put_metadata(metadata).await;
    }

    /// The database answers no more, and messages go on coming.
    async fn fill_journal(&mut self) {
        self.world.db.hold(BatchKind::Writes);
        // Each waits twice: as its row, and to be told of.
        for _ in 0..=MAX_QUEUED_BYTES / 2_000_000 {
            self.cli.emit("message", &json!({"sid": self.session, "message": "x".repeat(1_000_000)}));
            run_until_idle().await;
        }
    }

    /// Fails when anything was written, or anybody called or told of anything, since the scene was set.
    pub async fn nothing_came_of_it(&mut self) {
        let [one, other] = &mut self.subscribers;
        for socket in [&mut self.cli.socket, &mut self.runner.socket, one, other] {
            socket.assert_no_frames().await;
        }
        assert_eq!(
            self.world.db.write_count(),
            self.written,
            "{} {}: something was written",
            self.route.method,
            self.route.path
        );
    }
}
