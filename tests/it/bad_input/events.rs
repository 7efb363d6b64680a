//! Malformed events of CLIs: each is answered, as the acknowledgement where one was asked for and as an `error` event
//! otherwise; nothing comes of it, and the socket lives on.

use std::collections::BTreeSet;

use crate::support::cli::Cli;
use crate::support::faults::{Field, Length, Opaque, Refused, good, twice, with, without};
use crate::support::runtime::Frame;
use crate::support::{World, run_until_idle};
use serde_json::{Value, json};
use session_gateway_hub::hub::limits::MAX_CONTENT_BYTES;

/// An event.
struct Event {
    name: &'static str,
    /// Whether it is acknowledged as a versioned update.
    versioned: bool,
    fields: &'static [Field],
}

const fn event(name: &'static str, fields: &'static [Field]) -> Event {
    Event { name, versioned: false, fields }
}

const fn update(name: &'static str, fields: &'static [Field]) -> Event {
    Event { name, versioned: true, fields }
}

const SID: Field = Field::text("sid", 0, Length::Free).good(r#""$session""#);
const MACHINE: Field = Field::text("machineId", 0, Length::Free).good(r#""$machine""#);
const TIME: Field = Field::time("time");
/// One that is no version of anything is a mismatch, not a mistake.
const VERSION: Field = Field::whole("expectedVersion", u64::MAX);
const METHOD: &[Field] = &[Field::text("method", 1, Length::Free)];
const WORD: Length = Length::Bytes(64);

/// Every event that a CLI may send, with its fields.
const EVENTS: &[Event] = &[
    event(
        "message",
        &[
            SID,
            Field::opaque("message", Opaque::Anything, Some(MAX_CONTENT_BYTES)),
            Field::text("localId", 1, Length::Bytes(255)).optional(),
        ],
    ),
    update(
        "update-metadata",
        &[
            SID,
            VERSION,
            Field::opaque("metadata", Opaque::Object, Some(MAX_CONTENT_BYTES)).good(r#"{"path":"/t","host":"h"}"#),
            Field::text("metadata.path", 0, Length::Free),
            Field::text("metadata.host", 0, Length::Free),
        ],
    ),
    update("update-state", &[SID, VERSION, Field::opaque("agentState", Opaque::ObjectOrNull, Some(MAX_CONTENT_BYTES))]),
    event(
        "session-alive",
        &[
            SID,
            TIME,
            Field::flag("thinking").optional(),
            Field::word("mode", &["local", "remote"], r#""local""#).optional(),
            Field::text("permissionMode", 0, WORD).optional(),
            Field::text("modelMode", 0, WORD).optional(),
        ],
    ),
    event("session-end", &[SID, TIME]),
    event("machine-alive", &[MACHINE, TIME]),
    update(
        "machine-update-metadata",
        &[MACHINE, VERSION, Field::opaque("metadata", Opaque::Object, Some(MAX_CONTENT_BYTES))],
    ),
    update(
        "machine-update-state",
        &[MACHINE, VERSION, Field::opaque("runnerState", Opaque::Anything, Some(MAX_CONTENT_BYTES))],
    ),
    event("rpc-register", METHOD),
    event("rpc-unregister", METHOD),
    event("ping", &[]),
];

/// The events as the source names them.
fn events_of_the_source() -> BTreeSet<String> {
    let (_, decode) = include_str!("../../../src/wire/cli.rs").split_once("let event = match name {").unwrap();
    let arms = decode.split("_ => return").next().unwrap().lines().map(str::trim);
    arms.filter(|line| line.starts_with('"')).map(|line| line.split('"').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn every_event_has_its_row() {
    assert_eq!(EVENTS.iter().map(|event| event.name.to_owned()).collect::<BTreeSet<_>>(), events_of_the_source());
}

/// A CLI that says what is malformed, and hears what becomes of it.
struct Trial {
    world: World,
    session: String,
    neighbour: World,
    foreign: String,
    cli: Cli,
    before: (Value, Value, usize),
    mistakes: Vec<String>,
}

impl Trial {
    async fn new() -> Self {
        let world = World::new();
        let session = world.create_session("/code").await;
        world.register_machine("box-1").await;
        let neighbour = world.neighbour();
        let foreign = neighbour.create_session("/secret-path").await;
        neighbour.register_machine("their-box").await;
        let auth = json!({"sessionId": session, "machineId": "box-1"});
        let mut cli = Cli::connect(&world, auth).await;
        cli.send_heartbeat(&world, &session).await;
        run_until_idle().await;
        cli.socket.drain().await;
        let mut trial =
            Self { world, session, neighbour, foreign, cli, before: Default::default(), mistakes: Vec::new() };
        trial.before = trial.state().await;
        trial
    }

    /// All that a CLI could change.
    async fn state(&self) -> (Value, Value, usize) {
        let machine = self.world.get("/cli/machines/box-1").await.ok();
        (self.world.get_session(&self.session).await, machine, self.world.db.write_count())
    }

    /// Sends an event with and without asking for an acknowledgement. Both answers must have this code and name this.
    /// With `also_told`, the `error` event comes beside the acknowledgement, too.
    async fn refused(&mut self, event: &Event, args: &str, code: &str, name: &str, also_told: bool) {
        let args = args.replace("$session", &self.session).replace("$machine", "box-1");
        let args = if args.is_empty() { args } else { format!(",{args}") };
        let packet = format!("[{}{args}]", json!(event.name));
        self.cli.socket.send(format!("42/cli,7{packet}"));
        run_until_idle().await;
        let ack = self.cli.try_ack(7).await.unwrap_or_default();
        let said = match event.versioned {
            true => {
                (ack["result"] == "error" && ack.get("code").is_none_or(|told| told == code)).then_some(&ack["reason"])
            }
            false => (ack["ok"] == false && ack["code"] == code).then_some(&ack["error"]),
        };
        let mut answers = vec![said.cloned().unwrap_or_default()];
        for asked in [true, false] {
            if !asked {
                self.cli.socket.send(format!("42/cli,{packet}"));
            }
            if !asked || also_told {
                let error = self.cli.try_event("error").await.unwrap_or_default();
                answers.push(if error["code"] == code { error["message"].clone() } else { error });
            }
        }
        let names_it = |said: &Value| said.as_str().is_some_and(|said| said.len() > 10 && said.contains(name));
        let alive = self.cli.emit_with_ack("ping", &Value::Null).await == json!({"ok": true});
        let rest = self.cli.socket.drain().await;
        if !(answers.iter().all(names_it) && alive && rest.is_empty()) {
            let packet = packet.chars().take(150).collect::<String>();
            let answers: Vec<String> =
                answers.iter().map(|said| said.to_string().chars().take(200).collect()).collect();
            self.mistakes.push(format!("{packet}: not {code} {name}, but {ack}, {answers:?}, {rest:?}"));
        }
    }

    /// Nothing may have been answered otherwise, and nothing may have come of it.
    async fn end(self) {
        assert!(self.mistakes.is_empty(), "{} mistakes\n{}", self.mistakes.len(), self.mistakes.join("\n"));
        assert_eq!(self.state().await, self.before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_is_no_object_is_refused() {
    let mut trial = Trial::new().await;
    for event in EVENTS.iter().filter(|event| !event.fields.is_empty()) {
        let payload = good(event.fields).to_string();
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        let wrapped = [json!(payload).to_string(), format!("[{payload}]"), format!("null,{payload}"), deep];
        let plain = ["", "null", "true", "7", r#""x""#, "[]", r#""{}""#].map(str::to_owned);
        for args in plain.into_iter().chain(wrapped) {
            trial.refused(event, &args, "bad-payload", "object", false).await;
        }
    }
    trial.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_value_is_refused_by_the_name_of_its_field() {
    let mut trial = Trial::new().await;
    for event in EVENTS {
        for field in event.fields {
            let name = format!("`{}", field.name);
            for (value, refused) in field.faults() {
                let payload = with(event.fields, field, &value);
                match refused {
                    Refused::Field => trial.refused(event, &payload, "bad-payload", &name, false).await,
                    Refused::TooLarge => trial.refused(event, &payload, "too-large", field.name, false).await,
                }
            }
            if let Some(payload) = twice(event.fields, field) {
                trial.refused(event, &payload, "bad-payload", &name, false).await;
            }
            if field.required {
                trial.refused(event, &without(event.fields, field), "bad-payload", &name, false).await;
            }
        }
    }
    trial.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_id_of_nobody_or_of_another_namespace_is_refused_and_nothing_of_it_is_told() {
    let mut trial = Trial::new().await;
    let foreign = trial.foreign.clone();
    let theirs = trial.neighbour.get_session(&foreign).await;
    let long = "x".repeat(8_192);
    let nobody = ["none", "", "__proto__", "constructor", "../x", "a\u{0}b", "\u{1F980}", "' OR 1=1 --", &long];
    for event in EVENTS {
        let Some(field) = event.fields.iter().find(|field| ["sid", "machineId"].contains(&field.name)) else {
            continue;
        };
        let foreign = if field.name == "sid" { foreign.as_str() } else { "their-box" };
        let ids = nobody.iter().map(|id| (*id, "not-found", "No such")).chain([(
            foreign,
            "access-denied",
            "another namespace",
        )]);
        for (id, code, sentence) in ids {
            let payload = with(event.fields, field, &json!(id).to_string());
            trial.refused(event, &payload, code, sentence, true).await;
        }
    }
    let register = EVENTS.iter().find(|event| event.name == "rpc-register").unwrap();
    for method in [
        &*format!("{foreign}:gitStatus"),
        "their-box:spawnSession",
        "none:gitStatus",
        ":gitStatus",
        "$session:",
        "$machine:",
    ] {
        let payload = json!({"method": method}).to_string();
        trial.refused(register, &payload, "access-denied", "named and owns", true).await;
    }
    let long = json!({"method": "x".repeat(20_000)}).to_string();
    trial.refused(register, &long, "too-many-methods", "more methods", false).await;
    assert_eq!(trial.neighbour.get_session(&foreign).await, theirs);
    trial.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_none_is_refused() {
    let mut trial = Trial::new().await;
    let long = "x".repeat(8_192);
    let names = [
        "no-such-event",
        "",
        "__proto__",
        "constructor",
        "toString",
        "connect",
        "disconnect",
        "error",
        "update",
        "rpc-request",
        "Message",
        "message ",
        "session_alive",
        "\u{0}",
        "\u{1F980}",
        &long,
    ];
    for name in names {
        let event = event(name.to_owned().leak(), &[]);
        for args in ["", "{}", r#"{"sid":"$session"}"#, "null,7"] {
            trial.refused(&event, args, "bad-payload", "Unknown event", false).await;
        }
    }
    trial.refused(&update("update-everything", &[]), "{}", "bad-payload", "Unknown event", false).await;
    trial.end().await;
}

#[tokio::test(start_paused = true)]
async fn of_a_name_or_an_id_without_end_only_the_beginning_is_sent_back() {
    let Trial { session, mut cli, .. } = Trial::new().await;
    let endless = "é".repeat(1_000_000);
    let payload = json!({"sid": endless, "machineId": endless, "method": format!("{endless}:gitStatus")});
    for name in [&endless, "session-alive", "update-state", "machine-alive", "message", "rpc-register"] {
        for asking in ["", "7"] {
            cli.socket.send(format!("42/cli,{asking}[{},{payload}]", json!(name)));
            run_until_idle().await;
        }
    }
    let metadata = json!({"path": "/code", "host": "box"}).to_string();
    let twice = metadata.replace('}', &format!(r#","{endless}":1,"{endless}":2}}"#));
    cli.emit_raw("update-metadata", &format!(r#"{{"sid":"{session}","expectedVersion":1,"metadata":{twice}}}"#));
    let frames = cli.socket.drain().await;
    assert!(frames.len() > 12, "{}", frames.len());
    for frame in frames {
        let Frame::Text(text) = frame else { panic!("{frame:?}") };
        assert!(text.chars().count() < 2_000, "{} characters: {:.300}", text.len(), text);
    }
}

/// What is no mistake: more arguments than are read, and a time that is far off.
#[tokio::test(start_paused = true)]
async fn what_is_only_odd_is_acknowledged() {
    let Trial { world, session, mut cli, .. } = Trial::new().await;
    let payload = json!({"sid": session, "time": world.now()});
    for more in ["", ",null", r#",{"sid":"none"},7,"x""#] {
        cli.socket.send(format!("42/cli,9[\"session-alive\",{payload}{more}]"));
        assert_eq!(cli.wait_for_ack(9).await, json!({"ok": true}));
    }
    for time in ["0", "-1", "1.5", "9007199254740993", "1e300", "-1e300"] {
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
