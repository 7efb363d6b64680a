//! Calls to a machine's runner whose results the hub returns unchanged, and forks.

use crate::support::merge::resumable_metadata;
use crate::support::prelude::*;
use crate::support::settings::{set_values, settings_of};

async fn machine_with_method(method: &str) -> (World, Cli) {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    runner.register(&format!("m:{method}")).await;
    (world, runner)
}

#[tokio::test(start_paused = true)]
async fn the_query_reaches_the_runner_and_its_result_is_returned_unchanged() {
    let table = [
        ("listDirectory", "directory?path=%2Fhome%2Fada", json!({"path": "/home/ada"})),
        ("listDirectory", "directory?path=&other=1", json!({})),
        ("listBranches", "branches?path=/w", json!({"path": "/w"})),
        (
            "listAgentSessions",
            "agent-sessions?agent=claude&cursor=a%22b&directory=/w",
            json!({"agent": "claude", "directory": "/w", "cursor": "a\"b"}),
        ),
    ];
    for (method, action, params) in table {
        let (world, mut runner) = machine_with_method(method).await;
        let result = json!({"success": true, "any": [1, {"deep": "ü"}]});
        let reply = world.start("GET", &format!("/api/machines/m/{action}"), "");
        let call = runner.next_call().await;
        runner.respond(&call, &result);
        assert_eq!((call.method.as_str(), call.params), (format!("m:{method}").as_str(), params), "{action}");
        assert_eq!(reply.reply().await.ok(), result);
    }
}

#[tokio::test(start_paused = true)]
async fn an_import_names_the_agent_and_its_session() {
    let (world, mut runner) = machine_with_method("importAgentSession").await;
    let body = json!({"agent": "claude", "id": "a-1", "directory": "/w", "trust": true});
    let reply = world.start("POST", "/api/machines/m/agent-sessions", body.to_string());
    let params = runner.respond_to_next_call("m:importAgentSession", &json!({"success": true, "sessionId": "s"})).await;
    assert_eq!((params, reply.reply().await.ok()), (body, json!({"success": true, "sessionId": "s"})));
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_cannot_be_called_is_a_result_with_the_reason() {
    let (world, mut runner) = machine_with_method("listDirectory").await;
    let failure = |body: Value| {
        assert_eq!(body["success"], false);
        assert!(body["error"].as_str().is_some_and(|reason| !reason.is_empty()), "{body}");
    };
    failure(world.get("/api/machines/m/branches?path=/w").await.ok());
    let reply = world.start("GET", "/api/machines/m/directory", "");
    runner.next_call().await;
    world.advance(RPC_TIMEOUT_MS).await;
    failure(reply.reply().await.ok());
    let reply = world.start("GET", "/api/machines/m/directory", "");
    runner.next_call().await;
    runner.socket.close();
    failure(reply.reply().await.ok());
}

#[tokio::test(start_paused = true)]
async fn a_fork_names_the_conversation_and_the_message_and_leaves_the_session_unchanged() {
    let (world, mut runner) = machine_with_method("forkSession").await;
    let session = world.create_session_with("/code", resumable_metadata()).await;
    let before = world.get_session(&session).await;
    let table = [
        (json!({"seq": 3}), json!({"seq": 3})),
        (
            json!({"seq": 0, "sessionType": "worktree", "worktreeName": "try", "trust": true}),
            json!({"seq": 0, "sessionType": "worktree", "worktreeName": "try", "trust": true}),
        ),
    ];
    for (body, point) in table {
        let reply = world.start("POST", &format!("/api/sessions/{session}/fork"), body.to_string());
        let params = runner.respond_to_next_call("m:forkSession", &json!({"success": true, "sessionId": "new"})).await;
        let mut expected =
            json!({"directory": "/code", "agent": "beta", "sessionId": session, "resumeSessionId": "agent-7"});
        expected.as_object_mut().unwrap().extend(point.as_object().unwrap().clone());
        assert_eq!(params, expected);
        assert_eq!(reply.reply().await.ok(), json!({"success": true, "type": "success", "sessionId": "new"}));
    }
    assert_eq!(world.get_session(&session).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_fork_takes_each_setting_of_the_session_except_the_pin() {
    let (world, mut runner) = machine_with_method("forkSession").await;
    let session = world.create_session_with("/code", resumable_metadata()).await;
    let fork = world.create_session("/fork").await;
    let mut settings = set_values();
    world.change_session(&session, &settings).await;
    let before = world.get_session(&session).await;
    // The second answer names no session of the hub.
    for id in [fork.as_str(), "unknown"] {
        let reply = world.start("POST", &format!("/api/sessions/{session}/fork"), json!({"seq": 3}).to_string());
        runner.respond_to_next_call("m:forkSession", &json!({"success": true, "sessionId": id})).await;
        assert_eq!(reply.reply().await.ok()["sessionId"], id);
    }
    settings.remove("pinned");
    assert_eq!(settings_of(&world.get_session(&fork).await), settings);
    assert_eq!(world.get_session(&session).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_spawn_forwards_the_branch_and_the_options() {
    let (world, mut runner) = machine_with_method("spawnSession").await;
    let body =
        json!({"directory": "/w", "agent": "beta", "branch": "main", "options": {"effort": "high", "fast": true}});
    let reply = world.start("POST", "/api/machines/m/spawn", body.to_string());
    assert_eq!(runner.respond_to_next_call("m:spawnSession", &json!({"success": true})).await, body);
    reply.reply().await.ok();
}
