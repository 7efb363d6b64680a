//! Authentication in the worker: access tokens, and the JWTs of web clients.

use crate::support::SECRET;
use crate::support::environment::FakeEnvironment;
use crate::support::prelude::*;
use crate::support::worker_edge::{
    edge, edge_with_db, edge_with_environment, head, object_namespace, respond, route, route_at, sign_in, with_token,
};
use session_gateway_hub::http::authentication::MAX_VERIFIED_TOKENS;
use session_gateway_hub::http::edge::{Action, RequestHead};
use session_gateway_hub::model::namespace::Namespace;

#[tokio::test]
async fn without_a_valid_token_every_protected_path_is_a_401() {
    let edge = edge("token", "");
    let paths = ["/api/sessions", "/api/sessions/s/messages", "/api/events", "/api/nothing", "/cli/sessions", "/cli/x"];
    for path in paths {
        let mut heads = vec![head("GET", path), head("POST", path)];
        for token in ["", "wrong", "wrong:team", "a.b.c", "secret:", "secret:te am", "SECRET"] {
            heads.push(with_token("GET", path, token));
        }
        heads.push(RequestHead { authorization: Some("Basic secret".into()), ..head("GET", path) });
        heads.push(RequestHead { authorization: Some(SECRET.into()), ..head("GET", path) });
        for head in heads {
            let reply = respond(&edge, &head).await;
            reply.assert_error(401, "unauthorized");
            assert_eq!(reply.headers["www-authenticate"], "Bearer", "{head:?}");
        }
    }
}

#[tokio::test]
async fn an_access_token_gives_access_to_its_namespace() {
    let edge = edge("token", "");
    assert_eq!(object_namespace(&edge, &with_token("GET", "/api/sessions", "secret:team")).await, "team");
    assert_eq!(object_namespace(&edge, &with_token("GET", "/api/sessions", "secret")).await, "default");
    assert_eq!(object_namespace(&edge, &with_token("POST", "/cli/sessions", "secret:team")).await, "team");
    let lowercase_scheme =
        RequestHead { authorization: Some("bearer secret:team".into()), ..head("GET", "/api/sessions") };
    assert_eq!(object_namespace(&edge, &lowercase_scheme).await, "team", "a scheme's case is ignored (RFC 9110)");
    let namespace_token = edge.authentication.access_tokens.namespace_token(&Namespace::parse("team").unwrap(), 0);
    assert_eq!(object_namespace(&edge, &with_token("GET", "/api/sessions", &namespace_token)).await, "team");
}

#[tokio::test]
async fn a_sign_in_returns_a_jwt_that_is_valid_for_fifteen_minutes_and_only_for_web_clients() {
    let edge = edge("token", "");
    let login = sign_in(&edge, r#"{"accessToken":"secret:team"}"#).await.ok();
    assert_eq!(login["namespace"], "team");
    assert!(login["user"]["id"].is_u64() && login["user"]["firstName"].is_string(), "{login}");
    let expires = login["expiresAt"].as_u64().unwrap();
    assert_eq!(expires, START + 15 * 60 * 1000);
    let token = login["token"].as_str().unwrap();
    assert_eq!(object_namespace(&edge, &with_token("GET", "/api/sessions", token)).await, "team");
    respond(&edge, &with_token("GET", "/cli/sessions/s", token)).await.assert_error(401, "unauthorized");
    let expired = route_at(&edge, &with_token("GET", "/api/sessions", token), expires).await;
    let Action::Respond(response) = expired else { panic!("{expired:?}") };
    Reply::of(response).assert_error(401, "unauthorized");
}

#[tokio::test]
async fn a_token_that_the_worker_has_evicted_from_its_cache_is_still_valid() {
    let edge = edge("token", "");
    for _ in 0..2 {
        for index in 0..=MAX_VERIFIED_TOKENS {
            let token = format!("secret:team-{index}");
            let namespace = object_namespace(&edge, &with_token("GET", "/cli/sessions/s", &token)).await;
            assert_eq!(namespace, format!("team-{index}"));
        }
    }
    respond(&edge, &with_token("GET", "/cli/sessions/s", "other:team-1")).await.assert_error(401, "unauthorized");
}

#[tokio::test]
async fn all_workers_use_the_jwt_secret_of_the_database() {
    let db = Arc::new(Sqlite::with_schema());
    let token =
        sign_in(&edge_with_db(&db, "token", ""), r#"{"accessToken":"secret:team"}"#).await.ok()["token"].clone();
    let other_worker = edge_with_db(&db, "token", "");
    let head = with_token("GET", "/api/sessions", token.as_str().unwrap());
    let action = route(&other_worker, &head).await;
    assert!(matches!(action, Action::Object(namespace, _) if namespace.as_str() == "team"));
    let other_hub = edge("token", "");
    let action = route(&other_hub, &head).await;
    assert!(matches!(action, Action::Respond(_)), "a token of another hub is rejected");
}

#[tokio::test]
async fn without_random_bytes_no_jwt_secret_is_stored_and_the_next_sign_in_creates_the_secret() {
    let db = Arc::new(Sqlite::with_schema());
    let without_random = edge_with_environment(&db, Arc::new(FakeEnvironment::default()));
    let body = r#"{"accessToken":"secret"}"#;
    sign_in(&without_random, body).await.assert_error(503, "hub_unavailable");
    let login = sign_in(&edge_with_db(&db, "token", ""), body).await.ok();
    let head = with_token("GET", "/api/sessions", login["token"].as_str().unwrap());
    assert_eq!(object_namespace(&edge_with_db(&db, "token", ""), &head).await, "default");
}

#[tokio::test]
async fn the_error_of_a_sign_in_names_the_cause() {
    let edge = edge("token", "");
    for token in ["wrong", "", "wrong:team", "secret:no such"] {
        let error = sign_in(&edge, &json!({"accessToken": token}).to_string()).await;
        error.assert_error(401, "invalid_access_token");
        assert_eq!(error.headers["www-authenticate"], "Bearer");
    }
    for body in ["{}", "", r#"{"accessToken":5}"#, r#"{"accessToken":null}"#] {
        assert_eq!(sign_in(&edge, body).await.assert_error(400, "invalid_field")["field"], "accessToken", "{body}");
    }
    for body in ["x", "[]", "null", "{"] {
        sign_in(&edge, body).await.assert_error(400, "invalid_body");
    }
    assert!(matches!(route(&edge, &head("POST", "/api/auth")).await, Action::Authenticate));
    respond(&edge, &head("GET", "/api/auth")).await.assert_error(405, "method_not_allowed");
}

#[tokio::test]
async fn the_error_of_a_sign_in_without_database_schema_names_the_command_to_run() {
    let edge = edge_with_db(&Arc::new(Sqlite::without_schema()), "token", "");
    let error = sign_in(&edge, r#"{"accessToken":"secret"}"#).await.assert_error(503, "hub_unavailable");
    assert!(error["error"].as_str().unwrap().contains("d1 migrations apply"), "{error}");
}
