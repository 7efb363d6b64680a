//! Undocumented forms of input that clients send and the hub accepts. The table has each form beside a similar value that the
//! hub refuses, with an error that names the field.

use crate::support::prelude::*;

/// An input that the hub accepts, and a similar input that the hub refuses. `$session`, `$other` and `$foreign` are ids.
struct Row {
    what: &'static str,
    accepted: Input,
    refused: Input,
    /// The field that the error names; empty for an error of the whole body.
    field: &'static str,
}

enum Input {
    Request(&'static str, String, String),
    Event(&'static str, String),
}

fn row(what: &'static str, field: &'static str, accepted: Input, refused: Input) -> Row {
    Row { what, accepted, refused, field }
}

/// `$` is the path of the session.
fn get(path: &str) -> Input {
    Input::Request("GET", path.replacen('$', "/api/sessions/$session", 1), String::new())
}

fn post(path: &str, body: impl ToString) -> Input {
    Input::Request("POST", path.to_owned(), body.to_string())
}

fn patch(body: &str) -> Input {
    Input::Request("PATCH", "/api/sessions/$session".into(), body.to_owned())
}

fn emit(name: &'static str, payload: impl ToString) -> Input {
    Input::Event(name, payload.to_string())
}

fn metadata(field: &str, value: impl Into<Value>) -> Input {
    let mut metadata = json!({"path": "/code", "host": "box"});
    metadata[field] = value.into();
    emit("update-metadata", json!({"sid": "$session", "expectedVersion": 1, "metadata": metadata}))
}

fn state(requests: Value) -> Input {
    emit("update-state", json!({"sid": "$session", "expectedVersion": 1, "agentState": {"requests": requests}}))
}

/// The keys of RFC 8291, appendix A, in the standard alphabet.
const P256DH: &str = "BCVxsr7N/eNgVRqvHtD0zTZsEc6+VV+JvLexhqUzORcxaOzi6+AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4=";
const AUTH: &str = "BTBZMqHH6r4Tts7J/aSIgg==";

fn url_safe(base64: &str) -> String {
    base64.replace('+', "-").replace('/', "_").replace('=', "")
}

fn subscription(p256dh: &str, auth: &str) -> Input {
    let keys = json!({"p256dh": p256dh, "auth": auth});
    post("/api/push/subscribe", json!({"endpoint": "https://push.service.com/x", "keys": keys}))
}

fn table() -> Vec<Row> {
    let text = |length: usize| "x".repeat(length);
    let upload = |mime_type: &str, content: &str| {
        let body = json!({"filename": "f", "content": content, "mimeType": mime_type});
        post("/api/sessions/$session/upload", body)
    };
    let message = |local_id: &str| emit("message", json!({"sid": "$session", "message": {}, "localId": local_id}));
    let sent = |field: &str, value: Value| {
        let mut body = json!({"text": "hi"});
        body[field] = value;
        post("/api/sessions/$session/messages", body)
    };
    let attachment = |size: f64| json!([{"id": "a", "filename": "f", "mimeType": "", "size": size, "path": "p"}]);
    let size = |size: f64| sent("attachments", attachment(size));
    let new_session = |model: &str| {
        let body = json!({"tag": "/new", "metadata": {"path": "/new", "host": "h"}, "model": model});
        post("/cli/sessions", body)
    };
    let update = |version: &str| {
        let payload = r#"{"sid":"$session","expectedVersion":VERSION,"agentState":{}}"#;
        emit("update-state", payload.replace("VERSION", version))
    };
    let alive = |field: &str, length: usize| emit("session-alive", json!({"sid": "$session", field: text(length)}));
    let register = |method: &str| emit("rpc-register", json!({"method": method}));
    let messages = "/api/sessions/$session/messages";
    vec![
        row("an empty MIME type", "mimeType", upload("", "eA=="), upload(&text(256), "eA==")),
        row("base64 without padding", "content", upload("m", "eA"), upload("m", "e")),
        row("base64 of the URL-safe alphabet", "content", upload("m", "_-8="), upload("m", "_*8=")),
        row("base64 with line breaks", "content", upload("m", "eA\r\n==\n"), upload("m", "eA ==")),
        row("push keys in base64", "keys.auth", subscription(P256DH, AUTH), subscription(P256DH, "BTB!")),
        row(
            "push keys in URL-safe base64",
            "keys.p256dh",
            subscription(&url_safe(P256DH), &url_safe(AUTH)),
            subscription("BCVx", AUTH),
        ),
        row("a long permission mode", "permissionMode", alive("permissionMode", 255), alive("permissionMode", 256)),
        row("a long model mode", "modelMode", alive("modelMode", 255), alive("modelMode", 256)),
        row("a long model", "model", new_session(&text(255)), new_session(&text(256))),
        row("a long flavor", "metadata.flavor", metadata("flavor", text(255)), metadata("flavor", text(256))),
        row(
            "a long summary",
            "metadata.summary",
            metadata("summary", json!({"text": text(65_536), "updatedAt": 5})),
            metadata("summary", json!({"text": "x", "list": vec![1; 100_000]})),
        ),
        row(
            "a long worktree",
            "metadata.worktree",
            metadata("worktree", json!({"basePath": "/", "branch": text(65_536), "name": "n"})),
            metadata("worktree", json!(vec!["x"; 100_000])),
        ),
        row("a long display text", "metadata.path", metadata("name", text(2_000)), metadata("path", text(5_000))),
        row(
            "an integer as a float",
            "expectedVersion",
            patch(r#"{"name":"n","expectedVersion":1.0}"#),
            patch(r#"{"name":"n","expectedVersion":1.5}"#),
        ),
        row("an integer as a float in an event", "expectedVersion", update("1.0"), update("1.5")),
        row("a size as a float", "attachments[0].size", size(10.0), size(1.5)),
        row("a query integer as a float", "limit", get("$/messages?limit=50.0"), get("$/messages?limit=50.5")),
        row("an empty local id", "localId", sent("localId", json!("")), sent("localId", json!(text(256)))),
        row("an empty local id in an event", "localId", message(""), message(&text(256))),
        row("an empty query value", "limit", get("$/messages?limit=&beforeSeq="), get("$/messages?limit=x")),
        row("an empty keyword", "archived", get("/api/sessions?archived="), get("/api/sessions?archived=all")),
        row("a bare flag", "staged", get("$/git-diff-numstat?staged"), get("$/git-diff-numstat?staged=staged")),
        row("True as a flag", "staged", get("$/git-diff-numstat?staged=True"), get("$/git-diff-numstat?staged=Yes")),
        row(
            "a repeated unknown parameter",
            "limit",
            get("$/messages?_=1&_=2&limit=1"),
            get("$/messages?_=1&limit=1&limit=1"),
        ),
        row("a null body", "", post("/api/sessions/$session/archive", "null"), patch("null")),
        row(
            "half of a surrogate pair in a text",
            "text",
            post(messages, r#"{"text":"\ud83d"}"#),
            post(messages, r#"{"text":7}"#),
        ),
        row(
            "half of a surrogate pair in live text",
            "id",
            emit("message-delta", r#"{"sid":"$session","id":"a","text":"\ud83d"}"#),
            emit("message-delta", r#"{"sid":"$session","id":"\ud83d","text":""}"#),
        ),
        row("a removed request as null", "agentState.requests.r", state(json!({"r": null})), state(json!({"r": 5}))),
        row(
            "null metadata",
            "metadata",
            emit("update-metadata", r#"{"sid":"$session","expectedVersion":1,"metadata":null}"#),
            emit("update-metadata", r#"{"sid":"$session","expectedVersion":1,"metadata":5}"#),
        ),
        row("a method of another session", "", register("$other:gitStatus"), register("$foreign:gitStatus")),
        row("a method of a machine", "", register("own-machine:spawnSession"), register("other-machine:spawnSession")),
        row("white space after the body", "", post(messages, "{\"text\":\"hi\"} \n"), post(messages, "{\"text\":5} x")),
    ]
}

/// An active session, and the ids of two further sessions: one of the same namespace, and one of another namespace.
struct Fixture {
    world: World,
    cli: Cli,
    ids: [(&'static str, String); 3],
}

impl Fixture {
    async fn new() -> Self {
        let (world, session, cli) = live_session().await;
        let other = world.create_session("/other").await;
        let foreign = world.neighbour().create_session("/foreign").await;
        world.register_machine("own-machine").await;
        world.neighbour().register_machine("other-machine").await;
        Self { world, cli, ids: [("$session", session), ("$other", other), ("$foreign", foreign)] }
    }

    fn substitute(&self, text: &str) -> String {
        self.ids.iter().fold(text.to_owned(), |text, (name, id)| text.replace(name, id))
    }

    /// Sends an input. Returns the code of the error and its field, or `None` if the input is accepted.
    async fn send(&mut self, input: &Input) -> Option<(String, String)> {
        match input {
            Input::Request(method, path, body) if path.ends_with("/upload") => {
                assert_eq!(*method, "POST");
                let reply = self.world.upload(&self.substitute(path), body).await;
                // No method is registered, so a valid upload fails in its call.
                let body = reply.json();
                (reply.status != 500).then(|| (text(&body["code"]), text(&body["field"])))
            }
            Input::Request(method, path, body) => {
                let (path, body) = (self.substitute(path), self.substitute(body));
                let reply = self.world.request(method, &path, body).await;
                let body = reply.json();
                (reply.status != 200).then(|| (text(&body["code"]), text(&body["field"])))
            }
            Input::Event(event, payload) => {
                let ack = self.cli.emit_raw(event, &self.substitute(payload));
                let ack = self.cli.wait_for_ack(ack).await;
                if let Some(ignored) = ack["ignored"].get(0) {
                    return Some(("ignored".to_owned(), text(ignored)));
                }
                let is_accepted = ack["ok"] == true || ack["result"] == "success";
                let message = text(ack.get("error").unwrap_or(&ack["reason"]));
                let field =
                    message.split('`').skip(1).step_by(2).find(|name| *name != *event).unwrap_or_default().to_owned();
                (!is_accepted).then(|| (text(&ack["code"]), field))
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn each_undocumented_form_is_accepted_and_a_wrong_value_is_refused() {
    let mut deviations = Vec::new();
    for Row { what, accepted, refused, field } in table() {
        let error = Fixture::new().await.send(&refused).await;
        let code = match (&refused, field) {
            (Input::Event("session-alive", _), _) => "ignored",
            (Input::Event(..), "") => "access-denied",
            (Input::Event(..), _) => "bad-payload",
            (_, "") => "invalid_body",
            _ => "invalid_field",
        };
        let is_expected = error.as_ref().is_some_and(|error| error.0 == code && (field.is_empty() || error.1 == field));
        if !is_expected {
            deviations.push(format!("{what}: expected {code} {field}, but received {error:?}"));
        }
        if let Some(error) = Fixture::new().await.send(&accepted).await {
            deviations.push(format!("{what}: is refused with {error:?}"));
        }
    }
    assert!(deviations.is_empty(), "{}", deviations.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn messages_with_an_empty_local_id_are_all_stored() {
    let Fixture { world, mut cli, ids: [(_, session), ..] } = Fixture::new().await;
    for seq in [1, 3] {
        let sent = world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": "a", "localId": ""})).await;
        assert_eq!((&sent.ok()["message"]["seq"], &sent.ok()["message"]["localId"]), (&json!(seq), &json!(null)));
        let ack = cli.emit_with_ack("message", &json!({"sid": session, "message": "b", "localId": ""})).await;
        assert_eq!(ack["seq"], seq + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_null_is_removed() {
    let Fixture { world, mut cli, ids: [(_, session), ..] } = Fixture::new().await;
    cli.put_agent_state(&session, 1, &json!({"requests": {"a": null, "b": {"tool": "T"}}, "x": 1.0})).await;
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["agentState"], json!({"requests": {"b": {"tool": "T"}}, "x": 1.0}));
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["pendingRequestsCount"], 1);
}

#[tokio::test(start_paused = true)]
async fn null_metadata_is_shown_as_null_and_can_be_replaced() {
    let Fixture { world, mut cli, ids: [(_, session), ..] } = Fixture::new().await;
    let mut web = world.web("all=true").await;
    let mut update = json!({"sid": session, "expectedVersion": 1, "metadata": null});
    assert_eq!(cli.emit_with_ack("update-metadata", &update).await["result"], "success");
    assert_eq!(web.next_event_of("session-updated").await["data"].get("metadata"), Some(&Value::Null));
    for hibernates in [false, true] {
        world.hibernate_if(hibernates).await;
        assert_eq!(world.get_session(&session).await["metadata"], Value::Null);
        assert_eq!(world.listed(&session).await["metadata"], Value::Null);
        assert_eq!(world.get(&format!("/api/sessions/{session}/git-status")).await.ok()["success"], false);
    }
    update["metadata"] = json!({"path": "/code", "host": "box"});
    update["expectedVersion"] = json!(2);
    assert_eq!(cli.emit_with_ack("update-metadata", &update).await["version"], 3);
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"n"}"#).await.ok();
    assert_eq!(world.get_session(&session).await["metadata"]["name"], "n");
}

#[tokio::test(start_paused = true)]
async fn truncated_texts_are_in_the_acknowledgement_and_in_the_list() {
    let Fixture { world, mut cli, ids: [(_, session), ..] } = Fixture::new().await;
    let metadata = json!({"path": "/code", "host": "box", "summary": {"text": "é".repeat(65_536), "updatedAt": 5},
        "worktree": {"basePath": "/", "branch": "b".repeat(65_536), "name": "n"}, "name": "n".repeat(2_000)});
    let stored = cli.update_metadata(&session, 1, &metadata).await["metadata"].clone();
    assert_eq!(stored["summary"], json!({"text": "é".repeat(32_768), "updatedAt": 5}));
    assert_eq!((&stored["worktree"], &stored["name"]), (&metadata["worktree"], &json!("n".repeat(1_020))));
    assert_eq!(world.get_session(&session).await["metadata"], stored);
    let shown = json!([{"text": "é".repeat(255)}, {"basePath": "/", "branch": "b".repeat(510), "name": "n"}]);
    for hibernates in [false, true] {
        world.hibernate_if(hibernates).await;
        assert_eq!(pick(&world.listed(&session).await, ["metadata/summary", "metadata/worktree"]), shown);
    }
}

#[tokio::test(start_paused = true)]
async fn half_of_a_surrogate_pair_in_a_message_is_stored_as_a_replacement_character() {
    let Fixture { world, ids: [(_, session), ..], .. } = Fixture::new().await;
    let path = format!("/api/sessions/{session}/messages");
    let body = r#"{"text":"a\ud83d\u00e9\ud83d\ude00\n\"\\\/\b\f\r\t\ude00"}"#;
    world.request("POST", &path, body).await.ok();
    let stored = world.get(&path).await.ok();
    let text = "a\u{fffd}\u{e9}\u{1F600}\n\"\\/\u{8}\u{c}\r\t\u{fffd}";
    assert_eq!(stored["messages"][0]["content"]["content"]["text"], text);
}
