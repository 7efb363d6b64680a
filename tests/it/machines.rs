//! Calls from the web to a machine: spawning sessions and checking whether paths exist.

use crate::support::prelude::*;

/// The runner of an online machine that has registered `spawnSession` and `checkPathExists`.
async fn online_machine() -> (World, Cli) {
    let world = World::new();
    let mut runner = world.spawner("m", "box").await;
    runner.register("m:checkPathExists").await;
    (world, runner)
}

fn post_action(world: &World, action: &str, body: &Value) -> PendingReply {
    world.start("POST", &format!("/api/machines/m/{action}"), body.to_string())
}

/// Sends a request to which the runner responds with `result`. Returns the parameters of the call and the HTTP response.
async fn call(world: &World, runner: &mut Cli, action: &str, body: &Value, result: &Value) -> (Value, Reply) {
    let reply = post_action(world, action, body);
    let request = runner.next_call().await;
    runner.respond(&request, result);
    (request.params, reply.reply().await)
}

#[tokio::test(start_paused = true)]
async fn a_spawn_forwards_all_known_fields_to_the_machine() {
    let (world, mut runner) = online_machine().await;
    let ok = json!({"success": true, "sessionId": "s-1"});
    let table = [
        (json!({"directory": "/w"}), json!({"directory": "/w", "agent": "alpha"})),
        (
            json!({"directory": "/w", "agent": "gamma", "model": "any-1.5", "yolo": true, "sessionType": "worktree",
                "worktreeName": "try", "trust": true, "ignored": 1}),
            json!({"directory": "/w", "agent": "gamma", "model": "any-1.5", "yolo": true, "sessionType": "worktree",
                "worktreeName": "try", "trust": true}),
        ),
        (
            json!({"directory": "~/ü x", "yolo": false, "sessionType": "simple"}),
            json!({"directory": "~/ü x", "agent": "alpha", "yolo": false, "sessionType": "simple"}),
        ),
    ];
    for (body, expected) in table {
        let (params, reply) = call(&world, &mut runner, "spawn", &body, &ok).await;
        let spawned = json!({"success": true, "type": "success", "sessionId": ok["sessionId"]});
        assert_eq!((params, reply.ok()), (expected, spawned), "{body}");
    }
    for agent in ["alpha", "beta", "gamma", "delta", "epsilon"] {
        let body = json!({"directory": "/w", "agent": agent});
        assert_eq!(call(&world, &mut runner, "spawn", &body, &ok).await.0["agent"], agent);
    }
}

#[tokio::test(start_paused = true)]
async fn a_spawn_accepts_an_agent_that_the_machine_lists_and_passes_its_name_on_unchanged() {
    let words = r#"{"agents":{"omega":"alpha"},"models":{"quick":"model_fast"},"methods":{"start":"spawnSession"}}"#;
    let world = World::with_vocabulary(words);
    let mut runner = world.spawner("m", "box").await;
    let body = |agent: &str| json!({"directory": "/w", "agent": agent, "model": "quick"});
    let list_agents = async |agents: &Value| {
        let machine = json!({"id": "m", "metadata": {"host": "box", "agents": agents}});
        world.post("/cli/machines", &machine).await.ok();
    };
    for agents in [json!([]), json!(7), json!([{"id": 7}, "zeta"])] {
        list_agents(&agents).await;
        let reply = post_action(&world, "spawn", &body("zeta")).reply().await;
        assert_eq!(reply.assert_error(400, "invalid_field")["field"], "agent", "{agents}");
    }
    list_agents(&json!([{"id": "zeta", "name": "Zeta"}, {"id": "omega"}])).await;
    for agent in ["zeta", "omega"] {
        let (params, reply) = call(&world, &mut runner, "spawn", &body(agent), &json!({"success": true})).await;
        assert_eq!((&params["agent"], &params["model"]), (&json!(agent), &json!("quick")));
        reply.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn spawn_results_in_either_format_are_returned_in_both() {
    let (world, mut runner) = online_machine().await;
    let success = || json!({"success": true, "type": "success", "sessionId": "s"});
    let failure = || json!({"success": false, "type": "error", "error": "disk full"});
    let table = [
        (json!({"success": true, "sessionId": "s"}), success()),
        (json!({"type": "success", "sessionId": "s"}), success()),
        (json!({"success": false, "error": "disk full"}), failure()),
        (json!({"type": "error", "errorMessage": "disk full"}), failure()),
        (
            json!({"success": false, "error": "no", "code": "untrusted_directory"}),
            json!({"success": false, "type": "error", "error": "no", "code": "untrusted_directory"}),
        ),
        (json!({"success": false, "error": "disk full", "code": 28}), failure()),
    ];
    for (result, expected) in table {
        let (_, reply) = call(&world, &mut runner, "spawn", &json!({"directory": "/w"}), &result).await;
        assert_eq!(reply.ok(), expected, "{result}");
    }
    for invalid in [
        json!({}),
        json!({"success": "yes"}),
        json!({"type": "later"}),
        json!({"success": false}),
        json!({"sessionId": 5}),
    ] {
        let (_, reply) = call(&world, &mut runner, "spawn", &json!({"directory": "/w"}), &invalid).await;
        let body = reply.ok();
        assert_eq!((&body["success"], body.get("sessionId")), (&json!(false), None), "{invalid}");
        assert!(body["error"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_path_check_returns_a_map_of_booleans() {
    let (world, mut runner) = online_machine().await;
    let paths = json!({"paths": ["/a", "/b b", "~/ü", "exists"]});
    let map = json!({"/a": true, "/b b": false, "~/ü": true, "exists": false});
    let results = [map.clone(), json!({"exists": map}), json!({"success": true, "exists": map})];
    for result in results {
        let (params, reply) = call(&world, &mut runner, "paths/exists", &paths, &result).await;
        assert_eq!((&params, &reply.ok()), (&paths, &map), "{result}");
    }
    let many: Vec<String> = (0..1_000).map(|n| format!("/{n}")).collect();
    let all: serde_json::Map<String, Value> = many.iter().map(|path| (path.clone(), json!(true))).collect();
    let (params, reply) = call(&world, &mut runner, "paths/exists", &json!({"paths": many}), &json!(all)).await;
    assert_eq!((params["paths"].as_array().unwrap().len(), reply.ok()), (1_000, json!(all)));
    let unusual = json!({"__proto__": true, "a\"b\\c": false});
    let (_, reply) =
        call(&world, &mut runner, "paths/exists", &json!({"paths": ["__proto__", "a\"b\\c"]}), &unusual).await;
    assert_eq!(reply.ok(), unusual);
}

#[tokio::test(start_paused = true)]
async fn the_registration_of_a_machine_of_another_namespace_fails_no_other_change() {
    let (world, _runner) = online_machine().await;
    let neighbour = world.neighbour();
    let (session, mut cli) = neighbour.active_session("/code").await;
    neighbour.register_machine("own").await;
    let taken = json!({"id": "m", "metadata": {"host": "mine"}}).to_string();
    for (n, is_large) in [(1, false), (2, false), (3, true)] {
        let large = json!({"id": "m", "metadata": {"host": "mine", "text": "x".repeat(1_000_000)}}).to_string();
        let refused = neighbour.start("POST", "/cli/machines", if is_large { large } else { taken.clone() });
        assert_eq!(cli.send_message(&session, "hello").await["seq"], n);
        refused.reply().await.assert_error(403, "forbidden");
        let reads = neighbour.db.read_count();
        neighbour.post("/cli/machines", &json!({"id": "own", "metadata": {"host": "box", "n": n}})).await.ok();
        assert_eq!(neighbour.db.read_count(), reads, "the machines are still in memory");
    }
    assert_eq!(world.get("/cli/machines/m").await.ok()["machine"]["metadata"]["host"], "box");
    assert_eq!(world.db.number("SELECT count(*) FROM value_parts"), 0);
}

#[tokio::test(start_paused = true)]
async fn of_concurrent_registrations_of_a_new_machine_the_later_ones_update_it() {
    let world = World::new();
    world.register_machine("other").await;
    let mut web = world.web("all=true").await;
    let register = |n| json!({"id": "m", "metadata": {"host": "box", "n": n}}).to_string();
    let replies: Vec<_> = (1..=3).map(|n| world.start("POST", "/cli/machines", register(n))).collect();
    all_ok(replies).await;
    for n in 1..=3 {
        let data = web.next_event_of("machine-updated").await["data"].clone();
        assert_eq!((&data["metadata"]["n"], &data["metadataVersion"], &data["seq"]), (&json!(n), &json!(n), &json!(n)));
    }
    world.hibernate_and_wake().await;
    let machine = world.get("/cli/machines/m").await.ok()["machine"].clone();
    assert_eq!((&machine["metadata"]["n"], &machine["metadataVersion"]), (&json!(3), &json!(3)));
}

#[tokio::test(start_paused = true)]
async fn a_spawned_session_accepts_messages_at_once() {
    let (world, mut runner) = online_machine().await;
    let reply = post_action(&world, "spawn", &json!({"directory": "/w", "agent": "beta"}));
    let request = runner.next_call().await;
    let (session, mut cli) = world.active_session_with("/w", json!({"flavor": "beta", "machineId": "m"})).await;
    runner.respond(&request, &json!({"success": true, "sessionId": session}));
    assert_eq!(reply.reply().await.ok()["sessionId"], session.as_str());
    world.post(&format!("/api/sessions/{session}/messages"), &json!({"text": "hi"})).await.ok();
    assert_eq!(cli.next_event("update").await["body"]["message"]["content"]["content"]["text"], "hi");
    // A handler that the CLI of the session has registered is not called for the machine.
    run_until_idle().await;
    cli.register("checkPathExists").await;
    let (_, reply) = call(&world, &mut runner, "paths/exists", &json!({"paths": ["/a"]}), &json!({"/a": true})).await;
    assert_eq!(reply.ok(), json!({"/a": true}));
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn connecting_registering_and_updating_count_as_activity_of_a_machine() {
    let is_online =
        async |world: &World| !world.get("/api/machines").await.ok()["machines"].as_array().unwrap().is_empty();
    let world = World::new();
    world.register_machine("m").await;
    assert!(!is_online(&world).await, "nothing has connected yet");
    let _runner = world.runner("m").await;
    assert!(is_online(&world).await);
    world.advance(46_000).await;
    assert!(!is_online(&world).await, "an open socket is no activity");
    let events = [
        ("rpc-register", json!({"method": "m:spawnSession"})),
        ("machine-update-state", json!({"machineId": "m", "expectedVersion": 1, "runnerState": {"status": "running"}})),
        ("machine-update-metadata", json!({"machineId": "m", "expectedVersion": 7, "metadata": {"host": "box"}})),
    ];
    for (name, payload) in events {
        let world = World::new();
        world.register_machine("m").await;
        let mut cli = Cli::connect(&world, json!({})).await;
        cli.emit_with_ack(name, &payload).await;
        assert!(is_online(&world).await, "{name}");
        world.advance(46_000).await;
        assert!(!is_online(&world).await, "{name}");
    }
}
