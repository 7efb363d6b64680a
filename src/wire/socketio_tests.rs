//! Tests of the Socket.IO codec: each packet type, each error, and properties for arbitrary text.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]

use super::*;
use proptest::prelude::*;

/// Formats a packet, which is not `PartialEq`, for comparison.
fn format_packet(packet: &Packet<'_>) -> String {
    let join = |args: &[&RawValue]| args.iter().map(|a| a.get()).collect::<Vec<_>>().join(" ");
    match packet {
        Packet::Connect { namespace, auth } => {
            format!("connect {namespace} {}", auth.map_or("-", RawValue::get))
        }
        Packet::Disconnect { namespace } => format!("disconnect {namespace}"),
        Packet::Event { namespace, ack, name, args } => {
            format!("event {namespace} {ack:?} {name} <{}>", join(args))
        }
        Packet::Ack { namespace, id, args } => format!("ack {namespace} {id} <{}>", join(args)),
        Packet::ConnectError { namespace, data } => format!("error {namespace} {}", data.get()),
    }
}

/// Strips the Engine.IO message type from a frame.
fn message(frame: &str) -> &str {
    frame.strip_prefix('4').expect("an Engine.IO message")
}

#[test]
fn every_packet_type_is_decoded() {
    let table = [
        ("0", "connect / -"),
        (r#"0{"token":"123"}"#, r#"connect / {"token":"123"}"#),
        ("0/custom,", "connect /custom -"),
        ("0/custom", "connect /custom -"),
        (r#"0/custom,{"token":"abc"}"#, r#"connect /custom {"token":"abc"}"#),
        (r#"0/,{"a":1}"#, r#"connect / {"a":1}"#),
        ("1", "disconnect /"),
        ("1/admin,", "disconnect /admin"),
        ("1/admin", "disconnect /admin"),
        (r#"2["hey"]"#, "event / None hey <>"),
        (r#"2["message",1,"2",{"3":[true]}]"#, r#"event / None message <1 "2" {"3":[true]}>"#),
        (r#"2/admin,456["project:delete",123]"#, "event /admin Some(456) project:delete <123>"),
        (r#"212["foo"]"#, "event / Some(12) foo <>"),
        (r#"20["foo"]"#, "event / Some(0) foo <>"),
        (r#"2[""]"#, "event / None  <>"),
        ("3/admin,456[]", "ack /admin 456 <>"),
        (r#"312["bar",null]"#, r#"ack / 12 <"bar" null>"#),
        (r#"4{"message":"no"}"#, r#"error / {"message":"no"}"#),
        (r#"4/admin,{"message":"no"}"#, r#"error /admin {"message":"no"}"#),
        (r#"4"no""#, r#"error / "no""#),
    ];
    for (text, expected) in table {
        match decode(text) {
            Ok(packet) => assert_eq!(format_packet(&packet), expected, "reading {text}"),
            Err(error) => panic!("reading {text}: {error}"),
        }
    }
}

#[test]
fn a_query_string_is_removed_from_the_namespace_and_commas_in_the_payload_are_not_separators() {
    let packet = decode(r#"0/cli?a=b&c=/d?e,{"x":"1,2"}"#).unwrap();
    assert_eq!(format_packet(&packet), r#"connect /cli {"x":"1,2"}"#);
    let packet = decode(r#"2/?a,7["x","a,b"]"#).unwrap();
    assert_eq!(format_packet(&packet), r#"event / Some(7) x <"a,b">"#);
}

#[test]
fn the_largest_ack_id_is_the_largest_safe_integer_of_javascript() {
    let packet = decode(r#"29007199254740991["x"]"#).unwrap();
    assert_eq!(format_packet(&packet), "event / Some(9007199254740991) x <>");
    let above = [r#"29007199254740992["x"]"#, r#"2123456789012345678901234567890["x"]"#];
    for text in above {
        assert_eq!(decode(text).unwrap_err(), DecodeError::InvalidAckId, "{text}");
    }
}

#[test]
fn the_text_of_arguments_is_preserved() {
    let text = "2[\"x\", {\"b\":1, \"a\" : 12345678901234567890123 } ,1.50,\"\\u00e9\\ud800\"]";
    let Ok(Packet::Event { args, .. }) = decode(text) else { panic!("not an event") };
    let args: Vec<&str> = args.iter().map(|arg| arg.get()).collect();
    assert_eq!(args, ["{\"b\":1, \"a\" : 12345678901234567890123 }", "1.50", "\"\\u00e9\\ud800\""]);
}

#[test]
fn an_event_name_is_borrowed_unless_it_has_escapes() {
    let Ok(Packet::Event { name, .. }) = decode("2[\"\u{e9}t\u{e9}\"]") else { panic!() };
    assert!(matches!(name, Cow::Borrowed("\u{e9}t\u{e9}")));
    let Ok(Packet::Event { name, .. }) = decode(r#"2["a\"\u00e9\\"]"#) else { panic!() };
    assert_eq!(name, "a\"\u{e9}\\");
    assert!(matches!(name, Cow::Owned(_)));
}

#[test]
fn malformed_packets_are_rejected() {
    let invalid = DecodeError::InvalidPayload;
    let table = [
        ("", DecodeError::Empty),
        ("abc", DecodeError::UnknownType('a')),
        ("7[]", DecodeError::UnknownType('7')),
        (" 2[\"x\"]", DecodeError::UnknownType(' ')),
        ("\u{1F980}", DecodeError::UnknownType('\u{1F980}')),
        // A payload of the wrong type, or a missing one.
        ("0[]", invalid(PacketType::Connect)),
        ("0null", invalid(PacketType::Connect)),
        (r#"0/cli,"token""#, invalid(PacketType::Connect)),
        ("1{}", invalid(PacketType::Disconnect)),
        ("1/cli,[]", invalid(PacketType::Disconnect)),
        ("2", invalid(PacketType::Event)),
        ("2[]", invalid(PacketType::Event)),
        ("2{}", invalid(PacketType::Event)),
        (r#"2"x""#, invalid(PacketType::Event)),
        ("2[1]", invalid(PacketType::Event)),
        (r#"2[{"toString":"x"}]"#, invalid(PacketType::Event)),
        (r#"2["\ud800"]"#, invalid(PacketType::Event)),
        ("25", invalid(PacketType::Event)),
        ("25[null]", invalid(PacketType::Event)),
        ("31", invalid(PacketType::Ack)),
        ("31{}", invalid(PacketType::Ack)),
        ("4", invalid(PacketType::ConnectError)),
        ("4[]", invalid(PacketType::ConnectError)),
        // Broken JSON, or something before or behind it.
        (r#"2["x""#, invalid(PacketType::Event)),
        (r#"2["x",]"#, invalid(PacketType::Event)),
        (r#"2["x"]]"#, invalid(PacketType::Event)),
        (r#"2["x"]2["y"]"#, invalid(PacketType::Event)),
        (r#"2x["x"]"#, invalid(PacketType::Event)),
        (r#"2-1["x"]"#, invalid(PacketType::Event)),
        (r#"21.5["x"]"#, invalid(PacketType::Event)),
        (r#"2["x",NaN]"#, invalid(PacketType::Event)),
        ("2[\"x\ny\"]", invalid(PacketType::Event)),
        (r#"0{"a":1}x"#, invalid(PacketType::Connect)),
        (r#"0{"a"}"#, invalid(PacketType::Connect)),
        // A namespace without its comma swallows what follows it.
        (r#"2/cli["x"]"#, invalid(PacketType::Event)),
        (r#"2cli,["x"]"#, invalid(PacketType::Event)),
        // Ack ids.
        (r#"2007["x"]"#, DecodeError::InvalidAckId),
        (r#"200["x"]"#, DecodeError::InvalidAckId),
        ("3[]", DecodeError::MissingAckId),
        ("3/cli,[]", DecodeError::MissingAckId),
        ("012{}", DecodeError::UnexpectedAckId(PacketType::Connect)),
        ("1/cli,3", DecodeError::UnexpectedAckId(PacketType::Disconnect)),
        (r#"41{"message":"x"}"#, DecodeError::UnexpectedAckId(PacketType::ConnectError)),
        // Digits of other scripts are not digits of the protocol.
        ("2\u{0661}[\"x\"]", invalid(PacketType::Event)),
        // Binary packets with a broken head.
        ("5", DecodeError::InvalidAttachments),
        (r#"5["x"]"#, DecodeError::InvalidAttachments),
        (r#"51["x"]"#, DecodeError::InvalidAttachments),
        (r#"5-["x"]"#, DecodeError::InvalidAttachments),
        (r#"5+1-["x"]"#, DecodeError::InvalidAttachments),
        (r#"599999999999999999999999-["x"]"#, DecodeError::InvalidAttachments),
        // Binary packets.
        (r#"52-/cli,13["upload",{"_placeholder":true,"num":0}]"#, DecodeError::BinaryUnsupported),
        (r#"61-15["bar",{"_placeholder":true,"num":0}]"#, DecodeError::BinaryUnsupported),
        ("50-", DecodeError::BinaryUnsupported),
    ];
    for (text, expected) in table {
        match decode(text) {
            Ok(packet) => panic!("{text:?} was accepted: {}", format_packet(&packet)),
            Err(error) => assert_eq!(error, expected, "reading {text:?}"),
        }
    }
}

#[test]
fn the_error_names_the_expected_payload() {
    assert_eq!(
        decode("2/cli,8{}").unwrap_err().to_string(),
        "invalid payload: a Socket.IO packet of type Event has a JSON array that starts with the event's name"
    );
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    let depth = 1_000_000;
    let nested = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let whole = format!("2[\"x\",{nested}]");
    let unclosed = format!("2[\"x\",{}", "{\"a\":[".repeat(depth));
    let small_stack = std::thread::Builder::new().stack_size(128 * 1024);
    let outcome =
        small_stack.spawn(move || (decode(&whole).is_ok(), decode(&unclosed).is_ok())).unwrap().join().unwrap();
    assert_eq!(outcome, (true, false));
}

#[test]
fn frames_are_encoded_as_the_official_client_expects() {
    assert_eq!(connect_frame("/", "a"), r#"40{"sid":"a"}"#);
    assert_eq!(connect_frame("/cli", "a"), r#"40/cli,{"sid":"a"}"#);
    assert_eq!(connect_error_frame("/random", "Invalid namespace"), r#"44/random,{"message":"Invalid namespace"}"#);
    assert_eq!(event_frame("/", None, "foo", &[]), r#"42["foo"]"#);
    assert_eq!(event_frame("/cli", Some(7), "foo", &["1", "{}"]), r#"42/cli,7["foo",1,{}]"#);
    assert_eq!(ack_frame("/", 0, &[]), "430[]");
    assert_eq!(ack_frame("/cli", 12, &["null", r#""x""#]), r#"43/cli,12[null,"x"]"#);
}

#[test]
fn a_truncated_packet_is_rejected() {
    let text = r#"2/cli,42["message",{"sid":"\u00e9🦀","message":"é"}]"#;
    for (cut, _) in text.char_indices() {
        assert!(decode(&text[..cut]).is_err(), "{}", &text[..cut]);
    }
    assert!(decode(text).is_ok());
}

#[test]
fn strings_are_escaped() {
    let special = "a\"b\\c\n\u{0}\u{1f}\u{7f}\u{2028}\u{1F980}";
    let frame = event_frame("/", None, special, &[]);
    let Ok(Packet::Event { name, .. }) = decode(message(&frame)) else { panic!("{frame:?}") };
    assert_eq!(name, special);
    for control in ["\u{0}", "\n", "\u{1f}"] {
        let frame = connect_error_frame("/", control);
        assert!(!frame.contains(control), "{frame:?}");
        assert!(decode(message(&frame)).is_ok(), "{frame:?}");
    }
}

#[test]
fn encoding_a_frame_allocates_once() {
    let big = format!("\"{}\"", "x".repeat(100_000));
    let frame = event_frame("/cli", Some(MAX_ACK_ID), "rpc-request", &[&big, &big]);
    assert!(frame.capacity() < frame.len() + 16, "{} for {}", frame.capacity(), frame.len());
    let frame = ack_frame("/cli", MAX_ACK_ID, &[&big]);
    assert!(frame.capacity() < frame.len() + 16, "{} for {}", frame.capacity(), frame.len());
}

/// A namespace without the characters that end one, as any peer can name it.
fn namespaces() -> impl Strategy<Value = String> {
    prop_oneof![Just("/".to_owned()), Just("/cli".to_owned()), "/[^,?]{0,12}"]
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(json().prop_map(|value| value.to_string()), 0..4)
}

proptest! {
    #[test]
    fn decoding_an_encoded_event_returns_it(
        namespace in namespaces(),
        id in prop::option::of(0..=MAX_ACK_ID),
        name in any::<String>(),
        args in arguments(),
    ) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let frame = event_frame(&namespace, id, &name, &args);
        let expected = format!("event {namespace} {id:?} {name} <{}>", args.join(" "));
        prop_assert_eq!(format_packet(&decode(message(&frame)).unwrap()), expected);
    }

    #[test]
    fn decoding_an_encoded_acknowledgement_returns_it(
        namespace in namespaces(),
        id in 0..=MAX_ACK_ID,
        args in arguments(),
    ) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let frame = ack_frame(&namespace, id, &args);
        let expected = format!("ack {namespace} {id} <{}>", args.join(" "));
        prop_assert_eq!(format_packet(&decode(message(&frame)).unwrap()), expected);
    }

    #[test]
    fn decoding_an_encoded_reply_to_connect_returns_it(namespace in namespaces(), text in any::<String>()) {
        let frame = connect_error_frame(&namespace, &text);
        let Ok(Packet::ConnectError { namespace: read, data }) = decode(message(&frame)) else {
            panic!("{frame}")
        };
        prop_assert_eq!(read, &namespace);
        let data: serde_json::Value = serde_json::from_str(data.get()).unwrap();
        prop_assert_eq!(data, serde_json::json!({ "message": &text }));

        let frame = connect_frame(&namespace, &text);
        let Ok(Packet::Connect { namespace: read, auth: Some(auth) }) = decode(message(&frame)) else {
            panic!("{frame}")
        };
        prop_assert_eq!(read, &namespace);
        let auth: serde_json::Value = serde_json::from_str(auth.get()).unwrap();
        prop_assert_eq!(auth, serde_json::json!({ "sid": text }));

        let frame = begin_frame("41", &namespace, None, 0);
        prop_assert_eq!(format_packet(&decode(message(&frame)).unwrap()), format!("disconnect {namespace}"));
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>()) {
        let _ = decode(&text);
    }

    #[test]
    fn text_that_resembles_a_packet_does_not_panic_and_errors_have_a_message(
        text in r#"[0-6][0-9-]{0,3}(/[a-z?é]{0,4},?)?[0-9]{0,18}[\[{]?("[a-zé\\]{0,3}")?[,:\]}1🦀]{0,4}"#,
    ) {
        if let Err(error) = decode(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
