//! Invalid bodies, fields, queries and ids of every route. The error names the invalid part, and takes precedence over an error
//! for the state of the session. The request has no effect. `support/routes` has the fields, and `support/field_faults.rs`
//! has the invalid values.

use crate::support::edge::EdgeRequest;
use crate::support::edge_routes::EDGE_ROUTES;
use crate::support::field_faults::{Rejection, with_duplicate, with_value, without_field};
use crate::support::prelude::*;
use crate::support::route::{Condition, Route, Scope};
use crate::support::route_fixture::RouteFixture;
use crate::support::routes::object_routes;

fn all_routes() -> impl Iterator<Item = &'static Route> {
    object_routes().chain(EDGE_ROUTES)
}

/// Sends invalid requests to a route and collects deviations from the expected errors.
struct Fixture {
    fixture: RouteFixture,
    mismatches: Vec<String>,
}

impl Fixture {
    /// The session is in the wrong state, because errors of the input take precedence over the error for the state.
    async fn new(route: &'static Route) -> Self {
        Self { fixture: RouteFixture::in_wrong_state(route).await, mismatches: Vec::new() }
    }

    async fn send(&self, request: EdgeRequest) -> Reply {
        let reply = self.fixture.world.send_to_edge(request).reply().await;
        let (route, status) = (self.fixture.route, reply.status.as_u16());
        assert!(route.may_return(status), "{} {}: the table has no {reply:?}", route.method, route.path);
        reply
    }

    async fn send_body(&self, body: impl Into<Vec<u8>>) -> Reply {
        self.send(EdgeRequest { body: body.into(), ..self.fixture.valid_request() }).await
    }

    /// Sends a body and checks the error.
    async fn check_error(&mut self, body: &str, status: u16, code: &str, field: &str) {
        let reply = self.send_body(self.fixture.substitute(body)).await;
        let request = body.get(..120).unwrap_or(body);
        let mismatch = reply.error_mismatch(status, code, field);
        self.mismatches.extend(mismatch.map(|mismatch| {
            format!("{} {} {request}: {mismatch}", self.fixture.route.method, self.fixture.route.path)
        }));
    }

    /// Returns the deviations. If there are none, checks that the requests had no effect.
    async fn finish(mut self) -> Vec<String> {
        if self.mismatches.is_empty() {
            self.fixture.assert_no_effect().await;
        }
        self.mismatches
    }
}

fn assert_none(mismatches: &[String]) {
    assert!(mismatches.is_empty(), "{} deviations\n{}", mismatches.len(), mismatches.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_a_json_object_is_rejected() {
    let mut mismatches = Vec::new();
    for route in all_routes().filter(|route| !route.body.is_empty()) {
        let mut requests = Fixture::new(route).await;
        let valid = String::from_utf8(requests.fixture.valid_request().body).unwrap();
        let truncated = &valid[..valid.len() - 1];
        let surrounded =
            [format!("[{valid}]"), format!("{valid} x"), format!("{valid}{valid}"), format!("{valid} // all")];
        let deep = ["[".repeat(100_000), "{\"a\":".repeat(100_000), "[".repeat(10_000) + &"]".repeat(10_000)];
        let texts = "x [] true 1 \"{}\" { } {'a':1} {a:1} {\"a\":1,} {\"a\"} {\"a\":NaN} {\"a\":01} {\"a\":\"\\x\"} \
{\"a\":\"\u{0}\"} {\"a\":\"\n\"} {\"a\":undefined} \u{feff}{} a=1&b=2";
        // With optional fields only, null counts as an empty object.
        let null = route.body.iter().any(|field| field.required).then_some("null");
        for text in
            texts.split(' ').chain([truncated]).chain(null).chain(surrounded.iter().chain(&deep).map(String::as_str))
        {
            requests.check_error(text, 400, "invalid_body", "").await;
        }
        for bytes in
            [&b"{\"a\":\"\xff\"}"[..], b"\xff\xfe{\0}\0", b"{\"\xc3\":1}", b"{\"a\":\"\xed\xa0\x80\"}", b"\x1f\x8b\x08"]
        {
            let mismatch = requests.send_body(bytes).await.error_mismatch(400, "invalid_body", "");
            mismatches
                .extend(mismatch.map(|mismatch| format!("{} {} {bytes:?}: {mismatch}", route.method, route.path)));
        }
        mismatches.extend(requests.finish().await);
    }
    assert_none(&mismatches);
}

#[tokio::test(start_paused = true)]
async fn an_empty_body_is_an_empty_object() {
    for route in all_routes().filter(|route| !route.body.is_empty()) {
        let requests = Fixture::new(route).await;
        let reply_to_empty_object = requests.send_body("{}").await;
        for empty in ["", " ", "\n\t ", "null", " null\n"] {
            // At most five codes may wait for devices.
            requests.fixture.world.db.execute("DELETE FROM pairings WHERE namespace = 'team' AND name IS NULL");
            assert_eq!(
                requests.send_body(empty).await.status,
                reply_to_empty_object.status,
                "{} {} {empty:?}",
                route.method,
                route.path
            );
        }
        let required = route.body.iter().find(|field| field.required);
        assert_eq!(
            reply_to_empty_object.status == 400,
            required.is_some(),
            "{} {}: {reply_to_empty_object:?}",
            route.method,
            route.path
        );
        if let Some(first) = required {
            assert_eq!(
                reply_to_empty_object.error_mismatch(400, "invalid_field", first.name),
                None,
                "{} {}",
                route.method,
                route.path
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_for_an_invalid_value_names_the_field() {
    let mut mismatches = Vec::new();
    for route in all_routes() {
        let mut requests = Fixture::new(route).await;
        for field in route.body {
            for (value, rejection) in field.faults() {
                let (status, code, name) = match rejection {
                    Rejection::InvalidField => (400, "invalid_field", field.name),
                    Rejection::TooLarge => (413, "too_large", ""),
                };
                requests.check_error(&with_value(route.body, field, &value), status, code, name).await;
            }
            if let Some(body) = with_duplicate(route.body, field) {
                requests.check_error(&body, 400, "invalid_field", field.name).await;
            }
            if field.required {
                requests.check_error(&without_field(route.body, field), 400, "invalid_field", field.name).await;
            }
        }
        mismatches.extend(requests.finish().await);
    }
    assert_none(&mismatches);
}

#[tokio::test(start_paused = true)]
async fn optional_fields_may_be_null_and_unknown_fields_are_ignored() {
    for route in all_routes().filter(|route| !route.body.is_empty() && route.call.is_none()) {
        let fixture = RouteFixture::new(route).await;
        let mut valid = fixture.valid_request();
        let mut body: serde_json::Value = serde_json::from_slice(&valid.body).unwrap();
        for field in route.body.iter().filter(|field| !field.required) {
            body[field.name] = json!(null);
        }
        for unknown in ["unknown", "__proto__", "constructor", ""] {
            body[unknown] = json!({"a": [1e300, null, "\u{0}"]});
        }
        valid.body = body.to_string().into_bytes();
        assert_eq!(fixture.world.send_to_edge(valid).reply().await.status, 200, "{} {}", route.method, route.path);
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_for_an_invalid_query_names_the_parameter() {
    let mut mismatches = Vec::new();
    for route in all_routes() {
        let mut requests = Fixture::new(route).await;
        for param in route.query {
            for (query, code) in param.faults() {
                let valid = requests.fixture.valid_request();
                let rest: Vec<_> =
                    route.query.iter().filter(|other| other.is_required() && other.name != param.name).collect();
                let rest: String = rest.iter().map(|other| format!("&{}={}", other.name, other.valid())).collect();
                let query = requests.fixture.substitute(&format!("{query}{rest}"));
                let url = format!("{}?{query}", valid.url.split('?').next().unwrap());
                let mismatch = requests
                    .send(EdgeRequest { url: url.clone(), ..valid })
                    .await
                    .error_mismatch(400, code, param.name);
                mismatches.extend(mismatch.map(|mismatch| format!("{} {url}: {mismatch}", route.method)));
            }
        }
        let valid = requests.fixture.valid_request();
        let optional = route.query.iter().filter(|param| !param.is_required());
        let empty: String = optional.map(|param| format!("&{}=", param.name)).collect();
        let url = format!("{}&unknown=1&__proto__=2&%zz=%zz&&=&{empty}", valid.url);
        let reply = requests.send(EdgeRequest { url, ..valid }).await;
        assert_ne!(reply.status, 400, "unknown parameters, empty values: {} {}", route.method, route.path);
        mismatches.extend(std::mem::take(&mut requests.mismatches));
    }
    assert_none(&mismatches);
}

/// Unknown ids in paths, separated by spaces.
const UNKNOWN_IDS: &str = "0 -1 null undefined __proto__ constructor toString hasOwnProperty ... a%2Fb ..%2F..%2Fetc%2Fpasswd \
..%5C.. %00 a%00b %0D%0Aset-cookie:a=b %F0%9F%A6%80 %E2%80%AE %27%20OR%201=1-- %25 %zz {id}";

/// Path segments that a URL parser resolves. A path with such a segment has no route.
const DOT_SEGMENTS: [&str; 6] = ["..", ".", "%2e%2e", "%2E", ".%2e", "..\\x"];

#[tokio::test(start_paused = true)]
async fn unknown_ids_are_not_found() {
    let long = "x".repeat(8_192);
    let encoded = "%41".repeat(8_192);
    let ids = UNKNOWN_IDS.split(' ').chain([long.as_str(), &encoded]);
    for route in all_routes().filter(|route| route.path.contains("{id}")) {
        let code = match route.scope {
            Scope::Machine => "machine_not_found",
            Scope::Device => "device_not_found",
            _ => "session_not_found",
        };
        let mut requests = Fixture::new(route).await;
        for id in ids.clone() {
            let url = requests.fixture.path(id);
            let reply = requests.send(EdgeRequest { url: url.clone(), ..requests.fixture.valid_request() }).await;
            assert_eq!(reply.error_mismatch(404, code, ""), None, "{} {url}", route.method);
        }
        for id in DOT_SEGMENTS {
            let url = requests.fixture.path(id);
            let reply = requests.send(EdgeRequest { url, ..requests.fixture.valid_request() }).await;
            assert_eq!(reply.error_mismatch(404, "not_found", ""), None, "{} {id}", route.method);
        }
        for id in ["%ff", "%c0%ae%c0%ae", "%ed%a0%80", "a%80"] {
            let reply =
                requests.send(EdgeRequest { url: requests.fixture.path(id), ..requests.fixture.valid_request() }).await;
            assert_eq!(reply.error_mismatch(400, "invalid_field", "id"), None, "{} {id}", route.method);
        }
        requests.fixture.assert_no_effect().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_ids_of_permission_requests_are_not_found() {
    // The hub does not look up the request of `.../content`, because only the CLI knows which requests it has shortened.
    for route in object_routes().filter(|route| route.method == "POST" && route.path.contains("{requestId}")) {
        let mut fixture = RouteFixture::new(route).await;
        for id in UNKNOWN_IDS.split(' ') {
            let url = fixture.valid_request().url.replace("/r1/", &format!("/{id}/"));
            let reply = fixture.world.send_to_edge(EdgeRequest { url, ..fixture.valid_request() }).reply().await;
            assert_eq!(reply.error_mismatch(404, "request_not_found", ""), None, "{id}");
        }
        for id in DOT_SEGMENTS {
            let url = fixture.valid_request().url.replace("/r1/", &format!("/{id}/"));
            let reply = fixture.world.send_to_edge(EdgeRequest { url, ..fixture.valid_request() }).reply().await;
            assert_eq!(reply.error_mismatch(404, "not_found", ""), None, "{id}");
        }
        let url = fixture.valid_request().url.replace("/r1/", "/%ff/");
        let reply = fixture.world.send_to_edge(EdgeRequest { url, ..fixture.valid_request() }).reply().await;
        assert_eq!(reply.error_mismatch(400, "invalid_field", "requestId"), None);
        fixture.assert_no_effect().await;
        assert_eq!(fixture.run_with(Condition::UnknownPartId).await.status, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn the_text_of_opaque_json_is_preserved() {
    let world = World::new();
    let metadata =
        r#"{"path":"/w","host":"h","z":12345678901234567890,"a":1.50,"__proto__":{"b":1},"half":"\ud800","n":1e400}"#;
    let body = format!(r#"{{"tag":"/w","unknown":[1],"__proto__":{{}},"metadata":{metadata},"agentState":null}}"#);
    let created = world.request("POST", "/cli/sessions", body).await;
    assert!(created.text.contains(metadata), "{}", created.text);
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let state = format!(r#"{{"runnerState":{{"n":1e400,"k":[1.0],"deep":{deep}}}}}"#);
    let body = format!(r#"{{"id":"m","metadata":{{"host":"h"}},"runnerState":{state}}}"#);
    let created = world.request("POST", "/cli/machines", body).await;
    assert!(created.text.contains(&state), "{}", created.text);
}

/// NUL characters truncate neither stored nor compared strings.
#[tokio::test(start_paused = true)]
async fn strings_that_differ_after_a_nul_are_different() {
    let world = World::new();
    let one = world.create_session("/a\u{0}one").await;
    let other = world.create_session("/a\u{0}other").await;
    assert_ne!(one, other);
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&one).await["tag"], "/a\u{0}one");
    assert_eq!(world.create_session("/a\u{0}other").await, other);
    for id in ["m\u{0}1", "m\u{0}2"] {
        let created = world.post("/cli/machines", &json!({"id": id, "metadata": {"host": id}})).await.ok();
        assert_eq!(created["machine"]["metadataVersion"], 1, "each id is a different machine");
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
