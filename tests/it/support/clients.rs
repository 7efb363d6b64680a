//! Creates the clients of a [`World`]: CLIs, runners and web clients, and the sessions and machines that the clients use.

use session_gateway_hub::http::events;
use session_gateway_hub::hub::core::error::Error;
use session_gateway_hub::hub::core::peers::connections::Upgrade;
use session_gateway_hub::hub::core::peers::subscription::Subscription;

use super::prelude::*;
use super::socket::Socket;

impl World {
    /// Opens the socket of a CLI whose upgrade request has no token.
    pub fn open_cli(&self) -> Socket {
        self.open_cli_after(Upgrade::Unauthenticated)
    }

    /// Opens the socket of a CLI. `upgrade`: whether the upgrade request had a valid token.
    pub fn open_cli_after(&self, upgrade: Upgrade) -> Socket {
        let (key, conn, frames) = self.rt.open_socket();
        self.hub().socket(conn).open_cli(upgrade, None);
        Socket::new(Arc::clone(&self.object), key, frames)
    }

    /// A connected CLI without a session or machine.
    pub async fn bare_cli(&self) -> Cli {
        Cli::connect(self, json!({})).await
    }

    /// A connected CLI of a session.
    pub async fn cli(&self, session: &str) -> Cli {
        Cli::connect(self, json!({"sessionId": session})).await
    }

    /// A connected CLI of an active session.
    pub async fn live_cli(&self, session: &str) -> Cli {
        let mut cli = self.cli(session).await;
        cli.send_keep_alive(self, session).await;
        cli
    }

    /// A connected runner of a machine.
    pub async fn runner(&self, machine: &str) -> Cli {
        Cli::connect(self, json!({"machineId": machine})).await
    }

    /// Creates a session. Returns its id.
    pub async fn create_session(&self, tag: &str) -> String {
        self.create_session_with(tag, json!({})).await
    }

    /// Creates a session with additional metadata.
    pub async fn create_session_with(&self, tag: &str, extra: Value) -> String {
        let mut metadata = json!({"path": tag, "host": "box"});
        metadata.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let reply = self.post("/cli/sessions", &json!({"tag": tag, "metadata": metadata})).await;
        reply.ok()["session"]["id"].as_str().unwrap().to_owned()
    }

    /// Creates an active session. Returns its id and its CLI.
    pub async fn active_session(&self, tag: &str) -> (String, Cli) {
        self.active_session_with(tag, json!({})).await
    }

    /// Creates an active session with additional metadata.
    pub async fn active_session_with(&self, tag: &str, extra: Value) -> (String, Cli) {
        let session = self.create_session_with(tag, extra).await;
        let cli = self.live_cli(&session).await;
        (session, cli)
    }

    pub async fn register_machine(&self, id: &str) {
        let body = json!({"id": id, "metadata": {"host": "box", "platform": "linux"}});
        self.post("/cli/machines", &body).await.ok();
    }

    /// The runner of an online machine that has registered `spawnSession`.
    pub async fn spawner(&self, machine: &str, host: &str) -> Cli {
        self.post("/cli/machines", &json!({"id": machine, "metadata": {"host": host}})).await.ok();
        let mut runner = self.runner(machine).await;
        let alive = json!({"machineId": machine, "time": self.now()});
        assert_eq!(runner.emit_with_ack("machine-alive", &alive).await, json!({"ok": true}));
        runner.register("spawnSession").await;
        runner
    }

    /// `GET /api/sessions/:id`
    pub async fn get_session(&self, session: &str) -> Value {
        self.get(&format!("/api/sessions/{session}")).await.ok()["session"].clone()
    }

    pub async fn is_active(&self, session: &str) -> bool {
        self.get_session(session).await["active"].as_bool().unwrap()
    }

    /// The session in the list, which has archived sessions.
    pub async fn listed(&self, session: &str) -> Value {
        let list = self.get("/api/sessions?archived=include").await.ok();
        list["sessions"].as_array().unwrap().iter().find(|listed| listed["id"] == session).unwrap().clone()
    }

    /// Opens an event stream with a query and `Last-Event-ID`.
    pub async fn open_event_stream(&self, query: &str, last_id: Option<&str>, format: Format) -> Result<Socket, Error> {
        self.open_event_stream_with_expiry(query, last_id, format, None).await
    }

    /// Like [`open_event_stream`](Self::open_event_stream), with a token that expires.
    pub async fn open_event_stream_with_expiry(
        &self,
        query: &str,
        last_event_id: Option<&str>,
        format: Format,
        expires_at: Option<u64>,
    ) -> Result<Socket, Error> {
        let (subscription, last_event_id) =
            events::parse_request(&self.hub(), query, last_event_id.map(str::to_owned), format).await?;
        let (key, conn, frames) = self.rt.open_socket();
        let subscription = Subscription { expires_at, ..subscription };
        self.hub().subscribe(conn, subscription, last_event_id.as_deref());
        Ok(Socket::new(Arc::clone(&self.object), key, frames))
    }

    /// A web client with this query that has received its first event.
    pub async fn web(&self, query: &str) -> Web {
        let mut web = Web(self.open_event_stream(query, None, Format::Json).await.unwrap());
        assert_eq!(web.next_event().await["type"], "connection-changed");
        web
    }
}
