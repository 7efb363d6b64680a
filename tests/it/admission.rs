//! Admission of CLIs: the limits of a socket before CONNECT, with and without a token.

use crate::support::cli::parse_frame;
use crate::support::prelude::*;
use crate::support::socket::Socket;
use session_gateway_hub::hub::core::peers::connections::Upgrade;
use session_gateway_hub::hub::core::peers::handshake::MAX_UNAUTHENTICATED_FRAME_BYTES;
use session_gateway_hub::hub::inbound::connect::MAX_SOCKETS;

const VALID: &str = r#"40/cli,{"token":"secret:team"}"#;
const INVALID: &str = r#"40/cli,{"token":"wrong"}"#;

/// Opens a socket without a token and receives the OPEN packet.
async fn open_socket(world: &World) -> Socket {
    let mut socket = world.open_cli();
    assert!(matches!(parse_frame(&socket.next_text().await), Received::Open(_)));
    socket
}

/// Returns a CONNECT packet with this token and length.
fn padded_connect(token: &str, bytes: usize) -> String {
    let head = format!(r#"40/cli,{{"token":"{token}","padding":""#);
    let padding = "x".repeat(bytes - head.len() - 2);
    format!(r#"{head}{padding}"}}"#)
}

/// Returns the code and the reason with which the hub closes the socket.
async fn close_frame(socket: &mut Socket) -> (u16, String) {
    match socket.next().await {
        Frame::Closed { code, reason } => (code, reason),
        Frame::Text(text) => panic!("expected the socket to be closed, but received {text}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_above_16_kib_before_connect_closes_the_socket() {
    let world = World::new();
    let mut socket = open_socket(&world).await;
    socket.send(padded_connect("secret:team", MAX_UNAUTHENTICATED_FRAME_BYTES + 1));
    let (code, reason) = close_frame(&mut socket).await;
    assert_eq!(code, 1009);
    assert!(reason.contains("16 KiB"), "{reason}");

    let mut socket = open_socket(&world).await;
    socket.send(padded_connect("secret:team", MAX_UNAUTHENTICATED_FRAME_BYTES));
    assert!(matches!(parse_frame(&socket.next_text().await), Received::Connected(_)), "a frame of 16 KiB is accepted");
}

#[tokio::test(start_paused = true)]
async fn a_connected_cli_may_send_large_frames() {
    let (_world, session, mut cli) = live_session().await;
    assert_eq!(cli.send_message(&session, &"x".repeat(10 * MAX_UNAUTHENTICATED_FRAME_BYTES)).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_rejected_frames_survives_hibernation() {
    let world = World::new();
    let (mut valid, mut invalid) = (open_socket(&world).await, open_socket(&world).await);
    for socket in [&mut valid, &mut invalid] {
        socket.send(INVALID);
        socket.send(INVALID);
        assert_eq!(socket.drain().await.len(), 2);
    }
    world.hibernate_and_wake().await;
    valid.send(VALID);
    assert!(matches!(parse_frame(&valid.next_text().await), Received::Connected(_)));
    invalid.send(INVALID);
    assert!(matches!(parse_frame(&invalid.next_text().await), Received::ConnectError(_)));
    assert_eq!(invalid.wait_for_close().await, 1008);
}

#[tokio::test(start_paused = true)]
async fn a_binary_frame_before_connect_closes_the_socket() {
    let world = World::new();
    let mut socket = open_socket(&world).await;
    socket.send_binary();
    let (code, reason) = close_frame(&mut socket).await;
    assert_eq!(code, 1003);
    assert!(reason.contains("base64"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn the_seventeenth_frame_without_effect_before_connect_closes_the_socket_even_after_hibernation() {
    let world = World::new();
    let (mut valid, mut invalid) = (open_socket(&world).await, open_socket(&world).await);
    for socket in [&mut valid, &mut invalid] {
        socket.send("40/web,");
        for frame in ["2", "2probe", "3", "6"].repeat(4) {
            socket.send(frame);
        }
        assert_eq!(socket.drain().await.len(), 1 + 8, "the refusal, which does not count, and the pongs");
    }
    world.hibernate_and_wake().await;
    valid.send(VALID);
    assert!(matches!(parse_frame(&valid.next_text().await), Received::Connected(_)));
    for _ in 0..20 {
        valid.send("2");
        assert_eq!(valid.next_text().await, "3", "there is no limit after CONNECT");
    }
    invalid.send("2");
    let (code, reason) = close_frame(&mut invalid).await;
    assert_eq!(code, 1008);
    assert!(reason.contains("CONNECT"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_socket_with_too_many_queued_empty_frames_is_closed() {
    let (world, session, mut cli) = live_session().await;
    world.hibernate_and_wake().await;
    world.db.hold_all_results();
    cli.emit_for_ack("message", &json!({"sid": session, "message": {}}));
    run_until_idle().await;
    let (hub, conn) = (world.hub(), world.rt.conn(cli.socket.key).unwrap());
    for _ in 0..1_000_000 {
        hub.socket(conn).on_text(String::new()).await;
    }
    assert_eq!(cli.socket.wait_for_close().await, 1008);
}

#[tokio::test(start_paused = true)]
async fn at_most_two_hundred_sockets_without_a_token_wait_for_connect() {
    let world = World::new();
    let has_room = || world.hub().has_room_for_cli(Upgrade::Unauthenticated);
    let opening: Vec<_> = (0..200).map(|_| world.open_cli()).collect();
    assert!(!has_room());
    opening[0].send(VALID);
    run_until_idle().await;
    assert!(has_room(), "a connected socket does not count");
    let _one_more = world.open_cli();
    assert!(!has_room());
    world.hibernate_and_wake().await;
    assert!(!has_room(), "the limit applies after hibernation");
    world.advance(10_000).await;
    assert!(has_room());
}

#[tokio::test(start_paused = true)]
async fn sockets_without_a_token_do_not_block_sockets_with_a_token() {
    let world = World::new();
    let _unauthenticated: Vec<_> = (0..200).map(|_| world.open_cli()).collect();
    let has_room = || {
        [Upgrade::Unauthenticated, Upgrade::Authenticated, Upgrade::Bridged]
            .map(|upgrade| world.hub().has_room_for_cli(upgrade))
    };
    assert_eq!(has_room(), [false, true, true]);
    let authenticated: Vec<_> = (0..31_800).map(|_| world.open_cli_after(Upgrade::Authenticated)).collect();
    assert_eq!(has_room(), [false, false, false], "the limit of all sockets is reached");
    assert!(!world.hub().has_room_for_socket(), "web clients are rejected, too");
    authenticated[0].close();
    assert_eq!(has_room(), [false, true, true]);
    assert!(world.hub().has_room_for_socket());
}

#[tokio::test(start_paused = true)]
async fn closed_sockets_count_until_their_clients_answer() {
    let world = World::new();
    let sockets: Vec<_> = (0..MAX_SOCKETS).map(|_| world.open_cli_after(Upgrade::Authenticated)).collect();
    let [dead, answering] = [&sockets[0], &sockets[1]];
    dead.never_answer_close();
    for socket in [dead, answering] {
        socket.send_binary();
        assert!(!socket.is_open());
    }
    assert!(!world.hub().has_room_for_socket());
    world.deliver_answered_closes();
    assert!(world.hub().has_room_for_socket());
    let _last = world.open_cli_after(Upgrade::Authenticated);
    for _ in 0..2 {
        world.hibernate_and_wake().await;
        assert!(!world.hub().has_room_for_socket(), "the platform counts the closed socket after hibernation, too");
    }
    dead.close();
    assert!(world.hub().has_room_for_socket());
}

#[tokio::test(start_paused = true)]
async fn closed_sockets_without_a_token_use_at_most_half_of_the_places() {
    let world = World::new();
    for _ in 0..MAX_SOCKETS / 2 {
        assert!(world.hub().has_room_for_cli(Upgrade::Unauthenticated));
        let socket = world.open_cli();
        socket.never_answer_close();
        socket.send_binary();
    }
    world.hibernate_and_wake().await;
    let has_room = |upgrade| world.hub().has_room_for_cli(upgrade);
    assert!(!has_room(Upgrade::Unauthenticated));
    assert!(has_room(Upgrade::Authenticated) && has_room(Upgrade::Bridged) && world.hub().has_room_for_socket());
}

#[tokio::test(start_paused = true)]
async fn a_socket_without_a_valid_token_writes_nothing_to_storage() {
    let world = World::new();
    let mut socket = open_socket(&world).await;
    socket.send(INVALID);
    assert!(matches!(parse_frame(&socket.next_text().await), Received::ConnectError(_)));
    assert!(!world.hub().is_unused(), "a socket is open");
    world.advance(10_000).await;
    assert_eq!(socket.wait_for_close().await, 1008);
    assert!(world.rt.stored_entries().is_empty(), "{:?}", world.rt.stored_entries());
    assert!(world.hub().is_unused());
    assert_eq!(world.rt.alarm(), None);
}

#[tokio::test(start_paused = true)]
async fn the_first_valid_token_stores_the_namespace() {
    let world = World::new();
    let stored_namespace = || world.rt.stored_entries().get("namespace").cloned();
    let socket = open_socket(&world).await;
    assert_eq!(stored_namespace(), None);
    socket.send(VALID);
    run_until_idle().await;
    assert_eq!(stored_namespace().as_deref(), Some("team"));
    socket.close();
    world.hibernate_and_wake().await;
    assert!(!world.hub().is_unused());

    let other = World::new();
    other.hub().store_namespace();
    assert_eq!(other.rt.stored_entries().get("namespace").map(String::as_str), Some("team"));
    assert!(!other.hub().is_unused());
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_waits_for_the_database_does_not_time_out() {
    let (world, session) = idle_session().await;
    world.hibernate_and_wake().await;
    let mut socket = open_socket(&world).await;
    world.db.hold_results(BatchKind::Reads);
    socket.send(format!(r#"40/cli,{{"token":"secret:team","sessionId":"{session}"}}"#));
    world.advance(60_000).await;
    world.db.release_results();
    assert!(matches!(parse_frame(&socket.next_text().await), Received::Connected(_)));
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_its_client_closes_while_its_token_is_verified_leaves_nothing_in_memory() {
    let world = World::new();
    let socket = open_socket(&world).await;
    world.db.hold_results(BatchKind::Reads);
    socket.send(format!(r#"40/cli,{{"token":"sgd_{}"}}"#, "x".repeat(43)));
    assert_eq!(world.held_results().await, 1);
    socket.close();
    world.release_results().await;
    assert!(world.hub().is_unused());
}
