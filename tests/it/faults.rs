//! Every use case that writes, with every kind of database fault. After a transient fault, the write is retried without
//! duplicates. After a permanent fault, the change is reported as failed and reverted. Sockets stay open.

use crate::support::edge::EdgeRequest;
use crate::support::prelude::*;

/// A use case that writes to the database.
#[derive(Debug, Clone, Copy, PartialEq)]
enum UseCase {
    Message,
    WebMessage,
    UpdateMetadata,
    UpdateState,
    KeepAlive,
    SessionEnd,
    CreateSession,
    Rename,
    Archive,
    Delete,
    RegisterMachine,
    UpdateMachineState,
    MachineKeepAlive,
}

use UseCase::*;

const USE_CASES: [UseCase; 13] = [
    Message,
    WebMessage,
    UpdateMetadata,
    UpdateState,
    KeepAlive,
    SessionEnd,
    CreateSession,
    Rename,
    Archive,
    Delete,
    RegisterMachine,
    UpdateMachineState,
    MachineKeepAlive,
];

/// A fault of the batch of a use case.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// Two attempts fail with a transient error, then the batch succeeds.
    Transient,
    /// The batch is committed, but its result is a transient error.
    ResultLost,
    /// The result is delayed.
    Slow,
    /// The database refuses the batch.
    Permanent,
    /// The result is a timeout, and the batch is not committed.
    TimedOut,
    /// The result is a timeout, although the batch is committed.
    TimedOutCommitted,
}

/// A hub with an active session, an idle session and two machines, and its clients.
struct Fixture {
    world: World,
    session: String,
    idle_session: String,
    /// The CLI of the active session and of the machine `m`.
    cli: Cli,
    /// A web client that receives all events except messages.
    web: Web,
    /// A web client that receives the messages of the active session.
    session_web: Web,
}

/// A pending acknowledgement or response.
enum PendingAnswer {
    Ack(u64),
    Reply(PendingReply),
}

/// The acknowledgement of an event or the response to a request.
enum Answer {
    Ack(Value),
    Reply(Reply),
}

impl Answer {
    fn is_success(&self) -> bool {
        match self {
            Self::Ack(ack) => ack["ok"] == true || ack["result"] == "success",
            Self::Reply(reply) => reply.status == 200,
        }
    }

    /// Whether the answer asks the client to retry.
    fn asks_to_retry(&self) -> bool {
        match self {
            Self::Ack(ack) => ack["code"] == "unavailable",
            Self::Reply(reply) => {
                let code = reply.json()["code"].clone();
                let is_unavailable = reply.status == 503 && reply.headers.contains_key("retry-after");
                is_unavailable && code == "hub_unavailable" || reply.status == 500 && code == "rename_failed"
            }
        }
    }
}

impl Fixture {
    async fn new() -> Self {
        let (world, session) = idle_session().await;
        let idle_session = world.create_session("/idle").await;
        world.register_machine("m").await;
        world.register_machine("idle").await;
        let mut cli = Self::connect(&world, &session).await;
        cli.send_keep_alive(&world, &session).await;
        cli.register("killSession").await;
        let mut web = world.web("all=true").await;
        let session_web = world.web(&format!("sessionId={session}")).await;
        web.events().await;
        Self { world, session, idle_session, cli, web, session_web }
    }

    async fn connect(world: &World, session: &str) -> Cli {
        Cli::connect(world, json!({"sessionId": session, "machineId": "m"})).await
    }

    /// Starts a use case.
    async fn start(&mut self, use_case: UseCase) -> PendingAnswer {
        let (session, idle, now) = (self.session.clone(), self.idle_session.clone(), self.world.now());
        let (cli, world) = (&mut self.cli, &self.world);
        let mut emit = |event: &str, payload: Value| PendingAnswer::Ack(cli.emit_for_ack(event, &payload));
        let request =
            |method: &str, path: String, body: &str| PendingAnswer::Reply(world.start(method, &path, body.to_owned()));
        let metadata = json!({"path": "/code", "host": "new"});
        let state = json!({"requests": {"r": {"tool": "T"}}, "completedRequests": {"c": {"tool": "C"}}});
        let new_session = r#"{"tag":"/new","metadata":{"path":"/new","host":"box"}}"#;
        let (messages, message) = (format!("/api/sessions/{session}/messages"), r#"{"text":"hi","localId":"l"}"#);
        match use_case {
            Message => emit("message", json!({"sid": session, "message": {"n": 1}, "localId": "l"})),
            WebMessage => request("POST", messages, message),
            UpdateMetadata => {
                emit("update-metadata", json!({"sid": session, "expectedVersion": 1, "metadata": metadata}))
            }
            UpdateState => emit("update-state", json!({"sid": session, "expectedVersion": 1, "agentState": state})),
            KeepAlive => emit("session-alive", json!({"sid": idle, "time": now})),
            SessionEnd => emit("session-end", json!({"sid": session, "time": now})),
            CreateSession => request("POST", "/cli/sessions".into(), new_session),
            Rename => request("PATCH", format!("/api/sessions/{session}"), r#"{"name":"new"}"#),
            Archive => request("POST", format!("/api/sessions/{idle}/archive"), ""),
            Delete => request("DELETE", format!("/api/sessions/{idle}"), ""),
            RegisterMachine => request("POST", "/cli/machines".into(), r#"{"id":"n","metadata":{"host":"box"}}"#),
            UpdateMachineState => {
                let update = json!({"machineId": "m", "expectedVersion": 1, "runnerState": {"n": 1}});
                emit("machine-update-state", update)
            }
            MachineKeepAlive => emit("machine-alive", json!({"machineId": "idle", "time": now})),
        }
    }

    /// Waits for the answer.
    async fn answer(&mut self, pending: PendingAnswer) -> Answer {
        match pending {
            PendingAnswer::Ack(id) => Answer::Ack(self.cli.wait_for_ack(id).await),
            PendingAnswer::Reply(reply) => Answer::Reply(reply.reply().await),
        }
    }

    /// The number of times that the use case was committed.
    fn commit_count(&self, use_case: UseCase) -> i64 {
        let (session, idle) = (&self.session, &self.idle_session);
        let session_row =
            |columns: &str, id: &str| format!("SELECT count(*) FROM sessions WHERE id = '{id}' AND {columns}");
        let machine = |columns: &str| format!("SELECT count(*) FROM machines WHERE {columns}");
        self.world.db.number(&match use_case {
            Message | WebMessage => "SELECT count(*) FROM messages".to_owned(),
            UpdateMetadata => session_row("metadata_version = 2 AND metadata ->> 'host' = 'new'", session),
            UpdateState => session_row(
                "agent_state_version = 2 AND 1 = (SELECT count(*) FROM completed_requests WHERE session_id = id)",
                session,
            ),
            KeepAlive => session_row("active", idle),
            SessionEnd => session_row("NOT active", session),
            CreateSession => "SELECT count(*) FROM sessions WHERE tag = '/new'".to_owned(),
            Rename => session_row("metadata_version = 2 AND metadata ->> 'name' = 'new'", session),
            Archive => session_row("metadata_version = 2 AND metadata ->> 'lifecycleState' = 'archived'", idle),
            Delete => {
                format!("SELECT NOT EXISTS (SELECT 1 FROM sessions WHERE id = '{idle}' AND namespace NOT GLOB '/*')")
            }
            RegisterMachine => machine("id = 'n'"),
            UpdateMachineState => machine("id = 'm' AND runner_state_version = 2"),
            MachineKeepAlive => machine("id = 'idle' AND active"),
        })
    }

    /// The number of events of the use case that web clients received.
    async fn event_count(&mut self, use_case: UseCase) -> usize {
        let (session, idle) = (self.session.as_str(), self.idle_session.as_str());
        let (session_web, all) = (self.session_web.events().await, self.web.events().await);
        let count = |event_type: &str, id: Option<&str>, field: &str| {
            let matches = |event: &&Value| {
                let event_id = event["sessionId"].as_str().or(event["machineId"].as_str());
                event["type"] == event_type
                    && id.is_none_or(|id| event_id == Some(id))
                    && (field.is_empty() || event["data"].get(field).is_some())
            };
            all.iter().filter(matches).count()
        };
        match use_case {
            Message | WebMessage => session_web.iter().filter(|event| event["type"] == "message-received").count(),
            UpdateMetadata | Rename => count("session-updated", Some(session), "metadataVersion"),
            UpdateState => count("session-updated", Some(session), "agentStateVersion"),
            KeepAlive => count("session-updated", Some(idle), "active"),
            SessionEnd => count("session-updated", Some(session), "active"),
            CreateSession => count("session-added", None, ""),
            Archive => count("session-updated", Some(idle), "metadataVersion"),
            Delete => count("session-removed", Some(idle), ""),
            RegisterMachine => count("machine-updated", Some("n"), ""),
            UpdateMachineState => count("machine-updated", Some("m"), "runnerStateVersion"),
            MachineKeepAlive => count("machine-updated", Some("idle"), ""),
        }
    }

    /// Advances the clock by 3 s, which is enough for the first retries of a batch.
    async fn advance_past_first_retries(&self) {
        for _ in 0..6 {
            run_until_idle().await;
            self.world.rt.set_now(self.world.now() + 500);
        }
        run_until_idle().await;
    }

    /// Injects a fault into the next write.
    fn inject(&self, fault: Fault) {
        let db = &self.world.db;
        let timed_out = || DbError::Unavailable("D1 did not answer in time".into());
        match fault {
            Fault::Transient => (0..2).for_each(|_| db.fail(BatchKind::Writes, retryable_error())),
            Fault::ResultLost => db.lose_response(retryable_error()),
            Fault::Slow => db.hold_results(BatchKind::Writes),
            Fault::Permanent => db.fail(BatchKind::Writes, permanent_error()),
            Fault::TimedOut => db.fail(BatchKind::Writes, timed_out()),
            Fault::TimedOutCommitted => db.lose_response(timed_out()),
        }
    }

    /// Reconnects the CLI if the hub has disconnected it, because it may have missed a committed change.
    async fn reconnect(&mut self, use_case: UseCase) {
        if matches!(use_case, WebMessage | Rename) {
            assert_eq!(self.cli.socket.wait_for_close().await, 1013, "{use_case:?}");
            self.cli = Self::connect(&self.world, &self.session).await;
        }
    }

    /// Checks that the sockets are open and that further requests succeed.
    async fn check_healthy(&mut self, case: &str) {
        assert!(self.cli.socket.is_open() && self.web.0.is_open() && self.session_web.0.is_open(), "{case}");
        let session = self.world.create_session("/next").await;
        assert_eq!(self.cli.send_message(&session, "next").await["ok"], true, "{case}");
        let listed = self.world.get("/api/sessions").await.ok();
        assert!(listed["sessions"].as_array().unwrap().iter().any(|line| line["id"] == session.as_str()), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_transient_fault_the_write_is_retried_and_the_change_is_published_once() {
    for use_case in USE_CASES {
        for fault in [Fault::Transient, Fault::ResultLost, Fault::Slow] {
            let case = format!("{use_case:?}, {fault:?}");
            let mut fixture = Fixture::new().await;
            fixture.inject(fault);
            let pending = fixture.start(use_case).await;
            fixture.advance_past_first_retries().await;
            fixture.world.db.release_results();
            assert!(fixture.answer(pending).await.is_success(), "{case}");
            assert_eq!((fixture.commit_count(use_case), fixture.event_count(use_case).await), (1, 1), "{case}");
            fixture.check_healthy(&case).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_permanent_fault_the_change_is_reverted_and_the_next_attempt_succeeds() {
    for use_case in USE_CASES {
        for fault in [Fault::Permanent, Fault::TimedOut] {
            let case = format!("{use_case:?}, {fault:?}");
            let mut fixture = Fixture::new().await;
            fixture.inject(fault);
            let pending = fixture.start(use_case).await;
            fixture.advance_past_first_retries().await;
            let answer = fixture.answer(pending).await;
            assert!(!answer.is_success() && answer.asks_to_retry(), "{case}");
            assert_eq!((fixture.commit_count(use_case), fixture.event_count(use_case).await), (0, 0), "{case}");
            if fault == Fault::TimedOut {
                fixture.reconnect(use_case).await;
            }
            let again = fixture.start(use_case).await;
            assert!(fixture.answer(again).await.is_success(), "{case}, again");
            assert_eq!((fixture.commit_count(use_case), fixture.event_count(use_case).await), (1, 1), "{case}, again");
            fixture.check_healthy(&case).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_finds_a_change_that_was_committed_despite_a_timeout() {
    for use_case in USE_CASES {
        let case = format!("{use_case:?}");
        let mut fixture = Fixture::new().await;
        let before = fixture.world.db.write_count();
        fixture.inject(Fault::TimedOutCommitted);
        let pending = fixture.start(use_case).await;
        fixture.advance_past_first_retries().await;
        assert_eq!(fixture.world.db.write_count() - before, 1, "{case}: a batch of unknown outcome is not repeated");
        let answer = fixture.answer(pending).await;
        assert!(!answer.is_success() && answer.asks_to_retry(), "{case}");
        assert_eq!(fixture.commit_count(use_case), 1, "{case}");
        fixture.reconnect(use_case).await;
        let again = fixture.start(use_case).await;
        fixture.answer(again).await;
        // Each rename or archive creates a new version.
        let creates_version = matches!(use_case, Rename | Archive);
        assert!(creates_version || fixture.commit_count(use_case) == 1, "{case}: once, although requested again");
        fixture.check_healthy(&case).await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_database_is_slow_changes_are_overloaded_and_sockets_stay_open() {
    let mut fixture = Fixture::new().await;
    fixture.world.db.hold_results(BatchKind::Writes);
    let large = "x".repeat(1_000_000);
    for _ in 0..30 {
        fixture.cli.deliver("message", &json!({"sid": fixture.idle_session, "message": large})).await;
    }
    for use_case in [Message, UpdateMetadata, UpdateState, UpdateMachineState, WebMessage, Rename, RegisterMachine] {
        let pending = fixture.start(use_case).await;
        match fixture.answer(pending).await {
            Answer::Ack(ack) => assert_eq!(ack["code"], "overloaded", "{use_case:?}"),
            Answer::Reply(reply) => {
                reply.assert_error(503, "overloaded");
                assert!(reply.headers.contains_key("retry-after"), "{use_case:?}");
            }
        }
    }
    fixture.world.db.release_results();
    fixture.advance_past_first_retries().await;
    fixture.check_healthy("after the database is fast again").await;
}

/// Sends a GET request through the edge, which reads pages of messages itself. Waits for all attempts of the reads.
async fn get(fixture: &Fixture, path: &str) -> Reply {
    let (method, url, token) = ("GET".to_owned(), path.to_owned(), Some(fixture.world.token()));
    let reply = fixture.world.send_to_edge(EdgeRequest { method, url, token, ..EdgeRequest::default() });
    fixture.world.exhaust_retries().await;
    reply.reply().await
}

#[tokio::test(start_paused = true)]
async fn reads_are_retried_after_transient_faults() {
    let fixture = Fixture::new().await;
    let world = &fixture.world;
    let session = &fixture.session;
    let paths = [
        "/api/sessions".to_owned(),
        "/api/machines".to_owned(),
        format!("/api/sessions/{session}"),
        format!("/api/sessions/{session}/messages"),
        format!("/cli/sessions/{session}/messages?afterSeq=0"),
        "/cli/machines/m".to_owned(),
    ];
    for path in paths {
        world.hibernate_and_wake().await;
        for _ in 0..2 {
            world.db.fail(BatchKind::Reads, retryable_error());
        }
        get(&fixture, &path).await.ok();
        world.hibernate_and_wake().await;
        for fault in [retryable_error(), permanent_error(), DbError::Unavailable("late".into())] {
            let (reads, is_retried) = (world.db.read_count(), fault == retryable_error());
            world.db.fail_all(BatchKind::Reads, fault);
            let refused = get(&fixture, &path).await;
            let attempts = world.db.read_count() - reads;
            // After a wake, the end of the event log is read with a session.
            assert!(if is_retried { attempts > 60 } else { attempts <= 2 }, "{path}: {attempts}");
            refused.assert_error(503, "hub_unavailable");
            assert!(refused.headers.contains_key("retry-after"), "{path}");
            world.db.repair();
        }
        get(&fixture, &path).await.ok();
    }
}
