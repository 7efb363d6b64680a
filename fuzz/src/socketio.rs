//! Socket.IO packets. What was read and is written again reads the same; names and arguments are what a JSON parser says;
//! and what a stranger sends before CONNECT is always answered by a well-formed frame.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;
use session_gateway_hub::auth::token::AccessTokens;
use session_gateway_hub::hub::inbound::admission::{Admission, admission};
use session_gateway_hub::wire::engineio;
use session_gateway_hub::wire::socketio::{
    DecodeError, MAX_ACK_ID, Packet, ack_frame, connect_error_frame, connect_frame, decode, event_frame,
};

use super::value;

pub fn run(text: &str) {
    match decode(text) {
        Ok(packet) => {
            let written = write(&packet);
            assert_eq!(show(&decode(&written).expect("what was written")), show(&packet), "{written}");
            as_json_says(text, &packet);
        }
        Err(error) => refusal(text, &error),
    }
    written_by_the_hub(text);
    before_connect(text);
    before_connect(&format!("4{text}"));
}

fn show(packet: &Packet<'_>) -> String {
    format!("{packet:?}")
}

fn texts<'a>(args: &[&'a RawValue]) -> Vec<&'a str> {
    args.iter().map(|arg| arg.get()).collect()
}

/// The packet as its sender would write it, without the Engine.IO `4`.
fn write(packet: &Packet<'_>) -> String {
    let by_client = |kind: u8, payload: &str| match packet.namespace() {
        "/" => format!("{kind}{payload}"),
        namespace => format!("{kind}{namespace},{payload}"),
    };
    let frame = match packet {
        Packet::Connect { auth, .. } => return by_client(0, auth.map_or("", RawValue::get)),
        Packet::Disconnect { .. } => return by_client(1, ""),
        Packet::ConnectError { data, .. } => return by_client(4, data.get()),
        Packet::Event { namespace, ack, name, args } => event_frame(namespace, *ack, name, &texts(args)),
        Packet::Ack { namespace, id, args } => ack_frame(namespace, *id, &texts(args)),
    };
    frame.strip_prefix('4').expect("an Engine.IO message").to_owned()
}

/// Compares an array payload with what a JSON parser makes of it.
fn as_json_says(text: &str, packet: &Packet<'_>) {
    let (first, args) = match packet {
        Packet::Event { name, args, ack, .. } => {
            assert!(ack.is_none_or(|id| id <= MAX_ACK_ID));
            (Some(Value::from(name.as_ref())), args)
        }
        Packet::Ack { id, args, .. } => {
            assert!(*id <= MAX_ACK_ID);
            (None, args)
        }
        _ => return,
    };
    let namespace_end = if text[1..].starts_with('/') { text.find(',').expect("a payload after it") } else { 1 };
    let start = text[namespace_end..].find('[').expect("an array") + namespace_end;
    let Some(Value::Array(expected)) = value(&text[start..]) else { return };
    let read: Vec<Value> = args.iter().filter_map(|arg| value(arg.get())).collect();
    assert_eq!(first.into_iter().chain(read).collect::<Vec<_>>(), expected);
}

fn refusal(text: &str, error: &DecodeError) {
    assert!(!error.to_string().is_empty());
    assert!(error.ack_id().is_none() || error.acknowledged_id().is_none(), "an id is asked for or answered");
    for id in [error.ack_id(), error.acknowledged_id()].into_iter().flatten() {
        assert!(id <= MAX_ACK_ID && text.contains(&id.to_string()));
    }
    if let DecodeError::BinaryUnsupported { .. } = error {
        assert!(text.starts_with(['5', '6']));
    }
    if let Some(namespace) = error.namespace() {
        assert!(namespace == "/" || text.contains(namespace));
    }
}

/// Any text can be an event's name, an id or a message.
fn written_by_the_hub(text: &str) {
    let frame = event_frame("/cli", Some(MAX_ACK_ID), text, &["{}"]);
    match decode(&frame[1..]) {
        Ok(Packet::Event { name, ack: Some(MAX_ACK_ID), args, .. }) => {
            assert_eq!((name, texts(&args)), (Cow::from(text), vec!["{}"]));
        }
        other => panic!("{frame} is {other:?}"),
    }
    match decode(&connect_error_frame("/cli", text)[1..]) {
        Ok(Packet::ConnectError { data, .. }) => {
            assert_eq!(value(data.get()), Some(serde_json::json!({ "message": text })));
        }
        other => panic!("a refusal is {other:?}"),
    }
    match decode(&connect_frame("/cli", text)[1..]) {
        Ok(Packet::Connect { auth: Some(auth), .. }) => {
            assert_eq!(value(auth.get()), Some(serde_json::json!({ "sid": text })));
        }
        other => panic!("an admission is {other:?}"),
    }
}

fn before_connect(frame: &str) {
    let tokens = AccessTokens::new("s3cret", false);
    match admission(&tokens, None, frame) {
        Admission::Granted { namespace, auth } => {
            assert_eq!(auth.token.and_then(|token| tokens.verify(&token)), Some(namespace));
        }
        Admission::Refused(answer) => match engineio::decode(&answer) {
            Ok(engineio::Packet::Message(text)) => assert!(matches!(decode(text), Ok(Packet::ConnectError { .. }))),
            other => panic!("{answer:?} is {other:?}"),
        },
        Admission::Pong(answer) => assert!(answer.starts_with('3')),
        Admission::Left | Admission::Ignored => {}
    }
}
