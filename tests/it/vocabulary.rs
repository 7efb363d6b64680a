//! Deployments with a `VOCABULARY`: aliases that CLIs use for agents, models and methods.

use crate::support::permissions::{ALL_MODES, ALPHA, GAMMA};
use crate::support::prelude::*;

const VOCABULARY: &str = r#"{
    "agents": {"zeta-coder": "alpha", "eta": "gamma", "zeta-classic": "alpha"},
    "models": {"swift": "model_fast", "thorough": "model_strong"},
    "methods": {
        "git-status": "gitStatus",
        "commands": "listSlashCommands",
        "spawn-session": "spawnSession",
        "stop": "abort",
        "decide": "permission",
        "configure": "set-session-config"
    }
}"#;

/// Returns an active session of this flavor, and its CLI.
async fn session_of_flavor(world: &World, flavor: Value) -> (String, Cli) {
    let (session, cli) = world.active_session_with(&format!("/code/{flavor}"), json!({"flavor": flavor})).await;
    (session, cli)
}

fn post(world: &World, session: &str, action: &str, body: &Value) -> PendingReply {
    world.start("POST", &format!("/api/sessions/{session}/{action}"), body.to_string())
}

fn get(world: &World, session: &str, action: &str) -> PendingReply {
    world.start("GET", &format!("/api/sessions/{session}/{action}"), "")
}

/// Sets a mode or model, which the CLI reports as applied. Returns the parameters of the call and the HTTP response.
async fn set_mode(world: &World, cli: &mut Cli, session: &str, action: &str, body: Value) -> (Value, Reply) {
    let reply = post(world, session, action, &body);
    let request = cli.next_call().await;
    assert_eq!(request.method, "configure");
    cli.respond(&request, &json!({"applied": request.params}));
    (request.params, reply.reply().await)
}

/// Registers the machine `m`. Returns its runner, which is online and has registered `method`.
async fn online_runner(world: &World, method: &str) -> Cli {
    world.register_machine("m").await;
    let mut runner = world.runner("m").await;
    runner.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    runner.register(method).await;
    runner
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_flavor_is_an_alias_accepts_the_permission_modes_of_that_agent() {
    let world = World::with_vocabulary(VOCABULARY);
    let table = [("zeta-coder", ALPHA), ("zeta-classic", ALPHA), ("alpha", ALPHA), ("eta", GAMMA), ("gamma", GAMMA)];
    for (flavor, valid) in table {
        let (session, mut cli) = session_of_flavor(&world, json!(flavor)).await;
        cli.register("configure").await;
        for mode in ALL_MODES {
            let body = json!({"mode": mode});
            if valid.contains(&mode) {
                let (params, reply) = set_mode(&world, &mut cli, &session, "permission-mode", body).await;
                assert_eq!((params, reply.ok()), (json!({"permissionMode": mode}), json!({"ok": true})), "{flavor}");
                assert_eq!(world.get_session(&session).await["permissionMode"], mode, "{flavor}");
            } else {
                let reply = post(&world, &session, "permission-mode", &body).reply().await;
                assert_eq!(reply.assert_error(400, "invalid_field")["field"], "mode", "{flavor} {mode}");
            }
        }
        assert_eq!(world.get_session(&session).await["metadata"]["flavor"], flavor, "as the CLI wrote it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_is_sent_and_shown_under_the_name_that_the_cli_uses() {
    let world = World::with_vocabulary(VOCABULARY);
    let own = ["swift", "swift", "thorough", "thorough", "default"];
    let protocol = ["model_fast", "model_fast", "model_strong", "model_strong", "default"];
    for (flavor, expected) in [(json!("zeta-coder"), own), (json!("alpha"), protocol), (Value::Null, own)] {
        let (session, mut cli) = session_of_flavor(&world, flavor).await;
        cli.register("configure").await;
        let requested = ["swift", "model_fast", "thorough", "model_strong", "default"];
        for (model, sent) in requested.into_iter().zip(expected) {
            let (params, reply) = set_mode(&world, &mut cli, &session, "model", json!({"model": model})).await;
            assert_eq!((params, reply.ok()), (json!({"modelMode": sent}), json!({"ok": true})));
            assert_eq!(world.get_session(&session).await["modelMode"], sent);
            let list = world.get("/api/sessions").await.ok();
            let summary = list["sessions"].as_array().unwrap().iter().find(|summary| summary["id"] == session.as_str());
            assert_eq!(summary.unwrap()["modelMode"], sent);
        }
        let reply = post(&world, &session, "model", &json!({"model": "huge"})).reply().await;
        let text = reply.assert_error(400, "invalid_field")["error"].as_str().unwrap().to_owned();
        assert!(text.contains("model_strong, swift, thorough"), "the error lists all names: {text}");
    }
    let (session, _cli) = session_of_flavor(&world, json!("eta")).await;
    let reply = post(&world, &session, "model", &json!({"model": "swift"})).reply().await;
    assert_eq!(reply.assert_error(400, "invalid_field")["field"], "model", "the agent of the session has no models");
}

#[tokio::test(start_paused = true)]
async fn modes_and_models_are_stored_under_the_name_that_the_cli_used() {
    let world = World::with_vocabulary(VOCABULARY);
    let (session, mut cli) = session_of_flavor(&world, json!("zeta-coder")).await;
    cli.register("configure").await;
    let reply = post(&world, &session, "model", &json!({"model": "model_fast"}));
    cli.respond_to_next_call("configure", &json!({"applied": {"modelMode": "swift"}})).await;
    reply.reply().await.ok();
    assert_eq!(world.get_session(&session).await["modelMode"], "swift");
    let alive = json!({"sid": session, "time": world.now(), "permissionMode": "plan", "modelMode": "thorough"});
    cli.emit_with_ack("session-alive", &alive).await;
    world.hibernate_and_wake().await;
    assert_eq!(pick(&world.get_session(&session).await, ["permissionMode", "modelMode"]), json!(["plan", "thorough"]));
    let metadata = json!({"path": "/code/created", "host": "box", "flavor": "zeta-coder"});
    let created =
        world.post("/cli/sessions", &json!({"tag": "created", "metadata": metadata, "model": "swift"})).await.ok();
    assert_eq!(created["session"]["modelMode"], "swift");
}

#[tokio::test(start_paused = true)]
async fn a_decision_accepts_the_modes_of_the_agent_and_is_sent_under_the_registered_name() {
    let world = World::with_vocabulary(VOCABULARY);
    let (session, mut cli) = session_of_flavor(&world, json!("eta")).await;
    cli.register("decide").await;
    cli.update_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "Bash", "arguments": {}}}})).await;
    let reply = post(&world, &session, "permissions/r/approve", &json!({"mode": "acceptEdits"})).reply().await;
    assert_eq!(reply.assert_error(400, "invalid_field")["field"], "mode");
    let reply = post(&world, &session, "permissions/r/approve", &json!({"mode": "ask"}));
    let params = cli.respond_to_next_call("decide", &json!({})).await;
    assert_eq!(params, json!({"id": "r", "approved": true, "mode": "ask"}));
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    let completed = world.get_session(&session).await["agentState"]["completedRequests"]["r"].clone();
    assert_eq!((&completed["status"], &completed["mode"]), (&json!("approved"), &json!("ask")));
}

#[tokio::test(start_paused = true)]
async fn a_call_is_sent_under_the_name_that_the_cli_registered() {
    let world = World::with_vocabulary(VOCABULARY);
    let (session, mut cli) = session_of_flavor(&world, json!("zeta-coder")).await;
    let scoped_alias = format!("{session}:git-status");
    let scoped_name = format!("{session}:gitStatus");
    for name in ["git-status", "gitStatus", scoped_alias.as_str(), scoped_name.as_str()] {
        cli.register(name).await;
        let call = get(&world, &session, "git-status");
        let params = cli.respond_to_next_call(name, &json!({"success": true})).await;
        assert_eq!(params, json!({"cwd": "/code/\"zeta-coder\""}));
        assert_eq!(call.reply().await.ok(), json!({"success": true}), "{name}");
    }
    cli.register("stop").await;
    let reply = post(&world, &session, "abort", &json!({"reason": "wrong file"}));
    assert_eq!(cli.respond_to_next_call("stop", &json!({})).await, json!({"reason": "wrong file"}));
    reply.reply().await.ok();
    assert_eq!(world.get_session(&session).await["active"], false);
}

/// Asserts that `handler` receives calls of `gitStatus` under `name` and `other` receives none, before and after a hibernation.
async fn assert_served_as(world: &World, session: &str, name: &str, handler: &mut Cli, other: &mut Cli) {
    for _ in 0..2 {
        let call = get(world, session, "git-status");
        handler.respond_to_next_call(name, &json!({"success": true})).await;
        assert_eq!(call.reply().await.ok(), json!({"success": true}));
        other.socket.assert_no_frames().await;
        world.hibernate_and_wake().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_cli_that_registered_last_is_called_even_if_it_used_an_alias() {
    let world = World::with_vocabulary(VOCABULARY);
    let (session, mut first) = session_of_flavor(&world, json!("zeta-coder")).await;
    let mut second = world.cli(&session).await;
    first.register("gitStatus").await;
    second.register("git-status").await;
    assert_served_as(&world, &session, "git-status", &mut second, &mut first).await;
    // A socket that registers both names is called under the name that it registered last.
    second.register("gitStatus").await;
    second.register("git-status").await;
    second.register("gitStatus").await;
    assert_served_as(&world, &session, "gitStatus", &mut second, &mut first).await;
    // Only the CLI that is called can unregister the method. It may use either name.
    first.emit_with_ack("rpc-unregister", &json!({"method": "git-status"})).await;
    assert_served_as(&world, &session, "gitStatus", &mut second, &mut first).await;
    second.emit_with_ack("rpc-unregister", &json!({"method": "git-status"})).await;
    for _ in 0..2 {
        let reply = get(&world, &session, "git-status").reply().await.ok();
        assert_eq!(reply["error"], "No handler registered for gitStatus");
        world.hibernate_and_wake().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_for_slash_commands_has_the_agent_name_of_the_cli() {
    let world = World::with_vocabulary(VOCABULARY);
    for (flavor, agent) in [(json!("eta"), "eta"), (json!("alpha"), "alpha"), (Value::Null, "zeta-coder")] {
        let (session, mut cli) = session_of_flavor(&world, flavor).await;
        cli.register("commands").await;
        let call = get(&world, &session, "slash-commands");
        assert_eq!(cli.respond_to_next_call("commands", &json!({"success": true})).await, json!({"agent": agent}));
        call.reply().await.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn a_spawn_uses_aliases_if_the_runner_registered_its_method_under_an_alias() {
    let world = World::with_vocabulary(VOCABULARY);
    let mut runner = online_runner(&world, "m:spawn-session").await;
    let result = json!({"success": true, "sessionId": "s"});
    let spawn = |body: Value| world.start("POST", "/api/machines/m/spawn", body.to_string());
    let table = [
        (Some("zeta-coder"), None, "zeta-coder", "alpha"),
        (Some("zeta-classic"), Some("model_fast"), "zeta-classic", "alpha"),
        (Some("alpha"), Some("swift"), "zeta-coder", "alpha"),
        (Some("eta"), None, "eta", "gamma"),
        (Some("gamma"), Some("model_fast"), "eta", "gamma"),
        (Some("beta"), None, "beta", "beta"),
        (None, None, "zeta-coder", "alpha"),
    ];
    for method in ["m:spawn-session", "m:spawnSession"] {
        runner.register(method).await;
        for (agent, model, own, protocol) in table {
            let reply = spawn(json!({"directory": "/code", "agent": agent, "model": model}));
            let params = runner.respond_to_next_call(method, &result).await;
            let is_own = method == "m:spawn-session";
            assert_eq!(params["agent"], if is_own { own } else { protocol }, "{method} {agent:?}");
            // Only agent alpha has model modes; the model of another agent is the agent's own name.
            let sent = match (model, protocol) {
                (Some(_), "alpha") => Some(if is_own { "swift" } else { "model_fast" }),
                _ => model,
            };
            assert_eq!(params.get("model").and_then(Value::as_str), sent, "{method} {agent:?}");
            assert_eq!(pick(&reply.reply().await.ok(), ["success", "sessionId"]), json!([true, "s"]));
        }
    }
    let error = spawn(json!({"directory": "/code", "agent": "theta"})).reply().await.assert_error(400, "invalid_field");
    assert_eq!(error["field"], "agent");
    assert!(error["error"].as_str().unwrap().contains("epsilon, zeta-coder, eta"), "{error}");
    runner.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_resume_finds_the_agent_session_id_under_an_alias() {
    let world = World::with_vocabulary(VOCABULARY);
    let mut runner = online_runner(&world, "spawn-session").await;
    let table = [
        (json!({"flavor": "zeta-coder", "zeta-coderSessionId": "z"}), "zeta-coder", "z"),
        (json!({"flavor": "zeta-coder", "alphaSessionId": "a", "zeta-coderSessionId": "z"}), "zeta-coder", "z"),
        (json!({"flavor": "zeta-coder", "zeta-classicSessionId": "c", "alphaSessionId": "a"}), "zeta-coder", "a"),
        (json!({"flavor": "alpha", "zeta-classicSessionId": "c"}), "zeta-coder", "c"),
        (json!({"zeta-coderSessionId": "z"}), "zeta-coder", "z"),
        (json!({"flavor": "eta", "etaSessionId": "e"}), "eta", "e"),
    ];
    for (n, (metadata, agent, agent_session)) in table.into_iter().enumerate() {
        let session = world.create_session_with(&format!("/code/{n}"), metadata).await;
        let reply = world.start("POST", &format!("/api/sessions/{session}/resume"), "");
        let params = runner.respond_to_next_call("spawn-session", &json!({"success": true})).await;
        let directory = format!("/code/{n}");
        let expected =
            json!({"directory": directory, "agent": agent, "sessionId": session, "resumeSessionId": agent_session});
        assert_eq!(params, expected);
        world.live_cli(&session).await;
        assert_eq!(reply.reply().await.ok(), json!({"success": true, "sessionId": session}));
    }
    let other = world.create_session_with("/code/other", json!({"flavor": "eta", "zeta-coderSessionId": "z"})).await;
    post(&world, &other, "resume", &json!({})).reply().await.assert_error(409, "resume_unavailable");
}

#[tokio::test(start_paused = true)]
async fn todos_are_found_under_the_agent_name_of_the_protocol_and_under_its_alias() {
    let world = World::with_vocabulary(VOCABULARY);
    let (session, mut cli) = session_of_flavor(&world, json!("zeta-coder")).await;
    for kind in ["zeta-coder", "alpha", "eta", "epsilon"] {
        let todos = json!([{"id": "1", "content": kind, "status": "pending", "priority": "high"}]);
        let data = json!({"type": "tool-call", "name": "TodoWrite", "input": {"todos": todos}});
        let message = json!({"role": "agent", "content": {"type": kind, "data": data}});
        cli.emit_with_ack("message", &json!({"sid": session, "message": message})).await;
        assert_eq!(world.get_session(&session).await["todos"], todos);
    }
    let plan = json!({"type": "plan", "entries": [{"content": "planned", "status": "completed"}]});
    let message = json!({"role": "agent", "content": {"type": "zeta-coder", "data": plan}});
    cli.emit_with_ack("message", &json!({"sid": session, "message": message})).await;
    assert_eq!(world.get_session(&session).await["todos"][0]["content"], "planned");
    let unknown = json!({"role": "agent", "content": {"type": "theta", "data": plan}});
    cli.emit_with_ack("message", &json!({"sid": session, "message": unknown})).await;
    // The search in older messages finds lists under either name, too.
    run_until_idle().await;
    world.db.execute("UPDATE sessions SET todos = NULL");
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["todos"][0]["content"], "planned");
}

#[tokio::test(start_paused = true)]
async fn without_a_vocabulary_aliases_are_unknown() {
    let world = World::new();
    let (session, mut cli) = session_of_flavor(&world, json!("zeta-coder")).await;
    for method in ["configure", "git-status", "set-session-config"] {
        cli.register(method).await;
    }
    for (action, body, field) in [
        ("permission-mode", json!({"mode": "plan"}), "mode"),
        ("model", json!({"model": "swift"}), "model"),
        ("model", json!({"model": "model_fast"}), "model"),
    ] {
        let reply = post(&world, &session, action, &body).reply().await;
        assert_eq!(reply.assert_error(400, "invalid_field")["field"], field, "{action}");
    }
    let status = get(&world, &session, "git-status").reply().await.ok();
    let hint = "No handler registered for gitStatus. The CLI registered configure, git-status: if one of these is the \
        same method, map it in the setting VOCABULARY of the hub (docs/CLIENTS.md)";
    assert_eq!(status, json!({"success": false, "error": hint}));
    cli.socket.assert_no_frames().await;
    let mut runner = online_runner(&world, "spawn-session").await;
    let spawn =
        async |agent: &str| world.post("/api/machines/m/spawn", &json!({"directory": "/code", "agent": agent})).await;
    assert_eq!(spawn("zeta-coder").await.assert_error(400, "invalid_field")["field"], "agent");
    let error = spawn("alpha").await.assert_error(503, "cli_unreachable");
    let hint = "No handler registered for spawnSession. The CLI registered spawn-session: if one of these is the same \
        method, map it in the setting VOCABULARY of the hub (docs/CLIENTS.md).";
    assert_eq!(error["error"], hint);
    let ended = world.create_session_with("/code", json!({"flavor": "zeta-coder", "alphaSessionId": "a"})).await;
    post(&world, &ended, "resume", &json!({})).reply().await.assert_error(409, "resume_unavailable");
    for flavor in ["alpha", "zeta-coder"] {
        let metadata = json!({"flavor": flavor, format!("{flavor}SessionId"): "a"});
        let resumable = world.create_session_with(&format!("/{flavor}"), metadata).await;
        post(&world, &resumable, "resume", &json!({})).reply().await.assert_error(503, "no_machine_online");
    }
    runner.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn the_configuration_lists_the_agents_of_the_deployment() {
    let world = World::with_vocabulary("preset:hapi");
    let config = world.get("/api/config").await.ok();
    assert_eq!(config["version"], env!("CARGO_PKG_VERSION"));
    let names = |list: &Value, name: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&config["agents"], "id"), ["claude", "codex", "cursor", "gemini", "opencode"]);
    assert_eq!(names(&config["agents"], "label"), ["Claude", "Codex", "Cursor", "Gemini", "OpenCode"]);
    assert_eq!(config["defaultAgent"], "claude");
    assert_eq!(names(&config["agents"][0]["models"], "id"), ["default", "sonnet", "opus"]);
    assert_eq!(
        config["agents"][0]["modes"][1],
        json!({
            "id": "acceptEdits",
            "label": "Accept edits",
            "description": "Edits files without asking, asks before commands",
            "acceptsEdits": true,
        })
    );
    assert_eq!(
        config["agents"][3]["modes"][1],
        json!({"id": "read-only", "label": "Read only", "description": "Changes no files"})
    );
    assert_eq!(config["limits"], json!({"uploadBytes": 52_428_800, "messageBytes": 1_048_576}));
    assert_eq!(config["push"], json!({"available": false}), "there is no contact for push services");
    let plain = World::new().get("/api/config").await.ok();
    assert_eq!(names(&plain["agents"], "id"), ["alpha", "beta", "gamma", "delta", "epsilon"]);
    assert_eq!(plain["defaultAgent"], "alpha");
}

#[tokio::test(start_paused = true)]
async fn a_setting_is_also_sent_and_read_under_the_name_that_the_deployment_uses_for_the_field() {
    let world = World::with_vocabulary("preset:hapi");
    let (session, mut cli) = session_of_flavor(&world, json!("claude")).await;
    cli.register("set-session-config").await;
    let model = async || world.get_session(&session).await["modelMode"].clone();
    for (requested, sent, applied, shown) in [
        ("opus", "opus", json!("opus"), "opus"),
        ("model_fast", "sonnet", json!("sonnet"), "sonnet"),
        ("default", "default", Value::Null, "default"),
    ] {
        let reply = post(&world, &session, "model", &json!({"model": requested}));
        let params = cli.respond_to_next_call("set-session-config", &json!({"applied": {"model": applied}})).await;
        assert_eq!(params, json!({"modelMode": sent, "model": sent}));
        reply.reply().await.ok();
        assert_eq!(model().await, shown);
    }
    for (reported, shown) in [(json!("opus"), "opus"), (Value::Null, "default")] {
        let alive = json!({"sid": session, "time": world.now(), "model": reported});
        cli.emit_with_ack("session-alive", &alive).await;
        assert_eq!(model().await, shown);
    }
    cli.emit_with_ack("session-alive", &json!({"sid": session, "time": world.now()})).await;
    assert_eq!(model().await, "default", "a keep-alive without the field changes nothing");
}
