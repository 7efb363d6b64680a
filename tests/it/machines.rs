//! What the web asks of a machine: to spawn a session, and whether paths exist.

use crate::support::cli::Cli;
use crate::support::rest::{PendingReply, Reply};
use crate::support::sqlite::BatchKind;
use crate::support::{RECONNECT_GRACE_MS, RPC_TIMEOUT_MS, World, run_until_idle};
use serde_json::{Value, json};
use session_gateway_hub::store::DbError;

/// A machine that is online and serves both methods.
async fn online() -> (World, Cli) {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    runner.register("m:checkPathExists").await;
    (world, runner)
}

fn ask(world: &World, what: &str, body: &Value) -> PendingReply {
    world.start("POST", &format!("/api/machines/m/{what}"), body.to_string())
}

/// A call that the runner answers; what it was asked, and what the web gets.
async fn asked(world: &World, runner: &mut Cli, what: &str, body: &Value, result: &Value) -> (Value, Reply) {
    let reply = ask(world, what, body);
    let request = runner.next_call().await;
    runner.respond(&request, result);
    (request.params, reply.reply().await)
}

#[tokio::test(start_paused = true)]
async fn a_spawn_reaches_the_machine_with_all_that_was_chosen() {
    let (world, mut runner) = online().await;
    let ok = json!({"success": true, "sessionId": "s-1"});
    let table = [
        (json!({"directory": "/w"}), json!({"directory": "/w", "agent": "alpha"})),
        (
            json!({"directory": "/w", "agent": "gamma", "model": "any-1.5", "yolo": true, "sessionType": "worktree",
                "worktreeName": "try", "ignored": 1}),
            json!({"directory": "/w", "agent": "gamma", "model": "any-1.5", "yolo": true, "sessionType": "worktree",
                "worktreeName": "try"}),
        ),
        (
            json!({"directory": "~/ü x", "yolo": false, "sessionType": "simple"}),
            json!({"directory": "~/ü x", "agent": "alpha", "yolo": false, "sessionType": "simple"}),
        ),
    ];
    for (body, params) in table {
        let (heard, reply) = asked(&world, &mut runner, "spawn", &body, &ok).await;
        assert_eq!((heard, reply.ok()), (params, ok.clone()), "{body}");
    }
    for agent in ["alpha", "beta", "gamma", "delta", "epsilon"] {
        let body = json!({"directory": "/w", "agent": agent});
        assert_eq!(asked(&world, &mut runner, "spawn", &body, &ok).await.0["agent"], agent);
    }
}

#[tokio::test(start_paused = true)]
async fn how_a_spawn_went_is_told_whatever_words_the_machine_has_for_it() {
    let (world, mut runner) = online().await;
    let table = [
        (json!({"success": true, "sessionId": "s"}), json!({"success": true, "sessionId": "s"})),
        (json!({"type": "success", "sessionId": "s"}), json!({"success": true, "sessionId": "s"})),
        (json!({"success": false, "error": "disk full"}), json!({"success": false, "error": "disk full"})),
        (json!({"type": "error", "errorMessage": "disk full"}), json!({"success": false, "error": "disk full"})),
    ];
    for (result, told) in table {
        let (_, reply) = asked(&world, &mut runner, "spawn", &json!({"directory": "/w"}), &result).await;
        assert_eq!(reply.ok(), told, "{result}");
    }
    for odd in [
        json!({}),
        json!({"success": "yes"}),
        json!({"type": "later"}),
        json!({"success": false}),
        json!({"sessionId": 5}),
    ] {
        let (_, reply) = asked(&world, &mut runner, "spawn", &json!({"directory": "/w"}), &odd).await;
        let told = reply.ok();
        assert_eq!((&told["success"], told.get("sessionId")), (&json!(false), None), "{odd}");
        assert!(told["error"].as_str().is_some_and(|sentence| !sentence.is_empty()), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_spawn_with_a_bad_field_never_reaches_the_machine() {
    let (world, mut runner) = online().await;
    let table = [
        (json!({}), "directory"),
        (json!({"directory": ""}), "directory"),
        (json!({"directory": " "}), "directory"),
        (json!({"directory": 5}), "directory"),
        (json!({"directory": null}), "directory"),
        (json!({"directory": "/w", "agent": "zeta"}), "agent"),
        (json!({"directory": "/w", "agent": "Alpha"}), "agent"),
        (json!({"directory": "/w", "agent": 5}), "agent"),
        (json!({"directory": "/w", "model": 5}), "model"),
        (json!({"directory": "/w", "yolo": "yes"}), "yolo"),
        (json!({"directory": "/w", "yolo": 1}), "yolo"),
        (json!({"directory": "/w", "sessionType": "double"}), "sessionType"),
        (json!({"directory": "/w", "sessionType": []}), "sessionType"),
        (json!({"directory": "/w", "sessionType": "worktree"}), "worktreeName"),
        (json!({"directory": "/w", "sessionType": "worktree", "worktreeName": ""}), "worktreeName"),
        (json!({"directory": "/w", "sessionType": "worktree", "worktreeName": null}), "worktreeName"),
        (json!({"directory": "/w", "sessionType": "worktree", "worktreeName": 7}), "worktreeName"),
    ];
    for (body, field) in table {
        let refused = ask(&world, "spawn", &body).reply().await;
        assert_eq!(refused.assert_error(400, "invalid_field")["field"], field, "{body}");
    }
    for body in ["[]", "{", "null"] {
        world.request("POST", "/api/machines/m/spawn", body).await.assert_error(400, "invalid_body");
    }
    runner.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_can_not_be_reached_is_an_error_of_its_own() {
    let (world, mut runner) = online().await;
    let body = json!({"directory": "/w"});
    let reply = ask(&world, "spawn", &body);
    runner.next_call().await;
    world.advance(RPC_TIMEOUT_MS).await;
    reply.reply().await.assert_error(504, "rpc_timeout");
    let reply = ask(&world, "spawn", &body);
    let request = runner.next_call().await;
    runner.respond_raw(&request, "\"spawned\"");
    let reply = reply.reply().await;
    assert!(reply.status == 503 || reply.json()["success"] == false, "no object is no success: {reply:?}");
    let reply = ask(&world, "spawn", &body);
    runner.next_call().await;
    runner.socket.close();
    reply.reply().await.assert_error(503, "cli_unreachable");
    world.advance(RECONNECT_GRACE_MS).await;
    ask(&world, "spawn", &body).reply().await.assert_error(503, "cli_unreachable");
}

#[tokio::test(start_paused = true)]
async fn whether_paths_exist_is_answered_as_a_plain_map() {
    let (world, mut runner) = online().await;
    let paths = json!({"paths": ["/a", "/b b", "~/ü", "exists"]});
    let map = json!({"/a": true, "/b b": false, "~/ü": true, "exists": false});
    let nested = [map.clone(), json!({"exists": map}), json!({"success": true, "exists": map})];
    for result in nested {
        let (heard, reply) = asked(&world, &mut runner, "paths/exists", &paths, &result).await;
        assert_eq!((&heard, &reply.ok()), (&paths, &map), "{result}");
    }
    let many: Vec<String> = (0..1_000).map(|n| format!("/{n}")).collect();
    let all: serde_json::Map<String, Value> = many.iter().map(|path| (path.clone(), json!(true))).collect();
    let (heard, reply) = asked(&world, &mut runner, "paths/exists", &json!({"paths": many}), &json!(all)).await;
    assert_eq!((heard["paths"].as_array().unwrap().len(), reply.ok()), (1_000, json!(all)));
    let odd = json!({"__proto__": true, "a\"b\\c": false});
    let (_, reply) =
        asked(&world, &mut runner, "paths/exists", &json!({"paths": ["__proto__", "a\"b\\c"]}), &odd).await;
    assert_eq!(reply.ok(), odd);
}

#[tokio::test(start_paused = true)]
async fn a_check_of_no_path_of_too_many_or_of_something_else_is_refused() {
    let (world, mut runner) = online().await;
    let too_many: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
    let table = [
        (json!({}), "paths"),
        (json!({"paths": []}), "paths"),
        (json!({"paths": too_many}), "paths"),
        (json!({"paths": "/a"}), "paths"),
        (json!({"paths": null}), "paths"),
        (json!({"paths": {"0": "/a"}}), "paths"),
        (json!({"paths": ["/a", 5]}), "paths[1]"),
    ];
    for (body, field) in table {
        let refused = ask(&world, "paths/exists", &body).reply().await;
        assert_eq!(refused.assert_error(400, "invalid_field")["field"], field);
    }
    runner.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_check_that_fails_in_whatever_way_is_a_500() {
    let (world, mut runner) = online().await;
    let paths = json!({"paths": ["/a"]});
    let failures = [
        json!({"success": false, "error": "no permission"}),
        json!({"error": "no permission"}),
        json!({"/a": "yes"}),
        json!({"/a": 1}),
        json!({"exists": {"/a": null}}),
    ];
    for result in failures {
        let (_, reply) = asked(&world, &mut runner, "paths/exists", &paths, &result).await;
        reply.assert_error(500, "check_failed");
        if result.to_string().contains("success") {
            assert!(reply.text.contains("no permission"), "{reply:?}");
        }
    }
    let reply = ask(&world, "paths/exists", &paths);
    let request = runner.next_call().await;
    runner.respond_raw(&request, "\"true\"");
    reply.reply().await.assert_error(500, "check_failed");
    let reply = ask(&world, "paths/exists", &paths);
    runner.next_call().await;
    world.advance(RPC_TIMEOUT_MS).await;
    reply.reply().await.assert_error(500, "check_failed");
    let reply = ask(&world, "paths/exists", &paths);
    runner.next_call().await;
    runner.socket.close();
    reply.reply().await.assert_error(500, "check_failed");
    world.advance(RECONNECT_GRACE_MS).await;
    ask(&world, "paths/exists", &paths).reply().await.assert_error(500, "check_failed");
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_another_namespace_is_a_403_and_one_of_nobody_a_404() {
    let (world, mut runner) = online().await;
    let neighbour = world.neighbour();
    for (what, body) in [("spawn", json!({"directory": "/w"})), ("paths/exists", json!({"paths": ["/a"]}))] {
        ask(&neighbour, what, &body).reply().await.assert_error(403, "forbidden");
        let nobody = world.start("POST", &format!("/api/machines/nobody/{what}"), body.to_string());
        nobody.reply().await.assert_error(404, "machine_not_found");
    }
    runner.socket.assert_no_frames().await;
    assert_eq!(neighbour.get("/api/machines").await.ok(), json!({"machines": []}));
    let taken = json!({"id": "m", "metadata": {"host": "mine"}});
    neighbour.post("/cli/machines", &taken).await.assert_error(403, "forbidden");
    neighbour.get("/cli/machines/m").await.assert_error(403, "forbidden");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_a_machine_spawned_can_be_talked_to_at_once() {
    let (world, mut runner) = online().await;
    let reply = ask(&world, "spawn", &json!({"directory": "/w", "agent": "beta"}));
    let request = runner.next_call().await;
    let session = world.create_session_with("/w", json!({"flavor": "beta", "machineId": "m"})).await;
    let mut cli = world.live_cli(&session).await;
    runner.respond(&request, &json!({"success": true, "sessionId": session}));
    assert_eq!(reply.reply().await.ok()["sessionId"], session.as_str());
    world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": "hi"})).await.ok();
    assert_eq!(cli.next_event("update").await["body"]["message"]["content"]["content"]["text"], "hi");
    // What serves a machine does not serve a session, and the other way round.
    run_until_idle().await;
    cli.register("checkPathExists").await;
    let (_, reply) = asked(&world, &mut runner, "paths/exists", &json!({"paths": ["/a"]}), &json!({"/a": true})).await;
    assert_eq!(reply.ok(), json!({"/a": true}));
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_made_known_whatever_memory_forgot_while_the_database_was_asked() {
    let world = World::new();
    let session = world.create_session("/code").await;
    let mut cli = world.live_cli(&session).await;
    world.register_machine("first").await;
    world.db.hold(BatchKind::Reads);
    let made = world.start("POST", "/cli/machines", r#"{"id":"m","metadata":{"host":"box"}}"#);
    run_until_idle().await;
    assert_eq!(world.db.held_count(), 1, "it is asked whose machine it is");
    world.db.stop_holding();
    world.db.fail(BatchKind::Writes, DbError::Refused("disk I/O error".into()));
    assert_eq!(cli.send_message(&session, "lost").await["ok"], false);
    world.db.release();
    made.reply().await.ok();
    assert_eq!(world.db.number("SELECT count(*) FROM machines"), 2);
}
