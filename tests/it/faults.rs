//! Every use case on a database with faults: what passes is tried again and nothing is doubled; what lasts is told, undone,
//! and over with the next try; the sockets stay.

use crate::support::cli::Cli;
use crate::support::door::Asked;
use crate::support::rest::{Awaited, Reply};
use crate::support::sqlite::On;
use crate::support::web::Web;
use crate::support::{World, quiet};
use serde_json::{Value, json};
use session_gateway_hub::store::DbError;

/// What a client asks for that ends in the database.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deed {
    Message,
    WebMessage,
    Metadata,
    State,
    Begin,
    End,
    Make,
    Rename,
    Archive,
    Delete,
    Machine,
    MachineState,
    MachineBegin,
}

const DEEDS: [Deed; 13] = [
    Deed::Message,
    Deed::WebMessage,
    Deed::Metadata,
    Deed::State,
    Deed::Begin,
    Deed::End,
    Deed::Make,
    Deed::Rename,
    Deed::Archive,
    Deed::Delete,
    Deed::Machine,
    Deed::MachineState,
    Deed::MachineBegin,
];

/// How the database meets it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// Two passing faults, then all is well.
    Passing,
    /// It is committed, and the answer lost with a fault that passes.
    AnswerLost,
    /// The answer takes its time.
    Slow,
    /// It is refused.
    Lasting,
    /// No answer comes, and nothing is done.
    Silent,
    /// No answer comes, though it is done.
    SilentlyDone,
}

/// A hub with a session that is alive, one that is not, and a machine; who asks, and who listens.
struct Stage {
    world: World,
    session: String,
    idle: String,
    cli: Cli,
    web: Web,
    listener: Web,
}

/// An answer on its way.
enum Pending {
    Ack(u64),
    Reply(Awaited),
}

/// The answer: of a CLI's event or of a request.
enum Answer {
    Ack(Value),
    Reply(Reply),
}

impl Answer {
    fn done(&self) -> bool {
        match self {
            Self::Ack(ack) => ack["ok"] == true || ack["result"] == "success",
            Self::Reply(reply) => reply.status == 200,
        }
    }

    /// Whether it tells a client to come again, as it has to where the fault is the database's.
    fn says_come_again(&self) -> bool {
        match self {
            Self::Ack(ack) => ack["code"] == "unavailable",
            Self::Reply(reply) => {
                let code = reply.json()["code"].clone();
                let later = reply.status == 503 && reply.headers.contains_key("retry-after");
                later && code == "hub_unavailable" || reply.status == 500 && code == "rename_failed"
            }
        }
    }
}

impl Stage {
    async fn set() -> Self {
        let world = World::new();
        let session = world.session("/code").await;
        let idle = world.session("/idle").await;
        world.machine("m").await;
        world.machine("idle").await;
        let mut cli = Self::connect(&world, &session).await;
        cli.alive(&world, &session).await;
        cli.register("killSession").await;
        let mut web = world.web("all=true").await;
        let listener = world.web(&format!("sessionId={session}")).await;
        quiet().await;
        web.events().await;
        Self { world, session, idle, cli, web, listener }
    }

    async fn connect(world: &World, session: &str) -> Cli {
        Cli::connect(world, json!({"sessionId": session, "machineId": "m"})).await
    }

    async fn begin(&mut self, deed: Deed) -> Pending {
        let (session, idle, now) = (self.session.clone(), self.idle.clone(), self.world.now());
        let cli = &mut self.cli;
        let world = &self.world;
        let post = |method: &str, path: String, body: &str| Pending::Reply(world.start(method, &path, body.to_owned()));
        match deed {
            Deed::Message => {
                Pending::Ack(cli.emit_asking("message", &json!({"sid": session, "message": {"n": 1}, "localId": "l"})))
            }
            Deed::WebMessage => {
                post("POST", format!("/api/sessions/{session}/messages"), r#"{"text":"hi","localId":"l"}"#)
            }
            Deed::Metadata => {
                let metadata = json!({"path": "/code", "host": "new"});
                let update = json!({"sid": session, "expectedVersion": 1, "metadata": metadata});
                Pending::Ack(cli.emit_asking("update-metadata", &update))
            }
            Deed::State => {
                let state = json!({"requests": {"r": {"tool": "T"}}, "completedRequests": {"c": {"tool": "C"}}});
                let update = json!({"sid": session, "expectedVersion": 1, "agentState": state});
                Pending::Ack(cli.emit_asking("update-state", &update))
            }
            Deed::Begin => Pending::Ack(cli.emit_asking("session-alive", &json!({"sid": idle, "time": now}))),
            Deed::End => Pending::Ack(cli.emit_asking("session-end", &json!({"sid": session, "time": now}))),
            Deed::Make => {
                post("POST", "/cli/sessions".into(), r#"{"tag":"/new","metadata":{"path":"/new","host":"box"}}"#)
            }
            Deed::Rename => post("PATCH", format!("/api/sessions/{session}"), r#"{"name":"new"}"#),
            Deed::Archive => post("POST", format!("/api/sessions/{idle}/archive"), ""),
            Deed::Delete => post("DELETE", format!("/api/sessions/{idle}"), ""),
            Deed::Machine => post("POST", "/cli/machines".into(), r#"{"id":"n","metadata":{"host":"box"}}"#),
            Deed::MachineState => {
                let update = json!({"machineId": "m", "expectedVersion": 1, "runnerState": {"n": 1}});
                Pending::Ack(cli.emit_asking("machine-update-state", &update))
            }
            Deed::MachineBegin => {
                Pending::Ack(cli.emit_asking("machine-alive", &json!({"machineId": "idle", "time": now})))
            }
        }
    }

    async fn answer(&mut self, pending: Pending) -> Answer {
        match pending {
            Pending::Ack(id) => Answer::Ack(self.cli.acknowledged(id).await),
            Pending::Reply(reply) => Answer::Reply(reply.reply().await),
        }
    }

    /// How often it is done, as the database holds it.
    fn count(&self, deed: Deed) -> i64 {
        let (session, idle) = (&self.session, &self.idle);
        let of = |columns: &str, id: &str| format!("SELECT count(*) FROM sessions WHERE id = '{id}' AND {columns}");
        let machine = |columns: &str| format!("SELECT count(*) FROM machines WHERE {columns}");
        self.world.db.number(&match deed {
            Deed::Message | Deed::WebMessage => "SELECT count(*) FROM messages".to_owned(),
            Deed::Metadata => of("metadata_version = 2 AND metadata ->> 'host' = 'new'", session),
            Deed::State => of(
                "agent_state_version = 2 AND 1 = (SELECT count(*) FROM completed_requests WHERE session_id = id)",
                session,
            ),
            Deed::Begin => of("active", idle),
            Deed::End => of("NOT active", session),
            Deed::Make => "SELECT count(*) FROM sessions WHERE tag = '/new'".to_owned(),
            Deed::Rename => of("metadata_version = 2 AND metadata ->> 'name' = 'new'", session),
            Deed::Archive => of("metadata_version = 2 AND metadata ->> 'lifecycleState' = 'archived'", idle),
            Deed::Delete => format!("SELECT NOT EXISTS (SELECT 1 FROM sessions WHERE id = '{idle}')"),
            Deed::Machine => machine("id = 'n'"),
            Deed::MachineState => machine("id = 'm' AND runner_state_version = 2"),
            Deed::MachineBegin => machine("id = 'idle' AND active"),
        })
    }

    /// How many events tell web clients of it.
    async fn events(&mut self, deed: Deed) -> usize {
        let (session, idle) = (self.session.as_str(), self.idle.as_str());
        let (listener, all) = (self.listener.events().await, self.web.events().await);
        let told = |wanted: &str, id: Option<&str>, field: &str| {
            let is_it = |event: &&Value| {
                let about = event["sessionId"].as_str().or(event["machineId"].as_str());
                event["type"] == wanted
                    && id.is_none_or(|id| about == Some(id))
                    && (field.is_empty() || event["data"].get(field).is_some())
            };
            all.iter().filter(is_it).count()
        };
        match deed {
            Deed::Message | Deed::WebMessage => {
                listener.iter().filter(|event| event["type"] == "message-received").count()
            }
            Deed::Metadata | Deed::Rename => told("session-updated", Some(session), "metadataVersion"),
            Deed::State => told("session-updated", Some(session), "agentStateVersion"),
            Deed::Begin => told("session-updated", Some(idle), "active"),
            Deed::End => told("session-updated", Some(session), "active"),
            Deed::Make => told("session-added", None, ""),
            Deed::Archive => told("session-updated", Some(idle), "metadataVersion"),
            Deed::Delete => told("session-removed", Some(idle), ""),
            Deed::Machine => told("machine-updated", Some("n"), ""),
            Deed::MachineState => told("machine-updated", Some("m"), "runnerStateVersion"),
            Deed::MachineBegin => told("machine-updated", Some("idle"), ""),
        }
    }

    /// The time that pauses between attempts take passes.
    async fn attempts(&self) {
        for _ in 0..6 {
            quiet().await;
            self.world.rt.set_now(self.world.now() + 500);
        }
        quiet().await;
    }

    fn meets(&self, fault: Fault) {
        let db = &self.world.db;
        let passing = || DbError::Retryable("Network connection lost".into());
        let silent = || DbError::from_message("D1 did not answer in time".into());
        match fault {
            Fault::Passing => (0..2).for_each(|_| db.fail(On::Writes, passing())),
            Fault::AnswerLost => db.lose_answer(passing()),
            Fault::Slow => db.hold(On::Writes),
            Fault::Lasting => db.fail(On::Writes, DbError::Refused("disk I/O error".into())),
            Fault::Silent => db.fail(On::Writes, silent()),
            Fault::SilentlyDone => db.lose_answer(silent()),
        }
    }

    /// Nobody knows whether what was asked was done: a CLI that may have missed it is sent away, comes back, and looks.
    async fn looks_again(&mut self, deed: Deed) {
        if matches!(deed, Deed::WebMessage | Deed::Rename) {
            assert_eq!(self.cli.socket.closed().await, 1013, "{deed:?}");
            self.cli = Self::connect(&self.world, &self.session).await;
        }
    }

    /// The sockets are open, and whoever comes next is served.
    async fn lives_on(&mut self, about: &str) {
        assert!(self.cli.socket.is_open() && self.web.0.is_open() && self.listener.0.is_open(), "{about}");
        let session = self.world.session("/next").await;
        assert_eq!(self.cli.message(&session, "next").await["ok"], true, "{about}");
        let listed = self.world.get("/api/sessions").await.ok();
        assert!(listed["sessions"].as_array().unwrap().iter().any(|line| line["id"] == session.as_str()), "{about}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again_and_done_and_told_once() {
    for deed in DEEDS {
        for fault in [Fault::Passing, Fault::AnswerLost, Fault::Slow] {
            let about = format!("{deed:?}, {fault:?}");
            let mut stage = Stage::set().await;
            stage.meets(fault);
            let pending = stage.begin(deed).await;
            stage.attempts().await;
            stage.world.db.release();
            let answer = stage.answer(pending).await;
            assert!(answer.done(), "{about}");
            assert_eq!((stage.count(deed), stage.events(deed).await), (1, 1), "{about}");
            stage.lives_on(&about).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_lasts_is_told_and_undone_and_over_with_the_next_try() {
    for deed in DEEDS {
        for fault in [Fault::Lasting, Fault::Silent] {
            let about = format!("{deed:?}, {fault:?}");
            let mut stage = Stage::set().await;
            stage.meets(fault);
            let pending = stage.begin(deed).await;
            stage.attempts().await;
            let answer = stage.answer(pending).await;
            assert!(!answer.done() && answer.says_come_again(), "{about}");
            assert_eq!((stage.count(deed), stage.events(deed).await), (0, 0), "{about}");
            if fault == Fault::Silent {
                stage.looks_again(deed).await;
            }
            let again = stage.begin(deed).await;
            assert!(stage.answer(again).await.done(), "{about}, again");
            assert_eq!((stage.count(deed), stage.events(deed).await), (1, 1), "{about}, again");
            stage.lives_on(&about).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_done_in_silence_is_refused_and_found_by_the_next_one() {
    for deed in DEEDS {
        let about = format!("{deed:?}");
        let mut stage = Stage::set().await;
        let before = stage.world.db.writes();
        stage.meets(Fault::SilentlyDone);
        let pending = stage.begin(deed).await;
        stage.attempts().await;
        assert_eq!(stage.world.db.writes() - before, 1, "{about}: what may be done still is not sent again");
        let answer = stage.answer(pending).await;
        assert!(!answer.done() && answer.says_come_again(), "{about}");
        assert_eq!(stage.count(deed), 1, "{about}");
        stage.looks_again(deed).await;
        let again = stage.begin(deed).await;
        stage.answer(again).await;
        // These are a new version each time they are asked for.
        let counts_on = matches!(deed, Deed::Rename | Deed::Archive);
        assert!(counts_on || stage.count(deed) == 1, "{about}: once, also when it is asked for again");
        stage.lives_on(&about).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_slow_refuses_what_it_has_no_room_for_and_keeps_the_sockets() {
    let mut stage = Stage::set().await;
    stage.world.db.hold(On::Writes);
    let large = "x".repeat(1_000_000);
    for _ in 0..30 {
        stage.cli.emit("message", &json!({"sid": stage.idle, "message": large}));
        quiet().await;
    }
    for deed in [Deed::Message, Deed::Metadata, Deed::State, Deed::MachineState, Deed::WebMessage, Deed::Rename] {
        let pending = stage.begin(deed).await;
        match stage.answer(pending).await {
            Answer::Ack(ack) => assert_eq!(ack["code"], "overloaded", "{deed:?}"),
            Answer::Reply(reply) => {
                reply.refuses(503, "overloaded");
                assert!(reply.headers.contains_key("retry-after"), "{deed:?}");
            }
        }
    }
    stage.world.db.release();
    stage.attempts().await;
    stage.lives_on("when it is fast again").await;
}

/// A request through the edge, which answers pages of messages itself. The time of all attempts passes.
async fn get(stage: &Stage, path: &str) -> Reply {
    let (method, url, token) = ("GET".to_owned(), path.to_owned(), Some(stage.world.token()));
    let reply = stage.world.knock(Asked { method, url, token, ..Asked::default() });
    stage.attempts().await;
    reply.reply().await
}

#[tokio::test(start_paused = true)]
async fn whoever_reads_meets_a_passing_fault_only_when_it_stays() {
    let passing = || DbError::Retryable("Network connection lost".into());
    let stage = Stage::set().await;
    let world = &stage.world;
    let session = &stage.session;
    let paths = [
        "/api/sessions".to_owned(),
        "/api/machines".to_owned(),
        format!("/api/sessions/{session}"),
        format!("/api/sessions/{session}/messages"),
        format!("/cli/sessions/{session}/messages?afterSeq=0"),
        "/cli/machines/m".to_owned(),
    ];
    for path in paths {
        world.sleep_and_wake().await;
        for _ in 0..2 {
            world.db.fail(On::Reads, passing());
        }
        get(&stage, &path).await.ok();
        world.sleep_and_wake().await;
        for fault in [passing(), DbError::Refused("disk I/O error".into()), DbError::TimedOut("late".into())] {
            let (reads, attempts) = (world.db.reads(), if fault == passing() { 6 } else { 1 });
            world.db.break_down(On::Reads, fault);
            let refused = get(&stage, &path).await;
            assert_eq!(world.db.reads() - reads, attempts, "{path}");
            refused.refuses(503, "hub_unavailable");
            assert!(refused.headers.contains_key("retry-after"), "{path}");
            world.db.repair();
        }
        get(&stage, &path).await.ok();
    }
}
