//! Push subscriptions, the VAPID key pair, the push log, and the visibility of web clients.

use std::collections::HashSet;

use crate::support::prelude::*;
use crate::support::pushes::{Browser, ENDPOINT, header, pending};
use crate::support::web::parse_event;
use session_gateway_hub::hub::core::config::PushConfig;
use session_gateway_hub::hub::core::push::queue::PUSH_COOLDOWN_MS;
use session_gateway_hub::push::from_base64url;
use session_gateway_hub::push::vapid::VapidKeys;

/// The time after which a second `Ready` notification of a session is sent.
const AFTER_COOLDOWN_MS: u64 = PUSH_COOLDOWN_MS + 1_000;

fn world_with_config(push: PushConfig) -> World {
    World::with_push_config("team", Arc::new(Sqlite::with_schema()), push)
}

async fn public_key(world: &World) -> String {
    world.get("/api/push/vapid-public-key").await.ok()["publicKey"].as_str().unwrap().to_owned()
}

/// The claims of the JWT in an `Authorization` header.
fn claims(authorization: &str) -> Value {
    let payload = authorization.split('.').nth(1).unwrap();
    serde_json::from_slice(&from_base64url(payload).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn concurrent_hubs_use_the_same_generated_key_pair() {
    let world = World::new();
    let neighbour = world.neighbour();
    // The hubs of two namespaces share the database. Both find no key pair before either stores one.
    world.db.hold_results(BatchKind::Reads);
    let requests = [&world, &neighbour].map(|world| world.start("GET", "/api/push/vapid-public-key", ""));
    run_until_idle().await;
    world.db.release_results();
    let keys = each(requests, async |request| request.reply().await.ok()["publicKey"].clone()).await;
    assert_eq!(keys[0], keys[1]);
    assert_eq!(world.db.number("SELECT count(*) FROM secrets"), 1);
    world.hibernate_and_wake().await;
    assert_eq!(public_key(&world).await, keys[0]);
    assert_eq!(from_base64url(keys[0].as_str().unwrap()).unwrap().len(), 65);
}

#[tokio::test(start_paused = true)]
async fn key_generation_and_push_requests_fail_without_a_random_source() {
    let world = World::new();
    world.rt.fail_random();
    world.get("/api/push/vapid-public-key").await.assert_error(503, "hub_unavailable");
    assert_eq!(world.db.number("SELECT count(*) FROM secrets"), 0);
    let world = world_with_config(PushConfig { keys: VapidKeys::from_bytes(&[9; 32]), ..PushConfig::default() });
    let (session, mut cli) = world.active_session("/code").await;
    Browser::subscribed(&world, "https://a.com/1", 1).await;
    world.rt.fail_random();
    cli.send_ready(&session).await;
    assert!(world.pushes_after(1).await.is_empty());
    assert_eq!(world.push_log().await[0]["failures"][0]["reason"], "The platform's random source failed. Try again.");
}

#[tokio::test(start_paused = true)]
async fn ids_are_unique_even_if_the_random_source_fails() {
    let world = World::new();
    world.rt.fail_random();
    let mut sessions = HashSet::new();
    for number in 0..40 {
        let session = world.create_session(&format!("/code/{number}")).await;
        assert!(sessions.insert(session.clone()), "{session} is a duplicate");
    }
    // Answers to two concurrent calls are matched by their acknowledgement ids.
    let session = sessions.iter().next().unwrap();
    let mut cli = world.live_cli(session).await;
    cli.register("listSkills").await;
    let path = format!("/api/sessions/{session}/skills");
    let requests = [(), ()].map(|()| world.start("GET", &path, ""));
    let calls = [cli.next_call().await, cli.next_call().await];
    for (number, call) in calls.iter().enumerate().rev() {
        cli.respond(call, &json!({"success": true, "skills": [{"name": number.to_string()}]}));
    }
    for (number, request) in requests.into_iter().enumerate() {
        assert_eq!(request.reply().await.ok()["skills"][0]["name"], number.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn push_requests_use_the_configured_key_pair_and_subject() {
    let keys = VapidKeys::from_bytes(&[9; 32]).unwrap();
    let subject = Some("mailto:ops@example.org".to_owned());
    let world = world_with_config(PushConfig { keys: Some(keys.clone()), subject, ..PushConfig::default() });
    assert_eq!(public_key(&world).await, keys.public());
    assert_eq!(world.db.number("SELECT count(*) FROM secrets"), 0);
    let (session, mut cli) = world.active_session("/code").await;
    for (number, endpoint) in [(1, "https://a.com/1"), (2, "https://a.com/2"), (3, "https://b.com:8443/3")] {
        Browser::subscribed(&world, endpoint, number).await;
    }
    cli.send_ready(&session).await;
    let requests = world.pushes_after(1).await;
    let tokens: Vec<&str> = requests.iter().map(|request| header(request, "Authorization")).collect();
    assert_eq!(tokens[0], tokens[1], "endpoints of one origin get the same token");
    assert!(tokens[0].ends_with(&format!(", k={}", keys.public())));
    let [a, b] = [claims(tokens[0]), claims(tokens[2])];
    assert_eq!(
        (&a["aud"], &b["aud"], &a["sub"]),
        (&json!("https://a.com"), &json!("https://b.com:8443"), &json!("mailto:ops@example.org"))
    );
    assert_eq!(a["exp"], world.now() / 1000 + 12 * 3600);
}

#[tokio::test(start_paused = true)]
async fn the_default_subject_is_the_origin_of_the_subscribe_request() {
    for (host, subject) in [("hub.example.org", json!("https://hub.example.org")), ("127.0.0.1:8787", Value::Null)] {
        let (world, session, mut cli) = live_session().await;
        let body = Browser::new("https://a.com/1", 1).subscription().to_string();
        let request = http::Request::post("/api/push/subscribe").header("host", host).body(body.into()).unwrap();
        assert_eq!(session_gateway_hub::http::respond(&world.hub(), request).await.status(), 200);
        cli.send_ready(&session).await;
        assert_eq!(claims(header(&world.pushes_after(1).await[0], "Authorization"))["sub"], subject, "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_subscription_is_written_only_if_its_keys_changed() {
    let world = World::new();
    let browser = Browser::subscribed(&world, "https://a.com/1", 1).await;
    let writes = world.db.write_count();
    world.post("/api/push/subscribe", &browser.subscription()).await.ok();
    assert_eq!(world.db.write_count(), writes);
    let browser = Browser::subscribed(&world, "https://a.com/1", 2).await;
    assert_eq!(world.db.number("SELECT count(*) FROM push_subscriptions"), 1);
    let session = world.create_session("/code").await;
    world.live_cli(&session).await.send_ready(&session).await;
    assert_eq!(browser.read(&world.pushes_after(1).await[0])["title"], "Session Ready");
}

#[tokio::test(start_paused = true)]
async fn an_unsubscribed_browser_gets_no_notifications_and_can_unsubscribe_again() {
    let world = World::new();
    Browser::subscribed(&world, "https://a.com/1", 1).await;
    for _ in 0..2 {
        let reply = world.request("DELETE", "/api/push/subscribe", r#"{"endpoint":"https://a.com/1"}"#).await;
        assert_eq!(reply.ok(), json!({"ok": true}));
    }
    let session = world.create_session("/code").await;
    world.live_cli(&session).await.send_ready(&session).await;
    assert!(world.pushes_after(1).await.is_empty());
    assert_eq!(world.push_log().await, <[Value; 0]>::default(), "without subscriptions nothing is logged");
}

#[tokio::test(start_paused = true)]
async fn a_browser_that_unsubscribes_while_its_push_request_is_queued_gets_no_notification() {
    let world = World::new();
    // Push requests to two unresponsive services use all slots, so the request to the last subscriber is queued.
    world.rt.hang_pushes("https://silent");
    for number in 1..=5 {
        Browser::subscribed(&world, &format!("https://silent{}.com/{number}", number % 2), number).await;
    }
    world.advance(1).await;
    Browser::subscribed(&world, "https://a.com/1", 7).await;
    let session = world.create_session("/code").await;
    world.live_cli(&session).await.send_ready(&session).await;
    assert_eq!(world.pushes_after(1).await.len(), 5);
    world.request("DELETE", "/api/push/subscribe", r#"{"endpoint":"https://a.com/1"}"#).await.ok();
    world.rt.time_out_pushes();
    run_until_idle().await;
    assert!(world.rt.take_pushes().is_empty());
    let log = &world.push_log().await[0];
    assert_eq!(log["waiting"], 5, "the requests that timed out are sent again later: {log}");
    assert_eq!(log["failures"][0]["service"], "https://a.com", "the unsubscribed browser counts as failed: {log}");
}

#[tokio::test(start_paused = true)]
async fn the_oldest_subscription_is_deleted_when_the_limit_is_exceeded() {
    let world = world_with_config(PushConfig { max_subscriptions: 3, ..PushConfig::default() });
    for number in 1..=5 {
        Browser::subscribed(&world, &format!("https://a.com/{number}"), number).await;
        world.advance(1).await;
    }
    let endpoints = world.db.select("SELECT group_concat(endpoint, ' ' ORDER BY endpoint) FROM push_subscriptions");
    assert_eq!(endpoints[0][0], "https://a.com/3 https://a.com/4 https://a.com/5".into());
}

#[tokio::test(start_paused = true)]
async fn each_namespace_has_its_own_subscribers_and_log() {
    let world = World::new();
    let neighbour = world.neighbour();
    Browser::subscribed(&neighbour, "https://a.com/neighbour", 1).await;
    let session = world.create_session("/code").await;
    world.live_cli(&session).await.send_ready(&session).await;
    assert!(world.pushes_after(1).await.is_empty() && neighbour.rt.take_pushes().is_empty());
    assert_eq!((world.outcomes_newest_first().await.len(), neighbour.outcomes_newest_first().await.len()), (1, 0));
    world.request("DELETE", "/api/push/subscribe", r#"{"endpoint":"https://a.com/neighbour"}"#).await.ok();
    assert_eq!(world.db.number("SELECT count(*) FROM push_subscriptions"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_browser_can_have_subscriptions_in_two_namespaces() {
    let world = World::new();
    let neighbour = world.neighbour();
    for world in [&world, &neighbour] {
        Browser::subscribed(world, "https://a.com/1", 1).await;
    }
    // The response to a push of one namespace does not affect the other namespace.
    world.rt.respond_to_pushes("https://a.com/1", &[(410, None)]);
    let session = world.create_session("/code").await;
    world.live_cli(&session).await.send_ready(&session).await;
    world.advance(1).await;
    assert_eq!(world.outcomes_newest_first().await, ["failed"]);
    let remaining = world.db.select("SELECT namespace FROM push_subscriptions");
    assert_eq!(remaining, [["neighbour".into()]]);
    let session = neighbour.create_session("/code").await;
    neighbour.live_cli(&session).await.send_ready(&session).await;
    neighbour.advance(1).await;
    assert_eq!(neighbour.outcomes_newest_first().await, ["sent"]);
}

#[tokio::test(start_paused = true)]
async fn the_log_names_push_services_but_no_endpoint_paths_or_keys() {
    let world = world_with_config(PushConfig { allows_insecure_endpoints: true, ..PushConfig::default() });
    let browsers = [
        ("https://gone.com/capability-a?x=capability-b", (410, None)),
        ("https://busy.com:8443/capability-c", (503, None)),
        ("https://refuses.com/capability-d", (403, None)),
        ("https://disconnects.com/capability-e", (0, None)),
        ("http://127.0.0.1:9/capability-f", (429, Some("86400"))),
    ];
    let mut secrets = vec!["capability".to_owned()];
    for (number, (endpoint, response)) in (1..).zip(browsers) {
        world.rt.respond_to_pushes(endpoint, &[response]);
        let keys = Browser::subscribed(&world, endpoint, number).await.subscription()["keys"].clone();
        secrets.extend(["p256dh", "auth"].map(|name| keys[name].as_str().unwrap().to_owned()));
    }
    let session = world.create_session("/code").await;
    world.live_cli(&session).await.send_ready(&session).await;
    world.advance(1).await;
    let log = world.get("/api/push/log").await.text;
    let services =
        "https://gone.com https://busy.com:8443 https://refuses.com https://disconnects.com http://127.0.0.1:9";
    assert!(services.split(' ').all(|service| log.contains(&format!("\"{service}\""))), "{log}");
    let leak = secrets.iter().find(|secret| log.contains(secret.as_str()));
    assert_eq!(leak, None, "{log}");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_validated_before_each_push_request() {
    let world = world_with_config(PushConfig { allows_insecure_endpoints: true, ..PushConfig::default() });
    Browser::subscribed(&world, "http://127.0.0.1:9/x", 1).await;
    // The hub now has a configuration that does not allow local endpoints.
    let redeployed = World::in_namespace("team", Arc::clone(&world.db));
    Browser::subscribed(&redeployed, "https://a.com/1", 2).await;
    let session = redeployed.create_session("/code").await;
    redeployed.live_cli(&session).await.send_ready(&session).await;
    redeployed.advance(1).await;
    let urls: Vec<String> = redeployed.rt.take_pushes().into_iter().map(|request| request.uri().to_string()).collect();
    assert_eq!(urls, ["https://a.com/1"]);
    assert_eq!(redeployed.push_log().await[0]["failures"][0]["service"], "http://127.0.0.1:9");
}

#[tokio::test(start_paused = true)]
async fn notifications_are_pushed_again_after_a_visible_page_is_hidden() {
    let world = World::new();
    Browser::subscribed(&world, "https://a.com/1", 1).await;
    let (session, mut cli) = world.active_session("/code").await;
    let mut socket = world.open_event_stream("visibility=visible", None, Default::default()).await.unwrap();
    let first: Value = serde_json::from_str(&socket.next_text().await).unwrap();
    cli.send_ready(&session).await;
    world.advance(AFTER_COOLDOWN_MS).await;
    let id = &first["data"]["subscriptionId"];
    world.post("/api/visibility", &json!({"subscriptionId": id, "visibility": "hidden"})).await.ok();
    cli.send_ready(&session).await;
    assert_eq!(world.pushes_after(1).await.len(), 1);
    assert_eq!(world.outcomes_newest_first().await, ["sent", "toast"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_stops_acknowledging_heartbeats_counts_as_hidden() {
    let world = World::new();
    Browser::subscribed(&world, "https://a.com/1", 1).await;
    let session = world.create_session("/code").await;
    let notify = async || world.live_cli(&session).await.send_ready(&session).await;
    let mut web = world.web("visibility=visible").await;
    for _ in 0..4 {
        world.advance(30_000).await;
        assert_eq!(web.next_event_of("heartbeat").await["type"], "heartbeat");
        web.acknowledge_heartbeat();
        world.hibernate_and_wake().await;
    }
    notify().await;
    world.advance(1).await;
    assert_eq!(world.outcomes_newest_first().await, ["toast"], "a page that acknowledges heartbeats is visible");
    web.types().await; // Discards the toast.
    // The socket stays open without acknowledgements, as after the laptop was closed.
    world.advance(90_000).await;
    notify().await;
    world.advance(AFTER_COOLDOWN_MS).await;
    assert_eq!(world.outcomes_newest_first().await[0], "sent");
    assert!(!web.types().await.contains(&"toast".to_owned()), "a page without acknowledgements gets no toast");
    web.acknowledge_heartbeat();
    run_until_idle().await;
    notify().await;
    world.advance(1).await;
    assert_eq!(world.outcomes_newest_first().await[0], "toast", "an acknowledgement makes it visible again");
}

#[tokio::test(start_paused = true)]
async fn the_visibility_of_an_sse_client_expires_after_15_minutes() {
    let world = World::new();
    Browser::subscribed(&world, "https://a.com/1", 1).await;
    let session = world.create_session("/code").await;
    let mut stream = world.open_event_stream("visibility=visible", None, Format::Sse).await.unwrap();
    let first = parse_event(&stream.next_text().await);
    let visible = json!({"subscriptionId": first["data"]["subscriptionId"], "visibility": "visible"});
    world.advance(890_000).await;
    world.post("/api/visibility", &visible).await.ok();
    for (passed, outcome) in [(890_000, "toast"), (20_000, "sent")] {
        world.advance(passed).await;
        world.live_cli(&session).await.send_ready(&session).await;
        world.advance(1).await;
        assert_eq!(world.outcomes_newest_first().await[0], outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn a_toast_is_not_replayed() {
    let (world, session, mut cli) = live_session().await;
    let mut web = world.web("visibility=visible").await;
    cli.send_message(&session, "hello").await;
    cli.emit_with_ack("session-alive", &json!({"sid": session, "time": world.now(), "thinking": true})).await;
    let before = web.events().await.last().unwrap()["eventId"].as_str().unwrap().to_owned();
    cli.send_ready(&session).await;
    world.advance(1).await;
    assert!(web.types().await.contains(&"toast".to_owned()));
    let mut reconnected =
        world.open_event_stream("visibility=visible", Some(&before), Default::default()).await.unwrap();
    let received: Vec<_> = reconnected.drain().await;
    assert!(!format!("{received:?}").contains("toast"), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn the_log_has_the_last_100_notifications_even_after_hibernation() {
    let world = World::new();
    Browser::subscribed(&world, "https://a.com/1", 1).await;
    let (session, mut cli) = world.active_session("/code").await;
    for round in 0..120 {
        if round == 60 {
            world.hibernate_and_wake().await;
        }
        cli.send_ready(&session).await;
        world.advance(1).await;
    }
    let log = world.push_log().await;
    assert_eq!(log.len(), 100);
    assert!(log.is_sorted_by(|a, b| a["at"].as_u64() > b["at"].as_u64()), "the newest entry is the first");
    assert_eq!(log[0]["at"], world.now() - 1);
}

#[tokio::test(start_paused = true)]
async fn a_notification_is_sent_to_two_hundred_subscribers() {
    let world = world_with_config(PushConfig { max_subscriptions: 200, ..PushConfig::default() });
    for number in 1..=200 {
        Browser::subscribed(&world, &format!("https://a.com/{number}"), number).await;
    }
    let session = world.create_session("/code").await;
    world.live_cli(&session).await.send_ready(&session).await;
    assert_eq!(world.pushes_after(1).await.len(), 200);
    assert_eq!(world.push_log().await[0]["sent"], 200);
}

#[tokio::test(start_paused = true)]
async fn without_subscriptions_notifications_write_nothing_to_storage() {
    for visibility in ["visible", "hidden"] {
        let world = World::new();
        let (session, mut cli) = world.active_session("/code/demo").await;
        let mut web = world.web(&format!("visibility={visibility}")).await;
        cli.send_ready(&session).await;
        world.advance(6_000).await;
        web.events().await;
        assert_eq!(world.push_log().await.len(), 1, "the first notification finds out that there is no subscription");
        let (stored, writes) = (world.rt.stored_entries(), world.rt.kv_writes());
        cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
        world.advance(600).await;
        for _ in 0..3 {
            cli.send_ready(&session).await;
        }
        world.advance(6_000).await;
        assert_eq!(world.rt.kv_writes(), writes, "{visibility}");
        let new = world.rt.stored_entries().into_iter().find(|entry| stored.get(&entry.0) != Some(&entry.1));
        assert_eq!(new, None, "{visibility}");
        let toasts = web.types().await.into_iter().filter(|kind| kind == "toast").count();
        assert_eq!(toasts, if visibility == "visible" { 2 } else { 0 }, "a request, and one of three within 5 s");
        // A browser that subscribes gets the next notification.
        let browser = Browser::subscribed(&world, ENDPOINT, 1).await;
        web.0.close();
        world.advance(6_000).await;
        cli.send_ready(&session).await;
        assert_eq!(browser.read_one(&world.pushes_after(1).await)["title"], "Session Ready");
    }
}
