//! What the hub holds of its namespace is bounded: sessions that nobody uses are let go, and nobody notices.

use crate::support::sqlite::On;
use crate::support::{RECONNECT_GRACE_MS, World, quiet};
use serde_json::{Value, json};
use session_gateway_hub::hub::limits::{MAX_CACHED_BYTES, MAX_CACHED_BYTES_IN_USE, MAX_CACHED_SESSIONS};
use session_gateway_hub::hub::limits::{MAX_MACHINE_BYTES, MAX_MACHINES};

/// How many bytes of metadata a large session has.
const LARGE: usize = 590_000;
/// So many of them are more than may be held.
const MANY: usize = MAX_CACHED_BYTES / LARGE + 2;

/// Sessions that are asked for until what is held is above its bounds, so that whatever was not asked for lately and may
/// go has gone.
async fn fill(world: &World) {
    for n in 0..MANY {
        world.db.execute(&format!(
            r#"INSERT OR IGNORE INTO sessions SELECT 'large-{n}', 'team', '/large/{n}', 0, 0, 0, 0, 0, 0, 0, NULL,
              '{{"path":"/","host":"h","padding":"' || printf('%.{LARGE}c', 'x') || '"}}', 1, NULL, 1, NULL, NULL, NULL, NULL, NULL"#
        ));
        holds(world, &format!("large-{n}")).await;
    }
}

/// Whether the hub holds a session: it need not ask the database for it.
async fn holds(world: &World, session: &str) -> bool {
    let reads = world.db.reads();
    world.get(&format!("/api/sessions/{session}/git-status")).await.ok();
    world.db.reads() == reads
}

#[tokio::test(start_paused = true)]
async fn sessions_beyond_a_number_are_let_go_and_stay_in_the_list() {
    let world = World::new();
    let mut made = Vec::new();
    for n in 0..MAX_CACHED_SESSIONS {
        made.push(world.session(&format!("/{n}")).await);
    }
    let [first, second, third] = [&made[0], &made[1], &made[2]];
    let list = world.get("/api/sessions").await;
    assert_eq!(list.ok()["sessions"].as_array().unwrap().len(), MAX_CACHED_SESSIONS);
    let shown = world.shown(second).await;
    assert!(holds(&world, first).await && holds(&world, second).await);
    for n in 0..3 {
        world.session(&format!("/more/{n}")).await;
    }
    let grown = world.get("/api/sessions").await.ok();
    assert_eq!(grown["sessions"].as_array().unwrap().len(), MAX_CACHED_SESSIONS + 3);
    assert!(holds(&world, first).await && holds(&world, second).await, "they were asked for just now");
    assert!(!holds(&world, third).await, "the one asked for the longest ago is gone, and comes back");
    assert!(holds(&world, third).await);
    assert_eq!(world.shown(second).await, shown);
    assert_eq!(world.get("/api/sessions").await.ok(), grown, "coming and going changes nothing in the list");
}

#[tokio::test(start_paused = true)]
async fn sessions_are_let_go_by_their_size_too() {
    let world = World::new();
    let small = world.session("/small").await;
    fill(&world).await;
    assert!(!holds(&world, &small).await);
    assert!(holds(&world, &small).await);
    assert!(holds(&world, &format!("large-{}", MANY - 1)).await);
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"].as_array().unwrap().len(), MANY + 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_record_of_completed_requests_counts() {
    let world = World::new();
    let small = world.session("/small").await;
    let mut cli = world.bare_cli().await;
    for n in 0..4 {
        let session = world.session(&format!("/{n}")).await;
        let entry = |at: usize| (format!("q{at}"), json!({"tool": "t".repeat(1_000_000)}));
        let entries: serde_json::Map<String, Value> = (0..7).map(entry).collect();
        assert_eq!(cli.state(&session, 1, &json!({"completedRequests": entries})).await["result"], "success");
    }
    world.session("/one-more").await;
    assert!(!holds(&world, &small).await);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_is_at_work_on_stays() {
    let world = World::new();
    let (active, connected, noted) = (world.session("/a").await, world.session("/b").await, world.session("/c").await);
    let mut bare = world.bare_cli().await;
    bare.alive(&world, &active).await;
    let _cli = world.cli(&connected).await;
    quiet().await;
    // While the database hangs with one change, another waits for its turn.
    world.db.hold(On::Writes);
    let first = world.start("PATCH", &format!("/api/sessions/{connected}"), r#"{"name":"first"}"#);
    quiet().await;
    let renamed = world.start("PATCH", &format!("/api/sessions/{noted}"), r#"{"name":"kept"}"#);
    quiet().await;
    let made: Vec<_> = (0..MANY)
        .map(|n| {
            let metadata = json!({"path": "/", "host": "h", "padding": "x".repeat(LARGE)});
            world.start("POST", "/cli/sessions", json!({"tag": format!("/{n}"), "metadata": metadata}).to_string())
        })
        .collect();
    quiet().await;
    world.db.release();
    first.reply().await.ok();
    renamed.reply().await.ok();
    drop(made);
    quiet().await;
    assert_eq!(world.shown(&noted).await["metadata"]["name"], "kept");
    world.pass(RECONNECT_GRACE_MS).await;
    world.sleep_and_wake().await;
    assert_eq!(world.shown(&noted).await["metadata"]["name"], "kept", "it was written before it was let go");
    for session in [&active, &connected] {
        world.shown(session).await;
    }
    fill(&world).await;
    assert!(holds(&world, &active).await && holds(&world, &connected).await);
    assert!(!holds(&world, &noted).await);
}

#[tokio::test(start_paused = true)]
async fn even_active_sessions_go_when_they_are_too_much_together_and_live_on_as_before() {
    const STATE: usize = 950_000;
    let world = World::new();
    let mut cli = world.bare_cli().await;
    let mut made = Vec::new();
    for n in 0..MAX_CACHED_BYTES_IN_USE / (LARGE + STATE) + 2 {
        let session = world.session_with(&format!("/{n}"), json!({"padding": "x".repeat(LARGE)})).await;
        let state = json!({"requests": {"r": {"tool": "T"}}, "padding": "x".repeat(STATE)});
        assert_eq!(cli.state(&session, 1, &state).await["result"], "success");
        cli.alive(&world, &session).await;
        made.push(session);
    }
    quiet().await;
    let (first, last) = (&made[0], made.last().unwrap());
    assert!(holds(&world, last).await && !holds(&world, first).await, "the one heard of the longest ago is gone");
    let line = |list: &Value, id: &str| {
        let lines = list["sessions"].as_array().unwrap();
        lines.iter().find(|line| line["id"] == id).unwrap().clone()
    };
    let list = world.get("/api/sessions").await.ok();
    for session in &made {
        let line = line(&list, session);
        assert_eq!((&line["active"], &line["pendingRequestsCount"]), (&json!(true), &json!(1)));
    }
    fill(&world).await;
    let mut own = world.cli(first).await;
    own.register("permission").await;
    let approved = world.start("POST", &format!("/api/sessions/{first}/permissions/r/approve"), "{}");
    let asked = own.request().await;
    own.answer(&asked, &json!({"success": true}));
    approved.reply().await.ok();
    assert_eq!(own.message(first, "on").await["seq"], 1);
    let shown = world.shown(first).await;
    assert_eq!(
        (&shown["active"], &shown["agentState"]["completedRequests"]["r"]["status"]),
        (&json!(true), &json!("approved"))
    );
    world.pass(31_000).await;
    let list = world.get("/api/sessions").await.ok();
    assert!(made.iter().all(|session| line(&list, session)["active"] == false), "their clocks ran on");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_over_may_go_and_comes_back_as_it_was_left() {
    let world = World::new();
    let session = world.session("/code").await;
    let mut cli = world.live_cli(&session).await;
    let state = json!({"requests": {"r": {"tool": "Bash"}}, "completedRequests": {"q": {"status": "denied"}}});
    cli.state(&session, 1, &state).await;
    let sent = json!({"sid": session, "message": {"role": "agent"}, "localId": "one"});
    assert_eq!(cli.ask("message", &sent).await["seq"], 1);
    cli.ask("session-end", &json!({"sid": session, "time": world.now()})).await;
    let shown = world.shown(&session).await;
    cli.socket.close();
    fill(&world).await;
    assert!(!holds(&world, &session).await);
    fill(&world).await;
    assert_eq!(world.shown(&session).await, shown);
    let mut back = world.cli(&session).await;
    assert_eq!(back.ask("message", &sent).await["seq"], 1, "its local ids are known");
    assert_eq!(back.message(&session, "next").await["seq"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_a_change_has_overtaken_is_made_again() {
    let world = World::new();
    let session = world.session("/code").await;
    world.sleep_and_wake().await;
    world.db.hold(On::Reads);
    let shown = world.start("GET", &format!("/api/sessions/{session}"), "");
    let by_tag = world.start("POST", "/cli/sessions", r#"{"tag":"/code","metadata":{"path":"/code","host":"box"}}"#);
    let listed = world.start("GET", "/api/sessions", "");
    quiet().await;
    assert_eq!(world.db.held(), 3, "they have read the session as it was");
    world.db.pass();
    let mut cli = world.bare_cli().await;
    assert_eq!(cli.message(&session, "meanwhile").await["seq"], 1);
    let renamed = world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"new"}"#).await;
    renamed.ok();
    fill(&world).await;
    assert!(!shown.is_here() && !by_tag.is_here() && !listed.is_here());
    world.db.release();
    assert_eq!(shown.reply().await.ok()["session"]["seq"], 1);
    assert_eq!(by_tag.reply().await.ok()["session"]["seq"], 1);
    let listed = listed.reply().await.ok();
    let line = listed["sessions"].as_array().unwrap().iter().find(|line| line["id"] == session.as_str());
    assert_eq!(line.unwrap()["metadata"]["name"], "new");
    assert_eq!(cli.message(&session, "after").await["seq"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_tag_whose_session_came_and_went_while_it_was_looked_up_is_looked_up_again() {
    let world = World::new();
    world.db.hold(On::Reads);
    let asked = world.start("POST", "/cli/sessions", r#"{"tag":"/code","metadata":{"path":"/code","host":"box"}}"#);
    quiet().await;
    world.db.pass();
    let session = world.session("/code").await;
    fill(&world).await;
    world.db.release();
    assert_eq!(asked.reply().await.ok()["session"]["id"], session.as_str());
}

#[tokio::test(start_paused = true)]
async fn the_list_needs_no_session_whole_and_says_the_same_as_memory() {
    let world = World::new();
    let odd = json!({
        "name": "a \"name\" with \u{1F980}, \\ and \u{0} in it", "machineId": "m", "flavor": null, "tools": ["x"],
        "summary": {"text": "doing\nthings", "updatedAt": 1.5}, "lifecycleState": "running",
        "worktree": {"branch": "b", "n": [1.50, 1e3, {"deep": [null, true]}], "": 12_345_678},
    });
    let session = world.session_with("/odd", odd).await;
    world.session_with("/plain", json!({})).await;
    world.session_with("/other", json!({"summary": 7, "worktree": "w", "name": null, "flavor": "beta"})).await;
    world.session_with("/large", json!({"padding": "x".repeat(LARGE)})).await;
    let archived = world.session("/archived").await;
    world.post(&format!("/api/sessions/{archived}/archive"), &json!({})).await.ok();
    let mut cli = world.live_cli(&session).await;
    let todos = json!({"role": "agent", "content": {"type": "alpha", "data": {"type": "plan", "entries": [
        {"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]}}});
    cli.ask("message", &json!({"sid": session, "message": todos})).await;
    cli.state(&session, 1, &json!({"requests": {"r1": {}, "r2": {}}})).await;
    let alive = json!({"sid": session, "time": world.now(), "thinking": true, "permissionMode": "plan"});
    cli.ask("session-alive", &alive).await;
    quiet().await;
    let mut reads = 0;
    for query in ["", "?archived=include", "?archived=only"] {
        let path = format!("/api/sessions{query}");
        let from_memory = world.get(&path).await;
        world.sleep_and_wake().await;
        reads = world.db.reads();
        let from_database = world.get(&path).await;
        assert_eq!(from_database.text, from_memory.text);
        assert_eq!(world.db.reads() - reads, 1);
    }
    let line = &world.get("/api/sessions").await.ok()["sessions"][0];
    assert_eq!(line["todoProgress"], json!({"completed": 1, "total": 2}));
    assert_eq!((&line["pendingRequestsCount"], &line["active"]), (&json!(2), &json!(true)));
    let read = world.db.read().split_off(reads);
    assert!(!read.iter().flatten().any(|read| read.sql.contains("agent_state_version")), "none was read whole");
    assert!(!holds(&world, &archived).await);
}

#[tokio::test(start_paused = true)]
async fn one_session_that_the_database_cannot_read_as_json_spoils_no_other_line() {
    let world = World::new();
    let deep = world.session("/deep").await;
    world.session("/plain").await;
    world.sleep_and_wake().await;
    let nested = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    world.db.execute(&format!(
        r#"UPDATE sessions SET metadata = '{{"path":"/","host":"h","deep":{nested}}}', agent_state = '{{"requests":{{}},"deep":{nested}}}' WHERE id = '{deep}'"#
    ));
    let list = world.get("/api/sessions").await.ok();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 2);
    let body = format!(r#"{{"tag":"/t","metadata":{{"path":"/","host":"h","deep":{nested}}}}}"#);
    let refusal = world.request("POST", "/cli/sessions", body).await.refuses(400, "invalid_field");
    assert_eq!(refusal["field"], "metadata", "none can come to be");
}

#[tokio::test(start_paused = true)]
async fn what_the_list_finds_active_gets_a_clock() {
    let world = World::new();
    let session = world.session("/code").await;
    let cli = world.live_cli(&session).await;
    quiet().await;
    // The object lost its sockets and its notebook.
    cli.socket.close();
    world.restart();
    for key in world.rt.notebook().keys() {
        session_gateway_hub::hub::ports::Runtime::kv_delete(&*world.rt, key);
    }
    world.restart();
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["active"], true);
    world.pass(31_000).await;
    assert_eq!(world.get("/api/sessions").await.ok()["sessions"][0]["active"], false);
}

/// Makes a machine known, with values of so many bytes.
async fn machine_of(world: &World, id: &str, metadata: usize, runner_state: usize) {
    let filled = |bytes: usize| json!({"host": "box", "filling": "x".repeat(bytes)});
    let body = json!({"id": id, "metadata": filled(metadata), "runnerState": filled(runner_state)});
    world.post("/cli/machines", &body).await.ok();
}

#[tokio::test(start_paused = true)]
async fn however_large_machines_are_memory_holds_no_more_of_them_than_a_bound() {
    let world = World::new();
    let mut runner = world.bare_cli().await;
    for number in 0..20 {
        let id = format!("m{number}");
        machine_of(&world, &id, 500_000, 900_000).await;
        runner.ask("machine-alive", &json!({"machineId": id, "time": world.now()})).await;
    }
    let state = json!({"filling": "y".repeat(950_000)});
    let update = json!({"machineId": "m19", "expectedVersion": 1, "runnerState": state});
    assert_eq!(runner.ask("machine-update-state", &update).await["result"], "success");
    let held = "SELECT sum(length(metadata) + length(coalesce(runner_state, ''))) FROM machines";
    assert!((1..=MAX_MACHINE_BYTES as i64).contains(&world.db.number(held)), "{}", world.db.number(held));
    world.sleep_and_wake().await;
    let list = world.get("/api/machines").await.ok()["machines"].clone();
    assert_eq!(list.as_array().unwrap().len(), 20);
    assert!(list.to_string().len() < MAX_MACHINE_BYTES + 100_000);
    for number in 0..20 {
        let whole = world.get(&format!("/api/machines/m{number}")).await.ok()["machine"].clone();
        assert_eq!(whole["metadata"]["filling"].as_str().unwrap().len(), 500_000);
        let state = if number == 19 { 950_000 } else { 900_000 };
        assert_eq!(whole["runnerState"]["filling"].as_str().unwrap().len(), state);
    }
}

#[tokio::test(start_paused = true)]
async fn of_more_machines_than_a_namespace_has_room_for_the_one_that_was_away_longest_is_forgotten() {
    let world = World::new();
    let mut there = world.bare_cli().await;
    for number in 0..MAX_MACHINES {
        world.rt.set_now(world.now() + 1);
        machine_of(&world, &format!("m{number}"), if number == 1 { 700_000 } else { 0 }, 0).await;
    }
    // The first is there by a sign of life, the third by its socket.
    there.ask("machine-alive", &json!({"machineId": "m0", "time": world.now()})).await;
    let _runner = world.runner("m2").await;
    assert_eq!(world.db.number("SELECT count(*) FROM value_parts"), 1);
    for (new, gone) in [("n0", "m1"), ("n1", "m3")] {
        machine_of(&world, new, 0, 0).await;
        world.get(&format!("/api/machines/{gone}")).await.refuses(404, "machine_not_found");
    }
    assert_eq!(world.db.number("SELECT count(*) FROM value_parts"), 0, "nothing of it is left");
    world.sleep_and_wake().await;
    assert_eq!(world.db.number("SELECT count(*) FROM machines"), MAX_MACHINES as i64);
    for here in ["m0", "m2", "m4", "n0", "n1"] {
        world.get(&format!("/api/machines/{here}")).await.ok();
    }
    // One that was forgotten is a machine like any other when it comes back.
    machine_of(&world, "m1", 0, 0).await;
    assert_eq!(world.get("/api/machines/m1").await.ok()["machine"]["metadataVersion"], 1);
}

#[tokio::test(start_paused = true)]
async fn where_all_machines_that_may_be_are_online_another_one_is_refused() {
    let world = World::new();
    let mut there = world.bare_cli().await;
    for number in 0..MAX_MACHINES {
        machine_of(&world, &format!("m{number}"), 0, 0).await;
        there.ask("machine-alive", &json!({"machineId": format!("m{number}"), "time": world.now()})).await;
    }
    let body = json!({"id": "another", "metadata": {"host": "box"}});
    world.post("/cli/machines", &body).await.refuses(503, "overloaded");
    machine_of(&world, "m7", 1, 0).await;
    world.pass(46_000).await;
    world.post("/cli/machines", &body).await.ok();
}
