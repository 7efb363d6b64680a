//! All error responses of every route, and their precedence. The table of routes is in `support/routes`; the tests of
//! invalid fields are in `fields.rs`.

use std::collections::BTreeSet;

use crate::support::edge::EdgeRequest;
use crate::support::edge_routes::EDGE_ROUTES;
use crate::support::prelude::*;
use crate::support::route::{Condition, Route, Scope};
use crate::support::route_fixture::RouteFixture;
use crate::support::routes::object_routes;

/// All error statuses of the hub except 429, which only the rate limiter of the platform returns.
const STATUSES: [u16; 13] = [400, 401, 403, 404, 405, 408, 409, 410, 413, 429, 500, 503, 504];

fn all_routes() -> impl Iterator<Item = &'static Route> {
    object_routes().chain(EDGE_ROUTES)
}

/// The routes in the source code.
fn routes_in_source() -> BTreeSet<(String, String)> {
    let source = include_str!("../../../src/http/mod.rs");
    let table = source.split("= routes! {").nth(1).unwrap().split("};").next().unwrap();
    let rows = table.lines().filter_map(|row| row.split_once("=>")?.0.trim().split_once(' '));
    rows.map(|(method, path)| (method.to_owned(), path.trim_matches('"').to_owned())).collect()
}

/// The paths in the router of the worker.
fn paths_of_edge() -> BTreeSet<String> {
    let edge = include_str!("../../../src/http/edge.rs");
    let arms = edge.lines().map(str::trim).filter(|line| line.starts_with("\"/") && line.contains("=>"));
    arms.flat_map(|arm| arm.split("=>").next().unwrap().split('|'))
        .map(|path| path.split(" if ").next().unwrap().trim().trim_matches('"').to_owned())
        .collect()
}

#[test]
fn the_table_has_exactly_the_routes_of_the_hub() {
    let rows: BTreeSet<_> = object_routes().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
    // The worker has this route of the object, too, because the token in its body is the only authentication.
    let is_of_both = |path: &str| path == "/api/answers";
    assert_eq!(rows, routes_in_source().into_iter().filter(|(_, path)| !is_of_both(path)).collect());
    let rows: BTreeSet<_> = EDGE_ROUTES.iter().map(|route| route.path.to_owned()).collect();
    assert_eq!(rows, paths_of_edge());
}

#[test]
fn the_table_has_every_specified_status() {
    for route in all_routes() {
        for status in route.specified_statuses {
            assert!(route.may_return(*status), "{} {}: {status}", route.method, route.path);
        }
    }
    let statuses: BTreeSet<u16> = all_routes().flat_map(Route::errors).map(|error| error.status).collect();
    assert!(statuses.into_iter().eq(STATUSES), "the table must have exactly these statuses");
}

#[test]
fn every_error_is_documented_in_the_protocol() {
    let protocol = include_str!("../../../docs/PROTOCOL.md");
    let (_, list) = protocol.split_once("<!-- errors -->").unwrap();
    let (list, _) = list.split_once("<!-- end -->").unwrap();
    for error in all_routes().flat_map(Route::errors) {
        let of_status = list.split_once(&format!("**{}**", error.status)).and_then(|(_, rest)| rest.split("**").next());
        let is_documented = of_status.is_some_and(|codes| codes.contains(&format!("`{}`", error.code)));
        assert!(is_documented, "docs/PROTOCOL.md does not document {} `{}`", error.status, error.code);
    }
}

/// Finds the description of a response by the indentation of `docs/openapi.yaml`.
fn find_description<'a>(api: &'a str, route: &Route, status: u16) -> Option<&'a str> {
    let after = |text: &'a str, key: &str| text.split_once(key).map(|(_, rest)| rest);
    let of_path = after(api, &format!("\n  {}:\n", route.path))?;
    let of_method = after(of_path, &format!("    {}:\n", route.method.to_lowercase()))?;
    let of_method = of_method.lines().take_while(|line| line.is_empty() || line.starts_with("      "));
    let status = format!("        '{status}': {{ $ref: '#/components/responses/");
    let name = of_method.filter_map(|line| line.strip_prefix(&status)).find_map(|rest| rest.split('\'').next())?;
    after(api, &format!("\n    {name}:\n      description: "))?.lines().next()
}

#[test]
fn every_error_is_documented_in_openapi() {
    let api = include_str!("../../../docs/openapi.yaml");
    // OpenAPI does not describe the sockets of CLIs, and has the 405 of all paths once, at the top.
    let routes = || all_routes().filter(|route| !route.path.starts_with("/socket.io"));
    for (route, error) in routes().flat_map(|route| route.errors().into_iter().map(move |error| (route, error))) {
        if error.status == 405 {
            continue;
        }
        let description = find_description(api, route, error.status);
        let request = format!("{} {}", route.method, route.path);
        let code = format!("`{}`", error.code);
        assert!(
            description.is_some_and(|text| text.contains(&code)),
            "docs/openapi.yaml, {request}: {} {code}, but {description:?}",
            error.status
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_valid_request_to_every_route_succeeds() {
    for route in all_routes() {
        let reply = RouteFixture::new(route).await.run_valid_request().await;
        assert_eq!(reply.status, 200, "{} {}: {reply:?}", route.method, route.path);
    }
}

#[tokio::test(start_paused = true)]
async fn every_condition_causes_its_error() {
    let mut mismatches = Vec::new();
    for route in all_routes() {
        let mut fixture = RouteFixture::new(route).await;
        for error in route.errors() {
            for condition in error.conditions {
                let reply = match condition.has_no_effect() {
                    true => fixture.run_with(*condition).await,
                    false => RouteFixture::new(route).await.run_with(*condition).await,
                };
                let mismatch = reply.error_mismatch(error.status, error.code, error.field);
                mismatches.extend(
                    mismatch.map(|mismatch| format!("{} {}, {condition:?}: {mismatch}", route.method, route.path)),
                );
            }
        }
        fixture.assert_no_effect().await;
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn the_allow_header_lists_the_supported_methods() {
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "get"];
    for route in all_routes().filter(|route| !route.path.starts_with("/socket.io")) {
        let fixture = RouteFixture::new(route).await;
        let supported: BTreeSet<&str> =
            all_routes().filter(|other| other.path == route.path).map(|other| other.method).collect();
        // OPTIONS is a CORS preflight.
        let preflight = if route.path == "/health" { "" } else { "OPTIONS" };
        for method in methods.into_iter().filter(|method| !supported.contains(method) && *method != preflight) {
            let reply = fixture
                .world
                .send_to_edge(EdgeRequest { method: method.into(), ..fixture.valid_request() })
                .reply()
                .await;
            reply.assert_error(405, "method_not_allowed");
            let allow = reply.headers["allow"].to_str().unwrap();
            let allowed: BTreeSet<&str> = allow.split(',').map(str::trim).filter(|method| *method != "HEAD").collect();
            assert_eq!(allowed, supported, "{method} {}", route.path);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_path_is_a_404() {
    let (world, session) = idle_session().await;
    let below = format!("/api/sessions/{session}/nothing");
    let paths = "/ /nothing /api /api/ /api/nothing /api/sessions/ /API/sessions /cli /cli/nothing /cliff /apis \
//api/sessions /api//sessions /api/sessions/s/permissions/r /api/machines/m/nothing /api/sessions%2Fs \
/health/ /socket.io/x /%61pi/sessions";
    for path in paths.split(' ').chain([below.as_str()]) {
        for method in ["GET", "POST", "DELETE"] {
            let token = Some(world.token());
            let request = EdgeRequest { method: method.into(), url: path.into(), token, ..EdgeRequest::default() };
            world.send_to_edge(request).reply().await.assert_error(404, "not_found");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn authentication_of_an_event_stream_takes_precedence_over_its_query() {
    let route = EDGE_ROUTES.iter().find(|route| route.path == "/api/events").unwrap();
    let fixture = RouteFixture::new(route).await;
    let send = async |query: &str| {
        let url = format!("/api/events?{}", fixture.substitute(query));
        fixture.world.send_to_edge(EdgeRequest { url, token: None, ..fixture.valid_request() }).reply().await
    };
    for unauthenticated in ["", "token=wrong", "all=1&all=1", "token=", "token=$token&token=$token", "sessionId=%ff"] {
        send(unauthenticated).await.assert_error(401, "unauthorized");
    }
    send("token=$token&sessionId=none&visibility=x").await.assert_error(404, "session_not_found");
    send("token=$token&sessionId=$foreign_session&visibility=x").await.assert_error(403, "forbidden");
    for (query, field) in
        [("all=1&all=1", "all"), ("sessionId=$session&visibility=x", "visibility"), ("machineId=%ff", "machineId")]
    {
        assert_eq!(send(&format!("token=$token&{query}")).await.assert_error(400, "invalid_field")["field"], field);
    }
    assert_eq!(send("token=$token").await.status, 200);
}

/// Sends a request with all errors, then corrects one error after the other.
#[tokio::test(start_paused = true)]
async fn the_response_to_several_errors_is_the_first_in_the_documented_order() {
    for route in object_routes().filter(|route| route.path.contains("{id}")) {
        let mut fixture = RouteFixture::in_wrong_state(route).await;
        fixture.world.hibernate_and_wake().await;
        fixture.world.db.fail_all(BatchKind::Reads, DbError::Unavailable("D1 did not answer in time".into()));
        let valid = fixture.valid_request();
        let foreign = if route.scope == Scope::Machine { "$foreign_machine" } else { "$foreign_session" };
        let invalid_query = route.query.first().map(|param| param.faults()[0].0.clone()).unwrap_or_default();
        let url = |id: &str| format!("{}?{invalid_query}", fixture.path(id).replace("/r1/", "/r2/"));
        let own_url = valid.url.split('?').next().unwrap().replace("/r1/", "/r2/");
        let body = if route.body.is_empty() { vec![] } else { b"[]".to_vec() };
        let all_invalid = EdgeRequest { token: None, url: url("unknown"), body, ..valid.clone() };

        let send = async |request: &EdgeRequest| fixture.world.send_to_edge(request.clone()).reply().await;
        send(&all_invalid).await.assert_error(401, "unauthorized");
        let unknown_id = EdgeRequest { token: valid.token.clone(), ..all_invalid };
        send(&unknown_id).await.assert_error(503, "hub_unavailable");
        fixture.world.db.repair();
        assert_eq!(send(&unknown_id).await.status, 404, "{} {}", route.method, route.path);
        let foreign_id = EdgeRequest { url: url(&fixture.substitute(foreign)), ..unknown_id };
        if route.scope != Scope::Device {
            send(&foreign_id).await.assert_error(403, "forbidden");
        }
        let invalid_input = EdgeRequest { url: format!("{own_url}?{invalid_query}"), ..foreign_id };
        if !(route.body.is_empty() && route.query.is_empty()) {
            assert_eq!(send(&invalid_input).await.status, 400, "{} {}", route.method, route.path);
        }
        let wrong_state = EdgeRequest { url: own_url, body: valid.body, ..invalid_input };
        if let Some(conflict) = route.extra_errors.iter().find(|error| error.conditions == [Condition::WrongState]) {
            send(&wrong_state).await.assert_error(409, conflict.code);
        }
        fixture.assert_no_effect().await;
    }
}
