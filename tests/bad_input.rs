//! Bad input to the routes: a clear refusal that names what is at fault, and nothing is written.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use axum::body::Body;
use serde_json::json;
use support::World;

/// Every route that takes a body, with a body that it takes.
fn bodies(session: &str) -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("PATCH", format!("/api/sessions/{session}"), r#"{"name":"n"}"#),
        ("POST", format!("/api/sessions/{session}/messages"), r#"{"text":"hi"}"#),
        ("POST", "/api/visibility".into(), r#"{"subscriptionId":"s","visibility":"hidden"}"#),
        ("POST", "/cli/sessions".into(), r#"{"tag":"/t","metadata":{"path":"/t","host":"h"}}"#),
        ("POST", "/cli/machines".into(), r#"{"id":"m","metadata":{"host":"h"}}"#),
    ]
}

async fn live() -> (World, String, support::cli::Cli) {
    let world = World::new();
    let session = world.session("/code").await;
    let cli = world.live_cli(&session).await;
    support::quiet().await;
    (world, session, cli)
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_no_json_object_is_refused_as_a_whole() {
    let (world, session, _cli) = live().await;
    let writes = world.db.writes();
    for (method, path, good) in bodies(&session) {
        let truncated = &good[..good.len() - 1];
        let trailing = format!("{good} x");
        let nested = format!("[{good}]");
        let deep = "[".repeat(100_000);
        for body in
            ["x", "[]", "null", "1", "\"{}\"", "{", "{'a':1}", truncated, &trailing, &nested, &deep, "\u{feff}{}"]
        {
            let reply = world.request(method, &path, body.to_owned()).await;
            let shown = &body[..body.len().min(60)];
            assert_eq!((reply.status.as_u16(), shown), (400, shown), "{method} {path}");
            reply.refuses(400, "invalid_body");
        }
        let invalid_utf8 = Body::from(vec![b'{', b'"', 0xff, b'"', b':', b'1', b'}']);
        world.request(method, &path, invalid_utf8).await.refuses(400, "invalid_body");
    }
    assert_eq!(world.db.writes(), writes, "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn an_empty_body_lacks_the_required_field() {
    let (world, session, _cli) = live().await;
    let fields = ["name", "text", "subscriptionId", "tag", "id"];
    for ((method, path, _), field) in bodies(&session).into_iter().zip(fields) {
        for body in ["", "{}", "  "] {
            let refusal = world.request(method, &path, body).await.refuses(400, "invalid_field");
            assert_eq!(refusal["field"], field, "{method} {path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_field_of_the_wrong_kind_is_named() {
    let (world, session, _cli) = live().await;
    let writes = world.db.writes();
    let (rename, send) = (format!("/api/sessions/{session}"), format!("/api/sessions/{session}/messages"));
    let attachment = |field: &str, value: serde_json::Value| {
        let mut attachment = json!({"id": "a", "filename": "f", "mimeType": "m", "size": 1, "path": "p"});
        attachment[field] = value;
        json!({"text": "t", "attachments": [attachment]})
    };
    let lacking = |field: &str| {
        let mut body = attachment("id", json!("a"));
        body["attachments"][0].as_object_mut().unwrap().remove(field);
        body
    };
    let table = [
        ("PATCH", &*rename, json!({"name": 5}), "name"),
        ("PATCH", &rename, json!({"name": null}), "name"),
        ("PATCH", &rename, json!({"name": "n", "expectedVersion": "1"}), "expectedVersion"),
        ("PATCH", &rename, json!({"name": "n", "expectedVersion": -1}), "expectedVersion"),
        ("PATCH", &rename, json!({"name": "n", "expectedVersion": 1.5}), "expectedVersion"),
        ("POST", &send, json!({"text": 5}), "text"),
        ("POST", &send, json!({"text": ""}), "text"),
        ("POST", &send, json!({"text": "", "attachments": []}), "text"),
        ("POST", &send, json!({"text": "t", "localId": 5}), "localId"),
        ("POST", &send, json!({"text": "t", "localId": ""}), "localId"),
        ("POST", &send, json!({"text": "t", "localId": "x".repeat(256)}), "localId"),
        ("POST", &send, json!({"text": "t", "attachments": {}}), "attachments"),
        ("POST", &send, json!({"text": "t", "attachments": ["a"]}), "attachments[0]"),
        ("POST", &send, lacking("id"), "attachments[0].id"),
        ("POST", &send, lacking("filename"), "attachments[0].filename"),
        ("POST", &send, lacking("mimeType"), "attachments[0].mimeType"),
        ("POST", &send, lacking("size"), "attachments[0].size"),
        ("POST", &send, lacking("path"), "attachments[0].path"),
        ("POST", &send, attachment("size", json!(-1)), "attachments[0].size"),
        ("POST", &send, attachment("size", json!("1")), "attachments[0].size"),
        ("POST", &send, attachment("size", json!(1e300)), "attachments[0].size"),
        ("POST", "/api/visibility", json!({"subscriptionId": 1, "visibility": "hidden"}), "subscriptionId"),
        ("POST", "/api/visibility", json!({"subscriptionId": "s", "visibility": "blurred"}), "visibility"),
        ("POST", "/api/visibility", json!({"subscriptionId": "s"}), "visibility"),
        ("POST", "/cli/sessions", json!({"tag": 1, "metadata": {}}), "tag"),
        ("POST", "/cli/sessions", json!({"tag": "", "metadata": {"path": "/", "host": "h"}}), "tag"),
        ("POST", "/cli/sessions", json!({"tag": "x".repeat(4097), "metadata": {"path": "/", "host": "h"}}), "tag"),
        ("POST", "/cli/sessions", json!({"tag": "/t"}), "metadata"),
        ("POST", "/cli/sessions", json!({"tag": "/t", "metadata": []}), "metadata"),
        ("POST", "/cli/sessions", json!({"tag": "/t", "metadata": {"host": "h"}}), "metadata.path"),
        ("POST", "/cli/sessions", json!({"tag": "/t", "metadata": {"path": "/", "host": 5}}), "metadata.host"),
        (
            "POST",
            "/cli/sessions",
            json!({"tag": "/t", "metadata": {"path": "/", "host": "h"}, "agentState": 5}),
            "agentState",
        ),
        ("POST", "/cli/sessions", json!({"tag": "/t", "metadata": {"path": "/", "host": "h"}, "model": 5}), "model"),
        ("POST", "/cli/machines", json!({"id": 5, "metadata": {}}), "id"),
        ("POST", "/cli/machines", json!({"id": "", "metadata": {}}), "id"),
        ("POST", "/cli/machines", json!({"id": "x".repeat(256), "metadata": {}}), "id"),
        ("POST", "/cli/machines", json!({"id": "m"}), "metadata"),
        ("POST", "/cli/machines", json!({"id": "m", "metadata": "x"}), "metadata"),
    ];
    for (method, path, body, field) in table {
        let reply = world.request(method, path, body.to_string()).await;
        let refusal = reply.refuses(400, "invalid_field");
        assert_eq!(refusal["field"], field, "{method} {path} {body}");
        assert!(refusal["error"].as_str().unwrap().contains(field), "the sentence names it too: {refusal}");
    }
    assert_eq!(world.db.writes(), writes, "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_stands_twice_in_a_body_is_refused() {
    let (world, session, _cli) = live().await;
    let reply = world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"a","name":"b"}"#).await;
    assert_eq!(reply.status, 400, "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_ignored_and_opaque_ones_kept_to_the_letter() {
    let world = World::new();
    let metadata = r#"{"path":"/w","host":"h","z":12345678901234567890,"a":1.50,"__proto__":{"b":1}}"#;
    let body = format!(r#"{{"tag":"/w","unknown":[1],"__proto__":{{}},"metadata":{metadata},"agentState":null}}"#);
    let made = world.request("POST", "/cli/sessions", body).await;
    made.ok();
    assert!(made.text.contains(metadata), "{}", made.text);
    let state = r#"{"runnerState":{"n":1e400,"k":[1.0]}}"#;
    let body = format!(r#"{{"id":"m","metadata":{{"host":"h"}},"runnerState":{state}}}"#);
    let made = world.request("POST", "/cli/machines", body).await;
    assert!(made.text.contains(state), "{}", made.text);
}

#[tokio::test(start_paused = true)]
async fn a_query_is_read_strictly_and_its_fault_named() {
    let (world, session, _cli) = live().await;
    let messages = format!("/api/sessions/{session}/messages");
    let of_cli = format!("/cli/sessions/{session}/messages");
    let of_session = |rest: &str| format!("/api/sessions/{session}{rest}");
    let table = [
        (format!("{messages}?limit=0"), "limit"),
        (format!("{messages}?limit=201"), "limit"),
        (format!("{messages}?limit=x"), "limit"),
        (format!("{messages}?limit="), "limit"),
        (format!("{messages}?limit=1.5"), "limit"),
        (format!("{messages}?limit=%2B5"), "limit"),
        (format!("{messages}?limit=5&limit=5"), "limit"),
        (format!("{messages}?beforeSeq=-1"), "beforeSeq"),
        (format!("{messages}?beforeSeq=9007199254740992"), "beforeSeq"),
        (format!("{messages}?beforeSeq=99999999999999999999"), "beforeSeq"),
        (format!("{messages}?afterSeq=1e3"), "afterSeq"),
        (format!("{messages}?afterSeq=1&beforeSeq=2"), "afterSeq"),
        (format!("{of_cli}?limit=201"), "limit"),
        (format!("{of_cli}?afterSeq=-1"), "afterSeq"),
        (of_session("/files?limit=501"), "limit"),
        (of_session("/files?limit=0"), "limit"),
        (of_session("/files?query=a%00b"), "query"),
        (of_session("/files?query=%ff"), "query"),
        (of_session("/git-diff-numstat?staged=yes"), "staged"),
        (of_session("/git-diff-file?path=a&staged=2"), "staged"),
        (of_session("/file?path=a&path=b"), "path"),
    ];
    for (path, field) in table {
        let refusal = world.get(&path).await.refuses(400, "invalid_field");
        assert_eq!(refusal["field"], field, "{path}");
    }
    world.get(&format!("{messages}?limit=200&beforeSeq=9007199254740991&unknown=1")).await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_path_out_of_the_directory_never_reaches_the_cli() {
    let (world, session, mut cli) = live().await;
    cli.register("readFile").await;
    let bad = ["..", "../a", "a/../../b", "/etc/passwd", "a%00b", "%2e%2e/a", "a/..", "%2Fetc", "..%5Ca", "C:%5Ca"];
    for path in bad {
        for route in ["file", "git-diff-file", "directory"] {
            let reply = world.get(&format!("/api/sessions/{session}/{route}?path={path}")).await;
            assert_eq!(reply.refuses(400, "invalid_path")["field"], "path", "{route} {path}");
        }
    }
    for route in ["file", "git-diff-file", "file?path=", "git-diff-file?path="] {
        world.get(&format!("/api/sessions/{session}/{route}")).await.refuses(400, "invalid_path");
    }
    cli.socket.heard_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_not_utf_8_is_refused() {
    let world = World::new();
    for path in ["/api/sessions/%ff", "/cli/sessions/%ff", "/cli/machines/%ff"] {
        assert_eq!(world.get(path).await.refuses(400, "invalid_field")["field"], "id");
    }
    let reply = world.get("/api/sessions/%ff/messages").await;
    assert!(reply.status.is_client_error(), "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_for_a_row_is_refused_before_anything_is_written() {
    let world = World::new();
    let large = "x".repeat(1_950_000);
    let body = json!({"tag": "/t", "metadata": {"path": "/t", "host": "h", "large": large}});
    let reply = world.post("/cli/sessions", &body).await;
    assert_eq!(reply.status, 413, "{}", &reply.text[..reply.text.len().min(200)]);
    assert_eq!(world.db.writes(), 0);
}
