//! Replaced objects: after a change of `HUB_JURISDICTION`, the namespace has a new object in another jurisdiction.

use session_gateway_hub::http::error::ErrorResponse;
use session_gateway_hub::hub::wake;

use crate::support::prelude::*;

/// Runs the alarm of a replaced object. Returns whether the storage of the object can be deleted.
fn retire_object(world: &World) -> bool {
    let sockets = world.rt.evict();
    wake::retire(&*world.rt, &sockets)
}

#[tokio::test(start_paused = true)]
async fn a_replaced_object_closes_its_sockets_and_its_storage_can_be_deleted() {
    let (world, session) = idle_session().await;
    let (mut cli, mut web) = (world.live_cli(&session).await, world.web("all=true").await);
    run_until_idle().await;
    assert!(retire_object(&world));
    for socket in [&mut cli.socket, &mut web.0] {
        assert_eq!(socket.wait_for_close().await, 1012);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replaced_object_continues_its_sweep_if_the_change_is_reverted() {
    let (world, session) = idle_session().await;
    world.live_cli(&session).await.send_message(&session, "hello").await;
    world.request("POST", &format!("/api/sessions/{session}/archive"), "{}").await.ok();
    world.request("DELETE", &format!("/api/sessions/{session}"), "").await.ok();
    assert!(!retire_object(&world), "messages of the deleted session remain");
    assert_eq!(world.db.number("SELECT count(*) FROM messages"), 1);
    world.redeploy();
    world.advance(1_000).await;
    assert_eq!(world.db.number("SELECT count(*) FROM messages"), 0);
    assert!(retire_object(&world));
}

#[test]
fn a_request_to_a_replaced_object_may_be_repeated() {
    let error = ErrorResponse::object_replaced();
    assert_eq!((error.status.as_u16(), error.code), (503, "hub_unavailable"));
    assert!(error.retry_after.is_some());
    assert!(error.message.contains("another jurisdiction") && error.message.contains("Try again"), "{}", error.message);
}
