//! If a session is archived before its CLI has registered `killSession`, the hub calls the CLI when it registers the method.

use crate::lifecycle::post_action;
use crate::support::merge::{accepted_resume, resumable_metadata, resume, success};
use crate::support::prelude::*;

async fn archive(world: &World, session: &str) {
    post_action(world, session, "archive", &json!({})).reply().await.ok();
}

/// An archived session. Its CLI is starting, and has not registered `killSession`.
async fn archived_session() -> (World, String, Cli) {
    let world = World::new();
    let session = world.create_session_with("/code", resumable_metadata()).await;
    let cli = world.cli(&session).await;
    archive(&world, &session).await;
    (world, session, cli)
}

/// Registers `killSession`, and returns whether the CLI is called.
async fn is_killed_at_registration(cli: &mut Cli) -> bool {
    let ack = cli.emit_for_ack("rpc-register", &json!({"method": "killSession"}));
    let call = cli.try_call().await;
    assert_eq!(cli.wait_for_ack(ack).await, json!({"ok": true}));
    if let Some(call) = &call {
        assert_eq!((call.method.as_str(), &call.params), ("killSession", &json!({})));
        cli.respond(call, &json!({}));
    }
    call.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_cli_whose_session_was_archived_is_killed_when_it_registers_the_method() {
    for hibernates in [false, true] {
        let (world, session, mut cli) = archived_session().await;
        world.hibernate_if(hibernates).await;
        cli.register("abort").await;
        assert_eq!(cli.try_call().await.map(|call| call.method), None, "{hibernates}");
        assert!(is_killed_at_registration(&mut cli).await, "{hibernates}");
        let mut runner = world.bare_cli().await;
        let ack = runner.emit_for_ack("rpc-register", &json!({"method": format!("{session}:killSession")}));
        assert_eq!(runner.next_call().await.session_id, Some(Value::String(session)), "{hibernates}");
        assert_eq!(runner.wait_for_ack(ack).await, json!({"ok": true}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_registers_the_method_while_its_session_is_being_archived_is_killed() {
    let (world, session, mut cli) = live_session().await;
    let metadata = json!({"path": "/code", "host": "box", "notes": "x".repeat(1_500_000)});
    cli.put_metadata(&session, 1, &metadata).await;
    world.db.hold_results(BatchKind::Reads);
    let reply = post_action(&world, &session, "archive", &json!({}));
    assert_eq!(world.held_results().await, 1, "the archive reads the metadata");
    assert!(!is_killed_at_registration(&mut cli).await);
    world.db.release_results();
    reply.reply().await.ok();
    assert_eq!(cli.next_call().await.method, "killSession");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_was_killed_when_its_session_was_archived_is_called_once() {
    let (world, session, mut cli) = session_with_methods(&["killSession"]).await;
    cli.serve(post_action(&world, &session, "archive", &json!({})), "killSession", &json!({})).await.ok();
    assert_eq!(cli.try_call().await.map(|call| call.method), None);
}

#[tokio::test(start_paused = true)]
async fn a_cli_of_a_session_that_is_not_archived_or_was_reopened_is_not_killed() {
    let world = World::new();
    let session = world.create_session("/open").await;
    assert!(!is_killed_at_registration(&mut world.live_cli(&session).await).await, "the session is active");
    assert!(
        !is_killed_at_registration(&mut world.cli(&world.create_session("/new").await).await).await,
        "the session is new"
    );
    let (world, session, _old_cli) = archived_session().await;
    assert_eq!(world.create_session_with("/code", resumable_metadata()).await, session);
    assert!(!is_killed_at_registration(&mut world.cli(&session).await).await, "the session was reopened by its tag");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_resumes_an_archived_session_is_not_killed() {
    for is_slow in [false, true] {
        let (world, session, old_cli) = archived_session().await;
        old_cli.socket.close();
        let mut runner = world.spawner("m", "box").await;
        let reply = resume(&world, &session);
        let call = runner.next_call().await;
        let mut cli = world.cli(&session).await;
        if is_slow {
            runner.respond(&call, &json!({"success": true}));
            world.advance(15_000).await;
            world.hibernate_and_wake().await;
        }
        assert!(!is_killed_at_registration(&mut cli).await, "{is_slow}");
        cli.send_keep_alive(&world, &session).await;
        match is_slow {
            true => drop(reply.reply().await.assert_error(504, "resume_failed")),
            false => {
                runner.respond(&call, &json!({"success": true}));
                assert_eq!(reply.reply().await.ok(), success(&session));
            }
        }
        assert_eq!(world.get_session(&session).await["active"], true, "{is_slow}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_starts_after_the_timeout_of_its_resume_is_killed() {
    let (world, session, old_cli) = archived_session().await;
    old_cli.socket.close();
    let mut runner = world.spawner("m", "box").await;
    let reply = accepted_resume(&world, &session, &mut runner).await;
    world.advance(600_000).await;
    reply.reply().await.assert_error(504, "resume_failed");
    assert!(is_killed_at_registration(&mut world.cli(&session).await).await);
}
