//! Uploads: validation, the call to the CLI, and failed transfers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use session_gateway_hub::hub::core::config::UploadConfig;
use session_gateway_hub::hub::core::ports::UploadFault;

use crate::support::prelude::*;

/// An active session whose CLI accepts uploads.
async fn world_with_upload_session() -> (World, String, Cli) {
    session_with_methods(&["uploadFile", "deleteUploadFile"]).await
}

/// A session of a world, and its CLI, which accepts uploads.
async fn upload_session_in(world: &World) -> (String, Cli) {
    let (session, mut cli) = world.active_session("/code").await;
    cli.register("uploadFile").await;
    (session, cli)
}

/// The path of the upload route.
fn path(session: &str) -> String {
    format!("/api/sessions/{session}/upload")
}

/// The body of an upload.
fn body(name: &str, bytes: &[u8]) -> Value {
    json!({"filename": name, "content": STANDARD.encode(bytes), "mimeType": "text/plain", "other": true})
}

#[tokio::test(start_paused = true)]
async fn a_file_is_sent_to_the_cli_and_its_result_is_returned_unchanged() {
    let (world, session, mut cli) = world_with_upload_session().await;
    let names = ["notes.txt", "grüße \u{1f600}.txt", "\"content\":\"x\"", "a\\\"content\\\":\\\"b", "\u{0}\u{1f}"];
    for name in names {
        let upload = world.start_upload_with_body(&path(&session), &body(name, b"hello").to_string());
        let request = cli.next_call().await;
        let params = json!({"filename": name, "content": STANDARD.encode("hello"), "mimeType": "text/plain"});
        assert_eq!((request.method.as_str(), &request.params), ("uploadFile", &params));
        cli.respond_raw(&request, &json!(r#"{"success":true,"path":"/x/1.50"}"#).to_string());
        let reply = upload.reply().await;
        assert_eq!((reply.status.as_u16(), reply.text.as_str()), (200, r#"{"success":true,"path":"/x/1.50"}"#));
    }
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_file_is_accepted_and_an_error_result_of_the_cli_is_returned() {
    let (world, session, mut cli) = world_with_upload_session().await;
    let upload = world.start_upload_with_body(&path(&session), &body("empty", b"").to_string());
    let request = cli.next_call().await;
    assert_eq!(request.params["content"], "");
    cli.respond(&request, &json!({"success": false, "error": "The disk is full."}));
    assert_eq!(upload.reply().await.ok(), json!({"success": false, "error": "The disk is full."}));
}

#[tokio::test(start_paused = true)]
async fn the_length_limit_of_a_file_name_is_in_code_points() {
    let (world, session, mut cli) = world_with_upload_session().await;
    cli.complete(
        world.start_upload_with_body(&path(&session), &body(&"\u{1f600}".repeat(255), b"x").to_string()),
        &json!({"success": true}),
    )
    .await
    .ok();
}

#[tokio::test(start_paused = true)]
async fn the_error_for_a_stalled_upload_names_the_minimum_rate() {
    let (world, session, _cli) = world_with_upload_session().await;
    let (upload, arrival) = world.start_upload(&path(&session));
    arrival.send(Err(UploadFault::Stalled)).unwrap();
    let error = upload.reply().await.assert_error(408, "upload_stalled");
    assert_eq!(
        error["error"],
        "The upload was too slow: less than 64 KiB in 15 seconds. Try again with a faster connection."
    );
    let protocol = include_str!("../../docs/PROTOCOL.md");
    let rule = "less than 64 KiB of an upload arrived within 15 s";
    assert!(protocol.contains(&format!("- `upload_stalled`: {rule}\n")), "PROTOCOL.md must have the same limits");
}

#[tokio::test(start_paused = true)]
async fn an_upload_to_an_unknown_or_foreign_session_is_rejected_before_it_is_read() {
    let (world, session, _cli) = world_with_upload_session().await;
    for (world, session, status, code) in
        [(&world, "unknown", 404, "session_not_found"), (&world.neighbour(), &session, 403, "forbidden")]
    {
        let (upload, _arrival) = world.start_upload(&path(session));
        upload.reply().await.assert_error(status, code);
        let delete = world.post(&format!("{}/delete", path(session)), &json!({"path": "/x"})).await;
        delete.assert_error(status, code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_upload_has_a_longer_timeout_than_other_calls() {
    let (world, session, mut cli) = world_with_upload_session().await;
    let upload = world.start_upload_with_body(&path(&session), &body("large", &vec![7; 16 << 20]).to_string());
    let request = cli.next_call().await;
    world.advance(2 * RPC_TIMEOUT_MS).await;
    assert!(!upload.is_ready());
    cli.respond(&request, &json!({"success": true}));
    upload.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_reconnects_during_the_transfer_receives_the_file() {
    let (world, session, cli) = world_with_upload_session().await;
    let valid = body("a", b"x").to_string();
    let (upload, arrival) = world.start_upload(&path(&session));
    run_until_idle().await;
    cli.socket.close();
    let mut reconnected = world.live_cli(&session).await;
    reconnected.register(&format!("{session}:uploadFile")).await;
    arrival.send(Ok(valid)).unwrap();
    let request = reconnected.next_call().await;
    assert_eq!(request.method, format!("{session}:uploadFile"));
    reconnected.respond(&request, &json!({"success": true}));
    upload.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn only_one_large_frame_is_in_the_memory_of_an_isolate_at_a_time() {
    let uploads = UploadConfig::default();
    let mut namespaces = Vec::new();
    for name in ["one", "two"] {
        let world = World::with_uploads(name, uploads.clone());
        let (session, cli) = upload_session_in(&world).await;
        namespaces.push((world, session, cli));
    }
    let [(one, first_session, first_cli), (two, second_session, second_cli)] = &mut namespaces[..] else { panic!() };
    let large = body("large", &vec![7; 1 << 20]).to_string();
    let first = one.start_upload_with_body(&path(first_session), &large);
    let first_call = first_cli.next_call().await;
    let second = two.start_upload_with_body(&path(second_session), &large);
    second_cli.socket.assert_no_frames().await;
    let small = two.start_upload_with_body(&path(second_session), &body("small", b"x").to_string());
    let call = second_cli.next_call().await;
    assert_eq!(call.params["filename"], "small", "a small file does not wait");
    second_cli.respond(&call, &json!({"success": true}));
    small.reply().await.ok();

    first_cli.respond(&first_call, &json!({"success": true}));
    first.reply().await.ok();
    two.advance(1_000).await;
    let second_call = second_cli.next_call().await;
    let third = one.start_upload_with_body(&path(first_session), &large);
    two.advance(20_000).await;
    one.advance(1_000).await;
    let is_call = |frame: &Frame| matches!(frame, Frame::Text(text) if text.contains("uploadFile")).then_some(());
    assert!(first_cli.socket.try_find(is_call).await.is_none(), "the second CLI has not read its file");
    second_cli.socket.send("3");
    two.advance(1_000).await;
    one.advance(1_000).await;
    let third_call = first_cli.next_call().await;
    first_cli.respond(&third_call, &json!({"success": true}));
    third.reply().await.ok();
    second_cli.respond(&second_call, &json!({"success": true}));
    second.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_slow_upload_in_one_frame_ends_soon_so_that_an_upload_of_another_namespace_can_start() {
    let uploads = UploadConfig::default();
    let mut namespaces = Vec::new();
    for name in ["slow", "other"] {
        let world = World::with_uploads(name, uploads.clone());
        let (session, cli) = upload_session_in(&world).await;
        namespaces.push((world, session, cli));
    }
    let [(slow, slow_session, slow_cli), (other, other_session, other_cli)] = &mut namespaces[..] else { panic!() };
    let large = body("large", &vec![7; 1 << 20]).to_string();
    let first = slow.start_slow_upload(&path(slow_session), &large, 0);
    let mut later = Vec::new();
    for step in 0..6 {
        if step == 2 {
            later.push(slow.start_slow_upload(&path(slow_session), &large, 0));
            run_until_idle().await;
            later.push(other.start_upload_with_body(&path(other_session), &large));
        }
        slow_cli.send_keep_alive(slow, slow_session).await;
        other_cli.send_keep_alive(other, other_session).await;
        slow.advance(15_000).await;
        other.advance(15_000).await;
    }
    first.reply().await.assert_error(408, "upload_stalled");
    let call = other_cli.next_call().await;
    other_cli.respond(&call, &json!({"success": true}));
    later.remove(1).reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn an_upload_in_one_frame_at_a_low_rate_ends_if_another_namespace_keeps_waiting() {
    for (bytes_per_ms, is_refused) in [(64, true), (400, true), (1_100, false)] {
        let uploads = UploadConfig::default();
        let (slow, other) = (World::with_uploads("slow", uploads.clone()), World::with_uploads("other", uploads));
        let (slow_session, mut slow_cli) = upload_session_in(&slow).await;
        let (other_session, mut other_cli) = upload_session_in(&other).await;
        let large = body("large", &vec![7; 1 << 20]).to_string();
        let slow_upload = slow.start_slow_upload(&path(&slow_session), &large, bytes_per_ms);
        let mut advance = async |seconds| {
            for _ in 0..seconds / 15 {
                slow_cli.send_keep_alive(&slow, &slow_session).await;
                slow.advance(15_000).await;
                other_cli.send_keep_alive(&other, &other_session).await;
                other.advance(15_000).await;
            }
        };
        advance(180).await;
        let other_upload = other.start_upload_with_body(&path(&other_session), &large);
        if is_refused {
            advance(45).await;
            slow_upload.reply().await.assert_error(408, "upload_stalled");
            let call = other_cli.next_call().await;
            other_cli.respond(&call, &json!({"success": true}));
            other_upload.reply().await.ok();
        } else {
            advance(75).await;
            let error = other_upload.reply().await.assert_error(503, "overloaded");
            assert!(error["error"].as_str().unwrap().contains("one large file at a time"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn web_clients_see_the_limit_of_the_deployment() {
    let world = World::with_uploads("team", UploadConfig { max_file_bytes: 200 << 20, ..UploadConfig::default() });
    assert_eq!(world.get("/api/config").await.ok()["limits"]["uploadBytes"], 200 << 20);
}

#[tokio::test(start_paused = true)]
async fn an_uploaded_file_is_deleted_by_its_path() {
    let (world, session, mut cli) = world_with_upload_session().await;
    let route = format!("{}/delete", path(&session));
    let delete = world.start("POST", &route, json!({"path": "/x/a"}).to_string());
    let request = cli.next_call().await;
    assert_eq!((request.method.as_str(), &request.params), ("deleteUploadFile", &json!({"path": "/x/a"})));
    cli.respond(&request, &json!({"success": false, "error": "No such file."}));
    assert_eq!(delete.reply().await.ok(), json!({"success": false, "error": "No such file."}));
    for invalid in [json!({}), json!({"path": ""}), json!({"path": 5}), json!({"path": "x".repeat(4_097)})] {
        assert_eq!(world.post(&route, &invalid).await.assert_error(400, "invalid_field")["field"], "path");
    }
    cli.socket.close();
    world.advance(RECONNECT_GRACE_MS).await;
    let reply = world.post(&route, &json!({"path": "/x/a"})).await;
    assert!(reply.assert_error(500, "upload_failed")["error"].as_str().unwrap().contains("deleteUploadFile"));
}
