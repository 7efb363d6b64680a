//! Fixtures for permission requests.

use super::prelude::*;

/// A permission request in an agent state.
pub fn request(tool: &str) -> Value {
    json!({"tool": tool, "arguments": {"command": "ls", "n": 1.5}, "createdAt": 5})
}

/// The permission modes of the agent alpha.
pub const ALPHA: &[&str] = &["default", "acceptEdits", "bypassPermissions", "plan"];
/// The permission modes of the agent gamma.
pub const GAMMA: &[&str] = &["default", "plan", "ask", "yolo"];
const SANDBOXED: &[&str] = &["default", "read-only", "safe-yolo", "yolo"];
pub const ALL_MODES: [&str; 8] =
    ["default", "acceptEdits", "bypassPermissions", "plan", "ask", "read-only", "safe-yolo", "yolo"];
/// Flavors of sessions, with their permission modes.
pub const MODES_OF_FLAVORS: [(Option<&str>, &[&str]); 7] = [
    (Some("alpha"), ALPHA),
    (None, ALPHA),
    (Some("beta"), SANDBOXED),
    (Some("delta"), SANDBOXED),
    (Some("epsilon"), &["default", "yolo"]),
    (Some("gamma"), GAMMA),
    (Some("zeta"), &["default"]),
];

/// An active session with the pending requests `r1` (Bash) and `r2` (Edit).
pub async fn session_with_requests(flavor: &Value) -> (World, String, Cli) {
    let world = World::new();
    let session = world.create_session_with("/code", json!({"flavor": flavor})).await;
    let mut cli = world.live_cli(&session).await;
    cli.register("permission").await;
    let state = json!({"requests": {"r1": request("Bash"), "r2": request("Edit")}, "controlledByUser": false});
    assert_eq!(cli.update_agent_state(&session, 1, &state).await["version"], 2);
    run_until_idle().await;
    (world, session, cli)
}

/// Posts an answer to a permission request. `action` is the id of the permission request and the decision, such as
/// `r1/approve`.
pub fn start_answer(world: &World, session: &str, action: &str, body: &Value) -> PendingReply {
    world.start("POST", &format!("/api/sessions/{session}/permissions/{action}"), body.to_string())
}

/// Posts an answer, and responds to the call of the CLI. Returns the parameters of the call.
pub async fn answer(world: &World, session: &str, cli: &mut Cli, action: &str, body: &Value) -> Value {
    let reply = start_answer(world, session, action, body);
    let params = cli.respond_to_next_call("permission", &json!({"ok": true})).await;
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}), "{action} {body}");
    params
}

pub async fn agent_state(world: &World, session: &str) -> Value {
    world.get_session(session).await["agentState"].clone()
}

/// The entry of a completed request.
pub async fn completed(world: &World, session: &str, request: &str) -> Value {
    agent_state(world, session).await["completedRequests"][request].clone()
}

/// The next event with an agent state.
pub async fn state_event(web: &mut Web) -> Value {
    loop {
        let data = web.next_event_of("session-updated").await["data"].clone();
        if data.get("agentState").is_some() {
            return data;
        }
    }
}

/// The ids of the pending requests.
pub async fn pending(world: &World, session: &str) -> Vec<String> {
    agent_state(world, session).await["requests"].as_object().unwrap().keys().cloned().collect()
}
