//! What an operator sees of a namespace: its status and its metrics.

use crate::support::prelude::*;
use crate::support::worker_edge::{edge, head, respond, route, with_token};
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
    let (session, mut cli) = world.active_session("/one").await;
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
    let (session, mut cli) = world.active_session("/one").await;
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

#[tokio::test(start_paused = true)]
async fn changes_that_wait_for_the_database_are_in_the_gauges_and_hold_memory_until_they_are_written() {
    let world = World::new();
    let neighbour = world.neighbour();
    let (session, mut cli) = world.active_session("/one").await;
    let gauges = |world: &World| {
        ["hub_queued_bytes", r#"hub_held_bytes{of="namespace"}"#, r#"hub_held_bytes{of="isolate"}"#]
            .map(|name| metric(world, name))
    };
    let [queued, held, isolate_held] = gauges(&world);
    assert_eq!((queued, isolate_held), (0, world.held_bytes() as u64));
    world.db.hold_results(BatchKind::Writes);
    let ack = cli.emit_for_ack("message", &json!({"sid": session, "message": "x".repeat(100_000)}));
    run_until_idle().await;
    let [waiting, waiting_held, _] = gauges(&world);
    assert!(waiting > 100_000 && waiting_held - held > 100_000, "{waiting} {held} {waiting_held}");
    let [of_neighbour, held_by_neighbour, of_both] = gauges(&neighbour);
    assert_eq!((of_neighbour, of_both), (0, waiting_held + held_by_neighbour));
    world.db.release_results();
    assert_eq!(cli.wait_for_ack(ack).await["ok"], true);
    run_until_idle().await;
    assert_eq!(gauges(&world)[..2], [0, held]);
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_repeated_after_a_fault_is_a_retry_in_the_metrics() {
    let world = World::new();
    assert_eq!(metric(&world, "hub_database_retries_total"), 0);
    for _ in 0..2 {
        world.db.fail(BatchKind::Reads, retryable_error());
    }
    let reply = world.start("GET", "/api/sessions", "");
    world.exhaust_retries().await;
    reply.reply().await.ok();
    assert_eq!(metric(&world, "hub_database_retries_total"), 2);
}

#[tokio::test(start_paused = true)]
async fn the_data_points_have_the_changes_once_and_the_gauges_of_the_text_in_its_order() {
    let world = World::new();
    assert!(world.hub().take_metrics().is_none(), "nothing has happened");
    let (_, _cli) = world.active_session("/one").await;
    let (hash, points) = world.hub().take_metrics().unwrap();
    assert_eq!(status(&world).await["hash"], hash.as_str());
    let text = world.hub().metrics_text();
    let mut kind = "";
    let mut expected = Vec::<f64>::new();
    for line in text.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(described) => kind = described.rsplit(' ').next().unwrap(),
            None if kind == "gauge" && !line.starts_with('#') => {
                expected.push(line.rsplit(' ').next().unwrap().parse().unwrap());
            }
            None => {}
        }
    }
    let [changes, gauges] = &points;
    assert_eq!(*gauges, expected, "{text}");
    assert_eq!((gauges[0], gauges[2]), (1.0, 1.0), "a CLI and an active session");
    assert!([changes, gauges].iter().all(|point| point.len() <= 20), "the platform allows 20 numbers");
    assert!(world.hub().take_metrics().is_none());
}

#[tokio::test]
async fn metrics_need_their_own_token_and_do_not_exist_without_one() {
    let without = edge("token", "");
    let request = with_token("GET", "/metrics", METRICS_TOKEN);
    respond(&without, &request).await.assert_error(404, "not_found");
    let mut edge = edge("token", "");
    edge.metrics_token = Some(MetricsToken::parse(METRICS_TOKEN.into()).unwrap());
    assert!(matches!(route(&edge, &request).await, Action::Metrics(None)));
    let of_namespace = RequestHead { query: "namespace=team".into(), ..request.clone() };
    let Action::Metrics(Some(namespace)) = route(&edge, &of_namespace).await else { panic!() };
    assert_eq!(namespace.as_str(), "team");
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
