//! Who is let in, and what somebody without a token can do to the hub until then: little.

use crate::support::cli::{Heard, read};
use crate::support::runtime::Frame;
use crate::support::socket::Socket;
use crate::support::sqlite::On;
use crate::support::{World, quiet};
use serde_json::json;
use session_gateway_hub::hub::limits::MAX_UNAUTHENTICATED_FRAME_BYTES;
use session_gateway_hub::hub::peers::connections::Upgrade;

const GOOD: &str = r#"40/cli,{"token":"secret:team"}"#;
const BAD: &str = r#"40/cli,{"token":"wrong"}"#;

/// A raw socket without a token that has heard its open packet.
async fn opened(world: &World) -> Socket {
    let mut socket = world.open_cli(false);
    assert!(matches!(read(&socket.text().await), Heard::Open(_)));
    socket
}

/// A CONNECT packet with this token that is exactly so many bytes long.
fn padded(token: &str, bytes: usize) -> String {
    let head = format!(r#"40/cli,{{"token":"{token}","padding":""#);
    let padding = "x".repeat(bytes - head.len() - 2);
    format!(r#"{head}{padding}"}}"#)
}

/// The code and the reason with which the hub closes the socket next.
async fn closed(socket: &mut Socket) -> (u16, String) {
    match socket.next().await {
        Frame::Closed { code, reason } => (code, reason),
        Frame::Text(text) => panic!("expected the socket to be closed, but heard {text}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_above_16_kib_before_connect_closes_the_socket_unread() {
    let world = World::new();
    let mut socket = opened(&world).await;
    socket.send(padded("secret:team", MAX_UNAUTHENTICATED_FRAME_BYTES + 1));
    let (code, reason) = closed(&mut socket).await;
    assert_eq!(code, 1009);
    assert!(reason.contains("16 KiB"), "{reason}");

    let mut socket = opened(&world).await;
    socket.send(padded("secret:team", MAX_UNAUTHENTICATED_FRAME_BYTES));
    assert!(matches!(read(&socket.text().await), Heard::Connected(_)), "one of the limit's own size is read");
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
    let others = [BAD, "40/web,", "40/cli,[]", r#"42/cli,["ping"]"#, "4", "48", "451-/cli,[]", "x", ""];
    for other in others {
        let mut socket = opened(&world).await;
        for frame in [BAD, other, BAD] {
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
async fn two_refusals_leave_one_more_try_also_after_a_sleep() {
    let world = World::new();
    let (mut late, mut persistent) = (opened(&world).await, opened(&world).await);
    for socket in [&mut late, &mut persistent] {
        socket.send(BAD);
        socket.send(BAD);
        assert_eq!(socket.rest().await.len(), 2);
    }
    world.sleep_and_wake().await;
    late.send(GOOD);
    assert!(matches!(read(&late.text().await), Heard::Connected(_)));
    persistent.send(BAD);
    assert!(matches!(read(&persistent.text().await), Heard::Refused(_)));
    assert_eq!(persistent.closed().await, 1008);
}

#[tokio::test(start_paused = true)]
async fn a_binary_frame_before_connect_is_a_refusal_like_any_other() {
    let world = World::new();
    let mut socket = opened(&world).await;
    for _ in 0..3 {
        socket.send_binary();
        assert!(matches!(read(&socket.text().await), Heard::Refused(_)));
    }
    assert_eq!(socket.closed().await, 1008);
}

#[tokio::test(start_paused = true)]
async fn what_means_nothing_before_connect_is_no_refusal() {
    let world = World::new();
    let mut socket = opened(&world).await;
    for frame in ["3", "6", "5", "3", "6"] {
        socket.send(frame);
    }
    socket.heard_nothing().await;
    socket.send("2probe");
    assert_eq!(socket.text().await, "3probe");
    socket.send(GOOD);
    assert!(matches!(read(&socket.text().await), Heard::Connected(_)));
}

#[tokio::test(start_paused = true)]
async fn of_frames_that_mean_nothing_before_connect_a_socket_has_sixteen_also_after_a_sleep() {
    let world = World::new();
    let (mut late, mut persistent) = (opened(&world).await, opened(&world).await);
    for socket in [&mut late, &mut persistent] {
        for frame in ["2", "2probe", "3", "6"].repeat(4) {
            socket.send(frame);
        }
        assert_eq!(socket.rest().await.len(), 8, "pings are answered");
    }
    world.sleep_and_wake().await;
    late.send(GOOD);
    assert!(matches!(read(&late.text().await), Heard::Connected(_)));
    for _ in 0..20 {
        late.send("2");
        assert_eq!(late.text().await, "3", "a CLI that has connected may ping as it likes");
    }
    persistent.send("2");
    let (code, reason) = closed(&mut persistent).await;
    assert_eq!(code, 1008);
    assert!(reason.contains("CONNECT"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn frames_that_wait_count_also_when_they_are_empty() {
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
async fn at_most_two_hundred_sockets_without_a_token_open_at_once() {
    let world = World::new();
    let room = || world.hub().has_room_for(Upgrade::Unauthenticated);
    let opening: Vec<_> = (0..200).map(|_| world.open_cli(false)).collect();
    assert!(!room());
    opening[0].send(GOOD);
    quiet().await;
    assert!(room(), "one that has connected makes room");
    let _one_more = world.open_cli(false);
    assert!(!room());
    world.sleep_and_wake().await;
    assert!(!room(), "a sleep makes none");
    world.pass(10_000).await;
    assert!(room());
}

#[tokio::test(start_paused = true)]
async fn sockets_without_a_token_do_not_keep_out_those_who_have_one() {
    let world = World::new();
    let _strangers: Vec<_> = (0..200).map(|_| world.open_cli(false)).collect();
    let room = || {
        [Upgrade::Unauthenticated, Upgrade::Authenticated, Upgrade::Bridged]
            .map(|upgrade| world.hub().has_room_for(upgrade))
    };
    assert_eq!(room(), [false, true, true]);
    let known: Vec<_> = (0..31_800).map(|_| world.open_cli(true)).collect();
    assert_eq!(room(), [false, false, false], "the platform's sockets are not endless");
    assert!(!world.hub().has_room(), "not for web clients either");
    known[0].close();
    assert_eq!(room(), [false, true, true]);
    assert!(world.hub().has_room());
}

#[tokio::test(start_paused = true)]
async fn whoever_shows_no_token_leaves_nothing_in_the_notebook() {
    let world = World::new();
    let mut stranger = opened(&world).await;
    stranger.send(BAD);
    assert!(matches!(read(&stranger.text().await), Heard::Refused(_)));
    assert!(!world.hub().is_unused(), "a socket waits to be let in");
    world.pass(10_000).await;
    assert_eq!(stranger.closed().await, 1008);
    assert!(world.rt.notebook().is_empty(), "{:?}", world.rt.notebook());
    assert!(world.hub().is_unused());
    assert_eq!(world.rt.alarm(), None);
}

#[tokio::test(start_paused = true)]
async fn the_notebook_keeps_the_namespace_from_the_first_good_token_on() {
    let world = World::new();
    let named = || world.rt.notebook().get("namespace").cloned();
    let socket = opened(&world).await;
    assert_eq!(named(), None);
    socket.send(GOOD);
    quiet().await;
    assert_eq!(named().as_deref(), Some("team"));
    socket.close();
    world.sleep_and_wake().await;
    assert!(!world.hub().is_unused());

    let asked = World::new();
    asked.hub().note_namespace();
    assert_eq!(asked.rt.notebook().get("namespace").map(String::as_str), Some("team"));
    assert!(!asked.hub().is_unused());
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_a_slow_database_holds_up_does_not_make_the_alarm_ring_without_end() {
    let world = World::new();
    let session = world.session("/code").await;
    world.sleep_and_wake().await;
    let mut socket = opened(&world).await;
    world.db.hold(On::Reads);
    socket.send(format!(r#"40/cli,{{"token":"secret:team","sessionId":"{session}"}}"#));
    world.pass(60_000).await;
    world.db.release();
    assert!(matches!(read(&socket.text().await), Heard::Connected(_)));
}
