//! Uploads in chunks to CLIs that announce `upload-chunks`.

use crate::support::cli::Call;
use crate::support::prelude::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use session_gateway_hub::hub::core::config::UploadConfig;
use session_gateway_hub::hub::core::ports::UploadFault;
use session_gateway_hub::memory_budget::{MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};

/// The bytes of a file in one chunk.
const CHUNK_BYTES: usize = 384 * 1024;

/// Connects a CLI that accepts chunks.
async fn connect(world: &World, session: &str) -> Cli {
    let mut cli = Cli::connect(world, json!({"sessionId": session, "features": ["unknown", "upload-chunks"]})).await;
    cli.send_keep_alive(world, session).await;
    cli.register("uploadFile").await;
    cli.register("uploadChunk").await;
    cli
}

async fn session_with_chunks() -> (World, String, Cli) {
    let (world, session) = idle_session().await;
    let cli = connect(&world, &session).await;
    run_until_idle().await;
    (world, session, cli)
}

fn path(session: &str) -> String {
    format!("/api/sessions/{session}/upload")
}

fn body(bytes: &[u8]) -> String {
    json!({"filename": "a.bin", "content": STANDARD.encode(bytes), "mimeType": "text/plain"}).to_string()
}

/// Bytes that differ from chunk to chunk.
fn file(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn content(call: &Call) -> Vec<u8> {
    assert_eq!(call.method, "uploadChunk");
    STANDARD.decode(call.params["content"].as_str().unwrap()).unwrap()
}

/// The abort that the CLI gets for the upload of a call.
async fn assert_aborted(cli: &mut Cli, call: &Call) {
    let abort = cli.next_call().await;
    let mut params = abort.params;
    params.as_object_mut().unwrap().remove("sessionId");
    assert_eq!(params, json!({"uploadId": call.params["uploadId"], "abort": true}));
    assert_eq!(abort.method, "uploadChunk");
}

#[tokio::test(start_paused = true)]
async fn a_file_is_sent_in_chunks_one_at_a_time_and_the_last_answer_is_the_result() {
    for length in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES] {
        let (world, session, mut cli) = session_with_chunks().await;
        let bytes = file(length);
        let upload = world.start_upload_with_body(&path(&session), &body(&bytes));
        let mut received = Vec::new();
        let mut upload_id = Value::Null;
        let result = json!({"success": true, "path": "/x/a.bin"});
        loop {
            let call = cli.next_call().await;
            cli.socket.assert_no_frames().await;
            assert_eq!(call.params["offset"], received.len());
            if received.is_empty() {
                upload_id = call.params["uploadId"].clone();
            }
            assert_eq!(call.params["uploadId"], upload_id);
            received.extend(content(&call));
            if call.params["last"] == true {
                assert_eq!([&call.params["filename"], &call.params["mimeType"]], ["a.bin", "text/plain"]);
                cli.respond(&call, &result);
                break;
            }
            assert_eq!(call.params.get("filename"), None);
            cli.respond(&call, &json!({"success": true}));
        }
        assert_eq!(upload.reply().await.ok(), result);
        assert!(received == bytes, "{length} bytes");
        cli.socket.assert_no_frames().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_above_the_limit_of_the_deployment_is_refused_and_aborted() {
    let limit = 2 * CHUNK_BYTES + 5;
    let uploads = UploadConfig { max_file_bytes: limit as u64, ..UploadConfig::default() };
    let world = World::with_uploads("team", uploads);
    let session = world.create_session("/code").await;
    let mut cli = connect(&world, &session).await;
    for (length, is_accepted) in [(limit, true), (limit + 1, false)] {
        let upload = world.start_upload_with_body(&path(&session), &body(&file(length)));
        let first = cli.next_call().await;
        cli.respond(&first, &json!({"success": true}));
        cli.respond_to_next_call("uploadChunk", &json!({"success": true})).await;
        if is_accepted {
            cli.respond_to_next_call("uploadChunk", &json!({"success": true})).await;
            upload.reply().await.ok();
        } else {
            upload.reply().await.assert_error(413, "too_large");
            assert_aborted(&mut cli, &first).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_refuses_a_chunk_ends_the_upload_with_its_answer() {
    let (world, session, mut cli) = session_with_chunks().await;
    let upload = world.start_upload_with_body(&path(&session), &body(&file(3 * CHUNK_BYTES)));
    let call = cli.next_call().await;
    let refusal = json!({"success": false, "error": "The disk is full."});
    cli.respond(&call, &refusal);
    assert_eq!(upload.reply().await.ok(), refusal);
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_cli_gets_an_abort_if_it_does_not_answer_or_if_the_end_of_the_body_is_invalid() {
    let (world, session, mut cli) = session_with_chunks().await;
    let upload = world.start_upload_with_body(&path(&session), &body(&file(2 * CHUNK_BYTES)));
    let call = cli.next_call().await;
    for _ in 0..8 {
        cli.send_keep_alive(&world, &session).await;
        world.advance(RPC_TIMEOUT_MS / 6).await;
    }
    let error = upload.reply().await.assert_error(500, "upload_failed");
    assert!(error["error"].as_str().unwrap().contains("RPC timed out: uploadChunk"), "{error}");
    assert_aborted(&mut cli, &call).await;

    let unnamed = json!({"content": STANDARD.encode(file(2 * CHUNK_BYTES)), "mimeType": "text/plain"});
    let upload = world.start_upload_with_body(&path(&session), &unnamed.to_string());
    let call = cli.next_call().await;
    cli.respond(&call, &json!({"success": true}));
    assert_eq!(upload.reply().await.assert_error(400, "invalid_field")["field"], "filename");
    assert_aborted(&mut cli, &call).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stalls_or_disconnects_before_the_first_chunk_causes_no_call() {
    let (world, session, mut cli) = session_with_chunks().await;
    for (fault, status, code) in
        [(UploadFault::Stalled, 408, "upload_stalled"), (UploadFault::Broken, 400, "invalid_body")]
    {
        let (upload, arrival) = world.start_upload(&path(&session));
        arrival.send(Err(fault)).unwrap();
        upload.reply().await.assert_error(status, code);
    }
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn an_upload_fails_when_its_cli_disconnects_or_another_socket_takes_its_methods() {
    let (world, session, mut cli) = session_with_chunks().await;
    let upload = world.start_upload_with_body(&path(&session), &body(&file(3 * CHUNK_BYTES)));
    let call = cli.next_call().await;
    let mut other = connect(&world, &session).await;
    cli.respond(&call, &json!({"success": true}));
    let error = upload.reply().await.assert_error(500, "upload_failed");
    assert!(error["error"].as_str().unwrap().contains("disconnected"), "{error}");
    other.socket.assert_no_frames().await;

    let upload = world.start_upload_with_body(&path(&session), &body(&file(3 * CHUNK_BYTES)));
    other.next_call().await;
    other.socket.close();
    upload.reply().await.assert_error(500, "upload_failed");
}

#[tokio::test(start_paused = true)]
async fn an_announcement_of_chunks_survives_hibernation_and_has_no_effect_without_the_method() {
    let (world, session, mut cli) = session_with_chunks().await;
    world.hibernate_and_wake().await;
    cli.send_keep_alive(&world, &session).await;
    let upload = world.start_upload_with_body(&path(&session), &body(b"x"));
    let call = cli.next_call().await;
    assert_eq!(content(&call), b"x");
    cli.respond(&call, &json!({"success": true}));
    upload.reply().await.ok();

    cli.emit_with_ack("rpc-unregister", &json!({"method": "uploadChunk"})).await;
    let error = world.upload(&path(&session), &body(b"x")).await.assert_error(500, "upload_failed");
    assert!(error["error"].as_str().unwrap().contains("No handler registered for uploadChunk"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn at_most_eight_uploads_of_a_namespace_are_in_progress_at_a_time() {
    let (world, session, mut cli) = session_with_chunks().await;
    let uploads: Vec<_> = (0..9).map(|_| world.start_upload_with_body(&path(&session), &body(b"x"))).collect();
    let mut calls = Vec::new();
    while let Some(call) = cli.try_call().await {
        calls.push(call);
    }
    assert_eq!(calls.len(), 8);
    cli.respond(&calls[0], &json!({"success": true}));
    calls.push(cli.next_call().await);
    for call in &calls[1..] {
        cli.respond(call, &json!({"success": true}));
    }
    all_ok(uploads).await;
}

#[tokio::test(start_paused = true)]
async fn an_upload_in_chunks_fits_the_share_of_its_namespace() {
    let (world, session, mut cli) = session_with_chunks().await;
    for number in 0..3 {
        world.create_session_with(&format!("/{number}"), json!({"padding": "x".repeat(590_000)})).await;
    }
    run_until_idle().await;
    let pool = world.neighbour().hub().memory.try_reserve(MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES).unwrap();
    let upload = world.start_upload_with_body(&path(&session), &body(&file(CHUNK_BYTES + 1)));
    for _ in 0..2 {
        let call = cli.next_call().await;
        cli.respond(&call, &json!({"success": true}));
    }
    upload.reply().await.ok();
    drop(pool);
}
