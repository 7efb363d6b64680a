//! What an operator sees of a namespace: its status and its metrics.

use crate::support::World;
use crate::support::run_until_idle;
use crate::support::sqlite::{BatchKind, permanent_error};
use crate::support::worker_edge::{edge, head, respond, route, with_token};
use serde_json::{Value, json};
use session_gateway_hub::http::edge::{Action, MetricsToken, RequestHead};

const METRICS_TOKEN: &str = "a-token-for-metrics";

async fn status(world: &World) -> Value {
    world.get("/api/status").await.ok()
}

/// Returns the value of a line of the metrics.
fn metric(world: &World, name: &str) -> u64 {
    let text = world.hub().metrics_text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned);
    line.unwrap_or_else(|| panic!("{name} is missing:\n{text}")).parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_status_counts_what_the_namespace_has_and_names_its_versions() {
    let world = World::new();
    let empty = status(&world).await;
    assert_eq!(empty["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&empty["protocolVersion"], &empty["sessions"]), (&json!(1), &json!({"total": 0, "active": 0})));
    let session = world.create_session("/one").await;
    world.create_session("/two").await;
    let mut cli = world.live_cli(&session).await;
    for text in ["a", "b", "c"] {
        assert_eq!(cli.send_message(&session, text).await["ok"], true);
    }
    assert_eq!(status(&world).await["sessions"], empty["sessions"], "a flood of requests counts once in two seconds");
    world.advance(2_000).await;
    let found = status(&world).await;
    assert_eq!(found["sessions"], json!({"total": 2, "active": 1}));
    assert_eq!((&found["messages"], &found["sockets"]), (&json!(3), &json!({"clis": 1, "webClients": 0})));
    assert_eq!(found["database"], json!({"isStalled": false, "queuedBytes": 0}));
    assert_eq!((&found["faults"], &found["pushes"]), (&json!([]), &json!([])));
    assert_eq!(found["hash"].as_str().map(str::len), Some(12));
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_the_latest_faults_without_any_content() {
    let world = World::new();
    let session = world.create_session("/one").await;
    let mut cli = world.live_cli(&session).await;
    world.db.fail(BatchKind::Writes, permanent_error());
    cli.send_message(&session, "a secret").await;
    run_until_idle().await;
    let found = status(&world).await;
    let fault = &found["faults"][0];
    assert_eq!(fault["line"]["event"], "commit-failed", "{found}");
    assert_eq!(fault["at"].as_u64(), Some(world.now()));
    assert!(!found.to_string().contains("a secret"), "{found}");
    assert_eq!(metric(&world, r#"hub_commits_total{outcome="failed"}"#), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_commits_events_and_sockets_are_in_the_metrics() {
    let world = World::new();
    let session = world.create_session("/one").await;
    let mut cli = world.live_cli(&session).await;
    world.get(&format!("/api/sessions/{session}/git-status")).await.ok();
    let _web = world.web("all=true").await;
    let commits = metric(&world, r#"hub_commits_total{outcome="written"}"#);
    let events = metric(&world, "hub_events_total");
    assert_eq!(cli.send_message(&session, "hello").await["ok"], true);
    assert_eq!(metric(&world, r#"hub_commits_total{outcome="written"}"#), commits + 1);
    assert!(metric(&world, "hub_events_total") > events);
    assert_eq!(metric(&world, r#"hub_sockets{kind="cli"}"#), 1);
    assert_eq!(metric(&world, r#"hub_rpc_calls_total{outcome="no_method"}"#), 1);
    assert_eq!(metric(&world, "hub_rpc_duration_seconds_count"), 1);
    assert_eq!(metric(&world, "hub_active_sessions"), 1);
}

#[tokio::test]
async fn metrics_need_their_own_token_and_do_not_exist_without_one() {
    let without = edge("token", "");
    let request = with_token("GET", "/metrics", METRICS_TOKEN);
    respond(&without, &request).await.assert_error(404, "not_found");
    let edge = edge("token", "").with_metrics_token(Some(MetricsToken::parse(METRICS_TOKEN.into()).unwrap()));
    assert!(matches!(route(&edge, &request).await, Action::Metrics(None)));
    let of_namespace = RequestHead { query: "namespace=team".into(), ..request.clone() };
    let Action::Metrics(Some(namespace)) = route(&edge, &of_namespace).await else { panic!() };
    assert_eq!(namespace.as_ref(), "team");
    for wrong in ["secret:team", "a-token-for-metric", ""] {
        respond(&edge, &with_token("GET", "/metrics", wrong)).await.assert_error(401, "unauthorized");
    }
    respond(&edge, &head("GET", "/metrics")).await.assert_error(401, "unauthorized");
    respond(&edge, &with_token("POST", "/metrics", METRICS_TOKEN)).await.assert_error(405, "method_not_allowed");
    for query in ["namespace=a%2Fb", "namespace=a&namespace=b"] {
        let request = RequestHead { query: query.into(), ..request.clone() };
        respond(&edge, &request).await.assert_error(400, "invalid_field");
    }
    assert!(MetricsToken::parse("short".into()).is_err_and(|error| error.contains("METRICS_TOKEN")));
}
