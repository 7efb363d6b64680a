//! Requests in the stateless worker (the edge): responses without the object, and the choice of the object.

use crate::support::SECRET;
use crate::support::prelude::*;
use crate::support::worker_edge::{edge, edge_with_db, head, object_namespace, respond, route, sign_in, with_token};
use session_gateway_hub::http::authentication::rate_limit_key;
use session_gateway_hub::http::cors::Cors;
use session_gateway_hub::http::edge::{Action, Edge, RequestHead, Routing, longest_body_time_ms, split_url};

const UPGRADE: &str = "EIO=4&transport=websocket";

#[tokio::test]
async fn a_url_that_parsers_read_differently_is_refused_with_any_token() {
    let edge = edge("token", "");
    let jwt = sign_in(&edge, r#"{"accessToken":"secret:team"}"#).await.ok()["token"].as_str().unwrap().to_owned();
    let paths = "/api/../cli/sessions /api/./sessions /api/%2e%2E/cli/sessions /api/.%2e/cli/sessions /api/%2e/sessions \
/api/x\\..\\..\\cli/sessions /api/.. /cli/%2e%2e/../api/sessions /api/sessions/../events";
    for (path, token) in
        paths.split(' ').flat_map(|path| [(path, jwt.as_str()), (path, "secret:team"), (path, "wrong")])
    {
        respond(&edge, &with_token("GET", path, token)).await.assert_error(404, "not_found");
    }
    for host in ["a/api", "a%2fcli", "user@a", "a\\b", "a b"] {
        let head = RequestHead { host: host.into(), ..with_token("GET", "/api/sessions", &jwt) };
        respond(&edge, &head).await.assert_error(404, "not_found");
    }
    for path in ["/api/sessions/...", "/api/sessions/.x", "/api/sessions/..%2fx", "/api/sessions/%252e", "/api//x"] {
        assert_eq!(object_namespace(&edge, &with_token("GET", path, &jwt)).await, "team");
    }
    for host in ["127.0.0.1:8787", "[::1]:8787", "my_hub.Example-1.dev"] {
        let head = RequestHead { host: host.into(), ..with_token("GET", "/api/sessions", &jwt) };
        assert_eq!(object_namespace(&edge, &head).await, "team");
    }
}

#[tokio::test]
async fn health_needs_no_token() {
    let edge = edge("token", "");
    let health = respond(&edge, &head("GET", "/health")).await.ok();
    assert_eq!(health, json!({"status": "ok", "protocolVersion": 1, "version": env!("CARGO_PKG_VERSION")}));
    let error = respond(&edge, &head("POST", "/health")).await;
    error.assert_error(405, "method_not_allowed");
    assert!(error.headers["allow"].to_str().unwrap().contains("GET"));
}

#[tokio::test]
async fn only_a_deep_health_check_queries_the_database() {
    let db = Arc::new(Sqlite::with_schema());
    let edge = edge_with_db(&db, "token", "");
    assert!(matches!(route(&edge, &head("GET", "/health?deep=1")).await, Action::CheckDatabase));
    assert!(matches!(route(&edge, &head("HEAD", "/health?deep=1")).await, Action::CheckDatabase));
    respond(&edge, &head("POST", "/health?deep=1")).await.assert_error(405, "method_not_allowed");
    for url in ["/health?deep=0", "/health?deep", "/health?deep=1&deep=1", "/health?shallow=1"] {
        assert_eq!(respond(&edge, &head("GET", url)).await.ok()["status"], "ok", "{url}");
    }
    let check = async || Reply::of(edge.check_database().await);
    let health = json!({"status": "ok", "protocolVersion": 1, "version": env!("CARGO_PKG_VERSION"), "database": "ok"});
    assert_eq!(check().await.ok(), health);
    db.fail(BatchKind::Reads, permanent_error());
    check().await.assert_error(503, "hub_unavailable");
    let edge = edge_with_db(&Arc::new(Sqlite::without_schema()), "token", "");
    assert!(Reply::of(edge.check_database().await).assert_error(503, "hub_unavailable").to_string().contains("schema"));
}

#[tokio::test]
async fn a_deep_health_check_fails_without_the_newest_migration() {
    let db = Arc::new(Sqlite::without_schema());
    let edge = edge_with_db(&db, "token", "");
    let check = async || Reply::of(edge.check_database().await);
    for migration in Sqlite::migrations() {
        check().await.assert_error(503, "hub_unavailable");
        db.execute(&migration);
    }
    check().await.ok();
}

#[test]
fn addresses_of_one_ipv6_network_share_a_rate_limit() {
    let key = rate_limit_key("2001:db8:0:7::1");
    assert_eq!(key, rate_limit_key("2001:0DB8::7:ffff:1:2:3"), "one /64");
    for other in ["2001:db8:0:8::1", "2001:db8::1", "192.0.2.7", "::ffff:192.0.2.7", "unknown"] {
        assert_ne!(key, rate_limit_key(other), "{other}");
    }
    assert_ne!(rate_limit_key("192.0.2.7"), rate_limit_key("192.0.2.8"));
    assert_ne!(rate_limit_key("::ffff:192.0.2.7"), rate_limit_key("::ffff:192.0.2.8"));
}

#[tokio::test]
async fn only_events_are_served_over_a_websocket() {
    let edge = edge("token", "");
    for (path, is_websocket) in [("/api/events", true), ("/api/sessions", false), ("/cli/sessions", false)] {
        let action = route(&edge, &RequestHead { is_upgrade: true, ..with_token("GET", path, SECRET) }).await;
        assert_eq!(matches!(action, Action::WebSocket(_)), is_websocket, "{path}: {action:?}");
        assert_eq!(matches!(action, Action::Object(..)), !is_websocket, "{path}: {action:?}");
    }
}

#[tokio::test]
async fn a_token_in_the_query_is_accepted_for_events_only() {
    let edge = edge("token", "");
    let stream = head("GET", "/api/events?token=secret%3Ateam&all=true");
    assert!(matches!(route(&edge, &stream).await, Action::Sse(token) if token.namespace.as_str() == "team"));
    let upgrade = RequestHead { is_upgrade: true, ..stream };
    assert_eq!(object_namespace(&edge, &upgrade).await, "team");
    respond(&edge, &head("GET", "/api/events?token=wrong")).await.assert_error(401, "unauthorized");
    for path in ["/api/sessions", "/cli/sessions/s", "/api/sessions/s/messages"] {
        respond(&edge, &head("GET", &format!("{path}?token=secret:team"))).await.assert_error(401, "unauthorized");
    }
    let reply = respond(&edge, &with_token("POST", "/api/events", "secret")).await;
    reply.assert_error(405, "method_not_allowed");
    assert_eq!(reply.headers["allow"], "GET");
}

#[tokio::test]
async fn an_event_stream_ends_when_its_token_expires() {
    let edge = edge("token", "");
    let login = sign_in(&edge, r#"{"accessToken":"secret:team"}"#).await.ok();
    let jwt = login["token"].as_str().unwrap();
    for (token, expires_at) in [(jwt, login["expiresAt"].as_u64()), ("secret:team", None)] {
        let stream = with_token("GET", "/api/events", token);
        for head in [RequestHead { is_upgrade: true, ..stream.clone() }, stream] {
            match route(&edge, &head).await {
                Action::Sse(bearer) | Action::WebSocket(bearer) => assert_eq!(bearer.expires_at, expires_at),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn message_history_is_served_at_the_edge_without_the_object() {
    let (world, session) = idle_session().await;
    world.live_cli(&session).await.send_message(&session, "hello").await;
    let foreign = world.neighbour().create_session("/theirs").await;
    let edge = edge_with_db(&world.db, "token", "");
    let get = async |url: String| respond(&edge, &with_token("GET", &url, "secret:team")).await;
    let page = get(format!("/api/sessions/{session}/messages?limit=10")).await.ok();
    assert_eq!(page, world.get(&format!("/api/sessions/{session}/messages?limit=10")).await.ok());
    assert_eq!(page["messages"][0]["content"]["content"], "hello");
    assert_eq!(get(format!("/cli/sessions/{session}/messages")).await.ok()["messages"][0]["seq"], 1);
    for root in ["/api", "/cli"] {
        get(format!("{root}/sessions/none/messages")).await.assert_error(404, "session_not_found");
        get(format!("{root}/sessions/{foreign}/messages")).await.assert_error(403, "forbidden");
        get(format!("{root}/sessions/none/messages?limit=x")).await.assert_error(404, "session_not_found");
        get(format!("{root}/sessions/{foreign}/messages?limit=x")).await.assert_error(403, "forbidden");
        let error = get(format!("{root}/sessions/{session}/messages?limit=x")).await.assert_error(400, "invalid_field");
        assert_eq!(error["field"], "limit");
    }
    world.db.fail(BatchKind::Reads, permanent_error());
    get(format!("/api/sessions/{session}/messages")).await.assert_error(503, "hub_unavailable");
    // Sending a message needs the object.
    let send = with_token("POST", &format!("/api/sessions/{session}/messages"), "secret:team");
    assert_eq!(object_namespace(&edge, &send).await, "team");
}

#[tokio::test]
async fn a_preflight_needs_no_token_and_allows_only_listed_origins() {
    let edge = edge("token", "https://console.example");
    for path in ["/api/sessions", "/cli/sessions", "/api/auth", "/api/events"] {
        assert_eq!(respond(&edge, &head("OPTIONS", path)).await.status, 204, "{path}");
    }
    let headers = edge.cors.headers(Some("https://console.example"), "hub.example", true);
    for name in ["access-control-allow-origin", "timing-allow-origin"] {
        assert_eq!(headers[name], "https://console.example");
    }
    assert_eq!(headers["access-control-allow-methods"], "GET, POST, PATCH, DELETE, OPTIONS");
    assert_eq!(headers["access-control-allow-headers"], "authorization, content-type, last-event-id");
    let headers = edge.cors.headers(Some("https://evil.example"), "hub.example", true);
    assert!(headers.get("access-control-allow-origin").is_none());
    assert!(Cors::default().headers(Some("https://console.example"), "hub.example", true).is_empty());
}

#[tokio::test]
async fn a_page_of_a_foreign_origin_cannot_open_a_socket() {
    let edge = edge("token", "https://console.example");
    for url in ["/api/events?token=secret", &format!("/socket.io/?{UPGRADE}&token=secret")] {
        let upgrade_from =
            |origin: Option<&str>| RequestHead { is_upgrade: true, origin: origin.map(Into::into), ..head("GET", url) };
        for foreign in ["https://evil.example", "null", "https://hub.example.evil.example"] {
            respond(&edge, &upgrade_from(Some(foreign))).await.assert_error(403, "origin_not_allowed");
        }
        for allowed in [None, Some("https://hub.example"), Some("https://console.example")] {
            let action = route(&edge, &upgrade_from(allowed)).await;
            assert!(matches!(action, Action::WebSocket(_) | Action::CliSocket { .. }), "{allowed:?}: {action:?}");
        }
    }
    // The hub allows a request without an upgrade, because the browser enforces CORS for it.
    let stream = RequestHead { origin: Some("https://evil.example".into()), ..head("GET", "/api/events?token=secret") };
    assert!(matches!(route(&edge, &stream).await, Action::Sse(_)));
}

/// Routes the upgrade of a CLI. Returns `[namespace, is authenticated]`, `bridge`, or the status of an error response.
async fn cli_route(edge: &Edge, host: &str, query: &str, authorization: Option<&str>) -> Value {
    let head = RequestHead {
        is_upgrade: true,
        host: host.into(),
        authorization: authorization.map(Into::into),
        ..head("GET", &format!("/socket.io/?{UPGRADE}{query}"))
    };
    match route(edge, &head).await {
        Action::CliSocket { namespace, credential } => json!([namespace.as_str(), credential.is_some()]),
        Action::BridgedCliSocket => json!("bridge"),
        Action::Respond(response) => json!(Reply::of(response).status.as_u16()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn routing_by_token_needs_a_bridge_only_if_the_upgrade_has_no_valid_token() {
    let edge = edge("token", "");
    let host = "hub.example";
    assert_eq!(cli_route(&edge, host, "", Some("Bearer secret:team")).await, json!(["team", true]));
    assert_eq!(cli_route(&edge, host, "&token=secret%3Ateam", None).await, json!(["team", true]));
    assert_eq!(cli_route(&edge, host, "&token=secret", None).await, json!(["default", true]));
    assert_eq!(cli_route(&edge, host, "", None).await, "bridge");
    assert_eq!(cli_route(&edge, host, "&token=wrong", None).await, "bridge", "CONNECT may have a valid token");
}

#[tokio::test]
async fn routing_by_host_uses_the_first_label() {
    let edge = edge("host", "");
    assert_eq!(cli_route(&edge, "team.hub.example", "", None).await, json!(["team", false]));
    assert_eq!(cli_route(&edge, "team.hub.example:8443", "", Some("Bearer secret:team")).await, json!(["team", true]));
    assert_eq!(cli_route(&edge, "team.hub.example", "", Some("Bearer secret:other")).await, json!(["team", false]));
    assert_eq!(cli_route(&edge, "", "", None).await, 404);
    assert_eq!(cli_route(&edge, &format!("{}.hub.example", "x".repeat(65)), "", None).await, 404);
}

#[tokio::test]
async fn routing_to_a_single_namespace_uses_it_for_every_socket() {
    let edge = edge("single:solo", "");
    assert_eq!(cli_route(&edge, "hub.example", "", None).await, json!(["solo", false]));
    assert_eq!(cli_route(&edge, "hub.example", "&token=secret%3Asolo", None).await, json!(["solo", true]));
    assert_eq!(cli_route(&edge, "hub.example", "&token=secret%3Aother", None).await, json!(["solo", false]));
}

#[test]
fn the_error_for_an_invalid_routing_names_the_valid_routings() {
    for invalid in ["tokens", "single:", "single:a b", "single"] {
        assert!(Routing::parse(invalid).unwrap_err().contains("single:<namespace>"), "{invalid}");
    }
    assert_eq!(Routing::parse(""), Ok(Routing::Token));
}

#[test]
fn a_url_is_split_into_host_path_and_query() {
    assert_eq!(split_url("https://h:8/a/b?c=d?e#f"), ("h:8", "/a/b", "c=d?e"));
    assert_eq!(split_url("http://h"), ("h", "/", ""));
    assert_eq!(split_url("http://h?x=/y"), ("h", "/", "x=/y"));
}

#[test]
fn the_time_for_a_body_follows_from_its_length_and_the_documented_minimum_rate() {
    let seconds = |declared| longest_body_time_ms(declared, 8 * 1024 * 1024) / 1_000;
    assert_eq!([Some(0), Some(1), Some(64 * 1024), Some(64 * 1024 + 1)].map(seconds), [0, 15, 15, 30]);
    assert_eq!([seconds(None), seconds(Some(8 << 20)), seconds(Some(u64::MAX))], [1_920; 3], "8 MiB is the limit");
}
