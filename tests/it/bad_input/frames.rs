//! Malformed frames and unexpected packets. The hub sends the reply that the protocol specifies, if any, and the connection
//! remains usable.

use crate::support::cli::parse_frame;
use crate::support::prelude::*;

/// The reply to a frame.
#[derive(Debug, Clone, PartialEq)]
enum Response {
    Nothing,
    Frame(&'static str),
    /// The acknowledgement `{ok: true}` with this id.
    OkAck(u64),
    /// The acknowledgement of an unknown event with this id.
    EmptyAck(u64),
    ConnectError,
    /// The socket is closed with this code and reason.
    Closed(u16, &'static str),
}

use Response::{Closed, ConnectError, EmptyAck, Nothing, OkAck};

const PARSE_ERROR: Response = Closed(1002, "parse error");
const REPEATED_CONNECT: Response = Closed(1002, "Unexpected CONNECT: this Socket.IO namespace is connected already");
const CONNECT_ERROR: Response = Closed(1002, "Unexpected CONNECT_ERROR: only the server sends it");
const NOT_CONNECTED: Response =
    Closed(1002, "Unexpected packet: this Socket.IO namespace is not connected. Send CONNECT for it first");
const BINARY: Response = Closed(1003, "Binary data is not supported: send it as base64 text");

/// Frames of a connected CLI with the expected replies.
fn table() -> Vec<(String, Response)> {
    let rows: &[(&[&str], Response)] = &[
        // Engine.IO.
        (&["", " ", "x", "7", "8", "9", "-1", " 2", "\n", "\u{0}", "\u{feff}2", "\u{0662}", "\u{ff12}"], PARSE_ERROR),
        (&["\u{1F980}", "b", "bAQID", "{}"], PARSE_ERROR),
        // Types without data.
        (&["1x", "11", "5x", "6x"], PARSE_ERROR),
        // The hub ignores handshakes, upgrades, noops and pongs.
        (&["0", r#"0{"sid":"x"}"#, "5", "6", "3", "3probe"], Nothing),
        (&["2"], Response::Frame("3")),
        (&["2probe"], Response::Frame("3probe")),
        (&["2\u{0}\u{1F980}"], Response::Frame("3\u{0}\u{1F980}")),
        // Socket.IO.
        (&["4", "47", "48", "4x", "4 ", "4-1", "4/cli,", "4\u{1F980}"], PARSE_ERROR),
        // Events without a name, and invalid JSON.
        (&["42", "42/cli", "42/cli,", "42/cli,{}", "42/cli,[]", "42/cli,[null]", r#"42/cli,[["ping"]]"#], PARSE_ERROR),
        (&[r#"42/cli,[{"ping":1}]"#, r#"42/cli,"ping""#, "42/cli,ping", r#"42/cli,["ping""#], PARSE_ERROR),
        (&[r#"42/cli,["ping",]"#, r#"42/cli,["ping"]]"#, r#"42/cli,["ping"]["ping"]"#], PARSE_ERROR),
        (&[r#"42/cli,['ping']"#, r#"42/cli,["ping",undefined]"#, r#"42/cli,["ping",NaN]"#], PARSE_ERROR),
        (&[r#"42/cli,["ping",01]"#, r#"42/cli,["pi\xng"]"#, "42/cli,[\"ping\n\"]"], PARSE_ERROR),
        (&["42/cli,[\"ping\u{0}\"]", r#"42/cli,["\ud800"]"#, "\u{feff}42/cli,[\"ping\"]"], PARSE_ERROR),
        // A number is the name of an unknown event, as for the official server.
        (&["42/cli,[5]", "42/cli,[-1.5e3,{}]"], Nothing),
        (&[r#"42/cli,7[0,"ping"]"#], EmptyAck(7)),
        (&["42/cli,[5", "42/cli,[05]", "42/cli,[-]"], PARSE_ERROR),
        // Ack ids.
        (&["42/cli,7", "42/cli,7[]", "42/cli,7{}", r#"42/cli,7["ping""#, r#"42/cli,7.5["ping"]"#], PARSE_ERROR),
        (&[r#"42/cli,7 8["ping"]"#], PARSE_ERROR),
        (&[r#"42/cli,0["ping"]"#], OkAck(0)),
        (&[r#"42/cli,9007199254740991["ping"]"#], OkAck(9_007_199_254_740_991)),
        (&[r#"42/cli,9007199254740992["ping"]"#, r#"42/cli,18446744073709551617["ping"]"#], PARSE_ERROR),
        (&[r#"42/cli,07["ping"]"#, r#"42/cli,-7["ping"]"#, r#"42/cli,+7["ping"]"#], PARSE_ERROR),
        (&["42/cli,\u{0667}[\"ping\"]"], PARSE_ERROR),
        // Acknowledgements without an event.
        (&["43/cli,[]", "43/cli,", "43/cli,5", "43/cli,5{}", "43/cli,05[]", "43/cli,9007199254740992[]"], PARSE_ERROR),
        (&["43/cli,5[]", r#"43/cli,5["{}"]"#, r#"43/cli,5[null,{}]"#], Nothing),
        // CONNECT and CONNECT_ERROR of a connected client.
        (&["40/cli,", r#"40/cli,{"token":"wrong"}"#], REPEATED_CONNECT),
        (&["40/cli,[]", "40/cli,{", "40/cli,7{}"], PARSE_ERROR),
        (&["40", "40/web,", "40{}", "40/cli/x,", "40/CLI,"], ConnectError),
        (&["44/cli,"], PARSE_ERROR),
        (&[r#"44/cli,{"message":"no"}"#, r#"44/cli,"no""#, r#"44/web,"no""#], CONNECT_ERROR),
        (&["44/cli,7", "41/cli,7", "41/cli,{}"], PARSE_ERROR),
        (&["41", "41/web,"], NOT_CONNECTED),
        // Other namespaces.
        (&[r#"42["ping"]"#, r#"42/web,7["ping"]"#, r#"42/CLI,7["ping"]"#, "43/web,7[]"], NOT_CONNECTED),
        (&[r#"42/cli?a=b,7["ping"]"#], OkAck(7)),
        // Binary packets.
        (&[r#"451-/cli,7["message",{"_placeholder":true,"num":0}]"#, r#"450-/cli,7["ping"]"#], BINARY),
        (&[r#"451-/cli,["message",{"_placeholder":true,"num":0}]"#, "461-/cli,5[]"], BINARY),
        (&["45", "45-[]", r#"45["a"]"#, "45x-[]", "4599999999999999999999-[]"], PARSE_ERROR),
        (&["451-/cli,07[]", "461-"], BINARY),
    ];
    let depth = 100_000;
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    let deep = [
        (format!("42/cli,7[\"ping\",{open}{close}]"), OkAck(7)),
        (format!("42/cli,7[\"ping\",{open}]"), PARSE_ERROR),
        (format!("42/cli,{open}{close}"), PARSE_ERROR),
        (format!("43/cli,5[{open}{close}]"), Nothing),
        (format!("42/cli,7[\"ping\"{}]", ",1".repeat(depth)), OkAck(7)),
        (format!("42/{},7[\"ping\"]", "x".repeat(depth)), NOT_CONNECTED),
        (format!("42/cli,{}[\"ping\"]", "7".repeat(depth)), PARSE_ERROR),
    ];
    let frames =
        rows.iter().flat_map(|(frames, reply)| frames.iter().map(|frame| ((*frame).to_owned(), reply.clone())));
    frames.chain(deep).collect()
}

/// Converts received frames to a reply; `None` for unexpected frames.
fn to_reply(frames: &[Frame]) -> Option<Response> {
    let text = match frames {
        [] => return Some(Nothing),
        [Frame::Text(text)] => text,
        [Frame::Closed { code, reason }] => return Some(Closed(*code, reason.clone().leak())),
        _ => return None,
    };
    if text.starts_with('3') {
        return Some(Response::Frame(text.clone().leak()));
    }
    match parse_frame(text) {
        Received::Ack { id, arg } if arg == json!({"ok": true}) => Some(OkAck(id)),
        Received::Ack { id, arg: Value::Null } => Some(EmptyAck(id)),
        Received::ConnectError(data) if data["message"].as_str().is_some_and(|text| text.len() > 10) => {
            Some(ConnectError)
        }
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_malformed_frame_closes_only_its_own_connection() {
    let (world, session, mut neighbour) = live_session().await;
    let mut cli = world.cli(&session).await;
    run_until_idle().await;
    let (before, writes) = (world.get_session(&session).await, world.db.write_count());
    let mut deviations = Vec::new();
    for (frame, reply) in table() {
        cli.socket.send(&*frame);
        let received = cli.socket.drain().await;
        let is_usable = match reply {
            Closed(..) => !cli.socket.is_open(),
            _ => cli.emit_with_ack("ping", &Value::Null).await == json!({"ok": true}),
        };
        if to_reply(&received).as_ref() != Some(&reply) || !is_usable {
            let start: String = frame.chars().take(100).collect();
            deviations.push(format!("{start:?}: expected {reply:?}, but received {received:?}"));
        }
        if !cli.socket.is_open() {
            cli = world.cli(&session).await;
        }
    }
    assert!(deviations.is_empty(), "{} deviations\n{}", deviations.len(), deviations.join("\n"));
    cli.socket.send_binary();
    assert_eq!(to_reply(&cli.socket.drain().await), Some(BINARY));
    assert_eq!(neighbour.emit_with_ack("ping", &Value::Null).await, json!({"ok": true}));
    neighbour.socket.assert_no_frames().await;
    assert_eq!((world.get_session(&session).await, world.db.write_count()), (before, writes));
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_socket_that_sends_a_malformed_acknowledgement_fail_at_once() {
    let (world, session) = idle_session().await;
    for malformed in ["43/cli,ACK{}", r#"461-/cli,ACK[{"_placeholder":true,"num":0}]"#] {
        let mut cli = world.live_cli(&session).await;
        cli.register("gitStatus").await;
        let reply = world.start("GET", &format!("/api/sessions/{session}/git-status"), "");
        let call = cli.next_call().await;
        cli.socket.send(malformed.replace("ACK", &call.ack.to_string()));
        assert_eq!(reply.reply().await.ok()["error"], "The CLI disconnected before it answered gitStatus");
    }
}

/// Returns the reply to a frame before CONNECT. `reply` is the reply to the same frame after CONNECT.
fn reply_before_connect(frame: &str, reply: Response) -> Response {
    match reply {
        REPEATED_CONNECT => ConnectError,
        NOT_CONNECTED if frame.starts_with("41") => Closed(1000, ""),
        Nothing | OkAck(_) | EmptyAck(_) if frame.starts_with("42") || frame.starts_with("43") => NOT_CONNECTED,
        reply => reply,
    }
}

#[tokio::test(start_paused = true)]
async fn connect_succeeds_after_any_frame_that_does_not_close_the_socket() {
    let (world, session) = idle_session().await;
    for (frame, reply) in table().into_iter().filter(|(frame, _)| frame.len() < 10_000) {
        let start: String = frame.chars().take(100).collect();
        let mut socket = world.open_cli();
        assert!(matches!(parse_frame(&socket.next_text().await), Received::Open(_)));
        socket.send(&*frame);
        let reply = reply_before_connect(&frame, reply);
        assert_eq!(to_reply(&socket.drain().await).as_ref(), Some(&reply), "{start:?}");
        if !matches!(reply, Closed(..)) {
            socket.send(format!("40/cli,{}", json!({"token": world.token(), "sessionId": session})));
            assert!(matches!(parse_frame(&socket.next_text().await), Received::Connected(_)), "{start:?}");
            socket.close();
        }
    }
    assert_eq!(world.get_session(&session).await["seq"], 0);
}

#[tokio::test(start_paused = true)]
async fn frames_of_a_web_client_are_ignored() {
    let (world, session) = idle_session().await;
    let mut web = world.web(&format!("sessionId={session}")).await;
    for (frame, _) in table() {
        web.0.send(frame);
    }
    web.0.send("41/cli,");
    web.0.send("1");
    web.0.send_binary();
    web.0.assert_no_frames().await;
    let mut cli: Cli = world.live_cli(&session).await;
    assert_eq!(cli.send_message(&session, "hello").await["seq"], 1);
    assert_eq!(web.next_event_of("message-received").await["message"]["seq"], 1);
}
