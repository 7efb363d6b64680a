//! Upgrades: a database of each earlier schema, with the rows that a hub of that version wrote, gets the later migrations. Then
//! the hub serves all of its data.

use std::ops::RangeInclusive;

use crate::support::prelude::*;
use crate::support::replay::reconnect;
use session_gateway_hub::hub::core::events::stream::HEAD_KEY;

/// The size of each part of a large value.
const PART_BYTES: usize = 1_000;

const LATEST: usize = usize::MAX;

/// The number of migrations up to `0018_held_messages.sql`.
const HELD_MESSAGES: usize = 18;

/// Rows that a hub writes to a database with the schemas from the first migration to the last. Each statement has the columns of the
/// first schema.
const ROWS: [(RangeInclusive<usize>, &str); 16] = [
    // Sessions of two namespaces, the messages of one, a machine. A message needs no local id.
    (
        1..=LATEST,
        r#"
INSERT INTO sessions (id, namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active, thinking, mode,
  metadata, metadata_version, agent_state, agent_state_version, todos, permission_mode, model_mode)
VALUES
  ('s1', 'team', '/code', 3, 1000, 3000, 3000, 2000, 0, 0, 'remote', '{"path":"/code","host":"box","x": 1.0}', 4,
    '{"requests":{"open":{"tool":"Bash","arguments":{}}}}', 7,
    '[{"id":"t","content":"Test","status":"pending","priority":"high"}]', 'plan', 'model_fast'),
  ('s2', 'team', '/bare', 0, 1000, 1000, 1000, 0, 0, 0, NULL, NULL, 1, NULL, 1, NULL, NULL, NULL),
  ('s3', 'other', '/code', 1, 1000, 1000, 1000, 0, 0, 0, NULL, '{"path":"/code","host":"box"}', 1, NULL, 1, NULL, NULL, NULL);
INSERT INTO messages (session_id, seq, id, local_id, created_at, content) VALUES
  ('s1', 1, 'm1', 'l1', 1001, '{"role":"user","content":{"type":"text","text":"one"}}'),
  ('s1', 2, 'm2', NULL, 1002, '{ "n":1.0, "n":"\ud800" }'),
  ('s3', 1, 'm3', 'l1', 1001, '"other"');
INSERT INTO machines (id, namespace, seq, created_at, updated_at, active, active_at, metadata, metadata_version,
  runner_state, runner_state_version)
VALUES ('k1', 'team', 0, 1000, 2000, 0, 2000, '{"host":"box","platform":"linux"}', 2, '{"status":"running"}', 3);
INSERT INTO secrets (name, value) VALUES ('jwt', 'secret');"#,
    ),
    // The third message of `s1`, before messages had parts.
    (
        1..=2,
        r#"INSERT INTO messages (session_id, seq, id, local_id, created_at, content) VALUES ('s1', 3, 'm-large', 'l3', 1003, '"small"');"#,
    ),
    (
        2..=LATEST,
        r#"
INSERT INTO completed_requests (session_id, request_id, completed_at, value)
VALUES ('s1', 'done', 1500, '{"tool":"Bash","arguments":{},"status":"approved","completedAt":1500}');"#,
    ),
    (
        3..=LATEST,
        r#"
INSERT INTO messages (session_id, seq, id, local_id, created_at, parts, bytes, content)
VALUES ('s1', 3, 'm-large', 'l3', 1003, 2, 2002, '"' || printf('%.999c', 'a'));"#,
    ),
    (
        3..=4,
        r#"
INSERT INTO message_parts (session_id, seq, part, content) VALUES
  ('s1', 3, 1, printf('%.1000c', 'b')), ('s1', 3, 2, 'c"');"#,
    ),
    (
        5..=LATEST,
        r#"
INSERT INTO message_parts (session_id, message_id, part, content) VALUES
  ('s1', 'm-large', 1, printf('%.1000c', 'b')), ('s1', 'm-large', 2, 'c"');"#,
    ),
    // Three events, the last two in one row.
    (
        4..=LATEST,
        r#"
INSERT INTO events (namespace, last, floor, events, bytes, body) VALUES
  ('team', 101, 100, 1, 60, '101' || char(9) || 's"s1"' || char(9) || '{"type":"session-updated","sessionId":"s1","data":{}}' || char(10)),
  ('team', 103, 101, 2, 120, '102' || char(9) || 's"s1"' || char(9) || '{"type":"session-updated","sessionId":"s1","data":{}}' || char(10) ||
    '103' || char(9) || 'm"k1"' || char(9) || '{"type":"machine-updated","machineId":"k1","data":{}}' || char(10));"#,
    ),
    (
        6..=LATEST,
        r#"
INSERT INTO push_subscriptions (namespace, endpoint, p256dh, auth, hub, created_at)
VALUES ('team', 'https://push.example/1', 'key', 'auth', NULL, 1000);"#,
    ),
    (13..=LATEST, "UPDATE push_subscriptions SET device = 'desk' WHERE endpoint = 'https://push.example/1';"),
    (
        15..=LATEST,
        "UPDATE push_subscriptions SET token_device = 'd1' WHERE endpoint = 'https://push.example/1';
          INSERT INTO namespaces VALUES ('team', 1);",
    ),
    (
        16..=LATEST,
        r#"UPDATE sessions SET unseen_since = 2500, ended_at = 2600, muted = 1, request_times = '{"open":2700}' WHERE id = 's1';"#,
    ),
    (HELD_MESSAGES..=LATEST, "INSERT INTO held_messages VALUES ('s2', 'held', 2800, '{}');"),
    (
        7..=LATEST,
        r#"
UPDATE sessions SET metadata = '{"path":"/bare","host":"box"}', metadata_parts = '1/2/2000/v1' WHERE id = 's2';
INSERT INTO value_parts (namespace, owner, whole, part, content) VALUES
  ('team', 's2', '1/2/2000/v1', 1, '{"path":"/bare","host":"box","x":"' || printf('%.966c', 'x')),
  ('team', 's2', '1/2/2000/v1', 2, printf('%.998c', 'x') || '"}');"#,
    ),
    (8..=LATEST, "INSERT INTO fences (namespace, epoch) VALUES ('team', 5);"),
    // A session `s4` that has taken the history of `s5`, and a deleted session `s6` whose message was not swept yet.
    (
        9..=LATEST,
        r#"
INSERT INTO sessions (id, namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active, thinking,
  metadata, metadata_version, agent_state_version, history)
VALUES
  ('s4', 'team', '/merged', 2, 1000, 1000, 1000, 0, 0, 0, '{"path":"/merged","host":"box"}', 1, 1, 's5'),
  ('s5', '//team', 's5', 1, 1000, 1000, 1000, 0, 0, 0, NULL, 1, 1, 's5'),
  ('s6', '/team', 's6', 1, 1000, 1000, 1000, 0, 0, 0, NULL, 1, 1, NULL);
INSERT INTO messages (session_id, seq, id, local_id, created_at, content) VALUES
  ('s5', 1, 'm5', 'l1', 1001, '"of the old session"'), ('s5', 2, 'm4', 'l2', 1002, '"of the new session"'),
  ('s6', 1, 'm6', NULL, 1001, '"deleted"');"#,
    ),
    (10..=LATEST, "UPDATE fences SET history_epoch = 5 WHERE namespace = 'team';"),
];

/// A database with the first `schema` migrations, the rows of a hub of that version, and then the other migrations.
fn upgraded_from(schema: usize) -> Arc<Sqlite> {
    let db = Sqlite::without_schema();
    let migrations = Sqlite::migrations();
    let (earlier, later) = migrations.split_at(schema);
    earlier.iter().for_each(|sql| db.execute(sql));
    let written = ROWS.iter().filter(|(schemas, _)| schemas.contains(&schema));
    written.for_each(|(_, sql)| db.execute(sql));
    later.iter().for_each(|sql| db.execute(sql));
    Arc::new(db)
}

/// The content of the third message of `s1`.
fn third_message(schema: usize) -> Value {
    match schema {
        1 | 2 => json!("small"),
        _ => json!(format!("{}{}c", "a".repeat(PART_BYTES - 1), "b".repeat(PART_BYTES))),
    }
}

async fn assert_sessions_are_served(world: &World, schema: usize) {
    let list = world.get("/api/sessions").await.ok();
    let mut ids: Vec<&str> = list["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let expected: &[&str] = if schema >= 9 { &["s1", "s2", "s4"] } else { &["s1", "s2"] };
    assert_eq!(ids, expected);

    let session = world.get_session("s1").await;
    let expected = json!({
        "id": "s1", "tag": "/code", "seq": 3, "active": false, "mode": "remote", "metadataVersion": 4,
        "metadata": {"path": "/code", "host": "box", "x": 1.0}, "agentStateVersion": 7, "permissionMode": "plan",
        "modelMode": "model_fast",
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&session[name], value, "{name}");
    }
    assert_eq!(session["todos"][0]["content"], "Test");
    assert_eq!(session["agentState"]["requests"]["open"]["tool"], "Bash");
    let completed = if schema >= 2 { json!("approved") } else { Value::Null };
    assert_eq!(session["agentState"]["completedRequests"]["done"]["status"], completed);

    let metadata = world.get_session("s2").await["metadata"].clone();
    let held = world.get("/api/sessions/s2/held-messages").await.ok();
    assert_eq!(held["messages"].as_array().unwrap().len(), usize::from(schema >= HELD_MESSAGES));
    let padding = metadata["x"].as_str().map(str::len);
    assert_eq!(padding, (schema >= 7).then_some(966 + 998), "metadata in parts");
}

async fn assert_messages_are_served(world: &World, schema: usize) {
    let text = world.get("/api/sessions/s1/messages?afterSeq=0").await.text;
    assert!(text.contains(r#""content":{ "n":1.0, "n":"\ud800" },"#), "not as it was written: {text}");
    let third = world.get("/api/sessions/s1/messages?afterSeq=2").await.ok();
    assert_eq!(third["messages"][0]["content"], third_message(schema));
    assert_eq!(third["messages"].as_array().unwrap().len(), 1);

    let mut cli = world.live_cli("s1").await;
    let repeated = json!({"sid": "s1", "message": "new", "localId": "l1"});
    assert_eq!(cli.emit_with_ack("message", &repeated).await["id"], "m1");
    let next = json!({"sid": "s1", "message": "new", "localId": "l4"});
    assert_eq!(cli.emit_with_ack("message", &next).await["seq"], 4);
}

/// Checks that the merged session has the history of the other session, and accepts messages.
async fn assert_merged_session_is_served(world: &World) {
    let contents = async || {
        let page = world.get("/api/sessions/s4/messages").await.ok();
        page["messages"].as_array().unwrap().iter().map(|message| message["content"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(contents().await, ["of the new session", "of the old session"], "newest first");
    world.get("/api/sessions/s5").await.assert_error(404, "session_not_found");
    let mut cli = world.live_cli("s4").await;
    let repeated = json!({"sid": "s4", "message": "new", "localId": "l1"});
    assert_eq!(cli.emit_with_ack("message", &repeated).await["id"], "m5");
    let next = json!({"sid": "s4", "message": "new", "localId": "l3"});
    assert_eq!(cli.emit_with_ack("message", &next).await["seq"], 3);
}

async fn assert_machine_is_served(world: &World) {
    let machine = world.get("/api/machines/k1").await.ok()["machine"].clone();
    assert_eq!(machine["metadata"], json!({"host": "box", "platform": "linux"}));
    assert_eq!(machine["runnerState"], json!({"status": "running"}));
}

/// Checks that a web client which had received only the first event receives the other events of the log.
async fn assert_events_are_replayed(world: &World) {
    let (greeting, mut web) =
        reconnect(world, "all=true&sessionId=s1", &event_id(world, 101).await, Format::Json).await;
    assert_eq!(greeting, "ok");
    for kind in ["session-updated", "machine-updated"] {
        assert_eq!(web.next_event().await["type"], kind);
    }
}

/// The id of the event with a number. The prefix of ids belongs to the namespace.
async fn event_id(world: &World, number: u64) -> String {
    let greeting = crate::support::replay::connect_and_read_first_event(world, "all=true").await;
    let (prefix, _) = greeting["eventId"].as_str().unwrap().split_once('-').unwrap();
    format!("{prefix}-{number}")
}

#[tokio::test(start_paused = true)]
async fn the_hub_serves_databases_of_all_earlier_schemas() {
    for schema in 1..=Sqlite::migrations().len() {
        // Shown if the test fails.
        println!("schema {schema}");
        let world = World::in_namespace("team", upgraded_from(schema));
        if schema >= 4 {
            world.rt.kv_put(HEAD_KEY, "on 100");
            world.redeploy();
            assert_events_are_replayed(&world).await;
        }
        assert_sessions_are_served(&world, schema).await;
        assert_messages_are_served(&world, schema).await;
        assert_machine_is_served(&world).await;
        if schema >= 9 {
            assert_merged_session_is_served(&world).await;
        }
        let other = World::in_namespace("other", Arc::clone(&world.db));
        assert_eq!(other.get("/api/sessions/s3/messages").await.ok()["messages"][0]["content"], "other");

        other.request("DELETE", "/api/sessions/s3", "").await.ok();
        other.advance(60_000).await;
        for table in ["sessions WHERE id", "messages WHERE session_id"] {
            assert_eq!(world.db.number(&format!("SELECT count(*) FROM {table} = 's3'")), 0, "{table}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn migrations_lose_no_row_and_break_no_reference() {
    for schema in 1..=Sqlite::migrations().len() {
        let db = upgraded_from(schema);
        assert_eq!(db.select("PRAGMA foreign_key_check").len(), 0, "schema {schema}");
        for (table, since, count) in [
            ("sessions WHERE history IS NULL AND namespace NOT LIKE '/%'", 1, 3),
            ("sessions WHERE history = 's5'", 9, 2),
            ("sessions WHERE namespace = '/team'", 9, 1),
            ("messages WHERE session_id IN ('s1', 's3')", 1, 4),
            ("messages WHERE session_id IN ('s5', 's6')", 9, 3),
            ("machines", 1, 1),
            ("secrets", 1, 1),
            ("completed_requests", 2, 1),
            ("message_parts", 3, 2),
            ("events", 4, 2),
            ("push_subscriptions", 6, 1),
            ("value_parts", 7, 2),
            ("fences", 8, 1),
        ] {
            let expected = if schema >= since { count } else { 0 };
            let found = db.number(&format!("SELECT count(*) FROM {table}"));
            assert_eq!(found, expected, "{table} after an upgrade from schema {schema}");
        }
    }
}

/// D1 splits the SQL of a migration into statements. It finds the end of a trigger only if the trigger is alone in its file
/// and on one line.
#[test]
fn a_trigger_is_a_migration_of_its_own_on_one_line() {
    for sql in Sqlite::migrations() {
        let triggers = sql.matches("CREATE TRIGGER").count();
        assert!(
            triggers == 0
                || (triggers == 1 && sql.starts_with("CREATE TRIGGER") && sql.trim_end().lines().count() == 1),
            "{sql}"
        );
    }
}
