//! Permission modes and models: set by web clients, applied and reported by CLIs.

use crate::lifecycle::post_action;
use crate::support::permissions::{ALL_MODES, ALPHA, MODES_OF_FLAVORS};
use crate::support::prelude::*;

/// Sets a mode. The CLI responds with `result`. Returns the parameters of the call and the HTTP response.
async fn set_mode(world: &World, cli: &mut Cli, id: &str, route: &str, body: &Value, result: &Value) -> (Value, Reply) {
    let reply = post_action(world, id, route, body);
    let params = cli.respond_to_next_call("set-session-config", result).await;
    (params, reply.reply().await)
}

#[tokio::test(start_paused = true)]
async fn a_mode_changes_after_the_cli_has_applied_it() {
    let (world, session, mut cli) = session_with_methods(&["set-session-config"]).await;
    let mut web = world.web("all=true").await;
    let applied = json!({"applied": {"permissionMode": "plan"}});
    let (params, reply) =
        set_mode(&world, &mut cli, &session, "permission-mode", &json!({"mode": "plan"}), &applied).await;
    assert_eq!((params, reply.ok()), (json!({"permissionMode": "plan"}), json!({"ok": true})));
    assert_eq!(web.next_event_of("session-updated").await["data"]["permissionMode"], "plan");
    let applied = json!({"applied": {"modelMode": "model_fast"}});
    let (params, reply) =
        set_mode(&world, &mut cli, &session, "model", &json!({"model": "model_fast"}), &applied).await;
    assert_eq!((params, reply.ok()), (json!({"modelMode": "model_fast"}), json!({"ok": true})));
    assert_eq!(web.next_event_of("session-updated").await["data"]["modelMode"], "model_fast");
    world.hibernate_and_wake().await;
    let record = world.get_session(&session).await;
    assert_eq!((&record["permissionMode"], &record["modelMode"]), (&json!("plan"), &json!("model_fast")));
    let summary = world.get("/api/sessions").await.ok()["sessions"][0].clone();
    assert_eq!((&summary["permissionMode"], &summary["modelMode"]), (&json!("plan"), &json!("model_fast")));
    // The hub stores the values in the result of the CLI, not the values in the request.
    let applied = json!({"applied": {"permissionMode": "default", "modelMode": "default"}});
    set_mode(&world, &mut cli, &session, "permission-mode", &json!({"mode": "plan"}), &applied).await.1.ok();
    let record = world.get_session(&session).await;
    assert_eq!((&record["permissionMode"], &record["modelMode"]), (&json!("default"), &json!("default")));
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_the_cli_did_not_apply_is_a_409_and_changes_nothing() {
    let (world, session, mut cli) = session_with_methods(&[]).await;
    let before = world.get_session(&session).await;
    let assert_not_applied = async |reply: Reply, result: &Value| {
        reply.assert_error(409, "mode_not_applied");
        let mut after = world.get_session(&session).await;
        after["activeAt"] = before["activeAt"].clone();
        assert_eq!(after, before, "{result}");
    };
    for (route, body) in [("permission-mode", json!({"mode": "plan"})), ("model", json!({"model": "model_fast"}))] {
        assert_not_applied(post_action(&world, &session, route, &body).reply().await, &json!("no handler")).await;
        cli.register("set-session-config").await;
        let results = [
            json!({}),
            json!({"success": true}),
            json!({"applied": null}),
            json!({"applied": {}}),
            json!({"applied": true}),
            json!({"success": false, "error": "busy"}),
            json!({"error": "busy"}),
            json!({"error": "busy", "applied": {"permissionMode": "plan", "modelMode": "model_fast"}}),
            json!({"applied": {"permissionMode": "plan", "modelMode": "x".repeat(256)}}),
            json!({"applied": {"permissionMode": "x".repeat(256), "modelMode": "model_fast"}}),
        ];
        for result in results {
            let (_, reply) = set_mode(&world, &mut cli, &session, route, &body, &result).await;
            assert_not_applied(reply, &result).await;
        }
        let reply = post_action(&world, &session, route, &body);
        let call = cli.next_call().await;
        cli.respond_raw(&call, "\"done\"");
        assert_not_applied(reply.reply().await, &json!("not an object")).await;
        let reply = post_action(&world, &session, route, &body);
        cli.next_call().await;
        cli.time_out_calls(&world, &session).await;
        assert_not_applied(reply.reply().await, &json!("timeout")).await;
        cli.emit_with_ack("rpc-unregister", &json!({"method": "set-session-config"})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mode_whose_write_fails_does_not_change() {
    let (world, session, mut cli) = session_with_methods(&["set-session-config"]).await;
    world.db.fail(BatchKind::Writes, permanent_error());
    let applied = json!({"applied": {"permissionMode": "plan"}});
    let (_, reply) = set_mode(&world, &mut cli, &session, "permission-mode", &json!({"mode": "plan"}), &applied).await;
    reply.assert_error(503, "hub_unavailable");
    assert_eq!(world.get_session(&session).await.get("permissionMode"), None);
}

#[tokio::test(start_paused = true)]
async fn each_flavor_accepts_its_own_modes_and_only_alpha_accepts_a_model() {
    let world = World::new();
    for (flavor, valid) in MODES_OF_FLAVORS {
        let flavor = json!(flavor);
        let (session, mut cli) = world.active_session_with(&format!("/{flavor}"), json!({"flavor": flavor})).await;
        cli.register("set-session-config").await;
        let mut attempt = async |route: &str, body: Value, applied: Value, allowed: bool, field: &str| {
            let reply = post_action(&world, &session, route, &body);
            if allowed {
                cli.respond_to_next_call("set-session-config", &json!({"applied": applied})).await;
                reply.reply().await.ok();
            } else {
                assert_eq!(reply.reply().await.assert_error(400, "invalid_field")["field"], field, "{flavor} {body}");
            }
        };
        for mode in ALL_MODES {
            let applied = json!({"permissionMode": mode});
            attempt("permission-mode", json!({"mode": mode}), applied, valid.contains(&mode), "mode").await;
        }
        let accepts_model = valid == ALPHA;
        for model in ["default", "model_fast", "model_strong"] {
            attempt("model", json!({"model": model}), json!({"modelMode": model}), accepts_model, "model").await;
        }
        cli.socket.assert_no_frames().await;
    }
}

#[tokio::test(start_paused = true)]
async fn modes_in_a_keep_alive_are_persisted_and_published() {
    let (world, session, mut cli) = session_with_methods(&[]).await;
    let mut web = world.web("all=true").await;
    let alive = json!({"sid": session, "time": world.now(), "permissionMode": "plan", "modelMode": "model_strong"});
    cli.emit_with_ack("session-alive", &alive).await;
    let event_data = web.next_event_of("session-updated").await["data"].clone();
    assert_eq!((&event_data["permissionMode"], &event_data["modelMode"]), (&json!("plan"), &json!("model_strong")));
    world.hibernate_and_wake().await;
    let record = world.get_session(&session).await;
    assert_eq!((&record["permissionMode"], &record["modelMode"]), (&json!("plan"), &json!("model_strong")));
}

#[tokio::test(start_paused = true)]
async fn a_session_accepts_the_modes_and_models_that_its_metadata_lists() {
    let world = World::new();
    let own = json!({
        "flavor": "gamma",
        "modes": [{"id": "build", "name": "Build"}],
        "models": [{"id": "acme/large", "name": "Large"}, {"id": "model_fast"}],
        "currentModel": "acme/large",
    });
    let (session, mut cli) = world.active_session_with("/own", own).await;
    cli.register("set-session-config").await;
    for (route, body, params) in [
        ("permission-mode", json!({"mode": "build"}), json!({"permissionMode": "build"})),
        ("permission-mode", json!({"mode": "ask"}), json!({"permissionMode": "ask"})),
        ("model", json!({"model": "acme/large"}), json!({"modelMode": "acme/large"})),
    ] {
        let applied = json!({"applied": params});
        let (sent, reply) = set_mode(&world, &mut cli, &session, route, &body, &applied).await;
        assert_eq!((sent, reply.ok()), (params, json!({"ok": true})), "{route}");
    }
    assert_eq!(pick(&world.get_session(&session).await, ["permissionMode", "modelMode"]), json!(["ask", "acme/large"]));
    for model in ["acme/small", "default", "model_strong"] {
        let refused = post_action(&world, &session, "model", &json!({"model": model})).reply().await;
        let message = "Field `model` must be one of acme/large, model_fast for this session's agent.";
        assert_eq!(refused.assert_error(400, "invalid_field")["error"], message, "{model}");
    }
    for mode in ["acceptEdits", "wide"] {
        let refused = post_action(&world, &session, "permission-mode", &json!({"mode": mode})).reply().await;
        let message = "Field `mode` must be one of build, default, plan, ask, yolo for this session's agent.";
        assert_eq!(refused.assert_error(400, "invalid_field")["error"], message, "{mode}");
    }
    cli.register("permission").await;
    cli.update_agent_state(&session, 1, &json!({"requests": {"r": {"tool": "Bash", "arguments": {}}}})).await;
    let reply = post_action(&world, &session, "permissions/r/approve", &json!({"mode": "build"}));
    assert_eq!(cli.respond_to_next_call("permission", &json!({})).await["mode"], "build");
    reply.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_mode_is_not_offered_and_is_refused_in_every_request_of_a_web_client() {
    let world = World::with_forbidden_modes("yolo,bypassPermissions,turbo");
    let metadata = json!({"flavor": "alpha", "modes": [{"id": "turbo"}, {"id": "slow"}]});
    let (session, mut cli) = world.active_session_with("/code", metadata).await;
    cli.register("set-session-config").await;
    cli.register("permission").await;
    let choices = json!([{"id": "once", "label": "Once"}, {"id": "all", "label": "All", "neverAsks": true}]);
    cli.update_agent_state(&session, 1, &json!({"requests": {"r1": {"tool": "Bash", "choices": choices}}})).await;
    let assert_forbidden = |reply: Reply, field: &str| {
        reply.assert_error(400, "mode_forbidden");
        assert_eq!(reply.json()["field"], field);
    };
    for mode in ["bypassPermissions", "turbo", "yolo"] {
        let body = json!({"mode": mode});
        assert_forbidden(post_action(&world, &session, "permission-mode", &body).reply().await, "mode");
        assert_forbidden(post_action(&world, &session, "permissions/r1/approve", &body).reply().await, "mode");
    }
    for choice in [json!(["all"]), json!({"answers": ["once", "all"]})] {
        let body = json!({"answers": {"choice": choice}});
        assert_forbidden(post_action(&world, &session, "permissions/r1/approve", &body).reply().await, "answers");
    }
    let body = json!({"answers": {"choice": ["once"]}});
    let reply = post_action(&world, &session, "permissions/r1/approve", &body);
    assert_eq!(cli.respond_to_next_call("permission", &json!({})).await["answers"], body["answers"]);
    reply.reply().await.ok();
    let applied = json!({"applied": {"permissionMode": "slow"}});
    set_mode(&world, &mut cli, &session, "permission-mode", &json!({"mode": "slow"}), &applied).await.1.ok();

    let mut runner = world.spawner("m", "box").await;
    let spawn = |body: Value| world.start("POST", "/api/machines/m/spawn", body.to_string());
    assert_forbidden(spawn(json!({"directory": "/code", "yolo": true})).reply().await, "yolo");
    let reply = spawn(json!({"directory": "/code", "yolo": false}));
    runner.respond_to_next_call("spawnSession", &json!({"success": true, "sessionId": "s"})).await;
    reply.reply().await.ok();

    let config = world.get("/api/config").await.ok();
    assert_eq!(config["forbiddenModes"], "yolo,bypassPermissions,turbo");
    for agent in config["agents"].as_array().unwrap() {
        for mode in agent["modes"].as_array().unwrap() {
            assert_eq!(mode.get("neverAsks"), None, "{mode}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_spawn_without_permission_requests_is_refused_if_a_mode_without_permission_requests_is_forbidden() {
    for mode in ["yolo", "bypassPermissions"] {
        let world = World::with_forbidden_modes(mode);
        let _runner = world.spawner("m", "box").await;
        let body = json!({"directory": "/code", "yolo": true}).to_string();
        let reply = world.start("POST", "/api/machines/m/spawn", body).reply().await;
        reply.assert_error(400, "mode_forbidden");
    }
}
