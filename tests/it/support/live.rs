//! A session with a CLI at work, as most stories begin.

use serde_json::json;

use super::cli::Cli;
use super::{World, quiet};

/// An active session with its CLI.
pub async fn live() -> (World, String, Cli) {
    let world = World::new();
    let session = world.session("/code").await;
    let cli = world.live_cli(&session).await;
    quiet().await;
    (world, session, cli)
}

/// The same, where the CLI speaks for the machine `m` too.
pub async fn live_with_machine() -> (World, String, Cli) {
    let world = World::new();
    let session = world.session("/code").await;
    world.machine("m").await;
    let mut cli = Cli::connect(&world, json!({"sessionId": session, "machineId": "m"})).await;
    cli.alive(&world, &session).await;
    cli.ask("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    quiet().await;
    (world, session, cli)
}
