//! Overload: the hub limits the bytes that wait for a hanging database, and loses no acknowledged change.

use crate::support::cli::parse_frame;
use crate::support::prelude::*;
use crate::support::sqlite::parameter_bytes;
use serde_json::Map;
use session_gateway_hub::limits::MAX_QUEUED_BYTES;
use session_gateway_hub::memory_budget::{MAX_POOL_BYTES, NAMESPACE_SHARE_BYTES};
use session_gateway_hub::store::Value as Param;

/// Receives all acknowledgements, with their ids.
async fn acknowledgements(cli: &mut Cli) -> Vec<(u64, Value)> {
    let ack = |frame| match frame {
        Frame::Text(text) => match parse_frame(&text) {
            Received::Ack { id, arg } => Some((id, arg)),
            _ => None,
        },
        closed => panic!("the socket was closed: {closed:?}"),
    };
    cli.socket.drain().await.into_iter().filter_map(ack).collect()
}

/// The number of updates of half a megabyte that a test sends: their total size exceeds the limit.
const UPDATE_COUNT: usize = 120;

fn metadata(size: usize) -> Value {
    json!({"path": "/code", "host": "box", "padding": "x".repeat(size)})
}

#[tokio::test(start_paused = true)]
async fn every_update_of_a_cli_is_rejected_above_the_limit_of_queued_bytes() {
    let large = "x".repeat(500_000);
    let machine =
        |version: u64, field: &str, value| json!({"machineId": "m", "expectedVersion": version, field: value});
    let updates = |session: &str| {
        vec![
            ("message", json!({"sid": session, "message": large})),
            ("update-metadata", json!({"sid": session, "expectedVersion": 1, "metadata": metadata(500_000)})),
            ("update-metadata", json!({"sid": session, "expectedVersion": 999, "metadata": metadata(10)})),
            ("update-state", json!({"sid": session, "expectedVersion": 1, "agentState": {"padding": large}})),
            ("update-state", json!({"sid": session, "expectedVersion": 999, "agentState": {}})),
            ("machine-update-metadata", machine(1, "metadata", json!({"padding": large}))),
            ("machine-update-metadata", machine(999, "metadata", json!({}))),
            ("machine-update-state", machine(1, "runnerState", json!({"padding": large}))),
            ("machine-update-state", machine(999, "runnerState", json!({}))),
        ]
    };
    for update_index in 0..9 {
        let (world, session, mut cli) = live_session_with_machine().await;
        // Stores large values, which the reply to a version mismatch contains.
        for (name, update) in [1, 3, 5, 7].map(|index| updates(&session)[index].clone()) {
            assert_eq!(cli.emit_with_ack(name, &update).await["result"], "success");
        }
        let (name, mut update) = updates(&session)[update_index].clone();
        let mut version = update["expectedVersion"].as_u64().unwrap_or(0);
        update["expectedVersion"] = json!("VERSION");
        let update = update.to_string();
        world.db.hold_results(BatchKind::Writes);
        cli.deliver("message", &json!({"sid": session, "message": "in flight while the database hangs"})).await;
        for _ in 0..UPDATE_COUNT {
            // Each update expects the version that results from the previous update, except updates with a mismatch.
            version += u64::from(version != 999);
            cli.emit_raw(name, &update.replace("\"VERSION\"", &version.to_string()));
        }
        let rejected = acknowledgements(&mut cli).await;
        assert!((10..UPDATE_COUNT).contains(&rejected.len()), "{name} {update_index}: {} rejected", rejected.len());
        for (_, ack) in &rejected {
            assert_eq!(ack["code"], "overloaded", "{name}: {ack}");
            let error_text = ack.get("reason").or(ack.get("error"));
            assert!(error_text.and_then(Value::as_str).is_some_and(|s| s.contains("queue is full")), "{ack}");
        }
        world.db.release_results();
        let is_ack = |frame: &Frame| matches!(frame, Frame::Text(text) if text.starts_with("43/cli,"));
        let accepted = cli.socket.drain().await.iter().filter(|frame| is_ack(frame)).count();
        assert_eq!(accepted + rejected.len(), UPDATE_COUNT, "{name}: every update is acknowledged");
        assert!(cli.socket.is_open());
        assert_eq!(cli.send_message(&session, "after").await["ok"], true, "messages are accepted again");
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_queued_bytes_includes_writes_in_flight() {
    let (world, session, mut cli) = live_session_with_machine().await;
    world.db.hold_results(BatchKind::Writes);
    let messages = MAX_QUEUED_BYTES / 2_000_000;
    let large = "x".repeat(1_000_000);
    for _ in 0..messages {
        cli.emit_for_ack("message", &json!({"sid": session, "message": large}));
        // Each message is a batch of its own.
        run_until_idle().await;
    }
    assert_eq!(world.db.held_result_count(), 1);
    let rejected = cli.emit_with_ack("message", &json!({"sid": session, "message": "one more"})).await;
    assert_eq!(rejected["code"], "overloaded", "{rejected}");
    world.db.release_results();
    assert_eq!(acknowledgements(&mut cli).await.iter().filter(|(_, ack)| ack["ok"] == true).count(), messages);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_queued_bytes_includes_the_overhead_of_small_messages() {
    let (world, session, mut cli) = live_session_with_machine().await;
    world.db.hold_results(BatchKind::Writes);
    let message_count = MAX_QUEUED_BYTES / 1_000 + 1_000;
    for _ in 0..message_count {
        cli.emit_for_ack("message", &json!({"sid": session, "message": 1}));
    }
    let rejected = acknowledgements(&mut cli).await;
    assert!(rejected.len() >= 1_000, "only {} of {message_count} messages of one byte rejected", rejected.len());
    assert!(rejected.len() < message_count / 2 + message_count / 4, "a message of one byte costs about a kilobyte");
    world.db.release_results();
    assert_eq!(acknowledgements(&mut cli).await.len() + rejected.len(), message_count);
}

#[tokio::test(start_paused = true)]
async fn keep_alives_with_changes_are_rejected_above_the_limit_but_prolong_the_session() {
    let (world, session, mut cli) = live_session_with_machine().await;
    world.db.hold_results(BatchKind::Writes);
    let large = "x".repeat(1_000_000);
    for _ in 0..MAX_QUEUED_BYTES / 2_000_000 + 1 {
        cli.emit_for_ack("message", &json!({"sid": session, "message": large}));
    }
    run_until_idle().await;
    let alive = json!({"sid": session, "time": world.now(), "thinking": true});
    assert_eq!(cli.emit_with_ack("session-alive", &alive).await["code"], "overloaded");
    assert_eq!(cli.emit_with_ack("session-end", &alive).await["code"], "overloaded");
    world.advance(20_000).await;
    cli.emit("session-alive", &json!({"sid": session, "time": world.now(), "thinking": true}));
    world.advance(20_000).await;
    world.release_results().await;
    assert_eq!(world.get_session(&session).await["active"], true, "a rejected keep-alive prolongs the session, too");
}

#[tokio::test(start_paused = true)]
async fn a_version_mismatch_returns_the_newest_completed_requests_up_to_a_million_bytes() {
    let (_world, session, mut cli) = live_session_with_machine().await;
    let mut version = 1;
    for turn in 0..5 {
        let entry = |n: u64| {
            let number = turn * 10 + n;
            (format!("q{number:02}"), json!({"tool": "t".repeat(100_000), "status": "approved", "completedAt": number}))
        };
        let entries: Map<String, Value> = (0..10).map(entry).collect();
        version = cli.update_agent_state(&session, version, &json!({"completedRequests": entries})).await["version"]
            .as_u64()
            .unwrap();
    }
    let mismatch = cli.update_agent_state(&session, 999, &json!({})).await;
    assert_eq!((&mismatch["result"], &mismatch["version"]), (&json!("version-mismatch"), &json!(version)));
    let newest: Vec<&String> = mismatch["agentState"]["completedRequests"].as_object().unwrap().keys().collect();
    assert_eq!(newest, ["q41", "q42", "q43", "q44", "q45", "q46", "q47", "q48", "q49"]);

    let huge = json!({"completedRequests": {"z": {"tool": "t".repeat(1_500_000), "completedAt": 99}}, "n": 1});
    cli.update_agent_state(&session, version, &huge).await;
    let mismatch = cli.update_agent_state(&session, 999, &json!({})).await;
    assert_eq!(mismatch["agentState"], json!({"n": 1}), "the reply omits an entry above the limit");
}

/// Sends twenty messages of half a megabyte while the database hangs. Returns their acknowledgement ids.
async fn send_burst(world: &World, session: &str, cli: &mut Cli) -> Vec<u64> {
    world.db.hold_results(BatchKind::Writes);
    cli.deliver("message", &json!({"sid": session, "message": "first"})).await;
    let large = "x".repeat(500_000);
    let acks = (0..20).map(|_| cli.emit_for_ack("message", &json!({"sid": session, "message": large}))).collect();
    run_until_idle().await;
    acks
}

/// The seqs of all stored messages.
fn seqs(world: &World) -> Vec<i64> {
    world.db.select("SELECT seq FROM messages ORDER BY seq").into_iter().map(|row| integer(&row[0])).collect()
}

fn integer(value: &Param) -> i64 {
    match value {
        Param::Integer(number) => *number,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_committed_in_batches_in_order() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let sent_acks = send_burst(&world, &session, &mut cli).await;
    let before = world.db.write_count();
    world.db.release_results();
    let acks: Vec<u64> = acknowledgements(&mut cli).await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(acks, sent_acks);
    assert_eq!(seqs(&world), (1..=21).collect::<Vec<_>>());
    let sizes: Vec<usize> = world.db.write_batches()[before..].iter().map(|batch| parameter_bytes(batch)).collect();
    assert!(sizes.len() > 1 && sizes.iter().all(|size| *size < 9_000_000), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_refused_batch_of_a_burst_later_batches_fail_and_seqs_continue_without_a_gap() {
    let (world, session, mut cli) = live_session_with_machine().await;
    let sent_acks = send_burst(&world, &session, &mut cli).await;
    world.db.release_results();
    world.db.hold_results(BatchKind::Writes);
    run_until_idle().await;
    world.db.fail(BatchKind::Writes, permanent_error());
    world.db.release_results();
    let acks = acknowledgements(&mut cli).await;
    assert_eq!(acks.len(), sent_acks.len());
    let stored = acks.iter().take_while(|(_, ack)| ack["ok"] == true).count();
    assert!((1..sent_acks.len()).contains(&stored), "{stored}");
    assert!(acks[stored..].iter().all(|(_, ack)| ack["code"] == "unavailable"), "they depend on the rejected batch");
    assert_eq!(seqs(&world), (1..=1 + stored as i64).collect::<Vec<_>>());
    assert_eq!(world.get_session(&session).await["seq"], 1 + stored);
    assert_eq!(cli.send_message(&session, "next").await["seq"], 2 + stored);
}

/// A frame of 1 MiB that has no effect.
fn large_noop_frame() -> String {
    format!(r#"42/cli,["ignored","{}"]"#, "x".repeat(1 << 20))
}

/// Connects CLIs of a session. Each has sent a message that waits for the database.
async fn clis_waiting_for_database(clis: usize, message: &str) -> (World, Vec<Cli>) {
    let (world, session) = idle_session().await;
    let all = each(0..clis, async |_| world.cli(&session).await).await;
    // After the hibernation, the first message loads the session, and the other messages wait for the first message.
    world.hibernate_and_wake().await;
    world.db.hold_all_results();
    let message = json!({"sid": session, "message": message});
    all.iter().for_each(|cli| cli.emit("message", &message));
    run_until_idle().await;
    (world, all)
}

#[tokio::test(start_paused = true)]
async fn above_the_limit_of_queued_frames_of_all_sockets_the_socket_with_the_largest_queue_is_closed() {
    let (world, mut clis) = clis_waiting_for_database(4, "small").await;
    let max_frames = (MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES) >> 20;
    for (cli, share) in
        [(0, max_frames / 3), (1, max_frames / 2), (2, max_frames - max_frames / 3 - max_frames / 2 - 1)]
    {
        (0..share).for_each(|_| clis[cli].socket.send(large_noop_frame()));
    }
    run_until_idle().await;
    assert!(clis.iter().all(|cli| cli.socket.is_open()));
    clis[3].socket.send(large_noop_frame());
    run_until_idle().await;
    assert_eq!(clis[1].socket.wait_for_close().await, 1008);
    let open_sockets = |clis: &[Cli]| clis.iter().map(|cli| cli.socket.is_open()).collect::<Vec<_>>();
    assert_eq!(open_sockets(&clis), [true, false, true, true]);
    // The queued bytes of the closed socket are free for other sockets.
    (0..max_frames / 2 - 2).for_each(|_| clis[2].socket.send(large_noop_frame()));
    run_until_idle().await;
    assert_eq!(open_sockets(&clis), [true, false, true, true]);
    (0..2).for_each(|_| clis[2].socket.send(large_noop_frame()));
    assert_eq!(clis[2].socket.wait_for_close().await, 1008);
    // Handled frames do not count.
    world.db.release_results();
    for _ in 0..3 * max_frames {
        clis[0].socket.send(large_noop_frame());
        run_until_idle().await;
    }
    assert_eq!(open_sockets(&clis), [true, false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_inbound_bytes_includes_frames_that_are_being_handled() {
    let max_sockets = (MAX_POOL_BYTES + NAMESPACE_SHARE_BYTES) / (10 << 20) - 1;
    let (_world, clis) = clis_waiting_for_database(2 * max_sockets, &"x".repeat(10 << 20)).await;
    // One further frame is accepted, because it is not in wasm memory yet.
    assert_eq!(clis.iter().filter(|cli| cli.socket.is_open()).count(), max_sockets + 1);
}
