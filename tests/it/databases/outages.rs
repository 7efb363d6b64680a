//! Databases that do not answer, or are no longer bound.

use std::time::Duration;

use super::moves::small_namespace;
use super::{Deployment, move_step, move_to, read_at_edge, session_with_messages};
use crate::support::edge::{worker_edge, worker_of};
use crate::support::operator::{delete, operator};
use crate::support::prelude::*;

/// Waits for a result. Fails if it waits for a database that does not answer.
async fn within_a_second<T>(result: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(1), result).await.expect("waits for a database that does not answer")
}

#[tokio::test(start_paused = true)]
async fn a_namespace_does_not_wait_for_a_database_that_it_never_used() {
    let deployment = Deployment::new();
    let (world, sessions) = small_namespace(&deployment).await;
    deployment.0[2].set_silent(true);
    within_a_second(move_to(&world, "DB_2")).await;
    assert_eq!(deployment.databases_with_session(&sessions[0]), [2]);
    move_step(&world, "DB").await.ok();
    within_a_second(move_to(&world, "DB_2")).await;
    within_a_second(delete(&world)).await;
    deployment.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_out_of_date_worker_finds_a_namespace_although_its_earlier_database_fails() {
    let deployment = Deployment::new();
    let (world, sessions) = small_namespace(&deployment).await;
    move_to(&world, "DB_2").await;
    let stale = worker_of(&world);
    read_at_edge(&world, &stale, &sessions[0]).await.ok();
    move_to(&world, "DB_3").await;
    deployment.0[1].fail_all(BatchKind::Reads, permanent_error());
    assert_eq!(read_at_edge(&world, &stale, &sessions[0]).await.ok()["messages"].as_array().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_list_of_databases_has_the_error_of_a_database_that_fails() {
    let deployment = Deployment::new();
    let (world, _) = small_namespace(&deployment).await;
    let list = async || operator(&world, "GET", "databases", &Value::Null).await;
    deployment.0[1].fail_all(BatchKind::Reads, permanent_error());
    let databases = list().await.ok()["databases"].clone();
    assert_eq!(databases[0]["namespaces"], 1);
    assert_eq!((&databases[1]["name"], &databases[1]["bytes"]), (&json!("DB_2"), &Value::Null));
    assert!(databases[1]["error"].as_str().unwrap().starts_with("the database "), "{databases}");
    assert_eq!((&databases[2]["namespaces"], &databases[2]["error"]), (&json!(0), &Value::Null));
    for number in [0, 2] {
        deployment.0[number].fail_all(BatchKind::Reads, permanent_error());
    }
    list().await.assert_error(503, "hub_unavailable");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_does_not_end_before_it_has_deleted_an_unfinished_copy() {
    let deployment = Deployment::new();
    let (world, _) = small_namespace(&deployment).await;
    move_step(&world, "DB_2").await.ok();
    deployment.0[1].fail_all(BatchKind::Writes, permanent_error());
    operator(&world, "POST", "delete", &Value::Null).await.ok();
    operator(&world, "POST", "delete", &Value::Null).await.assert_error(503, "hub_unavailable");
    deployment.0[1].repair();
    delete(&world).await;
    deployment.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_deletion_by_an_object_that_lost_its_storage_finds_an_unfinished_copy() {
    let deployment = Deployment::new();
    let (world, _) = small_namespace(&deployment).await;
    move_step(&world, "DB_2").await.ok();
    let without_storage = deployment.namespace("team");
    without_storage.rt.set_now(world.now() + 1_000);
    without_storage.redeploy();
    delete(&without_storage).await;
    deployment.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_new_namespace_goes_to_a_database_that_answers_within_two_seconds() {
    let deployment = Deployment::new();
    deployment.grow(1, 3_000_000);
    deployment.0[1].set_silent(true);
    deployment.0[2].set_silent(true);
    let world = deployment.namespace("team");
    let body = json!({"tag": "/a", "metadata": {"path": "/a", "host": "box"}});
    let creating = world.start("POST", "/cli/sessions", body.to_string());
    assert!(!creating.has_response().await);
    world.rt.set_now(world.now() + 2_000);
    let created = creating.reply().await.ok();
    assert_eq!(deployment.databases_with_session(created["session"]["id"].as_str().unwrap()), [1]);
}

fn assert_not_bound(reply: &Reply) {
    let error = reply.assert_error(503, "hub_unavailable")["error"].as_str().unwrap().to_owned();
    assert!(error.contains("`DB_3`") && error.contains("bind"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_whose_database_is_no_longer_bound_is_unavailable() {
    let deployment = Deployment::new();
    deployment.grow(1, 3_000_000);
    deployment.grow(2, 3_000_000);
    let world = deployment.namespace("team");
    let session = session_with_messages(&world, "/a", 2).await;
    let stored = world.rt.stored_entries();
    let single = World::in_namespace("team", Arc::clone(&deployment.0[0]));
    let double =
        World::with_databases("team", Arc::clone(&deployment.0[0]), vec![Arc::clone(&deployment.0[1]) as _], "");
    for other in [single, double] {
        stored.iter().for_each(|(key, value)| other.rt.kv_put(key, value));
        other.redeploy();
        assert_not_bound(&other.get("/api/sessions").await);
        assert_not_bound(&read_at_edge(&other, &worker_of(&other), &session).await);
    }
    assert_eq!(deployment.0[0].number("SELECT count(*) FROM sessions"), 0);
    let worker = worker_edge(&world.db);
    read_at_edge(&World::in_namespace("other", Arc::clone(&world.db)), &worker, &session)
        .await
        .assert_error(404, "session_not_found");
    read_at_edge(&world, &worker_of(&world), &session).await.ok();
}
