//! Socket.IO packets:
//! - Encoding a decoded packet and decoding the text again gives the same packet.
//! - The event name and the arguments are those that a JSON parser finds.
//! - Any frame before CONNECT gets a valid answer.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;
use session_gateway_hub::auth::token::Credential;
use session_gateway_hub::hub::core::peers::connections::{Connecting, Upgrade};
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::wire::engineio;
use session_gateway_hub::wire::socketio::{
    DecodeError, MAX_ACK_ID, Packet, ack_frame, connect_error_frame, connect_frame, decode, event_frame,
};

use super::value;

pub fn run(text: &str) {
    match decode(text) {
        Ok(packet) => {
            let encoded = encode(&packet);
            assert_eq!(show(&decode(&encoded).expect("a valid packet")), show(&packet), "{encoded}");
            check_values(text, &packet);
        }
        Err(error) => check_error(text, &error),
    }
    check_encoders(text);
    check_admission(text);
    check_admission(&format!("4{text}"));
}

fn show(packet: &Packet<'_>) -> String {
    format!("{packet:?}")
}

fn texts<'a>(args: &[&'a RawValue]) -> Vec<&'a str> {
    args.iter().map(|arg| arg.get()).collect()
}

/// Encodes a packet as a client does, without the Engine.IO `4`.
fn encode(packet: &Packet<'_>) -> String {
    let client_packet = |kind: u8, payload: &str| match packet.namespace() {
        "/" => format!("{kind}{payload}"),
        namespace => format!("{kind}{namespace},{payload}"),
    };
    let frame = match packet {
        Packet::Connect { auth, .. } => return client_packet(0, auth.map_or("", RawValue::get)),
        Packet::Disconnect { .. } => return client_packet(1, ""),
        Packet::ConnectError { data, .. } => return client_packet(4, data.get()),
        Packet::Event { namespace, ack, name, args } => event_frame(namespace, *ack, name, &texts(args)),
        Packet::Ack { namespace, id, args } => ack_frame(namespace, *id, &texts(args)),
    };
    frame.strip_prefix('4').expect("an Engine.IO message").to_owned()
}

/// Compares the arguments of a packet with those that a JSON parser finds.
fn check_values(text: &str, packet: &Packet<'_>) {
    let (name, args) = match packet {
        Packet::Event { name, args, ack, .. } => {
            assert!(ack.is_none_or(|id| id <= MAX_ACK_ID));
            (Some(name.as_ref()), args)
        }
        Packet::Ack { id, args, .. } => {
            assert!(*id <= MAX_ACK_ID);
            (None, args)
        }
        _ => return,
    };
    let namespace_end = if text[1..].starts_with('/') { text.find(',').expect("a payload") } else { 1 };
    let start = text[namespace_end..].find('[').expect("an array") + namespace_end;
    let Some(Value::Array(expected)) = value(&text[start..]) else { return };
    let is_number = expected.first().is_some_and(Value::is_number);
    let first = name.and_then(|name| if is_number { value(name) } else { Some(Value::from(name)) });
    let read: Vec<Value> = args.iter().filter_map(|arg| value(arg.get())).collect();
    assert_eq!(first.into_iter().chain(read).collect::<Vec<_>>(), expected);
}

fn check_error(text: &str, error: &DecodeError) {
    assert!(!error.to_string().is_empty());
    assert!(*error != DecodeError::BinaryUnsupported || text.starts_with(['5', '6']));
}

/// Checks that any text can be an event's name, an id or a message in the hub's frames.
fn check_encoders(text: &str) {
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
        other => panic!("a connect error is {other:?}"),
    }
    match decode(&connect_frame("/cli", text)[1..]) {
        Ok(Packet::Connect { auth: Some(auth), .. }) => {
            assert_eq!(value(auth.get()), Some(serde_json::json!({ "sid": text })));
        }
        other => panic!("a connect is {other:?}"),
    }
}

fn check_admission(frame: &str) {
    let receive = || Connecting::new(0, Upgrade::Unauthenticated).receive(frame);
    let granted = |name| Namespace::parse(name).map(|namespace| (namespace, Credential::Shared));
    let outcome = match receive() {
        Ok(check) => {
            if let Ok(verified) = check.decide(None, granted("team")) {
                assert_eq!(verified.auth.namespace.as_deref().unwrap_or("team"), "team");
            }
            receive().and_then(|check| check.decide(None, None)).unwrap_err()
        }
        Err(outcome) => outcome,
    };
    match (outcome.is_refused, outcome.reply, outcome.next) {
        (true, Some(answer), Ok(_)) => match engineio::decode(&answer) {
            Ok(engineio::Packet::Message(text)) => assert!(matches!(decode(text), Ok(Packet::ConnectError { .. }))),
            other => panic!("{answer:?} is {other:?}"),
        },
        (false, answer, Ok(_)) => assert!(answer.is_none_or(|answer| answer.starts_with('3'))),
        (false, None, Err((code, _))) => assert!([1000, 1002, 1003].contains(&code)),
        other => panic!("{frame:?}: {other:?}"),
    }
}
