//! What users choose to be notified about: by device, and by session.

use crate::support::prelude::*;
use crate::support::pushes::{Browser, pending, push_fixture};

#[tokio::test(start_paused = true)]
async fn a_device_can_be_notified_about_requests_only() {
    let (world, session, mut cli, browser) = push_fixture().await;
    let phone = Browser::new("https://push.service.com/send/phone", 7);
    let mut body = phone.subscription();
    body["notify"] = json!("requests");
    world.post("/api/push/subscribe", &body).await.ok();
    cli.send_ready(&session).await;
    let endpoints = async |ms| {
        let pushes = world.pushes_after(ms).await;
        pushes.iter().map(|message| message.uri().to_string()).collect::<Vec<String>>()
    };
    assert_eq!(endpoints(1).await, [browser.endpoint.as_str()]);
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    assert_eq!(endpoints(501).await.len(), 2);
    // A device that names no choice, such as one with an earlier version of the console, is notified about everything.
    world.post("/api/push/subscribe", &phone.subscription()).await.ok();
    world.advance(6_000).await;
    cli.send_ready(&session).await;
    assert_eq!(endpoints(1).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn if_no_device_wants_a_notification_none_is_sent() {
    let world = World::new();
    let (session, mut cli) = world.active_session("/code/demo").await;
    let mut body = Browser::new("https://push.service.com/send/phone", 7).subscription();
    body["notify"] = json!("requests");
    world.post("/api/push/subscribe", &body).await.ok();
    cli.send_ready(&session).await;
    assert!(world.pushes_after(1).await.is_empty());
    assert_eq!(world.outcomes_newest_first().await, ["no-subscribers"]);
}

#[tokio::test(start_paused = true)]
async fn a_muted_session_notifies_nobody_until_it_is_unmuted() {
    let (world, session, mut cli, _) = push_fixture().await;
    let mut web = world.web("visibility=visible").await;
    let path = format!("/api/sessions/{session}");
    let set_muted = async |muted: bool| {
        world.request("PATCH", &path, json!({"muted": muted}).to_string()).await.ok();
    };
    set_muted(true).await;
    cli.send_ready(&session).await;
    cli.update_agent_state(&session, 1, &pending(&["r1"])).await;
    assert!(world.pushes_after(501).await.is_empty());
    assert!(!web.types().await.contains(&"toast".to_owned()));
    assert_eq!(world.outcomes_newest_first().await, ["muted", "muted"]);
    set_muted(false).await;
    cli.update_agent_state(&session, 2, &pending(&["r2"])).await;
    world.advance(501).await;
    web.next_event_of("toast").await;
}
