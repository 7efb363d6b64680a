//! A deployment with three databases: where a namespace is.

mod copies;
mod moves;
mod outages;

use session_gateway_hub::auth::token::DEVICE_TOKEN_PREFIX;
use session_gateway_hub::http::edge::Edge;
use session_gateway_hub::store::Value as DbValue;

use crate::support::edge::{EdgeRequest, worker_edge, worker_of};
use crate::support::operator::{delete, export, full_namespace, import, operator};
use crate::support::prelude::*;

/// Three databases, and namespaces that use them.
struct Deployment([Arc<Sqlite>; 3]);

impl Deployment {
    /// Fails if a database has a row.
    fn assert_empty(&self) {
        for number in 1..=3 {
            assert_eq!(self.rows(number), [], "in the database {number}");
        }
    }

    fn new() -> Self {
        Self(std::array::from_fn(|_| Arc::new(Sqlite::with_schema())))
    }

    /// A namespace with a new object.
    fn namespace(&self, name: &str) -> World {
        self.namespace_with_closed(name, "")
    }

    /// A namespace of a deployment with a value of `DATABASES_CLOSED`.
    fn namespace_with_closed(&self, name: &str, closed: &'static str) -> World {
        let Self([one, two, three]) = self;
        World::with_databases(name, Arc::clone(one), vec![Arc::clone(two) as _, Arc::clone(three) as _], closed)
    }

    /// Makes a database larger.
    fn grow(&self, number: usize, bytes: usize) {
        self.0[number - 1].execute(&format!(
            "CREATE TABLE IF NOT EXISTS padding (a); INSERT INTO padding VALUES (zeroblob({bytes}))"
        ));
    }

    /// The numbers of the databases with the session's row.
    fn databases_with_session(&self, session: &str) -> Vec<usize> {
        let sql = format!("SELECT count(*) FROM sessions WHERE id = '{session}' AND namespace NOT LIKE '/%'");
        (1..=3).filter(|number| self.0[number - 1].number(&sql) == 1).collect()
    }

    /// The tables of a database that have rows, with the number of rows of each.
    fn rows(&self, number: usize) -> Vec<(String, i64)> {
        let db = &self.0[number - 1];
        let tables = db.select(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT IN ('secrets', 'padding')",
        );
        let count = |row: Vec<DbValue>| match row.as_slice() {
            [DbValue::Text(name)] => (name.clone(), db.number(&format!("SELECT count(*) FROM {name}"))),
            _ => panic!("{row:?}"),
        };
        tables.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
    }
}

fn tables(rows: &[(String, i64)]) -> Vec<&str> {
    rows.iter().map(|(name, _)| name.as_str()).collect()
}

async fn assert_stores_messages(world: &World, session: &str) {
    let ack = world.live_cli(session).await.send_message(session, "next").await;
    assert_eq!(ack["ok"], true, "{ack}");
}

async fn move_step(world: &World, to: &str) -> Reply {
    operator(world, "POST", "move", &json!({"to": to})).await
}

/// Moves a namespace. Returns the steps.
async fn move_to(world: &World, to: &str) -> Vec<String> {
    let mut steps = Vec::new();
    for _ in 0..1_000 {
        let reply = move_step(world, to).await.ok();
        if reply["isDone"] == true {
            return steps;
        }
        steps.push(reply["step"].as_str().unwrap().to_owned());
    }
    panic!("the move does not end: {steps:?}");
}

/// Reads messages at the edge.
async fn read_at_edge(world: &World, worker: &Edge, session: &str) -> Reply {
    let url = format!("/cli/sessions/{session}/messages?limit=200");
    let request = EdgeRequest { method: "GET".into(), url, token: Some(world.token()), ..EdgeRequest::default() };
    world.send_to_worker(worker, request).await
}

/// A session with messages.
async fn session_with_messages(world: &World, tag: &str, count: usize) -> String {
    let (session, mut cli) = world.active_session(tag).await;
    for number in 0..count {
        assert_eq!(cli.send_message(&session, &format!("{tag} {number}")).await["ok"], true);
    }
    cli.socket.close();
    run_until_idle().await;
    session
}

#[tokio::test(start_paused = true)]
async fn a_place_is_looked_up_once_by_each_worker_and_once_by_the_object() {
    let deployment = Deployment::new();
    deployment.grow(1, 1_000_000);
    let first = deployment.namespace("team");
    let session = session_with_messages(&first, "/a", 1).await;
    let lookups = || {
        let reads = deployment.0[0].read_batches();
        reads.iter().flatten().filter(|statement| statement.sql.contains("FROM namespace_places")).count()
    };
    let world = deployment.namespace("team");
    for worker in [worker_of(&world), worker_of(&world)] {
        let before = lookups();
        for _ in 0..3 {
            read_at_edge(&world, &worker, &session).await.ok();
            assert_eq!(lookups() - before, 1);
        }
    }
    let before = lookups();
    for _ in 0..3 {
        world.get(&format!("/api/sessions/{session}")).await.ok();
        // The object has the place in its storage.
        world.redeploy();
        assert_eq!(lookups() - before, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_namespace_goes_to_the_emptiest_database_and_stays_there() {
    let deployment = Deployment::new();
    deployment.grow(1, 3_000_000);
    deployment.grow(2, 1_000_000);
    let world = deployment.namespace("team");
    let session = world.create_session("/a").await;
    assert_eq!(deployment.databases_with_session(&session), [3]);
    assert_eq!(world.get("/api/status").await.ok()["database"]["name"], "DB_3");
    deployment.grow(3, 9_000_000);
    world.redeploy();
    assert_eq!(deployment.databases_with_session(&world.create_session("/b").await), [3]);
    let without_storage = deployment.namespace("team");
    without_storage.rt.set_now(world.now() + 1_000);
    without_storage.redeploy();
    assert_eq!(deployment.databases_with_session(&without_storage.create_session("/c").await), [3]);
    assert_eq!(deployment.databases_with_session(&deployment.namespace("other").create_session("/a").await), [2]);
    assert_eq!(tables(&deployment.rows(3)), ["sessions", "fences"]);
    assert_eq!(tables(&deployment.rows(1)), ["namespace_places"]);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_closed_gets_no_new_namespace() {
    let deployment = Deployment::new();
    deployment.grow(2, 1_000_000);
    let world = deployment.namespace_with_closed("team", "DB, DB_3");
    assert_eq!(deployment.databases_with_session(&world.create_session("/a").await), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_existed_before_the_further_databases_remains_in_the_first() {
    let deployment = Deployment::new();
    let before = World::in_namespace("team", Arc::clone(&deployment.0[0]));
    let session = session_with_messages(&before, "/a", 2).await;
    deployment.grow(1, 1_000_000);
    let world = deployment.namespace("team");
    let worker = worker_of(&world);
    assert_eq!(read_at_edge(&world, &worker, &session).await.ok()["messages"].as_array().unwrap().len(), 2);
    assert_eq!(deployment.databases_with_session(&world.create_session("/b").await), [1]);
}

#[tokio::test(start_paused = true)]
async fn only_one_database_needs_no_place_and_no_further_query() {
    let world = World::new();
    let session = session_with_messages(&world, "/a", 2).await;
    read_at_edge(&world, &worker_edge(&world.db), &session).await.ok();
    assert_eq!(world.db.number("SELECT count(*) FROM namespace_places"), 0);
    assert_eq!(world.db.number("SELECT count(*) FROM fences"), 1);
    assert!(!world.rt.stored_entries().contains_key("database"));
    let batches = world.db.read_batches().into_iter().chain(world.db.write_batches());
    assert!(batches.flatten().all(|statement| !statement.sql.contains("namespace_places")));
    move_step(&world, "DB_2").await.assert_error(400, "invalid_field");
    assert_eq!(move_step(&world, "DB").await.ok(), json!({"isDone": true}));
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_valid_token_causes_no_row() {
    let deployment = Deployment::new();
    let of_device = format!("{DEVICE_TOKEN_PREFIX}{}", "x".repeat(43));
    for token in ["wrong", of_device.as_str()] {
        for world in [deployment.namespace("team"), World::in_namespace("team", Arc::clone(&deployment.0[0]))] {
            let mut cli = Cli::start_connect(&world, &json!({"token": token}));
            assert!(matches!(cli.receive().await, Received::Open(_)));
            assert!(matches!(cli.receive().await, Received::ConnectError(_)));
            run_until_idle().await;
            assert_eq!(deployment.rows(1), [], "{token}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_in_another_database_is_exported_and_imported() {
    let deployment = Deployment::new();
    deployment.grow(1, 1_000_000);
    let world = full_namespace(deployment.namespace("team")).await;
    let lines = export(&world).await;
    let single = World::new();
    import(&single, &lines).await;
    assert!(export(&single).await == lines);
    delete(&world).await;
    deployment.grow(2, 1_000_000);
    import(&world, &lines).await;
    assert!(export(&world).await == lines);
    assert!(tables(&deployment.rows(3)).contains(&"messages"));
}

#[tokio::test(start_paused = true)]
async fn the_list_of_databases_has_their_sizes_and_counts_each_namespace_once() {
    let deployment = Deployment::new();
    deployment.grow(1, 3_000_000);
    let world = deployment.namespace_with_closed("team", "DB_3");
    world.create_session("/a").await;
    deployment.namespace_with_closed("other", "DB,DB_2").create_session("/a").await;
    let list = async || operator(&world, "GET", "databases", &Value::Null).await.ok()["databases"].clone();
    let fields =
        |list: &Value, field: &str| list.as_array().unwrap().iter().map(|d| d[field].clone()).collect::<Vec<_>>();
    let before = list().await;
    assert_eq!(fields(&before, "name"), ["DB", "DB_2", "DB_3"]);
    assert_eq!(fields(&before, "namespaces"), [0, 1, 1]);
    assert_eq!(fields(&before, "isOpen"), [true, true, false]);
    assert!(before[0]["bytes"].as_u64().unwrap() > 3_000_000 && before[1]["bytes"].as_u64().unwrap() < 1_000_000);
    move_to(&world, "DB_3").await;
    assert_eq!(fields(&list().await, "namespaces"), [0, 0, 2]);
}

#[tokio::test(start_paused = true)]
async fn the_health_check_covers_every_database() {
    let deployment = Deployment::new();
    let world = deployment.namespace("team");
    let request = || EdgeRequest { method: "GET".into(), url: "/health?deep=1".into(), ..EdgeRequest::default() };
    assert_eq!(world.send_to_worker(&worker_of(&world), request()).await.ok()["database"], "ok");
    deployment.0[2].execute("DROP TABLE moved_namespaces");
    world.send_to_worker(&worker_of(&world), request()).await.assert_error(503, "hub_unavailable");
}
