//! Every route times every status that it refuses with: what is refused, in which words, and what comes first when much is
//! wrong at once. The table is in `support/routes.rs`; what can be wrong with a field is in `fields.rs`.

use std::collections::BTreeSet;

use crate::support::World;
use crate::support::edge::EdgeRequest;
use crate::support::route::{Given, Of, Route};
use crate::support::route_fixture::Scene;
use crate::support::routes::{EDGE_ROUTES, ROUTES};
use crate::support::sqlite::BatchKind;
use session_gateway_hub::store::DbError;

/// Every status with which the hub refuses, by the specification and the decisions. (429 is the rate limiter's, which
/// the runtime brings.)
const STATUSES: [u16; 11] = [400, 401, 403, 404, 405, 408, 409, 413, 500, 503, 504];

fn table() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().chain(EDGE_ROUTES)
}

/// The routes as the source names them.
fn routes_of_the_source() -> BTreeSet<(String, String)> {
    let router = include_str!("../../../src/http/mod.rs");
    let mut routes = BTreeSet::new();
    for entry in router.split(".route(").skip(1) {
        let (path, handlers) = entry.trim_start().strip_prefix('"').unwrap().split_once('"').unwrap();
        let handlers = handlers.split(".method_not_allowed_fallback").next().unwrap();
        for method in ["get", "post", "put", "patch", "delete"] {
            if handlers.contains(&format!("{method}(")) {
                routes.insert((method.to_uppercase(), path.to_owned()));
            }
        }
    }
    routes
}

/// The paths that the worker's sorting names.
fn paths_of_the_edge() -> BTreeSet<String> {
    let edge = include_str!("../../../src/http/edge.rs");
    let arms = edge.lines().map(str::trim).filter(|line| line.starts_with("\"/") && line.contains("=>"));
    arms.flat_map(|arm| arm.split("=>").next().unwrap().split('|'))
        .map(|path| path.trim().trim_matches('"').to_owned())
        .collect()
}

#[test]
fn every_route_of_the_hub_has_its_row_and_every_row_is_a_route_of_the_hub() {
    let rows: BTreeSet<_> = ROUTES.iter().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
    assert_eq!(rows, routes_of_the_source());
    let rows: BTreeSet<_> = EDGE_ROUTES.iter().map(|route| route.path.to_owned()).collect();
    assert_eq!(rows, paths_of_the_edge());
}

#[test]
fn every_status_that_the_specification_names_has_its_row() {
    for route in table() {
        for status in route.specified {
            assert!(route.may_answer(*status), "{} {}: {status}", route.method, route.path);
        }
    }
    let answered: BTreeSet<u16> = table().flat_map(Route::refusals).map(|refusal| refusal.status).collect();
    assert!(answered.into_iter().eq(STATUSES), "each is a refusal of some route, and there is no other");
}

#[test]
fn every_refusal_stands_in_the_protocol() {
    let protocol = include_str!("../../../docs/PROTOCOL.md");
    for refusal in table().flat_map(Route::refusals) {
        let (status, code) = (format!("| {} |", refusal.status), format!("`{}`", refusal.code));
        let told = protocol.lines().any(|line| line.starts_with(&status) && line.contains(&code));
        assert!(told, "docs/PROTOCOL.md does not say when {status} {code} comes");
    }
}

/// What the description of an answer says, found by the indentation of `docs/openapi.yaml`.
fn described<'a>(api: &'a str, route: &Route, status: u16) -> Option<&'a str> {
    let after = |text: &'a str, key: &str| text.split_once(key).map(|(_, rest)| rest);
    let of_path = after(api, &format!("\n  {}:\n", route.path))?;
    let of_method = after(of_path, &format!("    {}:\n", route.method.to_lowercase()))?;
    let of_method = of_method.lines().take_while(|line| line.is_empty() || line.starts_with("      "));
    let status = format!("        '{status}': {{ $ref: '#/components/responses/");
    let name = of_method.filter_map(|line| line.strip_prefix(&status)).find_map(|rest| rest.split('\'').next())?;
    after(api, &format!("\n    {name}:\n      description: "))?.lines().next()
}

#[test]
fn every_refusal_stands_in_the_machine_readable_description() {
    let api = include_str!("../../../docs/openapi.yaml");
    // A CLI's socket is no matter of OpenAPI, and what is true of all paths is told once, at the top.
    let routes = || table().filter(|route| !route.path.starts_with("/socket.io"));
    for (route, refusal) in routes().flat_map(|route| route.refusals().into_iter().map(move |refusal| (route, refusal)))
    {
        if refusal.status == 405 {
            continue;
        }
        let told = described(api, route, refusal.status);
        let asked = format!("{} {}", route.method, route.path);
        let code = format!("`{}`", refusal.code);
        assert!(
            told.is_some_and(|told| told.contains(&code)),
            "docs/openapi.yaml, {asked}: {} {code}, but {told:?}",
            refusal.status
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_route_does_what_it_is_for_when_nothing_is_wrong() {
    for route in table() {
        let reply = Scene::of(route).await.done().await;
        assert_eq!(reply.status, 200, "{} {}: {reply:?}", route.method, route.path);
    }
}

#[tokio::test(start_paused = true)]
async fn every_route_refuses_what_it_has_to_with_its_status_and_code() {
    let mut mistakes = Vec::new();
    for route in table() {
        let mut scene = Scene::of(route).await;
        for refusal in route.refusals() {
            for given in refusal.given {
                let reply = match given.is_refused_at_once() {
                    true => scene.provoke(*given).await,
                    false => Scene::of(route).await.provoke(*given).await,
                };
                let mistake = reply.error_mismatch(refusal.status, refusal.code, refusal.field);
                mistakes
                    .extend(mistake.map(|mistake| format!("{} {}, {given:?}: {mistake}", route.method, route.path)));
            }
        }
        scene.nothing_came_of_it().await;
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_known_path_says_which_methods_it_takes() {
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "get"];
    for route in table().filter(|route| !route.path.starts_with("/socket.io")) {
        let scene = Scene::of(route).await;
        let taken: BTreeSet<&str> =
            table().filter(|other| other.path == route.path).map(|other| other.method).collect();
        // OPTIONS is for browsers of other origins, and answered with what they may.
        let open = if route.path == "/health" { "" } else { "OPTIONS" };
        for method in methods.into_iter().filter(|method| !taken.contains(method) && *method != open) {
            let reply = scene.world.send_to_edge(EdgeRequest { method: method.into(), ..scene.good() }).reply().await;
            reply.assert_error(405, "method_not_allowed");
            let allow = reply.headers["allow"].to_str().unwrap();
            let allowed: BTreeSet<&str> = allow.split(',').map(str::trim).filter(|method| *method != "HEAD").collect();
            assert_eq!(allowed, taken, "{method} {}", route.path);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_none_is_a_404() {
    let world = World::new();
    let session = world.create_session("/code").await;
    let below = format!("/api/sessions/{session}/nothing");
    let nowhere = [
        "/",
        "/nothing",
        "/api",
        "/api/",
        "/api/nothing",
        "/api/sessions/",
        "/API/sessions",
        "/cli",
        "/cli/nothing",
        "/apis",
        "//api/sessions",
        "/api//sessions",
        "/api/sessions/s/permissions/r",
        "/api/machines/m/nothing",
        "/api/sessions%2Fs",
        "/health/",
        "/socket.io/x",
        "/%61pi/sessions",
        &below,
    ];
    for path in nowhere {
        for method in ["GET", "POST", "DELETE"] {
            let token = Some(world.token());
            let asked = EdgeRequest { method: method.into(), url: path.into(), token, ..EdgeRequest::default() };
            world.send_to_edge(asked).reply().await.assert_error(404, "not_found");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_events_is_asked_for_by_somebody_before_anything_else_is_looked_at() {
    let route = EDGE_ROUTES.iter().find(|route| route.path == "/api/events").unwrap();
    let scene = Scene::of(route).await;
    let ask = async |query: &str| {
        let url = format!("/api/events?{}", scene.named(query));
        scene.world.send_to_edge(EdgeRequest { url, token: None, ..scene.good() }).reply().await
    };
    for nobody in ["", "token=wrong", "all=1&all=1", "token=", "token=$token&token=$token", "sessionId=%ff"] {
        ask(nobody).await.assert_error(401, "unauthorized");
    }
    ask("token=$token&sessionId=none&visibility=x").await.assert_error(404, "session_not_found");
    ask("token=$token&sessionId=$foreign_session&visibility=x").await.assert_error(403, "forbidden");
    for (query, field) in
        [("all=1&all=1", "all"), ("sessionId=$session&visibility=x", "visibility"), ("machineId=%ff", "machineId")]
    {
        assert_eq!(ask(&format!("token=$token&{query}")).await.assert_error(400, "invalid_field")["field"], field);
    }
    assert_eq!(ask("token=$token").await.status, 200);
}

/// What comes first when everything is wrong at once: each fault is mended in turn, and the next one comes up.
#[tokio::test(start_paused = true)]
async fn of_several_faults_the_first_in_the_documented_order_is_told() {
    for route in ROUTES.iter().filter(|route| route.path.contains("{id}")) {
        let mut scene = Scene::in_the_wrong_state(route).await;
        scene.world.hibernate_and_wake().await;
        scene.world.db.fail_all(BatchKind::Reads, DbError::TimedOut("D1 did not answer in time".into()));
        let good = scene.good();
        let foreign = if route.of == Of::Machine { "$foreign_machine" } else { "$foreign_session" };
        let bad_query = route.query.first().map(|param| param.faults()[0].0.clone()).unwrap_or_default();
        let url = |id: &str| format!("{}?{bad_query}", scene.path(id).replace("/r1/", "/r2/"));
        let of_own = good.url.split('?').next().unwrap().replace("/r1/", "/r2/");
        let body = if route.body.is_empty() { vec![] } else { b"[]".to_vec() };
        let all_wrong = EdgeRequest { token: None, url: url("nobody"), body, ..good.clone() };

        let ask = async |asked: &EdgeRequest| scene.world.send_to_edge(asked.clone()).reply().await;
        ask(&all_wrong).await.assert_error(401, "unauthorized");
        let wrong_id = EdgeRequest { token: good.token.clone(), ..all_wrong };
        ask(&wrong_id).await.assert_error(503, "hub_unavailable");
        scene.world.db.repair();
        assert_eq!(ask(&wrong_id).await.status, 404, "{} {}", route.method, route.path);
        let foreign_id = EdgeRequest { url: url(&scene.named(foreign)), ..wrong_id };
        ask(&foreign_id).await.assert_error(403, "forbidden");
        let wrong_input = EdgeRequest { url: format!("{of_own}?{bad_query}"), ..foreign_id };
        if !(route.body.is_empty() && route.query.is_empty()) {
            assert_eq!(ask(&wrong_input).await.status, 400, "{} {}", route.method, route.path);
        }
        let wrong_state = EdgeRequest { url: of_own, body: good.body, ..wrong_input };
        if let Some(conflict) = route.particular.iter().find(|refusal| refusal.given == [Given::WrongState]) {
            ask(&wrong_state).await.assert_error(409, conflict.code);
        }
        scene.nothing_came_of_it().await;
    }
}
