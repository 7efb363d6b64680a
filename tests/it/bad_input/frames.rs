//! Frames that are no packets, or packets that make no sense where they come: each is answered or passed over as the
//! protocol has it, and the socket lives on.

use crate::support::cli::{Cli, Received, parse_frame};
use crate::support::runtime::Frame;
use crate::support::{World, run_until_idle};
use serde_json::{Value, json};

/// What comes of a frame.
#[derive(Debug, PartialEq)]
enum Brings {
    /// Nothing at all.
    Silence,
    /// This frame.
    Frame(&'static str),
    /// An `error` event of this code.
    Error(&'static str),
    /// The acknowledgement of this number says `{ok: false, error, code: "bad-packet"}`.
    Refusal(u64),
    /// The same of code `binary-unsupported`.
    NoBinary(u64),
    /// The acknowledgement of this number says `{ok: true}`.
    Done(u64),
    /// A CONNECT_ERROR.
    ConnectError,
}

use Brings::{ConnectError, Done, Error, NoBinary, Refusal, Silence};

const BAD: Brings = Error("bad-packet");
const BINARY: Brings = Error("binary-unsupported");

/// What a connected CLI may send by mistake.
fn table() -> Vec<(String, Brings)> {
    let engine_io = [
        ("", BAD),
        (" ", BAD),
        ("x", BAD),
        ("7", BAD),
        ("8", BAD),
        ("9", BAD),
        ("-1", BAD),
        (" 2", BAD),
        ("\n", BAD),
        ("\u{0}", BAD),
        ("\u{feff}2", BAD),
        ("\u{0662}", BAD),
        ("\u{ff12}", BAD),
        ("\u{1F980}", BAD),
        ("b", BAD),
        ("bAQID", BAD),
        ("{}", BAD),
        // Types that carry no data.
        ("1x", BAD),
        ("11", BAD),
        ("5x", BAD),
        ("6x", BAD),
        // A handshake, an upgrade and a noop mean nothing from a client; a pong needs no answer.
        ("0", Silence),
        (r#"0{"sid":"x"}"#, Silence),
        ("5", Silence),
        ("6", Silence),
        ("3", Silence),
        ("3probe", Silence),
        ("2", Brings::Frame("3")),
        ("2probe", Brings::Frame("3probe")),
        ("2\u{0}\u{1F980}", Brings::Frame("3\u{0}\u{1F980}")),
    ];
    let socket_io = [
        ("4", BAD),
        ("47", BAD),
        ("48", BAD),
        ("4x", BAD),
        ("4 ", BAD),
        ("4-1", BAD),
        ("4/cli,", BAD),
        ("4\u{1F980}", BAD),
        // Events without a name, and payloads that are no JSON.
        ("42", BAD),
        ("42/cli", BAD),
        ("42/cli,", BAD),
        ("42/cli,{}", BAD),
        ("42/cli,[]", BAD),
        ("42/cli,[5]", BAD),
        ("42/cli,[null]", BAD),
        (r#"42/cli,[["ping"]]"#, BAD),
        (r#"42/cli,[{"ping":1}]"#, BAD),
        (r#"42/cli,"ping""#, BAD),
        ("42/cli,ping", BAD),
        (r#"42/cli,["ping""#, BAD),
        (r#"42/cli,["ping",]"#, BAD),
        (r#"42/cli,["ping"]]"#, BAD),
        (r#"42/cli,["ping"]["ping"]"#, BAD),
        (r#"42/cli,['ping']"#, BAD),
        (r#"42/cli,["ping",undefined]"#, BAD),
        (r#"42/cli,["ping",NaN]"#, BAD),
        (r#"42/cli,["ping",01]"#, BAD),
        (r#"42/cli,["pi\xng"]"#, BAD),
        ("42/cli,[\"ping\n\"]", BAD),
        ("42/cli,[\"ping\u{0}\"]", BAD),
        (r#"42/cli,["\ud800"]"#, BAD),
        ("\u{feff}42/cli,[\"ping\"]", BAD),
        // The number tells whom to answer, where it is one.
        ("42/cli,7", Refusal(7)),
        ("42/cli,7[]", Refusal(7)),
        ("42/cli,7[5]", Refusal(7)),
        ("42/cli,7{}", Refusal(7)),
        (r#"42/cli,7["ping""#, Refusal(7)),
        (r#"42/cli,7.5["ping"]"#, Refusal(7)),
        (r#"42/cli,7 8["ping"]"#, Refusal(7)),
        (r#"42/cli,0["ping"]"#, Done(0)),
        (r#"42/cli,9007199254740991["ping"]"#, Done(9_007_199_254_740_991)),
        (r#"42/cli,9007199254740992["ping"]"#, BAD),
        (r#"42/cli,18446744073709551617["ping"]"#, BAD),
        (r#"42/cli,07["ping"]"#, BAD),
        (r#"42/cli,-7["ping"]"#, BAD),
        (r#"42/cli,+7["ping"]"#, BAD),
        ("42/cli,\u{0667}[\"ping\"]", BAD),
        // Acknowledgements of nothing.
        ("43/cli,[]", BAD),
        ("43/cli,", BAD),
        ("43/cli,5", BAD),
        ("43/cli,5{}", BAD),
        ("43/cli,05[]", BAD),
        ("43/cli,9007199254740992[]", BAD),
        ("43/cli,5[]", Silence),
        (r#"43/cli,5["{}"]"#, Silence),
        (r#"43/cli,5[null,{}]"#, Silence),
        // A client is connected once, and refuses nobody.
        ("40/cli,", Silence),
        (r#"40/cli,{"token":"wrong"}"#, Silence),
        ("40/cli,[]", BAD),
        ("40/cli,{", BAD),
        ("40/cli,7{}", BAD),
        ("40", ConnectError),
        ("40/web,", ConnectError),
        ("40{}", ConnectError),
        ("40/cli/x,", ConnectError),
        ("40/CLI,", ConnectError),
        ("44/cli,", BAD),
        (r#"44/cli,{"message":"no"}"#, Silence),
        (r#"44/cli,"no""#, Silence),
        ("44/cli,7", BAD),
        ("41/cli,7", BAD),
        ("41/cli,{}", BAD),
        ("41", Silence),
        ("41/web,", Silence),
        // What is said in a namespace that was not joined is said to nobody.
        (r#"42["ping"]"#, Silence),
        (r#"42/web,7["ping"]"#, Silence),
        (r#"42/CLI,7["ping"]"#, Silence),
        ("43/web,7[]", Silence),
        (r#"42/cli?a=b,7["ping"]"#, Done(7)),
        // Binary data, whose frames follow.
        (r#"451-/cli,7["message",{"_placeholder":true,"num":0}]"#, NoBinary(7)),
        (r#"450-/cli,7["ping"]"#, NoBinary(7)),
        (r#"451-/cli,["message",{"_placeholder":true,"num":0}]"#, BINARY),
        ("461-/cli,5[]", BINARY),
        ("45", BAD),
        ("45-[]", BAD),
        (r#"45["a"]"#, BAD),
        ("45x-[]", BAD),
        ("4599999999999999999999-[]", BAD),
        ("451-/cli,07[]", BAD),
        ("461-", BINARY),
    ];
    let depth = 100_000;
    let (open, shut) = ("[".repeat(depth), "]".repeat(depth));
    let deep = [
        (format!("42/cli,7[\"ping\",{open}{shut}]"), Done(7)),
        (format!("42/cli,7[\"ping\",{open}]"), Refusal(7)),
        (format!("42/cli,{open}{shut}"), BAD),
        (format!("43/cli,5[{open}{shut}]"), Silence),
        (format!("42/cli,7[\"ping\"{}]", ",1".repeat(depth)), Done(7)),
        (format!("42/{},7[\"ping\"]", "x".repeat(depth)), Silence),
        (format!("42/cli,{}[\"ping\"]", "7".repeat(depth)), BAD),
    ];
    let plain = engine_io.into_iter().chain(socket_io).map(|(frame, brings)| (frame.to_owned(), brings));
    plain.chain(deep).collect()
}

/// What was heard, in the words of the table.
fn brought(frames: &[Frame]) -> Option<Brings> {
    let text = match frames {
        [] => return Some(Silence),
        [Frame::Text(text)] => text,
        _ => return None,
    };
    if text.starts_with('3') {
        return Some(Brings::Frame(text.clone().leak()));
    }
    let sentence = |value: &Value| value.as_str().is_some_and(|sentence| sentence.len() > 10);
    match parse_frame(text) {
        Received::Event { name, arg, ack: None } if name == "error" && sentence(&arg["message"]) => {
            Some(Error(arg["code"].as_str()?.to_owned().leak()))
        }
        Received::Ack { id, arg } if arg == json!({"ok": true}) => Some(Done(id)),
        Received::Ack { id, arg } if arg["ok"] == false && sentence(&arg["error"]) => match arg["code"].as_str()? {
            "bad-packet" => Some(Refusal(id)),
            "binary-unsupported" => Some(NoBinary(id)),
            _ => None,
        },
        Received::ConnectError(data) if sentence(&data["message"]) => Some(ConnectError),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_connected_cli_hears_what_is_wrong_with_a_frame_and_its_socket_lives_on() {
    let world = World::new();
    let session = world.create_session("/code").await;
    let mut cli = world.live_cli(&session).await;
    run_until_idle().await;
    let (before, writes) = (world.get_session(&session).await, world.db.write_count());
    let mut mistakes = Vec::new();
    for (frame, brings) in table() {
        cli.socket.send(&*frame);
        let heard = cli.socket.drain().await;
        let alive = cli.emit_with_ack("ping", &Value::Null).await == json!({"ok": true});
        if brought(&heard).as_ref() != Some(&brings) || !alive {
            let shown: String = frame.chars().take(100).collect();
            mistakes.push(format!("{shown:?}: not {brings:?}, but {heard:?}"));
        }
    }
    assert!(mistakes.is_empty(), "{} mistakes\n{}", mistakes.len(), mistakes.join("\n"));
    assert_eq!((world.get_session(&session).await, world.db.write_count()), (before, writes));
    for _ in 0..3 {
        cli.socket.send_binary();
        assert_eq!(brought(&cli.socket.drain().await), Some(BINARY));
    }
}

/// The same frames before CONNECT: each on a socket of its own, which may connect after it.
#[tokio::test(start_paused = true)]
async fn whoever_has_not_connected_may_do_so_after_any_frame_but_a_goodbye() {
    let world = World::new();
    let session = world.create_session("/code").await;
    for (frame, _) in table().into_iter().filter(|(frame, _)| !frame.starts_with("41") && frame.len() < 10_000) {
        let shown: String = frame.chars().take(100).collect();
        let mut socket = world.open_cli(false);
        assert!(matches!(parse_frame(&socket.next_text().await), Received::Open(_)));
        socket.send(frame);
        drop(socket.drain().await);
        socket.send(format!("40/cli,{}", json!({"token": world.token(), "sessionId": session})));
        assert!(matches!(parse_frame(&socket.next_text().await), Received::Connected(_)), "{shown:?}");
        socket.close();
    }
    assert_eq!(world.get_session(&session).await["seq"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_web_client_only_listens_whatever_it_sends() {
    let world = World::new();
    let session = world.create_session("/code").await;
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
