//! An active session with a connected CLI, the fixture of most tests.

use serde_json::json;

use super::cli::Cli;
use super::{World, run_until_idle};

/// An active session and its CLI.
pub async fn live_session() -> (World, String, Cli) {
    let world = World::new();
    let session = world.create_session("/code").await;
    let cli = world.live_cli(&session).await;
    run_until_idle().await;
    (world, session, cli)
}

/// An active session whose CLI is also the runner of the online machine `m`.
pub async fn live_session_with_machine() -> (World, String, Cli) {
    let world = World::new();
    let session = world.create_session("/code").await;
    world.register_machine("m").await;
    let mut cli = Cli::connect(&world, json!({"sessionId": session, "machineId": "m"})).await;
    cli.send_keep_alive(&world, &session).await;
    cli.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    run_until_idle().await;
    (world, session, cli)
}
