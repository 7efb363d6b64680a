//! From an agent that asks or waits to the browser of a person who is away.

use crate::support::World;
use crate::support::pushes::{Browser, SERVICE, answering, asking, header, scene};
use crate::support::runtime::START;
use crate::support::sqlite::On;
use serde_json::json;
use session_gateway_hub::store::DbError;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

#[tokio::test(start_paused = true)]
async fn a_permission_request_reaches_the_browser_of_whoever_is_away() {
    let (world, session, mut cli, browser) = scene().await;
    cli.state(&session, 1, &asking(&["r1"])).await;
    world.pass(499).await;
    assert!(world.rt.pushed().is_empty());
    world.pass(2).await;
    let [message] = &world.rt.pushed()[..] else { panic!("not one message") };
    let expected = json!({
        "title": "Permission Request", "body": "demo (Bash)", "tag": format!("permission-{session}"),
        "data": {"sessionId": session, "requestId": "r1", "url": format!("/sessions/{session}")},
    });
    assert_eq!(browser.read(message), expected);
    assert_eq!((header(message, "Urgency"), header(message, "TTL")), ("high", "86400"));
    assert_eq!(header(message, "Content-Encoding"), "aes128gcm");
    assert_eq!(header(message, "Topic").len(), 32);
    assert!(header(message, "Authorization").starts_with("vapid t=ey"));
    let log = world.push_log().await;
    assert_eq!((log.len(), &log[0]["outcome"], &log[0]["sent"]), (1, &json!("sent"), &json!(1)), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_in_a_state_that_is_larger_than_a_row_is_told_with_its_tool() {
    let (world, session, mut cli, browser) = scene().await;
    let mut state = asking(&["r1"]);
    state["context"] = json!("x".repeat(3_000_000));
    cli.state(&session, 1, &state).await;
    world.pass(501).await;
    let [message] = &world.rt.pushed()[..] else { panic!("not one message") };
    assert_eq!(browser.read(message)["body"], "demo (Bash)");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_done_is_told_of_once_in_five_seconds() {
    let (world, session, mut cli, browser) = scene().await;
    cli.ready(&session).await;
    world.pass(1).await;
    let [message] = &world.rt.pushed()[..] else { panic!("not one message") };
    assert_eq!(browser.read(message)["body"], "beta is waiting in demo");
    assert_eq!(header(message, "Urgency"), "normal");
    world.pass(4_000).await;
    cli.ready(&session).await;
    world.pass(500).await;
    assert!(world.rt.pushed().is_empty());
    world.pass(600).await;
    cli.ready(&session).await;
    world.pass(1).await;
    assert_eq!(world.rt.pushed().len(), 1);
    assert_eq!(world.outcomes().await, ["sent", "cooling-down", "sent"]);
}

#[tokio::test(start_paused = true)]
async fn somebody_who_looks_at_a_page_gets_a_toast_instead() {
    let (world, session, mut cli, _) = scene().await;
    let mut visible = world.web("visibility=visible").await;
    let mut hidden = world.web("").await;
    cli.state(&session, 1, &asking(&["r1"])).await;
    world.pass(501).await;
    let toast = visible.event_of("toast").await;
    let expected = json!({
        "title": "Permission Request", "body": "demo (Bash)", "sessionId": session, "url": format!("/sessions/{session}"),
    });
    assert_eq!(toast["data"], expected);
    assert!(!hidden.types().await.contains(&"toast".to_owned()));
    assert!(world.rt.pushed().is_empty());
    assert_eq!(world.outcomes().await, ["toast"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_over_is_removed_and_the_others_stay() {
    for status in [404, 410] {
        let (world, session, mut cli, browser) = scene().await;
        answering(&world, &[(status, None)]).await;
        cli.ready(&session).await;
        world.pass(1).await;
        assert_eq!(world.rt.pushed().len(), 2);
        let log = &world.push_log().await[0];
        assert_eq!((&log["outcome"], &log["sent"], &log["failed"]), (&json!("sent"), &json!(1), &json!(1)));
        assert_eq!(log["failures"][0]["service"], "https://other.service.com:8443");
        assert_eq!(log["failures"][0]["status"], status);
        assert_eq!(world.db.number("SELECT count(*) FROM push_subscriptions"), 1);
        world.pass(6_000).await;
        cli.ready(&session).await;
        world.pass(1).await;
        let [message] = &world.rt.pushed()[..] else { panic!("not one message") };
        assert_eq!(message.uri().to_string(), browser.endpoint);
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_last_subscription_is_over_notifications_cost_no_read_any_more() {
    let world = World::new();
    let session = world.session("/code/demo").await;
    let mut cli = world.live_cli(&session).await;
    let browser = answering(&world, &[(410, None)]).await;
    cli.ready(&session).await;
    world.pass(1).await;
    assert_eq!(world.rt.pushed().len(), 1);
    assert!(world.rt.notebook().contains_key("push:none"));
    world.pass(6_000).await;
    let reads = world.db.reads();
    cli.ready(&session).await;
    world.pass(1).await;
    assert_eq!((world.db.reads(), world.rt.pushed().len()), (reads, 0));
    assert_eq!(world.outcomes().await[0], "no-subscribers");
    world.post("/api/push/subscribe", &browser.subscription()).await.ok();
    world.rt.answer_pushes(&browser.endpoint, &[(202, None)]);
    cli.ready(&session).await;
    world.pass(1).await;
    assert_eq!(world.outcomes().await[0], "sent");
}

/// What the hub asked of the database and of the alarm so far: reads, writes, alarms.
fn costs(world: &World) -> (usize, usize, usize) {
    (world.db.reads(), world.db.writes(), world.rt.alarms_set())
}

#[tokio::test(start_paused = true)]
async fn where_nobody_subscribed_a_notification_costs_no_statement_and_no_alarm() {
    let world = World::new();
    let session = world.session("/code/demo").await;
    let mut cli = world.live_cli(&session).await;
    // The first one of all has to be told by the database; over a sleep the notebook remembers.
    cli.ready(&session).await;
    world.pass(6_000).await;
    world.sleep_and_wake().await;
    cli.state(&session, 1, &asking(&[])).await;
    let mut deltas = Vec::new();
    for tells in [false, true] {
        let before = costs(&world);
        match tells {
            false => drop(cli.message(&session, "words").await),
            true => cli.ready(&session).await,
        }
        cli.state(&session, 2 + u64::from(tells), &asking(if tells { &["r1"] } else { &[] })).await;
        world.pass(1_000).await;
        let after = costs(&world);
        deltas.push((after.0 - before.0, after.1 - before.1, after.2 - before.2));
    }
    assert_eq!(deltas[0], deltas[1]);
    assert_eq!(world.outcomes().await, ["no-subscribers"; 3]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_knows_nothing_asks_the_database_who_subscribed() {
    let (world, session, _, browser) = scene().await;
    // As it is when a copy of the database is put under a new deployment.
    let restored = World::of("team", std::sync::Arc::clone(&world.db));
    restored.live_cli(&session).await.ready(&session).await;
    restored.pass(1).await;
    let [message] = &restored.rt.pushed()[..] else { panic!("not one message") };
    assert_eq!(browser.read(message)["title"], "Session Ready");
}

#[tokio::test(start_paused = true)]
async fn that_nobody_subscribed_is_believed_for_a_day_for_the_database_may_have_been_put_back() {
    for sleeps in [true, false] {
        let (world, session, mut cli, browser) = scene().await;
        world.db.execute("CREATE TABLE backup AS SELECT * FROM push_subscriptions");
        let unsubscribe = json!({"endpoint": browser.endpoint}).to_string();
        world.request("DELETE", "/api/push/subscribe", unsubscribe).await.ok();
        world.db.execute("INSERT INTO push_subscriptions SELECT * FROM backup");
        for (pause, outcome) in [(DAY_MS - 1_000, "no-subscribers"), (1_000 + 5_000, "sent")] {
            world.rt.set_now(world.now() + pause);
            if sleeps {
                world.sleep_and_wake().await;
            }
            cli.ready(&session).await;
            world.pass(1).await;
            assert_eq!(world.outcomes().await[0], outcome);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_subscribed_is_read_from_the_database_once() {
    let (world, session, mut cli, _) = scene().await;
    cli.ready(&session).await;
    world.pass(6_000).await;
    let before = costs(&world);
    cli.ready(&session).await;
    world.pass(1).await;
    assert_eq!(world.rt.pushed().len(), 2);
    let after = costs(&world);
    assert_eq!((after.0, after.1), (before.0, before.1 + 1), "the message itself");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_busy_is_asked_again_when_it_says() {
    for (status, retry_after, pause) in [
        (429, Some("7"), 7_000),
        (503, Some("Fri, 15 Jan 2027 08:00:15 GMT"), 10_000),
        (500, None, 5_000),
        (502, Some("soon"), 5_000),
        (0, None, 5_000),
    ] {
        let (world, session, mut cli, _) = scene().await;
        let browser = answering(&world, &[(status, retry_after), (201, None)]).await;
        cli.ready(&session).await;
        world.ring_at(world.now() + 1).await;
        let tried = world.now();
        world.rt.pushed();
        let log = &world.push_log().await[0];
        assert_eq!((&log["outcome"], &log["waiting"], &log["failures"]), (&json!("sending"), &json!(1), &json!([])));
        let [retry] = &log["retries"].as_array().unwrap()[..] else { panic!("not one retry: {log}") };
        assert_eq!(retry["service"], "https://other.service.com:8443");
        assert_eq!(retry.get("status"), (status > 0).then(|| json!(status)).as_ref());
        let reason = if status > 0 { "The push service was busy." } else { "The push service could not be reached." };
        assert_eq!(retry["reason"], reason);
        let until = if status == 503 { START + pause } else { tried + pause };
        world.pass(until - 1 - world.now()).await;
        assert!(world.rt.pushed().is_empty(), "{status} {retry_after:?}");
        assert_eq!(retry["at"], until);
        world.pass(1).await;
        let [message] = &world.rt.pushed()[..] else { panic!("not one message after {status} {retry_after:?}") };
        assert_eq!(browser.read(message)["title"], "Session Ready");
        let log = &world.push_log().await[0];
        assert_eq!((&log["outcome"], &log["sent"], &log["failed"]), (&json!("sent"), &json!(2), &json!(0)));
        assert_eq!(log["retries"], json!([]));
    }
}

#[tokio::test(start_paused = true)]
async fn after_five_tries_it_is_given_up() {
    let (world, session, mut cli, _) = scene().await;
    answering(&world, &[(500, None)]).await;
    cli.ready(&session).await;
    world.pass(3_600_000).await;
    assert_eq!(world.rt.pushed().len(), 1 + 5);
    let log = &world.push_log().await[0];
    assert_eq!(
        (&log["outcome"], &log["waiting"], &log["failures"][0]["status"]),
        (&json!("sent"), &json!(0), &json!(500))
    );
    assert!(!world.rt.notebook().keys().any(|key| key.starts_with("push:item")), "nothing is left of it");
}

#[tokio::test(start_paused = true)]
async fn a_retry_survives_a_sleep_and_a_restart() {
    let (world, session, mut cli, _) = scene().await;
    let browser = answering(&world, &[(503, Some("60")), (503, Some("60")), (201, None)]).await;
    cli.ready(&session).await;
    world.pass(1).await;
    assert_eq!(world.rt.pushed().len(), 2);
    world.sleep_and_wake().await;
    world.pass(60_001).await;
    assert_eq!(world.rt.pushed().len(), 1);
    world.restart();
    world.pass(60_001).await;
    let [message] = &world.rt.pushed()[..] else { panic!("not one message") };
    assert_eq!(browser.read(message)["data"]["sessionId"], *session);
    assert_eq!(world.outcomes().await, ["sent"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_its_moment_survives_a_restart() {
    let (world, session, mut cli, browser) = scene().await;
    cli.state(&session, 1, &asking(&["r1"])).await;
    world.restart();
    world.pass(501).await;
    let [message] = &world.rt.pushed()[..] else { panic!("not one message") };
    assert_eq!(browser.read(message)["data"]["requestId"], "r1");
    world.sleep_and_wake().await;
    cli.ready(&session).await;
    world.pass(1).await;
    world.restart();
    cli.ready(&session).await;
    world.pass(1).await;
    assert_eq!(world.outcomes().await, ["cooling-down", "sent", "sent"], "a restart ends no cool-down");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_long_is_shortened_once() {
    let world = World::new();
    let session = world.session_with("/code/demo", json!({"name": "n".repeat(200)})).await;
    let mut cli = world.live_cli(&session).await;
    let browser = answering(&world, &[(413, None)]).await;
    let request = json!({"requests": {"r1": {"tool": "T".repeat(9_000)}}});
    cli.state(&session, 1, &request).await;
    world.pass(60_000).await;
    let pushed = world.rt.pushed();
    let [long, short] = &pushed[..] else { panic!("not two messages, but {}", pushed.len()) };
    assert_eq!(long.body().len(), 4_095, "the record is filled");
    assert!(short.body().len() < 2_200);
    assert_eq!(browser.read(short)["data"], browser.read(long)["data"]);
    assert_eq!(world.push_log().await[0]["failures"][0]["status"], 413);
    cli.ready(&session).await;
    world.pass(60_000).await;
    assert_eq!(world.rt.pushed().len(), 1, "one that is short already is not sent again");
}

#[tokio::test(start_paused = true)]
async fn whatever_else_a_service_says_is_final() {
    for status in [200, 301, 307, 400, 401, 403, 406] {
        let (world, session, mut cli, _) = scene().await;
        answering(&world, &[(status, None)]).await;
        cli.ready(&session).await;
        world.pass(600_000).await;
        assert_eq!(world.rt.pushed().len(), 2, "{status}");
        assert_eq!(world.push_log().await[0]["failures"][0]["status"], status);
        assert_eq!(world.db.number("SELECT count(*) FROM push_subscriptions"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_hangs_holds_up_nobody() {
    let (world, session, mut cli, _) = scene().await;
    world.rt.silence_pushes(SERVICE);
    cli.ready(&session).await;
    world.pass(1).await;
    assert_eq!(world.rt.pushed().len(), 1);
    assert_eq!(cli.message(&session, "words").await["ok"], true);
    assert_eq!(world.shown(&session).await["seq"], 2);
    cli.state(&session, 1, &asking(&["r1"])).await;
    world.pass(501).await;
    assert_eq!(world.rt.pushed().len(), 1, "and the next notification goes out beside it");
}

#[tokio::test(start_paused = true)]
async fn requests_that_come_one_after_the_other_are_one_notification() {
    let (world, session, mut cli, browser) = scene().await;
    cli.state(&session, 1, &asking(&["r1"])).await;
    world.pass(400).await;
    cli.state(&session, 2, &asking(&["r1", "r2"])).await;
    world.pass(99).await;
    assert!(world.rt.pushed().is_empty());
    world.pass(1).await;
    let [message] = &world.rt.pushed()[..] else { panic!("not one message") };
    assert_eq!(browser.read(message)["data"]["requestId"], "r2");
    cli.state(&session, 3, &asking(&["r2"])).await;
    world.pass(1_000).await;
    assert!(world.rt.pushed().is_empty(), "nothing new was asked");
    assert_eq!(world.outcomes().await, ["sent", "replaced"]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_asks_and_asks_does_not_put_off_what_it_asked_first() {
    let (world, session, mut cli, browser) = scene().await;
    for version in 1..=5 {
        cli.state(&session, version, &asking(&[&format!("r{version}")])).await;
        world.pass(125).await;
    }
    let [message] = &world.rt.pushed()[..] else { panic!("not one message") };
    assert_eq!(browser.read(message)["data"]["requestId"], "r4", "half a second after the first");
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_a_newer_one_took_its_place_stands_in_the_log() {
    let (world, session, mut cli, _) = scene().await;
    let slow = Browser::subscribed(&world, "https://slow.com/1", 2).await;
    world.rt.silence_pushes(&slow.endpoint);
    cli.state(&session, 1, &asking(&["r1"])).await;
    world.pass(501).await;
    // While the one push service does not answer, of which the other one has the message already.
    cli.state(&session, 2, &asking(&["r1", "r2"])).await;
    world.rt.give_up_pushes();
    let log = &world.push_log().await[1];
    assert_eq!((&log["requestId"], &log["outcome"], &log["sent"]), (&json!("r1"), &json!("sent"), &json!(1)), "{log}");
    assert_eq!(log["retries"], json!([]), "nobody asks the other one again: {log}");
}

#[tokio::test(start_paused = true)]
async fn the_last_of_several_requests_that_still_waits_is_told() {
    // In one update, and one after the other.
    for asked in
        [vec![asking(&["r1", "r2", "r3"])], vec![asking(&["r1"]), asking(&["r1", "r2"]), asking(&["r1", "r2", "r3"])]]
    {
        let (world, session, mut cli, browser) = scene().await;
        let versions = asked.len() as u64;
        for (version, state) in (1..).zip(&asked) {
            cli.state(&session, version, state).await;
        }
        cli.state(&session, versions + 1, &asking(&["r1", "r2"])).await;
        world.pass(501).await;
        let [message] = &world.rt.pushed()[..] else { panic!("not one message") };
        assert_eq!(browser.read(message)["data"]["requestId"], "r2");
        cli.state(&session, versions + 2, &asking(&["r1", "r4"])).await;
        cli.state(&session, versions + 3, &asking(&["r1"])).await;
        world.pass(501).await;
        assert!(world.rt.pushed().is_empty(), "of r1 somebody was told with r2");
        assert_eq!(world.outcomes().await[0], "answered");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_request_that_was_answered_at_once_and_of_a_session_that_is_gone_nobody_is_told() {
    let (world, session, mut cli, _) = scene().await;
    cli.state(&session, 1, &asking(&["r1"])).await;
    cli.state(&session, 2, &asking(&[])).await;
    world.pass(1_000).await;
    cli.state(&session, 3, &asking(&["r2"])).await;
    cli.ask("session-end", &json!({"sid": session, "time": world.now()})).await;
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    world.pass(1_000).await;
    assert!(world.rt.pushed().is_empty());
    assert_eq!(world.outcomes().await, ["session-gone", "answered"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_told_of_what_was_not_written() {
    let (world, session, mut cli, _) = scene().await;
    world.db.break_down(On::Writes, DbError::Refused("no".into()));
    cli.state(&session, 1, &asking(&["r1"])).await;
    world.db.repair();
    world.pass(1_000).await;
    assert!(world.rt.pushed().is_empty());
    assert_eq!(world.outcomes().await, <[String; 0]>::default());
}

#[tokio::test(start_paused = true)]
async fn while_the_database_fails_a_notification_waits_some_time() {
    let (world, session, mut cli, _) = scene().await;
    cli.ready(&session).await;
    let fault = DbError::Retryable("Network connection lost".into());
    world.sleep_and_wake().await;
    world.db.break_down(On::Reads, fault.clone());
    world.pass(1).await;
    assert_eq!(world.outcomes().await, ["waiting"]);
    world.db.repair();
    world.pass(5_000).await;
    assert_eq!((world.rt.pushed().len(), world.outcomes().await), (1, vec!["sent".to_owned()]));
    cli.ready(&session).await;
    world.sleep_and_wake().await;
    world.db.break_down(On::Reads, fault);
    world.pass(3_600_000).await;
    assert_eq!(world.outcomes().await[0], "unavailable");
}
