//! Malformed events of CLIs. The reply is an error acknowledgement, or an `error` event if the CLI requested no
//! acknowledgement. The event has no effect, and the connection remains usable.

use std::collections::BTreeSet;

use crate::support::field_faults::{
    Field, Length, Opaque, Rejection, valid_object, with_duplicate, with_value, without_field,
};
use crate::support::prelude::*;
use session_gateway_hub::hub::inbound::events::MAX_UNKNOWN_EVENTS;
use session_gateway_hub::limits::MAX_CONTENT_BYTES;

struct Event {
    name: &'static str,
    /// Whether the event is a versioned update, whose acknowledgement has another format.
    is_versioned: bool,
    fields: &'static [Field],
}

const fn event(name: &'static str, fields: &'static [Field]) -> Event {
    Event { name, is_versioned: false, fields }
}

const fn update(name: &'static str, fields: &'static [Field]) -> Event {
    Event { name, is_versioned: true, fields }
}

const SID: Field = Field::text("sid", 0, Length::Unlimited).valid(r#""$session""#);
const MACHINE: Field = Field::text("machineId", 0, Length::Unlimited).valid(r#""$machine""#);
/// An unknown version is a mismatch, not an error.
const VERSION: Field = Field::integer("expectedVersion", u64::MAX);
/// The size limit of large values.
const LARGE: Option<usize> = Some(MAX_CONTENT_BYTES);
const METHOD: &[Field] = &[Field::text("method", 1, Length::Unlimited)];

/// Every event that a CLI may send, with its fields.
const EVENTS: &[Event] = &[
    event(
        "message",
        &[
            SID,
            Field::opaque("message", Opaque::Anything, LARGE),
            Field::text("localId", 0, Length::Bytes(255)).optional(),
        ],
    ),
    event(
        "message-delta",
        &[
            SID,
            Field::text("id", 1, Length::Bytes(255)),
            Field::free_text("text", 0, Length::Bytes(65_536)),
            Field::integer("offset", 9_007_199_254_740_991).optional(),
            Field::keyword("kind", &["text", "thinking"], r#""text""#).optional(),
        ],
    ),
    update(
        "update-metadata",
        &[
            SID,
            VERSION,
            Field::opaque("metadata", Opaque::ObjectOrNull, LARGE).valid(r#"{"path":"/t","host":"h"}"#),
            Field::text("metadata.path", 0, Length::Unlimited),
            Field::text("metadata.host", 0, Length::Unlimited),
        ],
    ),
    update("update-state", &[SID, VERSION, Field::opaque("agentState", Opaque::ObjectOrNull, LARGE)]),
    // Invalid optional fields and times of keep-alives are ignored (`liveness.rs`).
    event("session-alive", &[SID]),
    event("session-end", &[SID]),
    event("machine-alive", &[MACHINE]),
    update("machine-update-metadata", &[MACHINE, VERSION, Field::opaque("metadata", Opaque::Object, LARGE)]),
    update("machine-update-state", &[MACHINE, VERSION, Field::opaque("runnerState", Opaque::Anything, LARGE)]),
    event("rpc-register", METHOD),
    event("rpc-unregister", METHOD),
    event("ping", &[]),
];

/// The event names in the source code.
fn events_in_source() -> BTreeSet<String> {
    let (_, decode) = include_str!("../../../src/wire/cli.rs").split_once("let event = match name {").unwrap();
    let arms = decode.split("_ => return").next().unwrap().lines().map(str::trim);
    arms.filter(|line| line.starts_with('"')).map(|line| line.split('"').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn the_table_has_every_event() {
    assert_eq!(EVENTS.iter().map(|event| event.name.to_owned()).collect::<BTreeSet<_>>(), events_in_source());
}

/// Sends malformed events and collects deviations from the expected errors.
struct Fixture {
    world: World,
    session: String,
    neighbour: World,
    foreign_session: String,
    cli: Cli,
    initial_state: (Value, Value, usize),
    deviations: Vec<String>,
}

impl Fixture {
    async fn new() -> Self {
        let (world, session) = idle_session().await;
        world.register_machine("box-1").await;
        let neighbour = world.neighbour();
        let foreign_session = neighbour.create_session("/secret-path").await;
        neighbour.register_machine("their-box").await;
        let auth = json!({"sessionId": session, "machineId": "box-1"});
        let mut cli = Cli::connect(&world, auth).await;
        cli.send_keep_alive(&world, &session).await;
        cli.socket.drain().await;
        let mut fixture = Self {
            world,
            session,
            neighbour,
            foreign_session,
            cli,
            initial_state: Default::default(),
            deviations: Vec::new(),
        };
        fixture.initial_state = fixture.state().await;
        fixture
    }

    /// The session, the machine, and the number of writes.
    async fn state(&self) -> (Value, Value, usize) {
        let machine = self.world.get("/cli/machines/box-1").await.ok();
        (self.world.get_session(&self.session).await, machine, self.world.db.write_count())
    }

    /// Sends an event with and without an ack id. Both errors must have a code and a message that contains `text`. With
    /// `with_error_event`, an acknowledged event also gets an `error` event.
    async fn check_error(&mut self, event: &Event, args: &str, code: &str, text: &str, with_error_event: bool) {
        let args = args.replace("$session", &self.session).replace("$machine", "box-1");
        let args = if args.is_empty() { args } else { format!(",{args}") };
        let packet = format!("[{}{args}]", json!(event.name));
        self.cli.socket.send(format!("42/cli,7{packet}"));
        let ack = self.cli.try_ack(7).await.unwrap_or_default();
        let message = match event.is_versioned {
            true => (ack["result"] == "error" && ack.get("code").is_none_or(|known| known == code))
                .then_some(&ack["reason"]),
            false => (ack["ok"] == false && ack["code"] == code).then_some(&ack["error"]),
        };
        let mut messages = vec![message.cloned().unwrap_or_default()];
        for has_ack_id in [true, false] {
            if !has_ack_id {
                self.cli.socket.send(format!("42/cli,{packet}"));
            }
            if !has_ack_id || with_error_event {
                let error = self.cli.try_event("error").await.unwrap_or_default();
                messages.push(if error["code"] == code { error["message"].clone() } else { error });
            }
        }
        let is_expected =
            |message: &Value| message.as_str().is_some_and(|message| message.len() > 10 && message.contains(text));
        let is_usable = self.cli.emit_with_ack("ping", &Value::Null).await == json!({"ok": true});
        let unexpected = self.cli.socket.drain().await;
        if !(messages.iter().all(is_expected) && is_usable && unexpected.is_empty()) {
            let packet = packet.chars().take(150).collect::<String>();
            let messages: Vec<String> =
                messages.iter().map(|message| message.to_string().chars().take(200).collect()).collect();
            self.deviations
                .push(format!("{packet}: expected {code} {text}, but received {ack}, {messages:?}, {unexpected:?}"));
        }
    }

    /// Fails if there were deviations or effects.
    async fn finish(self) {
        assert!(self.deviations.is_empty(), "{} deviations\n{}", self.deviations.len(), self.deviations.join("\n"));
        assert_eq!(self.state().await, self.initial_state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_is_not_an_object_is_rejected() {
    let mut fixture = Fixture::new().await;
    for event in EVENTS.iter().filter(|event| !event.fields.is_empty()) {
        let payload = valid_object(event.fields).to_string();
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        let wrapped = [json!(payload).to_string(), format!("[{payload}]"), format!("null,{payload}"), deep];
        let others = ["", "null", "true", "7", r#""x""#, "[]", r#""{}""#].map(str::to_owned);
        for args in others.into_iter().chain(wrapped) {
            fixture.check_error(event, &args, "bad-payload", "object", false).await;
        }
    }
    fixture.finish().await;
}

#[tokio::test(start_paused = true)]
async fn the_error_for_an_invalid_value_names_the_field() {
    let mut fixture = Fixture::new().await;
    for event in EVENTS {
        for field in event.fields {
            let name = format!("`{}", field.name);
            for (value, rejection) in field.faults() {
                let payload = with_value(event.fields, field, &value);
                match rejection {
                    Rejection::InvalidField => fixture.check_error(event, &payload, "bad-payload", &name, false).await,
                    Rejection::TooLarge => fixture.check_error(event, &payload, "too-large", field.name, false).await,
                }
            }
            if let Some(payload) = with_duplicate(event.fields, field) {
                fixture.check_error(event, &payload, "bad-payload", &name, false).await;
            }
            if field.required {
                fixture.check_error(event, &without_field(event.fields, field), "bad-payload", &name, false).await;
            }
        }
    }
    fixture.finish().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_or_foreign_id_is_rejected_without_details() {
    let mut fixture = Fixture::new().await;
    let foreign = fixture.foreign_session.clone();
    let foreign_record = fixture.neighbour.get_session(&foreign).await;
    let long = "x".repeat(8_192);
    let unknown = ["none", "", "__proto__", "constructor", "../x", "a\u{0}b", "\u{1F980}", "' OR 1=1 --", &long];
    for event in EVENTS {
        let Some(field) = event.fields.iter().find(|field| ["sid", "machineId"].contains(&field.name)) else {
            continue;
        };
        let foreign = if field.name == "sid" { foreign.as_str() } else { "their-box" };
        let ids = unknown.iter().map(|id| (*id, "not-found", "No such")).chain([(
            foreign,
            "access-denied",
            "another namespace",
        )]);
        for (id, code, text) in ids {
            let payload = with_value(event.fields, field, &json!(id).to_string());
            fixture.check_error(event, &payload, code, text, true).await;
        }
    }
    let register = EVENTS.iter().find(|event| event.name == "rpc-register").unwrap();
    let methods = format!("{foreign}:gitStatus their-box:spawnSession none:gitStatus :gitStatus $session: $machine:");
    for method in methods.split(' ') {
        let payload = json!({"method": method}).to_string();
        fixture.check_error(register, &payload, "access-denied", "of this namespace", true).await;
    }
    let long = json!({"method": "x".repeat(20_000)}).to_string();
    fixture.check_error(register, &long, "too-many-methods", "more methods", false).await;
    assert_eq!(fixture.neighbour.get_session(&foreign).await, foreign_record);
    fixture.finish().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_event_is_ignored_and_logged_once() {
    let mut fixture = Fixture::new().await;
    let names = "messages-consumed||__proto__|connect|error|update|rpc-request|Message|message |update-everything|\u{0}|\u{1F980}";
    let names: Vec<&str> = names.split('|').collect();
    for name in &names {
        for args in ["", ",{}", r#",{"sid":"none"}"#, ",null,7"] {
            fixture.cli.socket.send(format!("42/cli,[{}{args}]", json!(name)));
            fixture.cli.socket.send(format!("42/cli,7[{}{args}]", json!(name)));
            assert_eq!(fixture.cli.socket.next_text().await, "43/cli,7[]", "{name} {args}");
        }
    }
    let logs = fixture.world.rt.logs();
    assert_eq!(logs.len(), names.len(), "the first event of each name is logged");
    assert!(logs[0].contains("\"messages-consumed\""), "{}", logs[0]);
    fixture.cli.socket.assert_no_frames().await;
    fixture.finish().await;
}

#[tokio::test(start_paused = true)]
async fn the_number_and_length_of_logged_names_are_limited() {
    let Fixture { world, cli, .. } = Fixture::new().await;
    for number in 0..MAX_UNKNOWN_EVENTS + 10 {
        cli.socket.send(format!("42/cli,[\"{number}{}\"]", "x".repeat(1_000)));
    }
    run_until_idle().await;
    let logs = world.rt.logs();
    assert_eq!(logs.len(), MAX_UNKNOWN_EVENTS);
    assert!(logs.iter().all(|line| line.to_string().chars().count() < 250), "{}", logs[0]);
}

#[tokio::test(start_paused = true)]
async fn an_error_truncates_long_names_and_ids() {
    let Fixture { session, mut cli, .. } = Fixture::new().await;
    let long = "é".repeat(1_000_000);
    let payload = json!({"sid": long, "machineId": long, "method": format!("{long}:gitStatus")});
    for name in ["session-alive", "update-state", "machine-alive", "message", "rpc-register"] {
        for ack_id in ["", "7"] {
            cli.socket.send(format!("42/cli,{ack_id}[{},{payload}]", json!(name)));
            run_until_idle().await;
        }
    }
    let metadata = json!({"path": "/code", "host": "box"}).to_string();
    let duplicate = metadata.replace('}', &format!(r#","{long}":1,"{long}":2}}"#));
    cli.emit_raw("update-metadata", &format!(r#"{{"sid":"{session}","expectedVersion":1,"metadata":{duplicate}}}"#));
    let frames = cli.socket.drain().await;
    assert!(frames.len() > 10, "{}", frames.len());
    for frame in frames {
        let Frame::Text(text) = frame else { panic!("{frame:?}") };
        assert!(text.chars().count() < 2_000, "{} characters: {:.300}", text.len(), text);
    }
}

#[tokio::test(start_paused = true)]
async fn extra_arguments_and_extreme_times_are_accepted() {
    let Fixture { world, session, mut cli, .. } = Fixture::new().await;
    let payload = json!({"sid": session, "time": world.now()});
    for extra in ["", ",null", r#",{"sid":"none"},7,"x""#] {
        cli.socket.send(format!("42/cli,9[\"session-alive\",{payload}{extra}]"));
        assert_eq!(cli.wait_for_ack(9).await, json!({"ok": true}));
    }
    for time in ["0", "-1", "1.5", "9007199254740993", "1e300", "-1e300", "null", r#""now""#, "[]"] {
        let ack = cli
            .emit_raw("session-alive", &format!(r#"{{"sid":"{session}","time":{time},"unknown":1,"thinking":null}}"#));
        assert_eq!(cli.wait_for_ack(ack).await, json!({"ok": true}), "{time}");
    }
    for args in ["", "null", "[]", "7,8"] {
        let args = if args.is_empty() { String::new() } else { format!(",{args}") };
        cli.socket.send(format!("42/cli,9[\"ping\"{args}]"));
        assert_eq!(cli.wait_for_ack(9).await, json!({"ok": true}));
    }
    assert_eq!(cli.emit_with_ack("rpc-unregister", &json!({"method": "never:registered"})).await, json!({"ok": true}));
    cli.socket.assert_no_frames().await;
}
