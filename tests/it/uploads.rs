//! Uploads: what is checked, what the CLI is called with, and every way in which a file does not arrive.

use crate::support::cli::Cli;
use crate::support::{RECONNECT_GRACE_MS, RPC_TIMEOUT_MS, World, run_until_idle};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use session_gateway_hub::hub::ports::UploadFault;

async fn live_session() -> (World, String, Cli) {
    let world = World::new();
    let session = world.create_session("/code").await;
    let mut cli = world.live_cli(&session).await;
    cli.register("uploadFile").await;
    cli.register("deleteUploadFile").await;
    (world, session, cli)
}

fn path(session: &str) -> String {
    format!("/api/sessions/{session}/upload")
}

fn body(name: &str, bytes: &[u8]) -> Value {
    json!({"filename": name, "content": STANDARD.encode(bytes), "mimeType": "text/plain", "other": true})
}

#[tokio::test(start_paused = true)]
async fn a_file_reaches_the_cli_and_its_answer_comes_back_to_the_letter() {
    let (world, session, mut cli) = live_session().await;
    let names = ["notes.txt", "grüße \u{1f600}.txt", "\"content\":\"x\"", "a\\\"content\\\":\\\"b", "\u{0}\u{1f}"];
    for name in names {
        let upload = world.start_complete_upload(&path(&session), &body(name, b"hello").to_string());
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
async fn an_empty_file_is_a_file_and_a_refusal_of_the_cli_is_an_answer() {
    let (world, session, mut cli) = live_session().await;
    let upload = world.start_complete_upload(&path(&session), &body("empty", b"").to_string());
    let request = cli.next_call().await;
    assert_eq!(request.params["content"], "");
    cli.respond(&request, &json!({"success": false, "error": "The disk is full."}));
    assert_eq!(upload.reply().await.ok(), json!({"success": false, "error": "The disk is full."}));
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_body_is_said_before_the_cli_hears_of_it() {
    let (world, session, mut cli) = live_session().await;
    let good = body("a", b"x");
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body.to_string()
    };
    let mut table: Vec<(&str, String)> = Vec::new();
    for field in ["filename", "mimeType", "content"] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(field);
        table.push((field, body.to_string()));
        for value in [json!(null), json!(5), json!([]), json!({}), json!(true)] {
            table.push((field, with(field, value)));
        }
    }
    for field in ["filename", "mimeType"] {
        table.push((field, with(field, json!(""))));
        table.push((field, with(field, json!("x".repeat(256)))));
    }
    for content in ["x", "eA=", "eA", "e A=", "eA==eA==", "====", "_-8=", "data:text/plain;base64,eA=="] {
        table.push(("content", with("content", json!(content))));
    }
    for (field, body) in table {
        let refusal = world.upload(&path(&session), &body).await.assert_error(400, "invalid_field");
        assert_eq!(refusal["field"], field, "{body}");
    }
    for body in ["", "[]", "null", "{", "5", r#"{"filename":"a","content":"","mimeType":"m"} x"#] {
        world.upload(&path(&session), body).await.assert_error(400, "invalid_body");
    }
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn names_count_by_their_characters() {
    let (world, session, mut cli) = live_session().await;
    let upload = world.start_complete_upload(&path(&session), &body(&"\u{1f600}".repeat(255), b"x").to_string());
    let request = cli.next_call().await;
    cli.respond(&request, &json!({"success": true}));
    upload.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_told_by_what_became_of_it() {
    let (world, session, mut cli) = live_session().await;
    let table = [
        (UploadFault::TooLarge, 413, "too_large"),
        (UploadFault::FieldsTooLarge, 413, "too_large"),
        (UploadFault::BadBase64, 400, "invalid_field"),
        (UploadFault::NotUtf8, 400, "invalid_body"),
        (UploadFault::Broken, 400, "invalid_body"),
        (UploadFault::Stalled, 408, "upload_stalled"),
    ];
    for (fault, status, code) in table {
        let (upload, arrival) = world.start_upload(&path(&session), None);
        arrival.send(Err(fault)).unwrap();
        upload.reply().await.assert_error(status, code);
    }
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_sends_too_slowly_is_told_how_much_was_awaited_in_which_time() {
    let (world, session, _cli) = live_session().await;
    let (upload, arrival) = world.start_upload(&path(&session), None);
    arrival.send(Err(UploadFault::Stalled)).unwrap();
    let refused = upload.reply().await.assert_error(408, "upload_stalled");
    assert_eq!(refused["error"], "The upload was too slow: less than 64 KiB in 15 seconds.");
    let protocol = include_str!("../../docs/PROTOCOL.md");
    let rule = "less than 64 KiB of an upload came within 15 s";
    assert!(protocol.contains(&format!("| 408 | `upload_stalled` | {rule} |")), "the page says the same");
}

#[tokio::test(start_paused = true)]
async fn an_inactive_session_takes_no_uploads() {
    let world = World::new();
    let session = world.create_session("/code").await;
    let good = body("a", b"x").to_string();
    world.upload(&path(&session), &good).await.assert_error(409, "session_inactive");
    let file = json!({"path": "/x"});
    world.post(&format!("{}/delete", path(&session)), &file).await.assert_error(409, "session_inactive");
    world.upload(&path(&session), "{}").await.assert_error(400, "invalid_field");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_missing_or_anothers_is_refused_before_its_upload_is_read() {
    let (world, session, _cli) = live_session().await;
    for (world, session, status, code) in
        [(&world, "nobody", 404, "session_not_found"), (&world.neighbour(), &session, 403, "forbidden")]
    {
        let (upload, _never) = world.start_upload(&path(session), Some(5));
        upload.reply().await.assert_error(status, code);
        let delete = world.post(&format!("{}/delete", path(session)), &json!({"path": "/x"})).await;
        delete.assert_error(status, code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_does_not_serve_uploads_dies_or_stays_silent_makes_a_500() {
    let world = World::new();
    let session = world.create_session("/code").await;
    let mut cli = world.live_cli(&session).await;
    let good = body("a", b"x").to_string();
    let refusal = world.upload(&path(&session), &good).await.assert_error(500, "upload_failed");
    assert!(refusal["error"].as_str().unwrap().contains("No handler registered for uploadFile"), "{refusal}");

    cli.register("uploadFile").await;
    let silent = world.start_complete_upload(&path(&session), &good);
    cli.next_call().await;
    world.advance(RPC_TIMEOUT_MS - 1_000).await;
    assert!(!silent.is_ready());
    world.advance(1_001).await;
    let refusal = silent.reply().await.assert_error(500, "upload_failed");
    assert!(refusal["error"].as_str().unwrap().contains("RPC timed out: uploadFile"), "{refusal}");

    cli.send_keep_alive(&world, &session).await;
    let cut = world.start_complete_upload(&path(&session), &good);
    cli.next_call().await;
    cli.socket.close();
    cut.reply().await.assert_error(500, "upload_failed");
}

#[tokio::test(start_paused = true)]
async fn a_large_file_gets_more_time_than_a_call() {
    let (world, session, mut cli) = live_session().await;
    let (upload, arrival) = world.start_upload(&path(&session), Some(40 * 1024 * 1024));
    arrival.send(Ok(body("large", b"x").to_string())).unwrap();
    let request = cli.next_call().await;
    world.advance(2 * RPC_TIMEOUT_MS).await;
    assert!(!upload.is_ready());
    cli.respond(&request, &json!({"success": true}));
    upload.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_came_back_while_the_file_arrived_gets_it() {
    let (world, session, cli) = live_session().await;
    let good = body("a", b"x").to_string();
    let (upload, arrival) = world.start_upload(&path(&session), Some(good.len() as u64));
    run_until_idle().await;
    cli.socket.close();
    let mut back = world.live_cli(&session).await;
    back.register(&format!("{session}:uploadFile")).await;
    arrival.send(Ok(good)).unwrap();
    let request = back.next_call().await;
    assert_eq!(request.method, format!("{session}:uploadFile"));
    back.respond(&request, &json!({"success": true}));
    upload.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn large_uploads_are_held_one_after_another() {
    let (world, session, mut cli) = live_session().await;
    let large = Some(60 * 1024 * 1024);
    let good = body("a", b"x").to_string();
    let (first, first_arrival) = world.start_upload(&path(&session), large);
    let (second, second_arrival) = world.start_upload(&path(&session), large);
    second_arrival.send(Ok(body("b", b"x").to_string())).unwrap();
    cli.socket.assert_no_frames().await;
    first_arrival.send(Ok(good)).unwrap();
    for (upload, name) in [(first, "a"), (second, "b")] {
        let request = cli.next_call().await;
        assert_eq!(request.params["filename"], name);
        cli.socket.assert_no_frames().await;
        cli.respond(&request, &json!({"success": true}));
        upload.reply().await.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn an_uploaded_file_is_deleted_by_its_path() {
    let (world, session, mut cli) = live_session().await;
    let route = format!("{}/delete", path(&session));
    let delete = world.start("POST", &route, json!({"path": "/x/a"}).to_string());
    let request = cli.next_call().await;
    assert_eq!((request.method.as_str(), &request.params), ("deleteUploadFile", &json!({"path": "/x/a"})));
    cli.respond(&request, &json!({"success": false, "error": "No such file."}));
    assert_eq!(delete.reply().await.ok(), json!({"success": false, "error": "No such file."}));
    for bad in [json!({}), json!({"path": ""}), json!({"path": 5}), json!({"path": "x".repeat(4_097)})] {
        assert_eq!(world.post(&route, &bad).await.assert_error(400, "invalid_field")["field"], "path");
    }
    cli.socket.close();
    world.advance(RECONNECT_GRACE_MS).await;
    let gone = world.post(&route, &json!({"path": "/x/a"})).await;
    assert!(gone.assert_error(500, "upload_failed")["error"].as_str().unwrap().contains("deleteUploadFile"));
}

#[tokio::test(start_paused = true)]
async fn a_small_file_of_unknown_length_takes_the_whole_room_only_until_it_is_read() {
    let (world, session, mut cli) = live_session().await;
    let (small, arrival) = world.start_upload(&path(&session), None);
    let other = world.start_complete_upload(&path(&session), &body("b", b"x").to_string());
    cli.socket.assert_no_frames().await;
    arrival.send(Ok(body("a", b"x").to_string())).unwrap();
    for name in ["a", "b"] {
        assert_eq!(cli.next_call().await.params["filename"], name);
    }
    // Nor does it get the time of a large one.
    world.advance(RPC_TIMEOUT_MS + 1_000).await;
    for upload in [small, other] {
        upload.reply().await.assert_error(500, "upload_failed");
    }
}
