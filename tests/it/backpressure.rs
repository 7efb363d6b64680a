//! Backpressure on CLI sockets: how many bytes the hub sends to a CLI that does not acknowledge them with pongs.

use crate::support::prelude::*;

/// Counts the pings and the updates among frames.
fn count_pings_and_updates(frames: &[Frame]) -> (usize, usize) {
    let texts = || frames.iter().filter_map(|frame| if let Frame::Text(text) = frame { Some(text) } else { None });
    let updates = texts().filter(|text| text.starts_with(r#"42/cli,["update","#));
    (texts().filter(|text| *text == "2").count(), updates.count())
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_answers_no_ping_is_closed_after_16_mib_of_updates() {
    let (world, session, mut cli) = live_session().await;
    let mut silent = world.cli(&session).await;
    silent.register("gitStatus").await;
    silent.socket.drain().await;
    for _ in 0..15 {
        cli.send_message_of_1_mib(&session).await;
    }
    assert!(silent.socket.is_open());
    cli.send_message_of_1_mib(&session).await;
    assert_eq!(silent.socket.wait_for_close().await, 4408);
    let (pings, updates) = count_pings_and_updates(&silent.socket.drain().await);
    assert_eq!((pings, updates), (7, 15), "a ping after every 2 MiB");
    let call = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
    world.advance(RECONNECT_GRACE_MS).await;
    assert_eq!(call.reply().await.ok()["error"], "No handler registered for gitStatus");
    cli.send_message_of_1_mib(&session).await;
    assert!(cli.socket.is_open(), "the sender remains connected");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_answers_pings_may_receive_any_number_of_updates() {
    let (world, session, mut cli) = live_session().await;
    let mut reader = world.cli(&session).await;
    let mut received = 0;
    for _ in 0..20 {
        cli.send_message_of_1_mib(&session).await;
        let (pings, updates) = count_pings_and_updates(&reader.socket.drain().await);
        (0..pings).for_each(|_| reader.socket.send("3"));
        received += updates;
    }
    assert_eq!(received, 20);
    assert!(reader.socket.is_open());
}

#[tokio::test(start_paused = true)]
async fn a_pong_takes_effect_on_arrival_even_if_earlier_frames_of_its_socket_wait_for_the_database() {
    let (world, session, _cli) = live_session().await;
    let other = world.create_session("/other").await;
    world.hibernate_and_wake().await;
    let mut cli = world.live_cli(&session).await;
    let mut reader = world.cli(&session).await;
    world.db.hold_results(BatchKind::Reads);
    reader.emit("message", &json!({"sid": other, "message": "waits for its session"}));
    assert_eq!(world.held_results().await, 1);
    for _ in 0..20 {
        cli.send_message_of_1_mib(&session).await;
        let (pings, _) = count_pings_and_updates(&reader.socket.drain().await);
        (0..pings).for_each(|_| reader.socket.send("3"));
    }
    assert!(reader.socket.is_open());
}

#[tokio::test(start_paused = true)]
async fn frames_other_than_pongs_acknowledge_nothing() {
    let (world, session, mut cli) = live_session().await;
    let mut sender = world.cli(&session).await;
    for _ in 0..16 {
        cli.send_message_of_1_mib(&session).await;
        sender.socket.send(r#"42/cli,["ping"]"#);
        run_until_idle().await;
    }
    assert_eq!(sender.socket.wait_for_close().await, 4408);
}

/// Sends frames until the hub closes the socket. Returns the number of frames that the hub sent, and their bytes.
async fn send_until_closed(cli: &mut Cli, send: impl Fn(&mut Cli)) -> (usize, usize) {
    let mut received = (0, 0);
    for _ in 0..100_000 {
        send(cli);
        for frame in cli.socket.drain().await {
            match frame {
                Frame::Text(text) => received = (received.0 + 1, received.1 + text.len()),
                Frame::Closed { code, .. } => {
                    assert_eq!(code, 4408);
                    return received;
                }
            }
        }
    }
    panic!("the socket is still open: {received:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_reads_no_replies_is_closed() {
    let (world, session, mut cli) = live_session().await;
    cli.put_agent_state(&session, 1, &json!({"padding": "x".repeat(900_000)})).await;
    let stale = json!({"sid": session, "expectedVersion": 1, "agentState": {}});
    let mut other = world.cli(&session).await;
    let (replies, bytes) = send_until_closed(&mut other, |cli| {
        cli.emit_for_ack("update-state", &stale);
    })
    .await;
    assert!(bytes > 16 << 20 && bytes < 49 << 20, "{replies} frames of {bytes} bytes");
    assert!(cli.socket.is_open(), "another CLI of the session remains connected");

    let mut pinging = world.cli(&session).await;
    let ping = format!("2{}", "x".repeat(1_000_000));
    let (_, bytes) = send_until_closed(&mut pinging, |cli| cli.socket.send(ping.clone())).await;
    assert!(bytes < 50 << 20, "{bytes}");
    let mut connecting = world.cli(&session).await;
    let wrong_namespace = format!("40/{},", "x".repeat(1_000_000));
    let (_, bytes) = send_until_closed(&mut connecting, |cli| cli.socket.send(wrong_namespace.clone())).await;
    assert!(bytes < 50 << 20, "{bytes}");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_answers_pings_may_send_any_number_of_requests() {
    let (_world, session, mut cli) = live_session().await;
    cli.put_agent_state(&session, 1, &json!({"padding": "x".repeat(900_000)})).await;
    cli.socket.drain().await;
    let stale = json!({"sid": session, "expectedVersion": 1, "agentState": {}});
    for _ in 0..100 {
        cli.emit_for_ack("update-state", &stale);
        let (pings, _) = count_pings_and_updates(&cli.socket.drain().await);
        (0..pings).for_each(|_| cli.socket.send("3"));
    }
    assert!(cli.socket.is_open());
}
