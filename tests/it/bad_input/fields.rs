//! Bad input to every route: bodies, fields, queries, ids. It is refused in words that name what is at fault, before the
//! session's state is looked at, and nothing comes of it. The fields of each route stand in `support/routes.rs`, what can
//! be wrong with a field in `support/faults.rs`.

use crate::support::World;
use crate::support::edge::EdgeRequest;
use crate::support::faults::{Refused, twice, with, without};
use crate::support::rest::Reply;
use crate::support::route::{Given, Of, Route};
use crate::support::route_fixture::Scene;
use crate::support::routes::{EDGE_ROUTES, ROUTES};
use serde_json::json;

fn table() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().chain(EDGE_ROUTES)
}

/// Sends what is to be refused, one after the other, and notes which of it was not refused as it has to be.
struct Trial {
    scene: Scene,
    mistakes: Vec<String>,
}

impl Trial {
    /// A trial of a route whose session is in the wrong state: what is wrong with the input is said first.
    async fn of(route: &'static Route) -> Self {
        Self { scene: Scene::in_the_wrong_state(route).await, mistakes: Vec::new() }
    }

    async fn send(&self, asked: EdgeRequest) -> Reply {
        let reply = self.scene.world.send_to_edge(asked).reply().await;
        let (route, status) = (self.scene.route, reply.status.as_u16());
        assert!(route.may_answer(status), "{} {}: its row knows no {reply:?}", route.method, route.path);
        reply
    }

    async fn body(&self, body: impl Into<Vec<u8>>) -> Reply {
        self.send(EdgeRequest { body: body.into(), ..self.scene.good() }).await
    }

    /// Sends a body that has to be refused.
    async fn refused(&mut self, body: &str, status: u16, code: &str, field: &str) {
        let reply = self.body(self.scene.named(body)).await;
        let asked = body.get(..120).unwrap_or(body);
        let mistake = reply.error_mismatch(status, code, field);
        self.mistakes.extend(
            mistake.map(|mistake| format!("{} {} {asked}: {mistake}", self.scene.route.method, self.scene.route.path)),
        );
    }

    /// What was not refused as it has to be. When there is none, nothing may have come of any of it.
    async fn mistakes(mut self) -> Vec<String> {
        if self.mistakes.is_empty() {
            self.scene.nothing_came_of_it().await;
        }
        self.mistakes
    }
}

fn none(mistakes: &[String]) {
    assert!(mistakes.is_empty(), "{} mistakes\n{}", mistakes.len(), mistakes.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_no_json_object_is_refused_as_a_whole() {
    let mut mistakes = Vec::new();
    for route in table().filter(|route| !route.body.is_empty()) {
        let mut trial = Trial::of(route).await;
        let good = String::from_utf8(trial.scene.good().body).unwrap();
        let truncated = &good[..good.len() - 1];
        let around = [format!("[{good}]"), format!("{good} x"), format!("{good}{good}"), format!("{good} // all")];
        let deep = ["[".repeat(100_000), "{\"a\":".repeat(100_000), "[".repeat(10_000) + &"]".repeat(10_000)];
        let texts = [
            "x",
            "[]",
            "null",
            "true",
            "1",
            "\"{}\"",
            "{",
            "}",
            "{'a':1}",
            "{a:1}",
            "{\"a\":1,}",
            "{\"a\"}",
            "{\"a\":NaN}",
            "{\"a\":01}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\u{0}\"}",
            "{\"a\":\"\n\"}",
            "{\"a\":undefined}",
            "\u{feff}{}",
            "a=1&b=2",
            truncated,
        ];
        for text in texts.into_iter().chain(around.iter().chain(&deep).map(String::as_str)) {
            trial.refused(text, 400, "invalid_body", "").await;
        }
        for bytes in
            [&b"{\"a\":\"\xff\"}"[..], b"\xff\xfe{\0}\0", b"{\"\xc3\":1}", b"{\"a\":\"\xed\xa0\x80\"}", b"\x1f\x8b\x08"]
        {
            let mistake = trial.body(bytes).await.error_mismatch(400, "invalid_body", "");
            mistakes.extend(mistake.map(|mistake| format!("{} {} {bytes:?}: {mistake}", route.method, route.path)));
        }
        mistakes.extend(trial.mistakes().await);
    }
    none(&mistakes);
}

#[tokio::test(start_paused = true)]
async fn an_empty_body_is_an_object_without_fields() {
    for route in table().filter(|route| !route.body.is_empty()) {
        let trial = Trial::of(route).await;
        let bare = trial.body("{}").await;
        for empty in ["", " ", "\n\t "] {
            assert_eq!(trial.body(empty).await.status, bare.status, "{} {}", route.method, route.path);
        }
        let required = route.body.iter().find(|field| field.required);
        assert_eq!(bare.status == 400, required.is_some(), "{} {}: {bare:?}", route.method, route.path);
        if let Some(first) = required {
            assert_eq!(bare.error_mismatch(400, "invalid_field", first.name), None, "{} {}", route.method, route.path);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_value_is_refused_by_the_name_of_its_field() {
    let mut mistakes = Vec::new();
    for route in table() {
        let mut trial = Trial::of(route).await;
        for field in route.body {
            for (value, refused) in field.faults() {
                let (status, code, name) = match refused {
                    Refused::Field => (400, "invalid_field", field.name),
                    Refused::TooLarge => (413, "too_large", ""),
                };
                trial.refused(&with(route.body, field, &value), status, code, name).await;
            }
            if let Some(body) = twice(route.body, field) {
                trial.refused(&body, 400, "invalid_field", field.name).await;
            }
            if field.required {
                trial.refused(&without(route.body, field), 400, "invalid_field", field.name).await;
            }
        }
        mistakes.extend(trial.mistakes().await);
    }
    none(&mistakes);
}

#[tokio::test(start_paused = true)]
async fn null_is_as_good_as_nothing_in_an_optional_field_and_unknown_fields_are_ignored() {
    for route in table().filter(|route| !route.body.is_empty() && route.call.is_none()) {
        let scene = Scene::of(route).await;
        let mut good = scene.good();
        let mut body: serde_json::Value = serde_json::from_slice(&good.body).unwrap();
        for field in route.body.iter().filter(|field| !field.required) {
            body[field.name] = json!(null);
        }
        for unknown in ["unknown", "__proto__", "constructor", ""] {
            body[unknown] = json!({"a": [1e300, null, "\u{0}"]});
        }
        good.body = body.to_string().into_bytes();
        assert_eq!(scene.world.send_to_edge(good).reply().await.status, 200, "{} {}", route.method, route.path);
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_is_read_strictly_and_its_fault_named() {
    let mut mistakes = Vec::new();
    for route in table() {
        let mut trial = Trial::of(route).await;
        for param in route.query {
            for (query, code) in param.faults() {
                let good = trial.scene.good();
                let rest: Vec<_> =
                    route.query.iter().filter(|other| other.required() && other.name != param.name).collect();
                let rest: String = rest.iter().map(|other| format!("&{}={}", other.name, other.good())).collect();
                let query = trial.scene.named(&format!("{query}{rest}"));
                let url = format!("{}?{query}", good.url.split('?').next().unwrap());
                let mistake =
                    trial.send(EdgeRequest { url: url.clone(), ..good }).await.error_mismatch(400, code, param.name);
                mistakes.extend(mistake.map(|mistake| format!("{} {url}: {mistake}", route.method)));
            }
        }
        let good = trial.scene.good();
        let url = format!("{}&unknown=1&__proto__=2&%zz=%zz&&=&", good.url);
        let reply = trial.send(EdgeRequest { url, ..good }).await;
        assert_ne!(reply.status, 400, "unknown parameters are ignored: {} {}", route.method, route.path);
        mistakes.extend(std::mem::take(&mut trial.mistakes));
    }
    none(&mistakes);
}

/// Ids that nobody has, as they stand in a path.
const STRANGE_IDS: [&str; 24] = [
    "0",
    "-1",
    "null",
    "undefined",
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "..",
    ".",
    "%2e%2e",
    "%2E",
    "a%2Fb",
    "..%2F..%2Fetc%2Fpasswd",
    "..%5C..",
    "%00",
    "a%00b",
    "%0D%0Aset-cookie:a=b",
    "%F0%9F%A6%80",
    "%E2%80%AE",
    "%27%20OR%201=1--",
    "%25",
    "%zz",
    "{id}",
];

#[tokio::test(start_paused = true)]
async fn a_strange_id_is_that_of_nobody() {
    let long = "x".repeat(8_192);
    let encoded = "%41".repeat(8_192);
    let ids = STRANGE_IDS.into_iter().chain([long.as_str(), &encoded]);
    for route in table().filter(|route| route.path.contains("{id}")) {
        let code = if route.of == Of::Machine { "machine_not_found" } else { "session_not_found" };
        let mut trial = Trial::of(route).await;
        for id in ids.clone() {
            let url = trial.scene.path(id);
            let reply = trial.send(EdgeRequest { url: url.clone(), ..trial.scene.good() }).await;
            assert_eq!(reply.error_mismatch(404, code, ""), None, "{} {url}", route.method);
        }
        for id in ["%ff", "%c0%ae%c0%ae", "%ed%a0%80", "a%80"] {
            let reply = trial.send(EdgeRequest { url: trial.scene.path(id), ..trial.scene.good() }).await;
            assert_eq!(reply.error_mismatch(400, "invalid_field", "id"), None, "{} {id}", route.method);
        }
        trial.scene.nothing_came_of_it().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_strange_id_of_a_permission_request_is_that_of_none() {
    for route in ROUTES.iter().filter(|route| route.path.contains("{requestId}")) {
        let mut scene = Scene::of(route).await;
        for id in STRANGE_IDS {
            let url = scene.good().url.replace("/r1/", &format!("/{id}/"));
            let reply = scene.world.send_to_edge(EdgeRequest { url, ..scene.good() }).reply().await;
            assert_eq!(reply.error_mismatch(404, "request_not_found", ""), None, "{id}");
        }
        let url = scene.good().url.replace("/r1/", "/%ff/");
        let reply = scene.world.send_to_edge(EdgeRequest { url, ..scene.good() }).reply().await;
        assert_eq!(reply.error_mismatch(400, "invalid_field", "requestId"), None);
        scene.nothing_came_of_it().await;
        assert_eq!(scene.provoke(Given::UnknownRequest).await.status, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn opaque_json_is_kept_to_the_letter() {
    let world = World::new();
    let metadata =
        r#"{"path":"/w","host":"h","z":12345678901234567890,"a":1.50,"__proto__":{"b":1},"half":"\ud800","n":1e400}"#;
    let body = format!(r#"{{"tag":"/w","unknown":[1],"__proto__":{{}},"metadata":{metadata},"agentState":null}}"#);
    let made = world.request("POST", "/cli/sessions", body).await;
    assert!(made.text.contains(metadata), "{}", made.text);
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let state = format!(r#"{{"runnerState":{{"n":1e400,"k":[1.0],"deep":{deep}}}}}"#);
    let body = format!(r#"{{"id":"m","metadata":{{"host":"h"}},"runnerState":{state}}}"#);
    let made = world.request("POST", "/cli/machines", body).await;
    assert!(made.text.contains(&state), "{}", made.text);
}

/// A NUL ends no text: neither what is kept nor what is compared.
#[tokio::test(start_paused = true)]
async fn texts_that_differ_after_a_nul_are_two() {
    let world = World::new();
    let one = world.create_session("/a\u{0}one").await;
    let other = world.create_session("/a\u{0}other").await;
    assert_ne!(one, other);
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&one).await["tag"], "/a\u{0}one");
    assert_eq!(world.create_session("/a\u{0}other").await, other);
    for id in ["m\u{0}1", "m\u{0}2"] {
        let made = world.post("/cli/machines", &json!({"id": id, "metadata": {"host": id}})).await.ok();
        assert_eq!(made["machine"]["metadataVersion"], 1, "it is another machine");
    }
    world.hibernate_and_wake().await;
    assert_eq!(world.get("/cli/machines/m%001").await.ok()["machine"]["metadata"]["host"], "m\u{0}1");
    let _cli = world.live_cli(&one).await;
    let messages = format!("/api/sessions/{one}/messages");
    for local_id in ["l\u{0}1", "l\u{0}2"] {
        world.post(&messages, &json!({"text": local_id, "localId": local_id})).await.ok();
    }
    world.hibernate_and_wake().await;
    let page = world.get(&messages).await.ok();
    assert_eq!(page["messages"][0]["localId"], "l\u{0}2");
    assert_eq!(page["messages"][1]["localId"], "l\u{0}1");
}
