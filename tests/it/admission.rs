//! Admission of CLIs: the limits of a socket before CONNECT, with and without a token.

use crate::support::cli::{Heard, read};
use crate::support::runtime::Frame;
use crate::support::socket::Socket;
use crate::support::sqlite::On;
use crate::support::{World, quiet};
use serde_json::json;
use session_gateway_hub::hub::limits::MAX_UNAUTHENTICATED_FRAME_BYTES;
use session_gateway_hub::hub::peers::connections::Upgrade;

const VALID: &str = r#"40/cli,{"token":"secret:team"}"#;
const INVALID: &str = r#"40/cli,{"token":"wrong"}"#;

/// Opens a socket without a token and receives the open packet.
async fn open(world: &World) -> Socket {
    let mut socket = world.open_cli(false);
    assert!(matches!(read(&socket.text().await), Heard::Open(_)));
    socket
}

/// Returns a CONNECT packet with this token and length.
fn padded_connect(token: &str, bytes: usize) -> String {
    let head = format!(r#"40/cli,{{"token":"{token}","padding":""#);
    let padding = "x".repeat(bytes - head.len() - 2);
    format!(r#"{head}{padding}"}}"#)
}

/// Returns the code and the reason with which the hub closes the socket.
async fn closed(socket: &mut Socket) -> (u16, String) {
    match socket.next().await {
        Frame::Closed { code, reason } => (code, reason),
        Frame::Text(text) => panic!("expected the socket to be closed, but received {text}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_above_16_kib_before_connect_closes_the_socket_unread() {
    let world = World::new();
    let mut socket = open(&world).await;
    socket.send(padded_connect("secret:team", MAX_UNAUTHENTICATED_FRAME_BYTES + 1));
    let (code, reason) = closed(&mut socket).await;
    assert_eq!(code, 1009);
    assert!(reason.contains("16 KiB"), "{reason}");

    let mut socket = open(&world).await;
    socket.send(padded_connect("secret:team", MAX_UNAUTHENTICATED_FRAME_BYTES));
    assert!(matches!(read(&socket.text().await), Heard::Connected(_)), "a frame of exactly the limit");
}

#[tokio::test(start_paused = true)]
async fn a_connected_cli_may_send_large_frames() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut cli = world.live_cli(&session).await;
    assert_eq!(cli.message(&session, &"x".repeat(10 * MAX_UNAUTHENTICATED_FRAME_BYTES)).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn the_third_refusal_closes_the_socket() {
    let world = World::new();
    let others = [INVALID, "40/web,", "40/cli,[]", r#"42/cli,["ping"]"#, "4", "48", "451-/cli,[]", "x", ""];
    for other in others {
        let mut socket = open(&world).await;
        for frame in [INVALID, other, INVALID] {
            socket.send(frame);
            let refusal = read(&socket.text().await);
            assert!(matches!(refusal, Heard::Refused(_)), "{frame:?}: {refusal:?}");
        }
        let (code, reason) = closed(&mut socket).await;
        assert_eq!(code, 1008, "{other:?}");
        assert!(reason.contains("CONNECT"), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_refusals_survives_hibernation() {
    let world = World::new();
    let (mut valid, mut invalid) = (open(&world).await, open(&world).await);
    for socket in [&mut valid, &mut invalid] {
        socket.send(INVALID);
        socket.send(INVALID);
        assert_eq!(socket.rest().await.len(), 2);
    }
    world.sleep_and_wake().await;
    valid.send(VALID);
    assert!(matches!(read(&valid.text().await), Heard::Connected(_)));
    invalid.send(INVALID);
    assert!(matches!(read(&invalid.text().await), Heard::Refused(_)));
    assert_eq!(invalid.closed().await, 1008);
}

#[tokio::test(start_paused = true)]
async fn a_binary_frame_before_connect_is_refused() {
    let world = World::new();
    let mut socket = open(&world).await;
    for _ in 0..3 {
        socket.send_binary();
        assert!(matches!(read(&socket.text().await), Heard::Refused(_)));
    }
    assert_eq!(socket.closed().await, 1008);
}

#[tokio::test(start_paused = true)]
async fn frames_without_effect_before_connect_are_not_refused() {
    let world = World::new();
    let mut socket = open(&world).await;
    for frame in ["3", "6", "5", "3", "6"] {
        socket.send(frame);
    }
    socket.heard_nothing().await;
    socket.send("2probe");
    assert_eq!(socket.text().await, "3probe");
    socket.send(VALID);
    assert!(matches!(read(&socket.text().await), Heard::Connected(_)));
}

#[tokio::test(start_paused = true)]
async fn more_than_sixteen_frames_without_effect_before_connect_close_the_socket_hibernation_included() {
    let world = World::new();
    let (mut valid, mut invalid) = (open(&world).await, open(&world).await);
    for socket in [&mut valid, &mut invalid] {
        for frame in ["2", "2probe", "3", "6"].repeat(4) {
            socket.send(frame);
        }
        assert_eq!(socket.rest().await.len(), 8, "the pongs");
    }
    world.sleep_and_wake().await;
    valid.send(VALID);
    assert!(matches!(read(&valid.text().await), Heard::Connected(_)));
    for _ in 0..20 {
        valid.send("2");
        assert_eq!(valid.text().await, "3", "no limit after CONNECT");
    }
    invalid.send("2");
    let (code, reason) = closed(&mut invalid).await;
    assert_eq!(code, 1008);
    assert!(reason.contains("CONNECT"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn queued_frames_count_even_if_they_are_empty() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut cli = world.live_cli(&session).await;
    world.sleep_and_wake().await;
    world.db.hold(On::Reads);
    cli.emit_asking("message", &json!({"sid": session, "message": {}}));
    quiet().await;
    let (hub, conn) = (world.hub(), world.rt.conn(cli.socket.key).unwrap());
    for _ in 0..1_000_000 {
        hub.on_text(conn, String::new()).await;
    }
    assert_eq!(cli.socket.closed().await, 1008);
}

#[tokio::test(start_paused = true)]
async fn at_most_two_hundred_sockets_without_a_token_wait_for_connect() {
    let world = World::new();
    let has_room = || world.hub().has_room_for(Upgrade::Unauthenticated);
    let opening: Vec<_> = (0..200).map(|_| world.open_cli(false)).collect();
    assert!(!has_room());
    opening[0].send(VALID);
    quiet().await;
    assert!(has_room(), "a connected socket does not count");
    let _one_more = world.open_cli(false);
    assert!(!has_room());
    world.sleep_and_wake().await;
    assert!(!has_room(), "after hibernation");
    world.pass(10_000).await;
    assert!(has_room());
}

#[tokio::test(start_paused = true)]
async fn sockets_without_a_token_do_not_block_those_with_one() {
    let world = World::new();
    let _unauthenticated: Vec<_> = (0..200).map(|_| world.open_cli(false)).collect();
    let has_room = || {
        [Upgrade::Unauthenticated, Upgrade::Authenticated, Upgrade::Bridged]
            .map(|upgrade| world.hub().has_room_for(upgrade))
    };
    assert_eq!(has_room(), [false, true, true]);
    let authenticated: Vec<_> = (0..31_800).map(|_| world.open_cli(true)).collect();
    assert_eq!(has_room(), [false, false, false], "the limit of all sockets");
    assert!(!world.hub().has_room(), "for web clients");
    authenticated[0].close();
    assert_eq!(has_room(), [false, true, true]);
    assert!(world.hub().has_room());
}

#[tokio::test(start_paused = true)]
async fn a_socket_without_a_valid_token_writes_nothing_to_storage() {
    let world = World::new();
    let mut socket = open(&world).await;
    socket.send(INVALID);
    assert!(matches!(read(&socket.text().await), Heard::Refused(_)));
    assert!(!world.hub().is_unused(), "a socket is open");
    world.pass(10_000).await;
    assert_eq!(socket.closed().await, 1008);
    assert!(world.rt.notebook().is_empty(), "{:?}", world.rt.notebook());
    assert!(world.hub().is_unused());
    assert_eq!(world.rt.alarm(), None);
}

#[tokio::test(start_paused = true)]
async fn the_first_valid_token_stores_the_namespace() {
    let world = World::new();
    let named = || world.rt.notebook().get("namespace").cloned();
    let socket = open(&world).await;
    assert_eq!(named(), None);
    socket.send(VALID);
    quiet().await;
    assert_eq!(named().as_deref(), Some("team"));
    socket.close();
    world.sleep_and_wake().await;
    assert!(!world.hub().is_unused());

    let other = World::new();
    other.hub().store_namespace();
    assert_eq!(other.rt.notebook().get("namespace").map(String::as_str), Some("team"));
    assert!(!other.hub().is_unused());
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_waits_for_the_database_does_not_time_out() {
    let world = World::new();
    let session = world.session("/code").await;
    world.sleep_and_wake().await;
    let mut socket = open(&world).await;
    world.db.hold(On::Reads);
    socket.send(format!(r#"40/cli,{{"token":"secret:team","sessionId":"{session}"}}"#));
    world.pass(60_000).await;
    world.db.release();
    assert!(matches!(read(&socket.text().await), Heard::Connected(_)));
}
