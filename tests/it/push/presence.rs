//! Pushes and toasts while a person uses one of several devices.

use crate::support::prelude::*;
use crate::support::pushes::{Browser, pending};
use crate::support::web::parse_event;
use session_gateway_hub::hub::core::push::queue::MAX_HELD_PUSHES;

const DESK: &str = "https://push.service.com/desk";
const PHONE: &str = "https://push.service.com/phone";

/// A session with its CLI, and two subscribed devices: a desk and a phone.
async fn desk_and_phone() -> (World, String, crate::support::cli::Cli) {
    let world = World::new();
    let (session, cli) = world.active_session_with("/code/demo", json!({"flavor": "beta"})).await;
    for (endpoint, seed, device) in [(DESK, 1, "desk"), (PHONE, 2, "phone")] {
        Browser::new(endpoint, seed).subscribe_on(&world, device).await;
    }
    (world, session, cli)
}

/// A page that a person uses, and its subscription id.
async fn page_in_use(world: &World, query: &str) -> (Web, String) {
    let query = format!("visibility=visible{query}");
    let mut web = Web(world.open_event_stream(&query, None, Format::Json).await.unwrap());
    let id = web.next_event().await["data"]["subscriptionId"].as_str().unwrap().to_owned();
    (web, id)
}

async fn report(world: &World, subscription: &str, visibility: &str) {
    world.post("/api/visibility", &json!({"subscriptionId": subscription, "visibility": visibility})).await.ok();
}

/// The endpoints of the push requests since the last call, sorted.
fn take_pushed_endpoints(world: &World) -> Vec<String> {
    let mut endpoints: Vec<String> = world.rt.take_pushes().iter().map(|request| request.uri().to_string()).collect();
    endpoints.sort();
    endpoints
}

async fn newest_entry(world: &World) -> (String, Value, Value) {
    let log = &world.push_log().await[0];
    (log["outcome"].as_str().unwrap().to_owned(), log["sent"].clone(), log["waiting"].clone())
}

fn entry(outcome: &str, sent: u64, waiting: u64) -> (String, Value, Value) {
    (outcome.to_owned(), json!(sent), json!(waiting))
}

#[tokio::test(start_paused = true)]
async fn the_device_in_use_gets_a_toast_and_the_other_devices_get_a_push() {
    let (world, session, mut cli) = desk_and_phone().await;
    let (mut page, _) = page_in_use(&world, "&device=desk").await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(501).await;
    assert_eq!(take_pushed_endpoints(&world), [PHONE]);
    assert_eq!(page.next_event_of("toast").await["data"]["sessionId"], *session);
    assert_eq!(newest_entry(&world).await, entry("sent", 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_page_without_input_holds_back_no_push() {
    let (world, session, mut cli) = desk_and_phone().await;
    let (mut page, id) = page_in_use(&world, "&device=desk").await;
    // The page stays open, and reports that it got no input for a minute.
    report(&world, &id, "hidden").await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(501).await;
    assert_eq!(take_pushed_endpoints(&world), [DESK, PHONE]);
    assert!(!page.types().await.contains(&"toast".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_toast_on_a_page_that_is_no_longer_in_use_is_pushed_after_a_minute() {
    for interruption in ["none", "hibernation", "restart"] {
        let (world, session, mut cli) = desk_and_phone().await;
        let (_page, id) = page_in_use(&world, "&device=desk").await;
        cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
        world.advance(501).await;
        assert_eq!(take_pushed_endpoints(&world), [PHONE]);
        report(&world, &id, "hidden").await;
        match interruption {
            "hibernation" => world.hibernate_and_wake().await,
            "restart" => world.restart(),
            _ => {}
        }
        world.advance(59_998).await;
        assert_eq!(take_pushed_endpoints(&world), <[&str; 0]>::default(), "{interruption}");
        world.advance(2).await;
        assert_eq!(take_pushed_endpoints(&world), [DESK], "{interruption}");
        assert_eq!(newest_entry(&world).await, entry("sent", 2, 0), "{interruption}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_toast_on_a_page_that_is_still_in_use_is_not_pushed() {
    for is_hibernated in [false, true] {
        let (world, session, mut cli) = desk_and_phone().await;
        let (mut page, id) = page_in_use(&world, "&device=desk").await;
        cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
        world.advance(30_000).await;
        report(&world, &id, "visible").await;
        world.hibernate_if(is_hibernated).await;
        world.advance(3_600_000).await;
        assert_eq!(take_pushed_endpoints(&world), [PHONE]);
        assert_eq!(newest_entry(&world).await, entry("sent", 1, 0));
        let toasts = page.types().await.into_iter().filter(|kind| kind == "toast").count();
        assert_eq!(toasts, 1);
        assert!(!world.rt.stored_entries().keys().any(|key| key.starts_with("push:item")));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answered_heartbeat_does_not_count_as_use_of_the_page() {
    let (world, session, mut cli) = desk_and_phone().await;
    let (mut page, _) = page_in_use(&world, "&device=desk").await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(29_000).await;
    assert!(page.types().await.contains(&"toast".to_owned()));
    assert_eq!(take_pushed_endpoints(&world), [PHONE]);
    // The page answers without its user. Then the laptop is closed, and the page cannot report `hidden`.
    page.acknowledge_heartbeat();
    world.advance(31_501).await;
    assert_eq!(take_pushed_endpoints(&world), [DESK]);
    assert_eq!(newest_entry(&world).await, entry("sent", 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_opened_after_the_toast_is_in_use_if_it_reports_visible() {
    for (visibility, expected) in [("visible", &[][..]), ("hidden", &[DESK][..])] {
        let (world, session, mut cli) = desk_and_phone().await;
        let _page = page_in_use(&world, "&device=desk").await;
        cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
        world.advance(501).await;
        assert_eq!(take_pushed_endpoints(&world), [PHONE]);
        let query = format!("visibility={visibility}&device=desk");
        let _other = world.open_event_stream(&query, None, Format::Json).await.unwrap();
        world.advance(60_000).await;
        assert_eq!(take_pushed_endpoints(&world), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_toast_is_not_pushed_if_its_reason_no_longer_exists() {
    for change in ["answered", "works again", "ended"] {
        let (world, session, mut cli) = desk_and_phone().await;
        world.request("DELETE", "/api/push/subscribe", json!({"endpoint": PHONE}).to_string()).await.ok();
        let (_page, id) = page_in_use(&world, "&device=desk").await;
        match change {
            "answered" => drop(cli.update_agent_state(&session, 1, &pending(&["r1"])).await),
            _ => cli.send_ready(&session).await,
        }
        world.advance(501).await;
        assert_eq!(newest_entry(&world).await, entry("toast", 0, 1), "{change}");
        report(&world, &id, "hidden").await;
        let thinking = json!({"sid": session, "time": world.now(), "thinking": true});
        match change {
            "answered" => drop(cli.update_agent_state(&session, 2, &pending(&[])).await),
            "works again" => drop(cli.emit_with_ack("session-alive", &thinking).await),
            _ => drop(cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await),
        }
        // While an agent works, its CLI reports this repeatedly.
        for _ in 0..7 {
            world.advance(10_000).await;
            if change == "works again" {
                let thinking = json!({"sid": session, "time": world.now(), "thinking": true});
                cli.emit_with_ack("session-alive", &thinking).await;
            }
        }
        assert_eq!(take_pushed_endpoints(&world), <[&str; 0]>::default(), "{change}");
        assert_eq!(newest_entry(&world).await, entry("toast", 0, 0), "{change}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_still_waits_is_pushed_after_a_minute() {
    let (world, session, mut cli) = desk_and_phone().await;
    let (_page, id) = page_in_use(&world, "&device=desk").await;
    cli.send_ready(&session).await;
    world.advance(1).await;
    report(&world, &id, "hidden").await;
    assert_eq!(take_pushed_endpoints(&world), [PHONE]);
    for _ in 0..6 {
        world.advance(10_000).await;
        cli.emit_with_ack("session-alive", &json!({"sid": session, "time": world.now(), "thinking": false})).await;
    }
    assert_eq!(take_pushed_endpoints(&world), [DESK]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_names_no_device_holds_back_all_pushes() {
    let (world, session, mut cli) = desk_and_phone().await;
    let (mut page, id) = page_in_use(&world, "").await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(501).await;
    assert_eq!(take_pushed_endpoints(&world), <[&str; 0]>::default());
    assert_eq!(page.next_event_of("toast").await["data"]["sessionId"], *session);
    assert_eq!(newest_entry(&world).await, entry("toast", 0, 2));
    report(&world, &id, "hidden").await;
    world.advance(60_000).await;
    assert_eq!(take_pushed_endpoints(&world), [DESK, PHONE]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_names_no_device_is_held_back_by_any_page_in_use() {
    let (world, session, mut cli) = desk_and_phone().await;
    let unnamed = Browser::subscribed(&world, "https://push.service.com/unnamed", 3).await;
    let (_page, id) = page_in_use(&world, "&device=desk").await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(501).await;
    assert_eq!(take_pushed_endpoints(&world), [PHONE]);
    report(&world, &id, "hidden").await;
    world.advance(60_000).await;
    assert_eq!(take_pushed_endpoints(&world), [DESK, &unnamed.endpoint]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_push_service_is_not_called_again_while_its_device_is_in_use() {
    let (world, session, mut cli) = desk_and_phone().await;
    world.rt.respond_to_pushes(PHONE, &[(503, Some("10")), (201, None)]);
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(501).await;
    assert_eq!(take_pushed_endpoints(&world), [DESK, PHONE]);
    let (mut page, id) = page_in_use(&world, "&device=phone").await;
    world.advance(10_000).await;
    assert_eq!(page.next_event_of("toast").await["data"]["sessionId"], *session);
    assert_eq!(take_pushed_endpoints(&world), <[&str; 0]>::default());
    assert_eq!(newest_entry(&world).await, entry("sent", 1, 1));
    assert_eq!(world.push_log().await[0]["retries"], json!([]));
    report(&world, &id, "hidden").await;
    world.advance(60_000).await;
    assert_eq!(take_pushed_endpoints(&world), [PHONE]);
}

#[tokio::test(start_paused = true)]
async fn the_next_request_supersedes_a_request_that_is_held_back() {
    let (world, session, mut cli) = desk_and_phone().await;
    world.request("DELETE", "/api/push/subscribe", json!({"endpoint": PHONE}).to_string()).await.ok();
    let (mut page, id) = page_in_use(&world, "&device=desk").await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(501).await;
    assert!(page.types().await.contains(&"toast".to_owned()));
    cli.update_agent_state(&session, 2, &pending(&["r1", "r2"])).await;
    world.advance(499).await;
    assert!(!page.types().await.contains(&"toast".to_owned()), "the next notification waits for further requests, too");
    world.advance(2).await;
    assert!(page.types().await.contains(&"toast".to_owned()));
    report(&world, &id, "hidden").await;
    cli.update_agent_state(&session, 3, &pending(&["r1"])).await;
    let [message] = &world.pushes_after(60_000).await[..] else { panic!("not one message") };
    assert_eq!(Browser::new(DESK, 1).read(message)["data"]["requestId"], "r1");
}

#[tokio::test(start_paused = true)]
async fn the_next_request_supersedes_a_request_that_was_already_pushed_to_another_device() {
    let (world, session, mut cli) = desk_and_phone().await;
    let _page = page_in_use(&world, "&device=desk").await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(501).await;
    assert_eq!(take_pushed_endpoints(&world), [PHONE]);
    cli.update_agent_state(&session, 2, &pending(&["r1", "r2"])).await;
    world.advance(501).await;
    assert_eq!(take_pushed_endpoints(&world), [PHONE]);
    cli.update_agent_state(&session, 3, &pending(&["r1"])).await;
    let [message] = &world.pushes_after(60_000).await[..] else { panic!("not one message") };
    assert_eq!(message.uri().to_string(), DESK);
    assert_eq!(Browser::new(DESK, 1).read(message)["data"]["requestId"], "r1");
}

#[tokio::test(start_paused = true)]
async fn a_report_of_a_named_device_expires_after_75_seconds_on_a_stream() {
    for (passed, expected) in [(74_000, &[PHONE][..]), (76_000, &[DESK, PHONE][..])] {
        let (world, session, _) = desk_and_phone().await;
        let mut stream = world.open_event_stream("visibility=visible&device=desk", None, Format::Sse).await.unwrap();
        assert_eq!(parse_event(&stream.next_text().await)["type"], "connection-changed");
        world.advance(passed).await;
        world.live_cli(&session).await.send_ready(&session).await;
        world.advance(1).await;
        assert_eq!(take_pushed_endpoints(&world), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn held_back_notifications_leave_room_in_the_queue() {
    let (world, _, _) = desk_and_phone().await;
    let (_page, id) = page_in_use(&world, "&device=desk").await;
    for number in 0..150 {
        let session = world.create_session(&format!("/code/{number}")).await;
        world.live_cli(&session).await.update_agent_state(&session, 1, &pending(&["r1"])).await;
    }
    world.advance(501).await;
    assert_eq!(take_pushed_endpoints(&world), [PHONE; 150]);
    report(&world, &id, "hidden").await;
    world.advance(60_000).await;
    assert_eq!(take_pushed_endpoints(&world), [DESK; MAX_HELD_PUSHES]);
}

#[tokio::test(start_paused = true)]
async fn a_toast_needs_no_keys() {
    let (world, session, mut cli) = desk_and_phone().await;
    let (mut page, _) = page_in_use(&world, "&device=desk").await;
    // No key pair can be generated.
    world.rt.fail_random();
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    world.advance(3_600_000).await;
    let toasts = page.types().await.into_iter().filter(|kind| kind == "toast").count();
    assert_eq!((toasts, newest_entry(&world).await.0.as_str()), (1, "unavailable"));
}

#[tokio::test(start_paused = true)]
async fn a_device_has_one_subscription() {
    let (world, session, mut cli) = desk_and_phone().await;
    // The browser got a new endpoint, for example for another key.
    Browser::new("https://push.service.com/desk-2", 3).subscribe_on(&world, "desk").await;
    cli.send_ready(&session).await;
    world.advance(1).await;
    assert_eq!(take_pushed_endpoints(&world), ["https://push.service.com/desk-2", PHONE]);
    // A subscription without a device replaces no other subscription.
    for number in 4..=5 {
        Browser::subscribed(&world, &format!("https://push.service.com/{number}"), number).await;
    }
    assert_eq!(world.db.number("SELECT count(*) FROM push_subscriptions"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_of_an_earlier_version_gets_its_device_when_it_is_repeated() {
    let world = World::new();
    let browser = Browser::subscribed(&world, DESK, 1).await;
    assert_eq!(world.db.number("SELECT count(*) FROM push_subscriptions WHERE device IS NULL"), 1);
    for _ in 0..2 {
        browser.subscribe_on(&world, "desk").await;
    }
    assert_eq!(world.db.number("SELECT count(*) FROM push_subscriptions WHERE device = 'desk'"), 1);
    run_until_idle().await;
    assert_eq!(world.db.number("SELECT count(*) FROM push_subscriptions"), 1);
}
