//! An active session with a connected CLI, the fixture of most tests.

use super::prelude::*;

/// A session without a CLI.
pub async fn idle_session() -> (World, String) {
    let world = World::new();
    let session = world.create_session("/code").await;
    (world, session)
}

/// An active session and its CLI.
pub async fn live_session() -> (World, String, Cli) {
    let (world, session) = idle_session().await;
    let cli = world.live_cli(&session).await;
    run_until_idle().await;
    (world, session, cli)
}

/// An active session whose CLI has registered these methods.
pub async fn session_with_methods(methods: &[&str]) -> (World, String, Cli) {
    let (world, session, mut cli) = live_session().await;
    for method in methods {
        cli.register(method).await;
    }
    run_until_idle().await;
    (world, session, cli)
}

/// An active session, its CLI, and a web client with this query, in which `$` is the id of the session.
pub async fn watched_session(query: &str) -> (World, String, Cli, Web) {
    let (world, session, cli) = live_session().await;
    let web = world.web(&query.replace('$', &session)).await;
    (world, session, cli, web)
}

/// An active session whose CLI is also the runner of the online machine `m`.
pub async fn live_session_with_machine() -> (World, String, Cli) {
    let (world, session) = idle_session().await;
    world.register_machine("m").await;
    let mut cli = Cli::connect(&world, json!({"sessionId": session, "machineId": "m"})).await;
    cli.send_keep_alive(&world, &session).await;
    cli.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    run_until_idle().await;
    (world, session, cli)
}
