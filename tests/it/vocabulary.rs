//! A deployment whose CLIs have words of their own for agents, models and methods, beside those of the interface.

use crate::support::cli::Cli;
use crate::support::rest::{PendingReply, Reply};
use crate::support::{World, run_until_idle};
use serde_json::{Value, json};

const WORDS: &str = r#"{
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

/// An active session of this flavor, and its CLI.
async fn live_session(world: &World, flavor: Value) -> (String, Cli) {
    let session = world.create_session_with(&format!("/code/{flavor}"), json!({"flavor": flavor})).await;
    let cli = world.live_cli(&session).await;
    (session, cli)
}

fn ask(world: &World, session: &str, what: &str, body: &Value) -> PendingReply {
    world.start("POST", &format!("/api/sessions/{session}/{what}"), body.to_string())
}

fn read(world: &World, session: &str, what: &str) -> PendingReply {
    world.start("GET", &format!("/api/sessions/{session}/{what}"), "")
}

/// A change of mode or model that the CLI applies in the words that it was asked in; what it heard, and the answer.
async fn applied(world: &World, cli: &mut Cli, session: &str, what: &str, body: Value) -> (Value, Reply) {
    let reply = ask(world, session, what, &body);
    let request = cli.next_call().await;
    assert_eq!(request.method, "configure");
    cli.respond(&request, &json!({"applied": request.params}));
    (request.params, reply.reply().await)
}

/// A machine `m` of the host `box` that is online and serves what is `method`.
async fn runner(world: &World, method: &str) -> Cli {
    world.register_machine("m").await;
    let mut runner = world.runner("m").await;
    runner.emit_with_ack("machine-alive", &json!({"machineId": "m", "time": world.now()})).await;
    runner.register(method).await;
    runner
}

#[tokio::test(start_paused = true)]
async fn a_session_of_the_clis_own_flavor_takes_the_permission_modes_of_the_agent_it_stands_for() {
    let world = World::with_vocabulary(WORDS);
    let alpha: &[&str] = &["default", "acceptEdits", "bypassPermissions", "plan"];
    let gamma: &[&str] = &["default", "plan", "ask", "yolo"];
    let table = [("zeta-coder", alpha), ("zeta-classic", alpha), ("alpha", alpha), ("eta", gamma), ("gamma", gamma)];
    for (flavor, valid) in table {
        let (session, mut cli) = live_session(&world, json!(flavor)).await;
        cli.register("configure").await;
        for mode in ["default", "acceptEdits", "bypassPermissions", "plan", "ask", "read-only", "safe-yolo", "yolo"] {
            let body = json!({"mode": mode});
            if valid.contains(&mode) {
                let (heard, reply) = applied(&world, &mut cli, &session, "permission-mode", body).await;
                assert_eq!((heard, reply.ok()), (json!({"permissionMode": mode}), json!({"ok": true})), "{flavor}");
                assert_eq!(world.get_session(&session).await["permissionMode"], mode, "{flavor}");
            } else {
                let refused = ask(&world, &session, "permission-mode", &body).reply().await;
                assert_eq!(refused.assert_error(400, "invalid_field")["field"], "mode", "{flavor} {mode}");
            }
        }
        assert_eq!(world.get_session(&session).await["metadata"]["flavor"], flavor, "as the CLI wrote it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_goes_to_the_cli_and_is_kept_in_the_word_that_the_client_wrote() {
    let world = World::with_vocabulary(WORDS);
    for flavor in [json!("zeta-coder"), json!("alpha"), Value::Null] {
        let (session, mut cli) = live_session(&world, flavor).await;
        cli.register("configure").await;
        for model in ["swift", "model_fast", "thorough", "model_strong", "default"] {
            let (heard, reply) = applied(&world, &mut cli, &session, "model", json!({"model": model})).await;
            assert_eq!((heard, reply.ok()), (json!({"modelMode": model}), json!({"ok": true})));
            assert_eq!(world.get_session(&session).await["modelMode"], model);
            let list = world.get("/api/sessions").await.ok();
            let line = list["sessions"].as_array().unwrap().iter().find(|line| line["id"] == session.as_str());
            assert_eq!(line.unwrap()["modelMode"], model);
        }
        let refused = ask(&world, &session, "model", &json!({"model": "huge"})).reply().await;
        let sentence = refused.assert_error(400, "invalid_field")["error"].as_str().unwrap().to_owned();
        assert!(sentence.contains("model_strong, swift, thorough"), "all that it might be: {sentence}");
    }
    let (session, _cli) = live_session(&world, json!("eta")).await;
    let refused = ask(&world, &session, "model", &json!({"model": "swift"})).reply().await;
    assert_eq!(refused.assert_error(400, "invalid_field")["field"], "model", "this agent takes no model");
}

#[tokio::test(start_paused = true)]
async fn what_a_cli_applied_or_reports_in_its_own_words_is_kept_in_them() {
    let world = World::with_vocabulary(WORDS);
    let (session, mut cli) = live_session(&world, json!("zeta-coder")).await;
    cli.register("configure").await;
    let reply = ask(&world, &session, "model", &json!({"model": "model_fast"}));
    cli.serve("configure", &json!({"applied": {"modelMode": "swift"}})).await;
    reply.reply().await.ok();
    assert_eq!(world.get_session(&session).await["modelMode"], "swift");
    let alive = json!({"sid": session, "time": world.now(), "permissionMode": "plan", "modelMode": "thorough"});
    cli.emit_with_ack("session-alive", &alive).await;
    world.hibernate_and_wake().await;
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["permissionMode"], &shown["modelMode"]), (&json!("plan"), &json!("thorough")));
    let metadata = json!({"path": "/code/made", "host": "box", "flavor": "zeta-coder"});
    let made = world.post("/cli/sessions", &json!({"tag": "made", "metadata": metadata, "model": "swift"})).await.ok();
    assert_eq!(made["session"]["modelMode"], "swift");
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_request_takes_the_modes_of_the_agent_and_goes_out_under_the_registered_name() {
    let world = World::with_vocabulary(WORDS);
    let (session, mut cli) = live_session(&world, json!("eta")).await;
    cli.register("decide").await;
    cli.update_state(&session, 1, &json!({"requests": {"r": {"tool": "Bash", "arguments": {}}}})).await;
    let refused = ask(&world, &session, "permissions/r/approve", &json!({"mode": "acceptEdits"})).reply().await;
    assert_eq!(refused.assert_error(400, "invalid_field")["field"], "mode");
    let reply = ask(&world, &session, "permissions/r/approve", &json!({"mode": "ask"}));
    assert_eq!(cli.serve("decide", &json!({})).await, json!({"id": "r", "approved": true, "mode": "ask"}));
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    let completed = world.get_session(&session).await["agentState"]["completedRequests"]["r"].clone();
    assert_eq!((&completed["status"], &completed["mode"]), (&json!("approved"), &json!("ask")));
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_out_under_the_name_that_the_cli_registered() {
    let world = World::with_vocabulary(WORDS);
    let (session, mut cli) = live_session(&world, json!("zeta-coder")).await;
    let scoped = format!("{session}:git-status");
    let own = format!("{session}:gitStatus");
    for name in ["git-status", "gitStatus", scoped.as_str(), own.as_str()] {
        cli.register(name).await;
        let call = read(&world, &session, "git-status");
        assert_eq!(cli.serve(name, &json!({"success": true})).await, json!({"cwd": "/code/\"zeta-coder\""}));
        assert_eq!(call.reply().await.ok(), json!({"success": true}), "{name}");
    }
    cli.register("stop").await;
    let reply = ask(&world, &session, "abort", &json!({"reason": "wrong file"}));
    assert_eq!(cli.serve("stop", &json!({})).await, json!({"reason": "wrong file"}));
    reply.reply().await.ok();
    assert_eq!(world.get_session(&session).await["active"], false);
}

/// The git status is asked of this socket, under this name; before a sleep of the hub and after it.
async fn served_as(world: &World, session: &str, name: &str, winner: &mut Cli, loser: &mut Cli) {
    for _ in 0..2 {
        let call = read(world, session, "git-status");
        winner.serve(name, &json!({"success": true})).await;
        assert_eq!(call.reply().await.ok(), json!({"success": true}));
        loser.socket.assert_no_frames().await;
        world.hibernate_and_wake().await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_registrations_the_last_wins_whatever_words_they_were_made_in() {
    let world = World::with_vocabulary(WORDS);
    let (session, mut first) = live_session(&world, json!("zeta-coder")).await;
    let mut second = world.cli(&session).await;
    first.register("gitStatus").await;
    second.register("git-status").await;
    served_as(&world, &session, "git-status", &mut second, &mut first).await;
    // A socket that knows both words serves the method once, under the last of them.
    second.register("gitStatus").await;
    second.register("git-status").await;
    second.register("gitStatus").await;
    served_as(&world, &session, "gitStatus", &mut second, &mut first).await;
    // The loser has nothing to take back; the winner has, in either word.
    first.emit_with_ack("rpc-unregister", &json!({"method": "git-status"})).await;
    served_as(&world, &session, "gitStatus", &mut second, &mut first).await;
    second.emit_with_ack("rpc-unregister", &json!({"method": "git-status"})).await;
    for _ in 0..2 {
        let answer = read(&world, &session, "git-status").reply().await.ok();
        assert_eq!(answer["error"], "No handler registered for gitStatus");
        world.hibernate_and_wake().await;
    }
}

#[tokio::test(start_paused = true)]
async fn slash_commands_are_asked_for_the_agent_as_its_cli_calls_it() {
    let world = World::with_vocabulary(WORDS);
    for (flavor, agent) in [(json!("eta"), "eta"), (json!("alpha"), "alpha"), (Value::Null, "zeta-coder")] {
        let (session, mut cli) = live_session(&world, flavor).await;
        cli.register("commands").await;
        let call = read(&world, &session, "slash-commands");
        assert_eq!(cli.serve("commands", &json!({"success": true})).await, json!({"agent": agent}));
        call.reply().await.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_asked_for_an_agent_in_the_word_that_the_web_wrote() {
    let world = World::with_vocabulary(WORDS);
    let mut runner = runner(&world, "m:spawn-session").await;
    let result = json!({"success": true, "sessionId": "s"});
    let spawn = |body: Value| world.start("POST", "/api/machines/m/spawn", body.to_string());
    let all = ["zeta-coder", "alpha", "eta", "gamma", "beta"];
    let table = all.map(|agent| (json!({"directory": "/code", "agent": agent}), agent));
    // Nobody wrote a word: the CLIs may know their own only.
    let unsaid = [json!({"directory": "/code"}), json!({"directory": "/code", "agent": null})];
    for (body, agent) in table.into_iter().chain(unsaid.map(|body| (body, "zeta-coder"))) {
        let reply = spawn(body);
        let heard = runner.serve("m:spawn-session", &result).await;
        assert_eq!(heard, json!({"directory": "/code", "agent": agent}));
        assert_eq!(reply.reply().await.ok(), result);
    }
    let refused =
        spawn(json!({"directory": "/code", "agent": "theta"})).reply().await.assert_error(400, "invalid_field");
    assert_eq!(refused["field"], "agent");
    assert!(refused["error"].as_str().unwrap().contains("epsilon, zeta-coder, eta"), "{refused}");
    runner.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_is_resumed_by_the_id_that_its_cli_keeps_under_its_own_word() {
    let world = World::with_vocabulary(WORDS);
    let mut runner = runner(&world, "spawn-session").await;
    let table = [
        (json!({"flavor": "zeta-coder", "zeta-coderSessionId": "z"}), "zeta-coder", "z"),
        (json!({"flavor": "zeta-coder", "alphaSessionId": "a", "zeta-coderSessionId": "z"}), "zeta-coder", "z"),
        (json!({"flavor": "zeta-coder", "zeta-classicSessionId": "c", "alphaSessionId": "a"}), "zeta-coder", "a"),
        (json!({"flavor": "alpha", "zeta-classicSessionId": "c"}), "alpha", "c"),
        (json!({"zeta-coderSessionId": "z"}), "zeta-coder", "z"),
        (json!({"flavor": "eta", "etaSessionId": "e"}), "eta", "e"),
    ];
    for (n, (metadata, agent, own)) in table.into_iter().enumerate() {
        let session = world.create_session_with(&format!("/code/{n}"), metadata).await;
        let reply = world.start("POST", &format!("/api/sessions/{session}/resume"), "");
        let heard = runner.serve("spawn-session", &json!({"success": true})).await;
        let directory = format!("/code/{n}");
        let params = json!({"directory": directory, "agent": agent, "sessionId": session, "resumeSessionId": own});
        assert_eq!(heard, params);
        world.live_cli(&session).await;
        assert_eq!(reply.reply().await.ok(), json!({"success": true, "sessionId": session}));
    }
    let others = world.create_session_with("/code/others", json!({"flavor": "eta", "zeta-coderSessionId": "z"})).await;
    ask(&world, &others, "resume", &json!({})).reply().await.assert_error(409, "resume_unavailable");
}

#[tokio::test(start_paused = true)]
async fn todos_are_read_from_records_of_an_agent_in_either_word() {
    let world = World::with_vocabulary(WORDS);
    let (session, mut cli) = live_session(&world, json!("zeta-coder")).await;
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
    // A session whose list is not known is searched for one, in the same words.
    run_until_idle().await;
    world.db.execute("UPDATE sessions SET todos = NULL");
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["todos"][0]["content"], "planned");
}

#[tokio::test(start_paused = true)]
async fn without_a_vocabulary_nobody_knows_the_words() {
    let world = World::new();
    let (session, mut cli) = live_session(&world, json!("zeta-coder")).await;
    for method in ["configure", "git-status", "set-session-config"] {
        cli.register(method).await;
    }
    for (what, body, field) in [
        ("permission-mode", json!({"mode": "plan"}), "mode"),
        ("model", json!({"model": "swift"}), "model"),
        ("model", json!({"model": "model_fast"}), "model"),
    ] {
        let refused = ask(&world, &session, what, &body).reply().await;
        assert_eq!(refused.assert_error(400, "invalid_field")["field"], field, "{what}");
    }
    let status = read(&world, &session, "git-status").reply().await.ok();
    assert_eq!(status, json!({"success": false, "error": "No handler registered for gitStatus"}));
    cli.socket.assert_no_frames().await;
    let mut runner = runner(&world, "spawn-session").await;
    let spawn =
        async |agent: &str| world.post("/api/machines/m/spawn", &json!({"directory": "/code", "agent": agent})).await;
    assert_eq!(spawn("zeta-coder").await.assert_error(400, "invalid_field")["field"], "agent");
    spawn("alpha").await.assert_error(503, "cli_unreachable");
    let ended = world.create_session_with("/code", json!({"flavor": "zeta-coder", "zeta-coderSessionId": "z"})).await;
    ask(&world, &ended, "resume", &json!({})).reply().await.assert_error(409, "resume_unavailable");
    let known = world.create_session_with("/known", json!({"flavor": "alpha", "alphaSessionId": "a"})).await;
    ask(&world, &known, "resume", &json!({})).reply().await.assert_error(503, "no_machine_online");
    runner.socket.assert_no_frames().await;
}
