//! The grace for a CLI on its way back: a call waits for it a little, so that neither a broken connection nor a restart of
//! the hub is a failure that a person sees.

use crate::support::cli::Cli;
use crate::support::rest::Awaited;
use crate::support::{RECONNECT_GRACE_MS, RPC_TIMEOUT_MS, World, quiet};
use serde_json::{Value, json};

/// For how long after a restart CLIs count as on their way back.
const RESTART_MS: u64 = 10_000;

async fn serving() -> (World, String, Cli) {
    let world = World::new();
    let session = world.session("/code").await;
    let mut cli = world.live_cli(&session).await;
    cli.register("gitStatus").await;
    (world, session, cli)
}

fn git_status(world: &World, session: &str) -> Awaited {
    world.start("GET", &format!("/api/sessions/{session}/git-status"), "")
}

/// The session's CLI is there again, and answers the one call that waits for it.
async fn back_and_serving(world: &World, session: &str) -> Cli {
    let mut cli = world.cli(session).await;
    cli.register("gitStatus").await;
    cli.serve("gitStatus", &json!({"success": true})).await;
    cli
}

fn nobody() -> Value {
    json!({"success": false, "error": "No handler registered for gitStatus"})
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_cli_that_was_there_a_moment_ago() {
    let (world, session, cli) = serving().await;
    cli.socket.close();
    world.pass(RECONNECT_GRACE_MS - 1).await;
    let call = git_status(&world, &session);
    world.pass(RECONNECT_GRACE_MS - 1).await;
    assert!(!call.is_here());
    let _back = back_and_serving(&world, &session).await;
    assert_eq!(call.reply().await.ok(), json!({"success": true}));
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_after_two_seconds_by_the_alarm() {
    let (world, session, cli) = serving().await;
    cli.socket.close();
    let call = git_status(&world, &session);
    quiet().await;
    assert_eq!(world.rt.alarm(), Some(world.now() + RECONNECT_GRACE_MS));
    world.pass(RECONNECT_GRACE_MS - 1).await;
    assert!(!call.is_here());
    world.pass(1).await;
    assert_eq!(call.reply().await.ok(), nobody());
    assert_eq!(git_status(&world, &session).reply().await.ok(), nobody(), "and nobody waits any more");
}

#[tokio::test(start_paused = true)]
async fn what_no_socket_served_a_moment_ago_is_not_waited_for() {
    let (world, session, mut cli) = serving().await;
    cli.register("readFile").await;
    cli.ask("rpc-unregister", &json!({"method": "readFile"})).await;
    cli.socket.close();
    for (route, method) in [("file?path=a", "readFile"), ("skills", "listSkills")] {
        let answer = world.get(&format!("/api/sessions/{session}/{route}")).await.ok();
        assert_eq!(answer["error"], format!("No handler registered for {method}"));
    }
    // Nor is a CLI that said goodbye.
    let (world, session, mut cli) = serving().await;
    cli.ask("session-end", &json!({"sid": session, "time": world.now()})).await;
    cli.socket.close();
    assert_eq!(git_status(&world, &session).reply().await.ok(), nobody());
}

#[tokio::test(start_paused = true)]
async fn the_wait_is_part_of_the_time_that_a_call_has() {
    let (world, session, cli) = serving().await;
    cli.socket.close();
    let call = git_status(&world, &session);
    world.pass(RECONNECT_GRACE_MS / 2).await;
    let mut back = world.cli(&session).await;
    back.register("gitStatus").await;
    back.request().await;
    world.pass(RPC_TIMEOUT_MS - RECONNECT_GRACE_MS / 2 - 1).await;
    assert!(!call.is_here());
    world.pass(1).await;
    assert_eq!(call.reply().await.ok()["error"], "RPC timed out: gitStatus");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_is_back_and_gone_again_at_once_is_waited_for_further() {
    let (world, session, cli) = serving().await;
    cli.socket.close();
    let call = git_status(&world, &session);
    quiet().await;
    // It registers and leaves before whoever waits has had a turn.
    let back = world.cli(&session).await;
    let conn = world.rt.conn(back.socket.key).unwrap();
    world.hub().on_text(conn, r#"42/cli,["rpc-register",{"method":"gitStatus"}]"#.into()).await;
    back.socket.close();
    quiet().await;
    assert!(!call.is_here());
    let _again = back_and_serving(&world, &session).await;
    assert_eq!(call.reply().await.ok(), json!({"success": true}));
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_hub_is_nothing_that_a_call_notices() {
    let (world, session, cli) = serving().await;
    quiet().await;
    // A restart takes the sockets along, and nobody hears of it.
    world.rt.forget(world.rt.conn(cli.socket.key).unwrap());
    world.restart();
    let call = git_status(&world, &session);
    world.pass(RECONNECT_GRACE_MS - 1).await;
    assert!(!call.is_here());
    let mut back = back_and_serving(&world, &session).await;
    assert_eq!(call.reply().await.ok(), json!({"success": true}));
    // The rest of its methods follows; what has not come then, will not.
    let skills = world.start("GET", &format!("/api/sessions/{session}/skills"), "");
    quiet().await;
    back.register("listSkills").await;
    back.serve("listSkills", &json!({"success": true, "skills": []})).await;
    skills.reply().await.ok();
    world.pass(RECONNECT_GRACE_MS).await;
    let answer = world.get(&format!("/api/sessions/{session}/directory")).await.ok();
    assert_eq!(answer["error"], "No handler registered for listDirectory");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_does_not_come_back_after_a_restart_is_waited_for_during_ten_seconds_and_no_longer() {
    let (world, session, cli) = serving().await;
    let idle = world.session("/idle").await;
    quiet().await;
    world.rt.forget(world.rt.conn(cli.socket.key).unwrap());
    world.restart();
    assert_eq!(git_status(&world, &idle).reply().await.ok(), nobody(), "it was not active");
    world.pass(RESTART_MS - 1).await;
    let call = git_status(&world, &session);
    quiet().await;
    assert!(!call.is_here());
    world.pass(RECONNECT_GRACE_MS).await;
    assert_eq!(call.reply().await.ok(), nobody());
    assert_eq!(git_status(&world, &session).reply().await.ok(), nobody());
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_left_long_before_a_sleep_is_not_waited_for_after_it() {
    let (world, session, cli) = serving().await;
    cli.socket.close();
    world.pass(RESTART_MS).await;
    world.sleep_and_wake().await;
    assert_eq!(git_status(&world, &session).reply().await.ok(), nobody());
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_is_on_its_way_back_is_asked_to_resume_a_session() {
    let world = World::new();
    let runner = world.spawner("m", "box").await;
    let resumable = json!({"flavor": "beta", "betaSessionId": "agent-7", "machineId": "m"});
    let session = world.session_with("/code", resumable).await;
    quiet().await;
    runner.socket.close();
    let resumed = world.start("POST", &format!("/api/sessions/{session}/resume"), "");
    quiet().await;
    assert!(!resumed.is_here());
    let mut back = world.spawner("m", "box").await;
    back.serve("spawnSession", &json!({"success": true})).await;
    let _cli = world.live_cli(&session).await;
    resumed.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn two_answers_to_a_permission_request_wait_as_one() {
    let (world, session, mut cli) = serving().await;
    cli.register("permission").await;
    cli.state(&session, 1, &json!({"requests": {"r1": {"tool": "shell", "arguments": {}}}})).await;
    cli.socket.close();
    let path = format!("/api/sessions/{session}/permissions/r1");
    let approved = world.start("POST", &format!("{path}/approve"), "{}");
    quiet().await;
    world.post(&format!("{path}/deny"), &json!({})).await.refuses(404, "request_not_found");
    let mut back = world.live_cli(&session).await;
    back.register("permission").await;
    back.serve("permission", &json!({})).await;
    approved.reply().await.ok();
}
