//! What the operator does with a namespace.

use session_gateway_hub::limits::SESSION_TIMEOUT_MS;

use super::edge::{EdgeRequest, worker_of};
use super::merge::{MergeFixture, merge_fixture_in, resumable_metadata};
use super::prelude::*;
use super::pushes::Browser;
use super::settings::set_values;

/// The prefix of the paths of the operator's requests.
const NAMESPACES_PREFIX: &str = "/api/namespaces/";

/// Sends a request of the operator. If the hub requests a restart, the object restarts, as on the platform.
pub async fn operator(world: &World, method: &str, path: &str, body: &Value) -> Reply {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let (method, url, token) = (method.to_owned(), format!("{NAMESPACES_PREFIX}{path}"), Some(world.token()));
    let request = EdgeRequest { method, url, token, body, ..EdgeRequest::default() };
    let reply = world.send_to_worker(&worker_of(world), request).await;
    if world.hub().take_restart_request() {
        world.redeploy();
        run_until_idle().await;
    }
    reply
}

/// Exports a namespace. Returns its rows in lines.
pub async fn export(world: &World) -> Vec<String> {
    let (mut lines, mut path) = (Vec::new(), "export".to_owned());
    loop {
        let page = operator(world, "GET", &path, &Value::Null).await.ok();
        lines.extend(page["rows"].as_array().unwrap().iter().map(Value::to_string));
        let Some(cursor) = page["next"].as_str() else { return lines };
        path = format!("export?cursor={}", form_urlencoded::byte_serialize(cursor.as_bytes()).collect::<String>());
    }
}

pub async fn import_step(world: &World, step: Value) -> Reply {
    operator(world, "POST", "import", &step).await
}

pub async fn import_rows(world: &World, lines: &[String]) -> Reply {
    let rows: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    import_step(world, json!({"step": "rows", "rows": rows})).await
}

pub async fn import(world: &World, lines: &[String]) {
    import_step(world, json!({"step": "begin"})).await.ok();
    for chunk in lines.chunks(7) {
        import_rows(world, chunk).await.ok();
    }
    import_step(world, json!({"step": "end"})).await.ok();
}

/// Deletes a namespace. Returns the number of requests.
pub async fn delete(world: &World) -> usize {
    for count in 1..100 {
        if operator(world, "POST", "delete", &Value::Null).await.ok()["isDone"] == true {
            return count;
        }
    }
    panic!("the deletion does not end");
}

/// Fills a namespace with a row in each table: a merged session, an ended session with requests, large values and a held message,
/// a machine, a device with notifications, and revoked tokens.
pub async fn full_namespace(world: World) -> World {
    let merge = merge_fixture_in(world, json!({"padding": "old"}), json!({})).await;
    let MergeFixture { world, new, cli, reply, .. } = merge;
    cli.emit("session-alive", &json!({"sid": new, "time": world.now()}));
    reply.reply().await.ok();
    let session = world.create_session_with("/large", resumable_metadata()).await;
    let mut cli = world.live_cli(&session).await;
    let padding = "\"long\"\n".repeat(500_000);
    let state = json!({
        "requests": {"r1": {"tool": "Bash", "arguments": {}, "createdAt": world.now()}},
        "completedRequests": {"r0": {"tool": "Bash", "status": "approved", "completedAt": world.now()}},
        "padding": padding,
    });
    cli.update_agent_state(&session, 1, &state).await;
    for number in 0..450 {
        assert_eq!(cli.send_message(&session, &format!("message {number}")).await["ok"], true);
    }
    assert_eq!(cli.send_message(&session, &padding).await["ok"], true);
    cli.socket.close();
    world.advance(2 * SESSION_TIMEOUT_MS).await;
    let held = json!({"text": "later", "localId": "held", "hold": true});
    assert_eq!(world.post(&format!("/api/sessions/{session}/messages"), &held).await.ok()["held"], true);
    world.change_session(&session, &set_values()).await;
    world.create_session("/empty").await;
    let deleted = world.create_session("/deleted").await;
    world.request("DELETE", &format!("/api/sessions/{deleted}"), "").await.ok();
    operator(&world, "POST", "revoke", &Value::Null).await.ok();
    let subscription = Browser::new("https://push.service.com/phone", 1).subscription();
    world.post("/api/push/subscribe", &subscription).await.ok();
    world.db.execute(
        "INSERT INTO devices (id, namespace, name, kind, token_hash, created_at, last_seen_at)
         VALUES ('d', 'team', 'Phone', 'phone', 'hash', 1, 2)",
    );
    run_until_idle().await;
    world
}
