//! An agent that asks for leave, and the answers.

use serde_json::{Value, json};

use super::cli::Cli;
use super::rest::PendingReply;
use super::web::Web;
use super::{World, run_until_idle};

/// A request as an agent writes it.
pub fn request(tool: &str) -> Value {
    json!({"tool": tool, "arguments": {"command": "ls", "n": 1.5}, "createdAt": 5})
}

/// An active session of a flavor, whose agent asks for leave to use Bash (`r1`) and Edit (`r2`).
pub async fn asking(flavor: &Value) -> (World, String, Cli) {
    let world = World::new();
    let session = world.create_session_with("/code", json!({"flavor": flavor})).await;
    let mut cli = world.live_cli(&session).await;
    cli.register("permission").await;
    let state = json!({"requests": {"r1": request("Bash"), "r2": request("Edit")}, "controlledByUser": false});
    assert_eq!(cli.update_state(&session, 1, &state).await["version"], 2);
    run_until_idle().await;
    (world, session, cli)
}

/// An answer of the web: `r1/approve` and the like.
pub fn answer(world: &World, session: &str, how: &str, body: &Value) -> PendingReply {
    world.start("POST", &format!("/api/sessions/{session}/permissions/{how}"), body.to_string())
}

/// An answer that the CLI acknowledges; answers what the CLI heard.
pub async fn answered(world: &World, session: &str, cli: &mut Cli, how: &str, body: &Value) -> Value {
    let answer = answer(world, session, how, body);
    let heard = cli.serve("permission", &json!({"ok": true})).await;
    assert_eq!(answer.reply().await.ok(), json!({"ok": true}), "{how} {body}");
    heard
}

/// The state as `GET` shows it.
pub async fn state(world: &World, session: &str) -> Value {
    world.get_session(session).await["agentState"].clone()
}

/// A completed request as `GET` shows it.
pub async fn completed(world: &World, session: &str, request: &str) -> Value {
    state(world, session).await["completedRequests"][request].clone()
}

/// The next change of the agent state that a web client hears of.
pub async fn state_event(web: &mut Web) -> Value {
    loop {
        let data = web.next_event_of("session-updated").await["data"].clone();
        if data.get("agentState").is_some() {
            return data;
        }
    }
}
