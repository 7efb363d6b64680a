//! The life of a namespace: its export, its import into an empty namespace, and its deletion.

use std::collections::BTreeSet;

use crate::support::SECRET;
use crate::support::edge::{EdgeRequest, worker_of};
use crate::support::merge::texts;
use crate::support::operator::{delete, export, full_namespace, import, import_rows, import_step, operator};
use crate::support::prelude::*;
use crate::support::settings::{settings, settings_of};
use session_gateway_hub::auth::token::{Credential, TokenVerifier};
use session_gateway_hub::http::respond;
use session_gateway_hub::store::Value as DbValue;

/// The rows of each table, without the hub's own secrets, and the entries of the object's storage.
fn rows_and_stored_entries(world: &World) -> Vec<(String, i64)> {
    let tables = world.db.select("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
    let count = |row: Vec<DbValue>| match row.as_slice() {
        [DbValue::Text(name)] => (name.clone(), world.db.number(&format!("SELECT count(*) FROM {name}"))),
        _ => panic!("{row:?}"),
    };
    let rows = tables.into_iter().map(count).filter(|(name, count)| name != "secrets" && *count > 0);
    let stored = world.rt.stored_entries().into_keys().map(|key| (format!("storage {key}"), 1));
    rows.chain(stored).collect()
}

#[tokio::test(start_paused = true)]
async fn an_export_that_is_imported_into_an_empty_hub_exports_the_same_bytes() {
    let world = full_namespace(World::new()).await;
    let lines = export(&world).await;
    let tables = "namespaces devices push_subscriptions machines value_parts sessions messages message_parts \
completed_requests held_messages storage";
    for table in tables.split(' ') {
        assert!(lines.iter().any(|line| line.contains(&format!(r#""table":"{table}""#))), "no row of {table}");
    }
    assert!(!lines.iter().any(|line| line.contains("/deleted")), "a deleted session");
    let other = World::new();
    import(&other, &lines).await;
    assert!(export(&other).await == lines);
}

/// The columns of tables that no export has: what belongs to the hub, or the namespace itself.
const NOT_EXPORTED: [&str; 2] = ["namespace", "history"];

#[tokio::test(start_paused = true)]
async fn an_export_has_every_column() {
    let world = full_namespace(World::new()).await;
    for line in export(&world).await {
        let line: Value = serde_json::from_str(&line).unwrap();
        let Some(table) = line["table"].as_str().filter(|table| *table != "storage") else { continue };
        let columns = world.db.select(&format!("SELECT name FROM pragma_table_info('{table}')")).into_iter().flatten();
        for column in columns {
            let DbValue::Text(column) = column else { panic!("{column:?}") };
            let is_exported = line["row"].get(&column).is_some();
            assert_eq!(is_exported, !NOT_EXPORTED.contains(&column.as_str()), "{table}.{column}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_export_has_each_row_of_a_table_that_needs_several_pages() {
    let world = World::new();
    let session = world.create_session("/a").await;
    let namespace = "'team', printf('%03d', n), '', '', 1";
    let of_session = format!("'{session}', printf('%03d', n), 1, '{{}}'");
    for (columns, values) in [
        ("devices (namespace, id, name, kind, created_at, token_hash, last_seen_at)", format!("{namespace}, n, 1")),
        ("push_subscriptions (namespace, endpoint, p256dh, auth, created_at)", namespace.to_owned()),
        ("completed_requests (session_id, request_id, completed_at, value)", of_session.clone()),
        ("held_messages (session_id, local_id, created_at, content)", of_session),
    ] {
        world.db.execute(&format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 401)
             INSERT INTO {columns} SELECT {values} FROM numbers"
        ));
    }
    let lines = export(&world).await;
    for table in ["devices", "push_subscriptions", "completed_requests", "held_messages"] {
        let is_row = |line: &&String| line.contains(&format!(r#""table":"{table}""#));
        assert_eq!(lines.iter().filter(is_row).collect::<BTreeSet<_>>().len(), 401, "{table}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_export_from_before_a_setting_existed_is_imported() {
    let world = full_namespace(World::new()).await;
    let mut session = Value::Null;
    let without = |line: &String| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["table"] == "sessions" {
            settings().for_each(|field| drop(line["row"].as_object_mut().unwrap().remove(field.name)));
            session = line["row"]["id"].clone();
        }
        line.to_string()
    };
    let lines: Vec<String> = export(&world).await.iter().map(without).collect();
    let other = World::new();
    import(&other, &lines).await;
    assert_eq!(settings_of(&other.get_session(session.as_str().unwrap()).await), serde_json::Map::new());
}

#[tokio::test(start_paused = true)]
async fn an_imported_namespace_works_as_before() {
    let world = full_namespace(World::new()).await;
    let sessions = async |world: &World| world.get("/api/sessions").await.ok();
    let before = sessions(&world).await;
    let other = World::new();
    import(&other, &export(&world).await).await;
    let after = sessions(&other).await;
    let describe = |list: &Value| -> Vec<Value> {
        let found = list["sessions"].as_array().unwrap().iter();
        found
            .map(|s| {
                json!([s["id"], s["metadata"], settings_of(s), s["pendingRequestsCount"], s["active"], s["updatedAt"]])
            })
            .collect()
    };
    assert_eq!(describe(&after), describe(&before));
    for session in before["sessions"].as_array().unwrap() {
        let path = format!("/api/sessions/{}", session["id"].as_str().unwrap());
        let detail = async |world: &World| world.get(&path).await.ok()["session"]["agentState"].clone();
        assert!(detail(&other).await == detail(&world).await, "{path}");
        let id = session["id"].as_str().unwrap();
        let page = async |world: &World| world.get(&format!("/cli/sessions/{id}/messages?limit=200")).await.text;
        assert!(page(&other).await == page(&world).await, "{path}");
    }
    let (session, mut cli) = other.active_session("/large").await;
    assert_eq!(cli.send_message(&session, "next").await["ok"], true);
    assert!(texts(&other, &other.create_session("/work#2").await).await.len() >= 4);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_leaves_only_the_generation_of_the_tokens() {
    let world = full_namespace(World::new()).await;
    assert!(rows_and_stored_entries(&world).len() > 10, "{:?}", rows_and_stored_entries(&world));
    assert!(delete(&world).await > 1);
    assert_eq!(rows_and_stored_entries(&world), [("namespaces".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn one_namespace_is_restored_and_its_neighbour_does_not_change() {
    let world = full_namespace(World::new()).await;
    let neighbour = world.neighbour();
    let session = neighbour.create_session("/large").await;
    neighbour.live_cli(&session).await.send_message(&session, "of the neighbour").await;
    neighbour.register_machine("n").await;
    let (of_team, of_neighbour) = (export(&world).await, export(&neighbour).await);
    delete(&world).await;
    assert!(export(&world).await.iter().all(|line| line.contains(r#""table":"namespaces""#)));
    assert_eq!(export(&neighbour).await, of_neighbour);
    import(&world, &of_team).await;
    assert!(export(&world).await == of_team);
    assert_eq!(export(&neighbour).await, of_neighbour);
}

#[tokio::test(start_paused = true)]
async fn a_closed_namespace_disconnects_its_clients_and_refuses_requests_until_it_is_opened() {
    let world = World::new();
    import_step(&world, json!({"step": "begin"})).await.ok();
    world.get("/api/sessions").await.assert_error(503, "hub_unavailable");
    let tag = json!({"tag": "/a", "metadata": {"path": "/a", "host": "box"}});
    world.post("/cli/sessions", &tag).await.assert_error(503, "hub_unavailable");
    world.redeploy();
    world.get("/api/sessions").await.assert_error(503, "hub_unavailable");
    world.advance(3_600_000).await;
    import_step(&world, json!({"step": "end"})).await.ok();
    world.post("/cli/sessions", &tag).await.ok();
    import_step(&world, json!({"step": "rows", "rows": []})).await.assert_error(400, "invalid_field");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_disconnects_clients_and_continues_after_a_restart() {
    let world = World::new();
    let (_, Cli { socket, .. }) = world.active_session("/a").await;
    let deletion = operator(&world, "POST", "delete", &Value::Null).await.ok();
    assert_eq!(deletion, json!({"isDone": false, "remainingSessions": 1}));
    assert!(!socket.is_open());
    world.db.fail(BatchKind::Writes, permanent_error());
    operator(&world, "POST", "delete", &Value::Null).await.assert_error(503, "hub_unavailable");
    world.redeploy();
    world.get("/api/sessions").await.assert_error(503, "hub_unavailable");
    delete(&world).await;
    assert_eq!(rows_and_stored_entries(&world), []);
}

#[tokio::test(start_paused = true)]
async fn an_import_refuses_a_namespace_with_data_and_continues_after_an_interruption() {
    let world = full_namespace(World::new()).await;
    let lines = export(&world).await;
    import_step(&world, json!({"step": "begin"})).await.assert_error(409, "namespace_not_empty");
    let other = World::new();
    import_step(&other, json!({"step": "begin"})).await.ok();
    import_rows(&other, &lines[..20]).await.ok();
    other.redeploy();
    import_step(&other, json!({"step": "begin"})).await.assert_error(409, "namespace_not_empty");
    import_step(&other, json!({"step": "continue"})).await.ok();
    for chunk in lines.chunks(50) {
        import_rows(&other, chunk).await.ok();
    }
    import_step(&other, json!({"step": "end"})).await.ok();
    assert!(export(&other).await == lines);
}

#[tokio::test(start_paused = true)]
async fn a_hostile_export_changes_nothing_outside_its_namespace() {
    let world = World::new();
    let neighbour = world.neighbour();
    let session = neighbour.create_session("/secret").await;
    neighbour.register_machine("n").await;
    let before = export(&neighbour).await;
    import_step(&world, json!({"step": "begin"})).await.ok();
    let foreign: Vec<Value> = before.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    for row in &foreign {
        let reply = import_step(&world, json!({"step": "rows", "rows": [row]})).await;
        reply.assert_error(400, "invalid_field");
    }
    let message = json!({"session_id": session, "seq": 1, "id": "m", "local_id": null, "created_at": 1, "content": "1", "parts": 0, "bytes": 1});
    let rows = [
        json!({"table": "messages", "row": message}),
        json!({"table": "secrets", "row": {"name": "JWT_SECRET", "value": "x"}}),
        json!({"table": "fences", "row": {"epoch": 1}}),
        json!({"table": "storage", "row": {"key": "epoch", "value": "1"}}),
        json!({"table": "namespaces", "row": {"generation": 1, "namespace": "neighbour"}}),
        json!({"table": "namespaces", "row": {"generation": true}}),
        json!({"table": "sessions", "row": {}}),
    ];
    for row in rows {
        let reply = import_step(&world, json!({"step": "rows", "rows": [row]})).await;
        assert_eq!(reply.assert_error(400, "invalid_field")["field"], "rows", "{row}");
    }
    for step in [json!({"step": "other"}), json!({}), json!({"step": "rows", "rows": [{"table": 5}]})] {
        import_step(&world, step).await.assert_error(400, "invalid_field");
    }
    import_step(&world, json!({"step": "end"})).await.ok();
    assert_eq!(export(&neighbour).await, before);
    assert_eq!(export(&world).await, Vec::<String>::new());
    for cursor in
        ["x", "[]", r#"["messages",null,null,1]"#, r#"["sessions",null,null,1]"#, r#"["sessions","a","b",""]"#]
    {
        let path = format!("export?cursor={}", form_urlencoded::byte_serialize(cursor.as_bytes()).collect::<String>());
        operator(&world, "GET", &path, &Value::Null).await.assert_error(400, "invalid_field");
    }
}

#[tokio::test(start_paused = true)]
async fn an_export_of_a_foreign_session_has_no_rows() {
    let world = World::new();
    let neighbour = world.neighbour();
    let session = neighbour.create_session("/secret").await;
    let mut cli: Cli = neighbour.live_cli(&session).await;
    assert_eq!(cli.send_message(&session, "secret").await["ok"], true);
    let cursor = json!(["messages", "/secret", session, -1]).to_string();
    let path = format!("export?cursor={}", form_urlencoded::byte_serialize(cursor.as_bytes()).collect::<String>());
    assert_eq!(operator(&world, "GET", &path, &Value::Null).await.ok(), json!({"rows": []}));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_began_before_the_deletion_writes_nothing_after_it() {
    let world = World::new();
    world.create_session("/a").await;
    let old_hub = world.hub();
    delete(&world).await;
    let body = json!({"tag": "/late", "metadata": {"path": "/late", "host": "box"}}).to_string();
    let late = http::Request::builder().method("POST").uri("/cli/sessions").body(body.into()).unwrap();
    Reply::of(respond(&old_hub, late).await).assert_error(503, "hub_unavailable");
    run_until_idle().await;
    assert_eq!(rows_and_stored_entries(&world), []);
}

#[tokio::test(start_paused = true)]
async fn rows_that_an_earlier_hub_of_the_namespace_imports_are_unavailable_and_not_invalid() {
    let source = World::new();
    source.create_session("/a").await;
    let lines = export(&source).await;
    let world = World::new();
    let retired = world.hub();
    import_step(&world, json!({"step": "begin"})).await.ok();
    let interrupted = world.hub();
    world.redeploy();
    import_rows(&world, &lines).await.ok();
    let rows: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    for earlier in [retired, interrupted] {
        let body = json!({"step": "rows", "rows": rows}).to_string();
        let request = http::Request::builder().method("POST").uri("/api/namespaces/import");
        let request = request.extension(Credential::Shared).body(body.into()).unwrap();
        Reply::of(respond(&earlier, request).await).assert_error(503, "hub_unavailable");
    }
}

#[tokio::test(start_paused = true)]
async fn an_import_does_not_open_a_namespace_that_is_half_deleted_or_take_over_one_that_is_in_use() {
    let world = World::new();
    world.create_session("/a").await;
    import_step(&world, json!({"step": "continue"})).await.assert_error(409, "namespace_not_empty");
    world.get("/api/sessions").await.ok();
    operator(&world, "POST", "delete", &Value::Null).await.ok();
    for step in ["begin", "continue"] {
        import_step(&world, json!({"step": step})).await.assert_error(409, "namespace_not_empty");
    }
    delete(&world).await;
    let session = world.create_session("/b").await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    run_until_idle().await;
    import_step(&world, json!({"step": "begin"})).await.assert_error(409, "namespace_not_empty");
}

#[tokio::test(start_paused = true)]
async fn an_import_never_makes_revoked_tokens_valid_again() {
    let world = World::new();
    operator(&world, "POST", "revoke", &Value::Null).await.ok();
    let lines = export(&world).await;
    let other = World::new();
    for _ in 0..3 {
        operator(&other, "POST", "revoke", &Value::Null).await.ok();
    }
    import(&other, &lines).await;
    let generation =
        async |world: &World| operator(world, "GET", "generation", &Value::Null).await.ok()["generation"].clone();
    assert_eq!(generation(&other).await, 3);
    let empty = World::new();
    assert_eq!(generation(&empty).await, 0);
    import(&empty, &lines).await;
    assert_eq!(generation(&empty).await, 1);
    assert_eq!(operator(&empty, "POST", "revoke", &Value::Null).await.ok()["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_value_whose_parts_are_not_in_the_export_is_imported_shortened() {
    let world = full_namespace(World::new()).await;
    let lines: Vec<String> =
        export(&world).await.into_iter().filter(|line| !line.contains(r#""table":"value_parts""#)).collect();
    let other = World::new();
    import(&other, &lines).await;
    let session = other.create_session("/large").await;
    let state = other.get_session(&session).await["agentState"].clone();
    assert!(state["requests"]["r1"].is_object(), "{state}");
    let mut cli = other.live_cli(&session).await;
    assert_eq!(cli.send_message(&session, "next").await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_revoked_before_the_deletion_is_not_valid_for_a_later_namespace_of_this_name() {
    let world = World::new();
    let tokens = TokenVerifier::new(SECRET, false);
    let token = |generation| tokens.namespace_token(&world.hub().config.namespace, generation);
    let status = async |token: String| {
        let request = EdgeRequest {
            method: "GET".into(),
            url: "/api/sessions".into(),
            token: Some(token),
            ..EdgeRequest::default()
        };
        world.send_to_worker(&worker_of(&world), request).await.status.as_u16()
    };
    assert_eq!(operator(&world, "POST", "revoke", &Value::Null).await.ok()["generation"], 1);
    assert_eq!([status(token(0)).await, status(token(1)).await], [401, 200]);
    delete(&world).await;
    assert_eq!([status(token(0)).await, status(token(1)).await], [401, 200]);
    let mut cli = Cli::start_connect(&world, &json!({"token": token(0)}));
    assert!(matches!(cli.receive().await, Received::Open(_)));
    assert!(matches!(cli.receive().await, Received::ConnectError(_)));
    assert_eq!(operator(&world, "GET", "generation", &Value::Null).await.ok()["generation"], 1);
}
