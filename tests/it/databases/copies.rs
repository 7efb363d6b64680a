//! What a copy of a namespace has that the namespace does not, and ids that another namespace has.

use super::{Deployment, move_step, move_to, read_at_edge, session_with_messages, tables};
use crate::support::edge::worker_of;
use crate::support::merge::{MergeFixture, merge_fixture_in};
use crate::support::operator::{delete, export, import};
use crate::support::prelude::*;
use crate::support::sqlite::Fate;

const MERGED: &str = "SELECT count(*) FROM sessions WHERE namespace = '//team'";

/// A namespace in `DB` with a session that has the history of another one. Returns the id of the session.
async fn merged_namespace(deployment: &Deployment) -> (World, String) {
    let MergeFixture { world, new, cli, reply, .. } =
        merge_fixture_in(deployment.namespace("team"), json!({}), json!({})).await;
    cli.emit("session-alive", &json!({"sid": new, "time": world.now()}));
    reply.reply().await.ok();
    assert_eq!(deployment.0[0].number(MERGED), 1);
    (world, new)
}

#[tokio::test(start_paused = true)]
async fn a_move_keeps_no_history_whose_last_session_was_deleted() {
    let deployment = Deployment::new();
    let (world, session) = merged_namespace(&deployment).await;
    // The session was deleted, and the deletion of its messages has not begun.
    deployment.0[0].execute(&format!("UPDATE sessions SET namespace = '/team', tag = id WHERE id = '{session}'"));
    world.redeploy();
    move_to(&world, "DB_2").await;
    world.advance(3_600_000).await;
    for db in &deployment.0 {
        assert_eq!(db.number("SELECT count(*) FROM messages"), 0);
    }
    delete(&world).await;
    deployment.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_merged_history_in_an_unfinished_copy_is_deleted_although_its_session_was_not_copied() {
    let deployment = Deployment::new();
    let (world, session) = merged_namespace(&deployment).await;
    while move_step(&world, "DB_2").await.ok()["step"] != "closed" {}
    let rt = Arc::clone(&world.rt);
    // A request ends after the first session.
    deployment.0[1].set_hook(Some(Arc::new(move |_| {
        rt.set_now(rt.now() + 6_000);
        Fate::Execute
    })));
    move_step(&world, "DB_2").await.ok();
    assert_eq!(deployment.0[1].number(MERGED), 1);
    // As if the session was created after the namespace was copied.
    deployment.0[1].execute(&format!("DELETE FROM sessions WHERE id = '{session}'"));
    move_to(&world, "DB").await;
    assert_eq!(tables(&deployment.rows(2)), ["fences", "moved_namespaces"]);
}

#[tokio::test(start_paused = true)]
async fn a_move_is_refused_if_another_namespace_has_a_session_with_the_same_id() {
    let deployment = Deployment::new();
    let team = deployment.namespace_with_closed("team", "DB_2,DB_3");
    let session = session_with_messages(&team, "/a", 3).await;
    let other = deployment.namespace_with_closed("other", "DB,DB_3");
    import(&other, &export(&team).await).await;
    let of_other = export(&other).await;
    let mut cli = team.live_cli(&session).await;
    assert_eq!(cli.send_message(&session, "only in team").await["ok"], true);
    cli.socket.close();
    for (world, count) in [(&team, 4), (&other, 3)] {
        let page = read_at_edge(world, &worker_of(world), &session).await.ok();
        assert_eq!(page["messages"].as_array().unwrap().len(), count);
    }
    let refused = move_step(&team, "DB_2").await.assert_error(400, "invalid_field");
    assert_eq!(refused["field"], "to");
    assert!(refused["error"].as_str().unwrap().contains(&session), "{refused}");
    team.get("/api/sessions").await.ok();
    assert!(export(&other).await == of_other);
    assert_eq!(tables(&deployment.rows(2)), ["sessions", "messages", "fences", "moved_namespaces"]);
    move_to(&other, "DB_3").await;
    move_to(&team, "DB_2").await;
    assert!(export(&other).await == of_other);
    assert_eq!(read_at_edge(&team, &worker_of(&team), &session).await.ok()["messages"].as_array().unwrap().len(), 4);
}
