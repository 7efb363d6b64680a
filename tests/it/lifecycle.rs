//! The life of a session as the web steers it: abort, switch, archive, delete, and the modes that its CLI applies.

use crate::support::cli::Cli;
use crate::support::rest::{PendingReply, Reply};
use crate::support::sqlite::BatchKind;
use crate::support::{RPC_TIMEOUT_MS, World, run_until_idle};
use serde_json::{Value, json};
use session_gateway_hub::store::DbError;

/// An active session whose CLI serves these methods.
async fn live_session(methods: &[&str]) -> (World, String, Cli) {
    let world = World::new();
    let session = world.create_session("/code").await;
    let mut cli = world.live_cli(&session).await;
    for method in methods {
        cli.register(method).await;
    }
    run_until_idle().await;
    (world, session, cli)
}

fn order(world: &World, session: &str, what: &str, body: &Value) -> PendingReply {
    world.start("POST", &format!("/api/sessions/{session}/{what}"), body.to_string())
}

async fn archive(world: &World, session: &str, body: &Value) -> Reply {
    order(world, session, "archive", body).reply().await
}

async fn end(world: &World, session: &str, cli: &mut Cli) {
    cli.emit_with_ack("session-end", &json!({"sid": session, "time": world.now()})).await;
    run_until_idle().await;
}

/// Ids that a list shows.
async fn listed(world: &World, query: &str) -> Vec<String> {
    let list = world.get(&format!("/api/sessions{query}")).await.ok();
    list["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_abort_stops_the_agent_and_leaves_the_session_inactive_until_its_cli_speaks_again() {
    let (world, session, mut cli) = live_session(&["abort"]).await;
    cli.emit_with_ack("session-alive", &json!({"sid": session, "time": world.now(), "thinking": true})).await;
    let mut web = world.web("all=true").await;
    let reply = order(&world, &session, "abort", &json!({"reason": "wrong file"}));
    let call = cli.next_call().await;
    assert_eq!((call.method.as_str(), &call.params), ("abort", &json!({"reason": "wrong file"})));
    run_until_idle().await;
    assert!(!reply.is_ready());
    assert_eq!(world.get_session(&session).await["active"], true, "the CLI has the first word");
    cli.respond(&call, &json!({"success": true}));
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["active"], &shown["thinking"]), (&json!(false), &json!(false)));
    assert_eq!(web.next_event_of("session-updated").await["data"]["active"], false);
    assert_eq!(world.db.number("SELECT active FROM sessions"), 0);
    order(&world, &session, "abort", &json!({})).reply().await.assert_error(409, "session_inactive");
    cli.send_heartbeat(&world, &session).await;
    assert_eq!(world.get_session(&session).await["active"], true);
    let reply = order(&world, &session, "abort", &json!({}));
    assert!(cli.serve("abort", &json!({})).await["reason"].is_string(), "a reason is always given");
    reply.reply().await.ok();
}

#[tokio::test(start_paused = true)]
async fn an_order_that_the_cli_does_not_follow_changes_nothing() {
    for what in ["abort", "switch"] {
        let (world, session, mut cli) = live_session(&[]).await;
        order(&world, &session, what, &json!({})).reply().await.assert_error(503, "cli_unreachable");
        cli.register(what).await;
        let reply = order(&world, &session, what, &json!({}));
        cli.serve(what, &json!({"success": false, "error": "can't"})).await;
        reply.reply().await.assert_error(503, "cli_refused");
        let reply = order(&world, &session, what, &json!({}));
        cli.next_call().await;
        for _ in 0..3 {
            world.advance(RPC_TIMEOUT_MS / 3).await;
            cli.send_heartbeat(&world, &session).await;
        }
        reply.reply().await.assert_error(504, "rpc_timeout");
        let reply = order(&world, &session, what, &json!({}));
        cli.next_call().await;
        cli.socket.close();
        reply.reply().await.assert_error(503, "cli_unreachable");
        let shown = world.get_session(&session).await;
        assert_eq!((&shown["active"], shown.get("mode")), (&json!(true), None), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_local_while_the_terminal_has_it_and_remote_after_a_switch() {
    let (world, session, mut cli) = live_session(&["switch"]).await;
    let mut web = world.web("all=true").await;
    cli.emit_with_ack("session-alive", &json!({"sid": session, "time": world.now(), "mode": "local"})).await;
    assert_eq!(web.next_event_of("session-updated").await["data"]["mode"], "local");
    assert_eq!(world.get_session(&session).await["mode"], "local");
    let reply = order(&world, &session, "switch", &json!({}));
    assert_eq!(cli.serve("switch", &json!({"success": true})).await, json!({"to": "remote"}));
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    assert_eq!(web.next_event_of("session-updated").await["data"]["mode"], "remote");
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["mode"], &shown["active"]), (&json!("remote"), &json!(true)));
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["mode"], "remote", "it is persisted");
    end(&world, &session, &mut cli).await;
    order(&world, &session, "switch", &json!({})).reply().await.assert_error(409, "session_inactive");
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_somebody_else_or_to_nobody_takes_no_order() {
    let (world, session, mut cli) = live_session(&["abort", "switch", "killSession", "set-session-config"]).await;
    let neighbour = world.neighbour();
    for (what, body) in [
        ("abort", json!({})),
        ("switch", json!({})),
        ("archive", json!({})),
        ("resume", json!({})),
        ("permission-mode", json!({"mode": "plan"})),
        ("model", json!({"model": "default"})),
    ] {
        order(&neighbour, &session, what, &body).reply().await.assert_error(403, "forbidden");
        order(&world, "nobody", what, &body).reply().await.assert_error(404, "session_not_found");
    }
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn an_active_session_is_archived_after_its_cli_was_asked_to_end_itself() {
    let (world, session, mut cli) = live_session(&["killSession"]).await;
    let mut second = world.cli(&session).await;
    let mut web = world.web("all=true").await;
    world.rt.set_now(world.now() + 50);
    let reply = order(&world, &session, "archive", &json!({"reason": "done with it"}));
    let call = cli.next_call().await;
    assert_eq!((call.method.as_str(), &call.params), ("killSession", &json!({})));
    run_until_idle().await;
    assert!(!reply.is_ready());
    cli.respond(&call, &json!({"success": true}));
    assert_eq!(reply.reply().await.ok(), json!({"ok": true}));
    let shown = world.get_session(&session).await;
    let metadata = json!({
        "path": "/code", "host": "box", "lifecycleState": "archived", "lifecycleStateSince": world.now(),
        "archivedBy": "web", "archiveReason": "done with it",
    });
    assert_eq!((&shown["metadata"], &shown["metadataVersion"]), (&metadata, &json!(2)));
    assert_eq!(shown["active"], false);
    let update = second.next_event("update").await["body"].clone();
    assert_eq!(update["metadata"], json!({"version": 2, "value": metadata}));
    let mut changes = Value::Null;
    while changes.get("metadata").is_none() {
        changes = web.next_event_of("session-updated").await["data"].clone();
    }
    assert_eq!(changes["metadata"]["lifecycleState"], "archived");
}

#[tokio::test(start_paused = true)]
async fn a_session_in_any_state_can_be_archived() {
    let world = World::new();
    let fresh = world.create_session("/fresh").await;
    archive(&world, &fresh, &json!({})).await.ok();
    let ended = world.create_session("/ended").await;
    let mut cli = world.live_cli(&ended).await;
    end(&world, &ended, &mut cli).await;
    archive(&world, &ended, &json!({"reason": "first"})).await.ok();
    archive(&world, &ended, &json!({"reason": "second"})).await.ok();
    let deserted = world.create_session("/deserted").await;
    world.live_cli(&deserted).await.socket.close();
    archive(&world, &deserted, &json!({})).await.ok();
    let unserved = world.create_session("/unserved").await;
    let cli = world.live_cli(&unserved).await;
    let reply = world.request("POST", &format!("/api/sessions/{unserved}/archive"), "").await;
    assert_eq!(reply.ok(), json!({"ok": true}), "no body, and a CLI that knows no killSession");
    cli.socket.close();
    for (session, reason) in [
        (&fresh, "Archived by user"),
        (&ended, "second"),
        (&deserted, "Archived by user"),
        (&unserved, "Archived by user"),
    ] {
        let shown = world.get_session(session).await;
        assert_eq!(shown["active"], false);
        assert_eq!(shown["metadata"]["lifecycleState"], "archived");
        assert_eq!(shown["metadata"]["archivedBy"], "web");
        assert_eq!(shown["metadata"]["archiveReason"], reason);
    }
    let refused = archive(&world, &fresh, &json!({"reason": 5})).await;
    assert_eq!(refused.assert_error(400, "invalid_field")["field"], "reason");
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_does_not_end_itself_delays_the_archive_by_five_seconds_at_most() {
    let (world, session, mut cli) = live_session(&["killSession"]).await;
    let reply = order(&world, &session, "archive", &json!({}));
    cli.next_call().await;
    run_until_idle().await;
    assert!(world.rt.alarm().is_some_and(|at| at <= world.now() + 5_000));
    world.advance(4_999).await;
    assert!(!reply.is_ready());
    world.advance(1).await;
    reply.reply().await.ok();
    assert_eq!(world.get_session(&session).await["metadata"]["lifecycleState"], "archived");
    // Nor does one that refuses, or leaves in the middle.
    for way in ["refuses", "leaves"] {
        let session = world.create_session(&format!("/{way}")).await;
        let mut cli = world.live_cli(&session).await;
        cli.register("killSession").await;
        let reply = order(&world, &session, "archive", &json!({}));
        let call = cli.next_call().await;
        match way {
            "refuses" => cli.respond(&call, &json!({"success": false, "error": "no"})),
            _ => cli.socket.close(),
        }
        reply.reply().await.ok();
        assert_eq!(world.get_session(&session).await["active"], false, "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_ends_itself_properly_and_one_that_lingers_come_to_the_same() {
    let (world, session, mut cli) = live_session(&["killSession"]).await;
    let reply = order(&world, &session, "archive", &json!({}));
    let call = cli.next_call().await;
    let own = json!({"path": "/code", "host": "box", "lifecycleState": "completed", "exit": 0});
    let updated =
        cli.emit_with_ack("update-metadata", &json!({"sid": session, "expectedVersion": 1, "metadata": own})).await;
    assert_eq!(updated["result"], "success");
    end(&world, &session, &mut cli).await;
    cli.respond(&call, &json!({"success": true}));
    reply.reply().await.ok();
    let shown = world.get_session(&session).await;
    assert_eq!(shown["metadata"]["lifecycleState"], "archived");
    assert_eq!((&shown["metadata"]["exit"], &shown["metadataVersion"]), (&json!(0), &json!(3)));
    for _ in 0..3 {
        cli.send_heartbeat(&world, &session).await;
        world.advance(2_000).await;
    }
    world.hibernate_and_wake().await;
    cli.send_heartbeat(&world, &session).await;
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["active"], &shown["metadata"]["lifecycleState"]), (&json!(false), &json!("archived")));
    assert_eq!(listed(&world, "").await, Vec::<String>::new());
    world
        .post(&format!("/api/sessions/{session}/messages"), &json!({"text": "hi"}))
        .await
        .assert_error(409, "session_inactive");
}

#[tokio::test(start_paused = true)]
async fn an_archived_session_that_is_asked_for_by_its_tag_lives_again_under_its_name() {
    let (world, session, mut cli) = live_session(&[]).await;
    cli.send_message(&session, "old").await;
    world.request("PATCH", &format!("/api/sessions/{session}"), json!({"name": "Mine"}).to_string()).await.ok();
    archive(&world, &session, &json!({})).await.ok();
    let mut web = world.web("all=true").await;
    let again = world.create_session_with("/code", json!({"version": "2"})).await;
    assert_eq!(again, session);
    let shown = world.get_session(&session).await;
    let metadata = json!({"path": "/code", "host": "box", "version": "2", "name": "Mine"});
    assert_eq!((&shown["metadata"], &shown["seq"], &shown["active"]), (&metadata, &json!(1), &json!(false)));
    assert_eq!(web.next_event_of("session-updated").await["data"]["metadata"], metadata);
    assert_eq!(listed(&world, "").await, [session.as_str()]);
    cli.send_heartbeat(&world, &session).await;
    assert_eq!(world.get_session(&session).await["active"], true);
    world.hibernate_and_wake().await;
    assert_eq!(world.get_session(&session).await["metadata"], metadata, "it is persisted");
    let named = world.create_session_with("/code", json!({"name": "Other"})).await;
    assert_eq!(
        world.get_session(&named).await["metadata"]["name"],
        "Mine",
        "one that is not archived is left as it is"
    );
}

#[tokio::test(start_paused = true)]
async fn archived_sessions_are_shown_to_those_who_ask() {
    let world = World::new();
    let (kept, gone) = (world.create_session("/kept").await, world.create_session("/gone").await);
    archive(&world, &gone, &json!({})).await.ok();
    for round in ["before a sleep", "after it"] {
        assert_eq!(listed(&world, "").await, [kept.as_str()], "{round}");
        assert_eq!(listed(&world, "?archived=only").await, [gone.as_str()], "{round}");
        let mut both = listed(&world, "?archived=include").await;
        both.sort();
        let mut all = vec![kept.clone(), gone.clone()];
        all.sort();
        assert_eq!(both, all, "{round}");
        world.hibernate_and_wake().await;
    }
    let refused = world.get("/api/sessions?archived=maybe").await;
    assert_eq!(refused.assert_error(400, "invalid_field")["field"], "archived");
}

#[tokio::test(start_paused = true)]
async fn only_a_session_that_is_not_active_can_be_deleted() {
    let (world, session, mut cli) = live_session(&[]).await;
    let delete = async || world.request("DELETE", &format!("/api/sessions/{session}"), "").await;
    cli.send_message(&session, "hello").await;
    cli.update_state(&session, 1, &json!({"completedRequests": {"r": {"tool": "Bash", "status": "denied"}}})).await;
    delete().await.assert_error(409, "session_active");
    archive(&world, &session, &json!({})).await.ok();
    let mut web = world.web("all=true").await;
    assert_eq!(delete().await.ok(), json!({"ok": true}));
    assert_eq!(web.next_event_of("session-removed").await["sessionId"], session.as_str());
    delete().await.assert_error(404, "session_not_found");
    for table in ["sessions", "messages", "completed_requests"] {
        assert_eq!(world.db.number(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert_ne!(world.create_session("/code").await, session, "its tag is free again");
}

/// A mode that the CLI applies, or says that it does.
async fn mode(
    world: &World,
    cli: &mut Cli,
    session: &str,
    route: &str,
    body: &Value,
    result: &Value,
) -> (Value, Reply) {
    let reply = order(world, session, route, body);
    let asked = cli.serve("set-session-config", result).await;
    (asked, reply.reply().await)
}

#[tokio::test(start_paused = true)]
async fn a_mode_counts_once_the_cli_applied_it() {
    let (world, session, mut cli) = live_session(&["set-session-config"]).await;
    let mut web = world.web("all=true").await;
    let applied = json!({"applied": {"permissionMode": "plan"}});
    let (asked, reply) = mode(&world, &mut cli, &session, "permission-mode", &json!({"mode": "plan"}), &applied).await;
    assert_eq!((asked, reply.ok()), (json!({"permissionMode": "plan"}), json!({"ok": true})));
    assert_eq!(web.next_event_of("session-updated").await["data"]["permissionMode"], "plan");
    let applied = json!({"applied": {"modelMode": "model_fast"}});
    let (asked, reply) = mode(&world, &mut cli, &session, "model", &json!({"model": "model_fast"}), &applied).await;
    assert_eq!((asked, reply.ok()), (json!({"modelMode": "model_fast"}), json!({"ok": true})));
    assert_eq!(web.next_event_of("session-updated").await["data"]["modelMode"], "model_fast");
    world.hibernate_and_wake().await;
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["permissionMode"], &shown["modelMode"]), (&json!("plan"), &json!("model_fast")));
    let line = world.get("/api/sessions").await.ok()["sessions"][0].clone();
    assert_eq!((&line["permissionMode"], &line["modelMode"]), (&json!("plan"), &json!("model_fast")));
    // What the CLI says it applied counts, whatever was asked.
    let applied = json!({"applied": {"permissionMode": "default", "modelMode": "default"}});
    mode(&world, &mut cli, &session, "permission-mode", &json!({"mode": "plan"}), &applied).await.1.ok();
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["permissionMode"], &shown["modelMode"]), (&json!("default"), &json!("default")));
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_the_cli_did_not_apply_is_a_409_and_leaves_no_trace() {
    let (world, session, mut cli) = live_session(&[]).await;
    let before = world.get_session(&session).await;
    let refused = async |reply: Reply, what: &Value| {
        reply.assert_error(409, "mode_not_applied");
        let mut now = world.get_session(&session).await;
        now["activeAt"] = before["activeAt"].clone();
        assert_eq!(now, before, "{what}");
    };
    for (route, body) in [("permission-mode", json!({"mode": "plan"})), ("model", json!({"model": "model_fast"}))] {
        let unserved = json!("no handler");
        refused(order(&world, &session, route, &body).reply().await, &unserved).await;
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
            json!({"applied": {"permissionMode": "plan", "modelMode": "x".repeat(65)}}),
            json!({"applied": {"permissionMode": "x".repeat(65), "modelMode": "model_fast"}}),
        ];
        for result in results {
            let (_, reply) = mode(&world, &mut cli, &session, route, &body, &result).await;
            refused(reply, &result).await;
        }
        let reply = order(&world, &session, route, &body);
        let call = cli.next_call().await;
        cli.respond_raw(&call, "\"done\"");
        refused(reply.reply().await, &json!("no object")).await;
        let reply = order(&world, &session, route, &body);
        cli.next_call().await;
        for _ in 0..3 {
            world.advance(RPC_TIMEOUT_MS / 3).await;
            cli.send_heartbeat(&world, &session).await;
        }
        refused(reply.reply().await, &json!("no answer")).await;
        cli.emit_with_ack("rpc-unregister", &json!({"method": "set-session-config"})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_could_not_be_written_was_never_set() {
    let (world, session, mut cli) = live_session(&["set-session-config"]).await;
    world.db.fail(BatchKind::Writes, DbError::Refused("disk I/O error".into()));
    let applied = json!({"applied": {"permissionMode": "plan"}});
    let (_, reply) = mode(&world, &mut cli, &session, "permission-mode", &json!({"mode": "plan"}), &applied).await;
    reply.assert_error(503, "hub_unavailable");
    assert_eq!(world.get_session(&session).await.get("permissionMode"), None);
}

#[tokio::test(start_paused = true)]
async fn each_flavor_takes_its_own_modes_and_alpha_alone_a_model() {
    let modes = ["default", "acceptEdits", "bypassPermissions", "plan", "ask", "read-only", "safe-yolo", "yolo"];
    let sandboxed = ["default", "read-only", "safe-yolo", "yolo"];
    let alpha = ["default", "acceptEdits", "bypassPermissions", "plan"];
    let table: [(Value, &[&str]); 7] = [
        (json!("alpha"), &alpha),
        (Value::Null, &alpha),
        (json!("beta"), &sandboxed),
        (json!("delta"), &sandboxed),
        (json!("epsilon"), &["default", "yolo"]),
        (json!("gamma"), &["default", "plan", "ask", "yolo"]),
        (json!("zeta"), &["default"]),
    ];
    let world = World::new();
    for (flavor, valid) in table {
        let session = world.create_session_with(&format!("/{flavor}"), json!({"flavor": flavor})).await;
        let mut cli = world.live_cli(&session).await;
        cli.register("set-session-config").await;
        let mut attempt = async |route: &str, body: Value, applied: Value, allowed: bool, field: &str| {
            let reply = order(&world, &session, route, &body);
            if allowed {
                cli.serve("set-session-config", &json!({"applied": applied})).await;
                reply.reply().await.ok();
            } else {
                assert_eq!(reply.reply().await.assert_error(400, "invalid_field")["field"], field, "{flavor} {body}");
            }
        };
        for mode in modes {
            let applied = json!({"permissionMode": mode});
            attempt("permission-mode", json!({"mode": mode}), applied, valid.contains(&mode), "mode").await;
        }
        let takes_model = valid == alpha;
        for model in ["default", "model_fast", "model_strong"] {
            attempt("model", json!({"model": model}), json!({"modelMode": model}), takes_model, "model").await;
        }
        for (route, body, field) in [
            ("permission-mode", json!({}), "mode"),
            ("permission-mode", json!({"mode": null}), "mode"),
            ("permission-mode", json!({"mode": "Default"}), "mode"),
            ("model", json!({"model": "huge"}), "model"),
            ("model", json!({"mode": "default"}), "model"),
            ("model", json!({"model": 1}), "model"),
        ] {
            attempt(route, body, Value::Null, false, field).await;
        }
        cli.socket.assert_no_frames().await;
    }
}

#[tokio::test(start_paused = true)]
async fn modes_need_an_active_session() {
    let (world, session, mut cli) = live_session(&["set-session-config"]).await;
    end(&world, &session, &mut cli).await;
    for (route, body) in [("permission-mode", json!({"mode": "plan"})), ("model", json!({"model": "default"}))] {
        order(&world, &session, route, &body).reply().await.assert_error(409, "session_inactive");
    }
    cli.socket.assert_no_frames().await;
}

#[tokio::test(start_paused = true)]
async fn modes_that_a_cli_reports_by_itself_are_persisted_and_told() {
    let (world, session, mut cli) = live_session(&[]).await;
    let mut web = world.web("all=true").await;
    let alive = json!({"sid": session, "time": world.now(), "permissionMode": "plan", "modelMode": "model_strong"});
    cli.emit_with_ack("session-alive", &alive).await;
    let told = web.next_event_of("session-updated").await["data"].clone();
    assert_eq!((&told["permissionMode"], &told["modelMode"]), (&json!("plan"), &json!("model_strong")));
    world.hibernate_and_wake().await;
    let shown = world.get_session(&session).await;
    assert_eq!((&shown["permissionMode"], &shown["modelMode"]), (&json!("plan"), &json!("model_strong")));
}
