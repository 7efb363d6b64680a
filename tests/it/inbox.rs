//! The inbox: what waits for a person, in all sessions of the namespace (PROTOCOL-WEB.md "GET /api/inbox").

use crate::support::permissions::answer;
use crate::support::prelude::*;
use crate::support::session_list::add_sessions;

/// Sends the agent state with these pending requests.
async fn set_requests(world: &World, cli: &mut Cli, session: &str, requests: Value) {
    let version = world.get_session(session).await["agentStateVersion"].as_u64().unwrap();
    let updated = cli.update_agent_state(session, version, &json!({"requests": requests})).await;
    assert_eq!(updated["result"], "success", "{updated}");
}

/// Returns the inbox from memory, after a comparison with the inbox from the database.
async fn inbox(world: &World) -> Value {
    run_until_idle().await;
    let from_memory = world.get("/api/inbox").await;
    world.hibernate_and_wake().await;
    assert_eq!(world.get("/api/inbox").await.text, from_memory.text);
    from_memory.ok()
}

/// The ids of the requests in a page.
fn request_ids(page: &Value) -> Vec<&str> {
    items(page).iter().map(|item| item["requestId"].as_str().unwrap()).collect()
}

fn items(inbox: &Value) -> &Vec<Value> {
    inbox["items"].as_array().unwrap()
}

/// The kinds of the items, with the id of the request if there is one, and since when they wait.
fn names_and_times(inbox: &Value) -> Vec<(String, u64)> {
    let name = |item: &Value| item["requestId"].as_str().or(item["kind"].as_str()).unwrap().to_owned();
    items(inbox).iter().map(|item| (name(item), item["since"].as_u64().unwrap())).collect()
}

/// Reads all pages. Returns `session/request` of each item.
async fn read_pages(world: &World, limit: usize) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/api/inbox?limit={limit}&cursor={cursor}")).await.ok();
        pages.push(items(&page).iter().map(name).collect());
        match page.get("nextCursor") {
            Some(next) => cursor = next.as_str().unwrap().to_owned(),
            None => return pages,
        }
    }
}

fn name(item: &Value) -> String {
    format!("{}/{}", item["session"]["id"].as_str().unwrap(), item["requestId"].as_str().unwrap_or_default())
}

/// Adds pending requests to sessions of [`add_sessions`]: request `r` of session `s` waits since 2027 + `since`.
fn add_requests(world: &World, condition: &str, count: usize, since: &str) {
    world.db.execute(&format!(
        "UPDATE sessions SET agent_state = json_object('requests', (WITH RECURSIVE n(r) AS (SELECT 0 UNION ALL SELECT r + 1 FROM n
          WHERE r < {count} - 1) SELECT json_group_object('r' || r, json_object('tool', 'Bash', 'createdAt', 1799000000000 + {since}))
          FROM n)) WHERE {condition}"
    ));
}

#[tokio::test(start_paused = true)]
async fn requests_and_ready_and_failed_sessions_are_listed_with_their_sessions_oldest_first() {
    let world = World::new();
    let asking =
        world.create_session_with("/asking", json!({"name": "Asks", "machineId": "m", "flavor": "beta"})).await;
    let mut cli = world.live_cli(&asking).await;
    let start = world.now();
    let request = json!({"tool": "Bash", "arguments": {"command": "ls"}, "createdAt": start - 9_000});
    set_requests(&world, &mut cli, &asking, json!({"r": request, "q": {"tool": "Ask", "createdAt": start - 10_000}}))
        .await;
    world.advance(1_000).await;
    let (ready, mut ready_cli) = world.active_session("/ready").await;
    ready_cli.send_ready(&ready).await;
    world.advance(1_000).await;
    let failed = world.create_session("/failed").await;
    let mut failed_cli = world.cli(&failed).await;
    let metadata =
        json!({"path": "/failed", "host": "box", "lifecycleState": "failed", "agentError": "no such program"});
    failed_cli.put_metadata(&failed, 1, &metadata).await;
    world.create_session("/idle").await;

    let inbox = inbox(&world).await;
    let expected = [("q", start - 10_000), ("r", start - 9_000), ("ready", start + 1_000), ("failed", start + 2_000)];
    assert_eq!(names_and_times(&inbox), expected.map(|(name, since)| (name.to_owned(), since)));
    assert_eq!((&inbox["total"], inbox.get("nextCursor")), (&json!(4), None));
    let list = world.get("/api/sessions").await.ok();
    let summary = |id: &str| list["sessions"].as_array().unwrap().iter().find(|session| session["id"] == id).unwrap();
    let expected = json!({"kind": "request", "since": start - 9_000, "session": summary(&asking), "requestId": "r", "request": request});
    assert_eq!(items(&inbox)[1], expected);
    assert_eq!(items(&inbox)[2], json!({"kind": "ready", "since": start + 1_000, "session": summary(&ready)}));
    let expected =
        json!({"kind": "failed", "since": start + 2_000, "session": summary(&failed), "error": "no such program"});
    assert_eq!(items(&inbox)[3], expected);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_plausible_time_waits_since_it_was_stored() {
    let (world, session, mut cli) = live_session().await;
    let start = world.now();
    let requests = json!({
        "a": {"createdAt": 0}, "b": {"createdAt": start + 60_001}, "c": {"createdAt": "now"}, "d": {}, "e": {"createdAt": -5},
        "f": {"createdAt": 1e300}, "g": {"createdAt": start as f64 / 1_000.0}, "h": {"createdAt": [start]},
        "near future": {"createdAt": start + 60_000}, "past": {"createdAt": 1_600_000_000_000_u64},
    });
    set_requests(&world, &mut cli, &session, requests.clone()).await;
    // An update that repeats a request does not move it.
    world.advance(120_000).await;
    let mut cli = world.cli(&session).await;
    set_requests(&world, &mut cli, &session, requests).await;
    let names_and_times = names_and_times(&inbox(&world).await);
    let stored = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|id| (id.to_owned(), start));
    let expected = [("past".to_owned(), 1_600_000_000_000)].into_iter().chain(stored);
    assert_eq!(names_and_times, expected.chain([("near future".to_owned(), start + 60_000)]).collect::<Vec<_>>());
    assert_eq!(world.get_session(&session).await["agentState"]["requests"]["a"], json!({"createdAt": 0}), "as sent");
}

#[tokio::test(start_paused = true)]
async fn a_request_stays_listed_while_its_cli_is_away_until_it_is_answered() {
    let (world, session, mut cli) = live_session().await;
    set_requests(&world, &mut cli, &session, json!({"r1": {"tool": "Bash"}, "r2": {"tool": "Bash"}})).await;
    cli.socket.close();
    world.advance(60_000).await;
    let away = inbox(&world).await;
    assert_eq!((&away["total"], &items(&away)[0]["session"]["active"]), (&json!(2), &json!(false)));
    let mut cli = world.live_cli(&session).await;
    cli.register("permission").await;
    answer(&world, &session, &mut cli, "r1/approve", &json!({})).await;
    assert_eq!(names_and_times(&inbox(&world).await).len(), 1);
    let mut cli = world.live_cli(&session).await;
    cli.emit_with_ack("session-end", &json!({"sid": session})).await;
    world.advance(60_000).await;
    assert_eq!(inbox(&world).await, json!({"items": [], "total": 0}), "an ended session has no requests");
}

#[tokio::test(start_paused = true)]
async fn an_archived_session_and_the_sessions_of_another_namespace_are_not_listed() {
    let (world, session, mut cli) = live_session().await;
    cli.send_ready(&session).await;
    set_requests(&world, &mut cli, &session, json!({"r": {"tool": "Bash"}})).await;
    assert_eq!(inbox(&world).await["total"], 2);
    assert_eq!(world.neighbour().get("/api/inbox").await.ok(), json!({"items": [], "total": 0}));
    let archived = world.start("POST", &format!("/api/sessions/{session}/archive"), "{}");
    world.advance(30_000).await;
    archived.reply().await.ok();
    assert_eq!(inbox(&world).await, json!({"items": [], "total": 0}));
    assert_eq!(world.get_session(&session).await.get("unseenSince"), None);
}

#[tokio::test(start_paused = true)]
async fn a_large_request_is_listed_with_the_size_of_its_arguments() {
    let (world, session, mut cli) = live_session().await;
    let request = |bytes: usize| json!({"tool": "Write", "arguments": {"content": "é".repeat(bytes / 2)}, "createdAt": world.now()});
    let (small, medium) = (request(65_000), request(70_000));
    set_requests(&world, &mut cli, &session, json!({"a": small, "b": medium})).await;
    let listed = inbox(&world).await;
    assert_eq!(items(&listed)[0]["request"], small);
    let shortened = json!({"tool": "Write", "createdAt": world.now(), "argumentsBytes": 70_014});
    assert_eq!(items(&listed)[1]["request"], shortened);
    // Above 1 MB, memory and the row of the session have only an excerpt of the state.
    let mut cli = world.live_cli(&session).await;
    let requests = json!({"a": small, "c": request(2_000_000), "d": {"tool": "T", "createdAt": 0}});
    set_requests(&world, &mut cli, &session, requests).await;
    let listed = inbox(&world).await;
    let requests: Vec<&Value> = items(&listed).iter().map(|item| &item["request"]).collect();
    let expected = [
        json!({"tool": "Write", "createdAt": world.now(), "argumentsBytes": 65_014}),
        json!({"tool": "Write", "createdAt": world.now(), "argumentsBytes": 2_000_014}),
        json!({"tool": "T", "createdAt": 0}),
    ];
    assert_eq!(requests, expected.iter().collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn two_hundred_requests_of_fifty_sessions_are_on_pages_in_their_order() {
    let world = World::new();
    add_sessions(&world, 0..1_000, "'{}'");
    // Several requests have the same time.
    add_requests(&world, "rowid % 20 = 0", 4, "(r * 37 + updated_at) % 23");
    let whole = read_pages(&world, 200).await;
    assert_eq!((whole.len(), whole[0].len()), (1, 200));
    let inbox = world.get("/api/inbox?limit=200").await.ok();
    let positions: Vec<_> = items(&inbox).iter().map(|item| (item["since"].as_u64().unwrap(), name(item))).collect();
    assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
    // Some sessions are in memory, others are not.
    for loaded in [0, 25, 49] {
        world.hibernate_and_wake().await;
        for path in whole[0].iter().step_by(4).take(loaded) {
            world.get_session(path.split('/').next().unwrap()).await;
        }
        for limit in [7, 50, 199] {
            let pages = read_pages(&world, limit).await;
            assert_eq!(pages.concat(), whole[0], "{loaded} {limit}");
            assert!(pages.iter().rev().skip(1).all(|page| page.len() == limit), "{loaded} {limit}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_stays_valid_while_requests_come_and_go() {
    let (world, session, mut cli) = live_session().await;
    let at = |ms: u64| json!({"createdAt": world.now() - 100 + ms});
    set_requests(&world, &mut cli, &session, json!({"b": at(2), "c": at(3), "d": at(4), "e": at(5)})).await;
    let page = world.get("/api/inbox?limit=2").await.ok();
    assert_eq!(request_ids(&page), ["b", "c"]);
    // The last item of the page disappears, and other items appear before and after its place.
    set_requests(&world, &mut cli, &session, json!({"a": at(1), "b": at(2), "d": at(4), "dd": at(4), "e": at(5)}))
        .await;
    let cursor = page["nextCursor"].as_str().unwrap();
    let next = world.get(&format!("/api/inbox?cursor={cursor}")).await.ok();
    assert_eq!(request_ids(&next), ["d", "dd", "e"]);
    assert_eq!((&next["total"], next.get("nextCursor")), (&json!(5), None));
}

#[tokio::test(start_paused = true)]
async fn a_request_with_any_id_is_listed_and_a_cursor_may_point_to_it() {
    let (world, session, mut cli) = live_session().await;
    let ids = "\n \n\"\n%\n$\n.\n1.2.3\n\\\na\"b\nrequests\né\u{1F980}\n\u{1}\n'\n&limit=0\n[0]";
    let ids: Vec<&str> = ids.split('\n').collect();
    let requests: serde_json::Map<String, Value> =
        ids[1..].iter().map(|id| ((*id).to_owned(), json!({"tool": "T"}))).collect();
    set_requests(&world, &mut cli, &session, Value::Object(requests)).await;
    let listed = inbox(&world).await;
    let mut expected = ids[1..].to_vec();
    expected.sort_unstable();
    assert_eq!(request_ids(&listed), expected);
    for _ in 0..2 {
        let (mut read, mut cursor) = (Vec::new(), String::new());
        loop {
            let query = form_urlencoded::Serializer::new(String::new()).append_pair("cursor", &cursor).finish();
            let page = world.get(&format!("/api/inbox?limit=1&{query}")).await.ok();
            read.extend(items(&page).iter().map(|item| item["requestId"].as_str().unwrap().to_owned()));
            let Some(next) = page.get("nextCursor") else { break };
            cursor = next.as_str().unwrap().to_owned();
        }
        assert_eq!(read, expected);
        world.hibernate_and_wake().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_inbox_of_ten_thousand_sessions_reads_only_the_sessions_that_wait_and_loads_none() {
    let world = World::new();
    add_sessions(&world, 0..10_000, "'{}'");
    add_requests(&world, "rowid % 200 = 7", 4, "r");
    let first = world.get("/api/inbox?limit=200").await.ok();
    assert_eq!((items(&first).len(), &first["total"]), (200, &json!(200)));
    let reads = world.db.read_count();
    world.db.take_most_steps();
    assert_eq!(world.get("/api/inbox?limit=200").await.ok(), first);
    assert_eq!(world.db.read_count(), reads + 1, "the summaries are in memory");
    let steps = world.db.take_most_steps();
    assert!(steps < 60_000, "{steps} steps of SQLite");
    // Nothing is read if nothing waits.
    world.db.execute("UPDATE sessions SET agent_state = NULL");
    world.hibernate_and_wake().await;
    assert_eq!(world.get("/api/inbox").await.ok()["total"], 0);
    let reads = world.db.read_count();
    assert_eq!(world.get("/api/inbox").await.ok()["total"], 0);
    assert_eq!(world.db.read_count(), reads);
}

#[tokio::test(start_paused = true)]
async fn a_page_ends_before_it_needs_much_memory() {
    let world = World::new();
    add_sessions(&world, 0..100, "'{}'");
    world.db.execute(
        "UPDATE sessions SET agent_state = json_object('requests', json_object(
          'a', json_object('createdAt', 1799000000000 + rowid, 'arguments', printf('%.60000c', 'x')),
          'b', json_object('createdAt', 1799000000000 + rowid, 'arguments', printf('%.60000c', 'x'))))",
    );
    let pages = read_pages(&world, 200).await;
    assert_eq!(pages.concat().len(), 200);
    assert!(pages.len() > 10, "{} pages", pages.len());
    for id in 0..100 {
        world.get_session(&format!("s{id}")).await;
    }
    let from_memory = read_pages(&world, 200).await;
    assert_eq!(from_memory.concat(), pages.concat());
    assert!(from_memory.len() > 5, "{} pages", from_memory.len());
}

#[tokio::test(start_paused = true)]
async fn during_a_stall_of_the_database_the_inbox_shows_the_committed_state() {
    let (world, session, mut cli) = live_session().await;
    set_requests(&world, &mut cli, &session, json!({"committed": {"tool": "T"}})).await;
    let committed = world.get("/api/inbox").await.ok();
    assert_eq!(committed["total"], 1);
    world.db.set_silent(true);
    let version = world.get_session(&session).await["agentStateVersion"].clone();
    let update =
        json!({"sid": session, "expectedVersion": version, "agentState": {"requests": {"later": {"tool": "T"}}}});
    let ack = cli.emit_for_ack("update-state", &update);
    let early = world.start("GET", "/api/inbox", "");
    assert!(!early.has_response().await, "the database may still answer");
    world.advance_in_steps(6_000).await;
    assert_eq!(early.reply().await.ok(), committed);
    assert_eq!(world.get("/api/inbox").await.ok(), committed);
    world.db.set_silent(false);
    world.advance_in_steps(5_000).await;
    assert_eq!(cli.wait_for_ack(ack).await["result"], "success");
    let listed = world.get("/api/inbox").await.ok();
    assert_eq!(items(&listed).iter().map(|item| &item["requestId"]).collect::<Vec<_>>(), ["later"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_listed_only_when_it_is_committed() {
    let (world, session, mut cli) = live_session().await;
    assert_eq!(world.get("/api/inbox").await.ok()["total"], 0);
    world.db.hold_results(BatchKind::Writes);
    let update = json!({"sid": session, "expectedVersion": 1, "agentState": {"requests": {"r": {}}}});
    let ack = cli.emit_for_ack("update-state", &update);
    run_until_idle().await;
    let listed = world.start("GET", "/api/inbox", "");
    assert!(!listed.has_response().await);
    world.db.release_results();
    assert_eq!(cli.wait_for_ack(ack).await["result"], "success");
    assert_eq!(listed.reply().await.ok()["total"], 1);
}

#[tokio::test(start_paused = true)]
async fn rows_of_the_previous_version_are_listed() {
    let world = World::new();
    add_sessions(&world, 0..4, "'{}'");
    // The previous version knows neither the times of requests nor `ended_at`.
    world.db.execute(
        "UPDATE sessions SET thinking_at = 1799000000000, request_times = '{\"gone\":1}',
          agent_state = '{\"requests\":{\"r\":{\"tool\":\"T\",\"createdAt\":7}}}' WHERE id = 's0'",
    );
    for (id, state) in [("s1", "[1]"), ("s2", "{\"requests\":[{}]}"), ("s3", "{\"requests\":null}")] {
        world.db.execute(&format!("UPDATE sessions SET agent_state = '{state}' WHERE id = '{id}'"));
    }
    world.db.execute("UPDATE sessions SET active = 1, ended_at = 5 WHERE id = 's1'");
    let listed = world.get("/api/inbox").await.ok();
    assert_eq!(names_and_times(&listed), [("r".to_owned(), 1_799_000_000_000)]);
    assert_eq!(world.get_session("s0").await["agentState"]["requests"]["r"]["createdAt"], 7);
    assert_eq!(world.get("/api/inbox").await.ok(), listed);
    assert_eq!(world.get_session("s1").await.get("endedAt"), None, "the session is active");
}
