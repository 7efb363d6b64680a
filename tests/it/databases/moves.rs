//! Moves of a namespace to another database.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use super::{Deployment, assert_stores_messages, move_step, move_to, read_at_edge, session_with_messages, tables};
use crate::support::edge::{EdgeRequest, worker_of};
use crate::support::operator::{delete, export, full_namespace, operator};
use crate::support::prelude::*;
use crate::support::settings::{set_values, settings_of};
use crate::support::sqlite::Fate;

#[tokio::test(start_paused = true)]
async fn a_move_takes_all_rows_and_leaves_only_the_fence_and_the_mark() {
    let deployment = Deployment::new();
    let world = full_namespace(deployment.namespace("team")).await;
    world.advance(3_600_000).await;
    let neighbour = deployment.namespace_with_closed("neighbour", "DB_2,DB_3");
    let kept = session_with_messages(&neighbour, "/a", 3).await;
    let (before, rows) = (export(&world).await, deployment.rows(1));
    let steps = move_to(&world, "DB_2").await;
    assert_eq!(steps.iter().map(String::as_str).collect::<Vec<_>>(), ["closed", "deleting"]);
    assert!(export(&world).await == before);
    let mut copied =
        "sessions messages machines completed_requests message_parts value_parts held_messages fences".split(' ');
    assert!(copied.all(|table| tables(&deployment.rows(2)).contains(&table)), "{:?}", deployment.rows(2));
    delete(&neighbour).await;
    let left = deployment.rows(1);
    let of_access = ["push_subscriptions", "devices", "namespaces", "fences", "namespace_places", "moved_namespaces"];
    assert!(tables(&left).iter().all(|table| of_access.contains(table)), "{left:?} of {rows:?}");
    assert!(deployment.databases_with_session(&kept).is_empty());
    let session = world.create_session("/large").await;
    assert_eq!(deployment.databases_with_session(&session), [2]);
    assert_stores_messages(&world, &session).await;
}

#[tokio::test(start_paused = true)]
async fn settings_that_change_after_a_copy_are_moved() {
    let deployment = Deployment::new();
    let world = deployment.namespace("team");
    let sessions = [session_with_messages(&world, "/a", 5).await, session_with_messages(&world, "/b", 5).await];
    let rt = Arc::clone(&world.rt);
    // A request ends after the first session.
    deployment.0[1].set_hook(Some(Arc::new(move |statements| {
        let is_copy = statements.iter().any(|statement| statement.sql.contains("INTO sessions"));
        rt.set_now(rt.now() + if is_copy { 6_000 } else { 0 });
        Fate::Execute
    })));
    assert_eq!(move_step(&world, "DB_2").await.ok()["step"], "copying");
    deployment.0[1].set_hook(None);
    assert_eq!(deployment.0[1].number("SELECT count(*) FROM sessions"), 1, "a copy of the first session");
    for session in &sessions {
        world.change_session(session, &set_values()).await;
    }
    move_to(&world, "DB_2").await;
    for session in &sessions {
        assert_eq!(deployment.databases_with_session(session), [2]);
        assert_eq!(settings_of(&world.get_session(session).await), set_values());
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_moves_back_and_on_after_changes() {
    let deployment = Deployment::new();
    let world = deployment.namespace("team");
    let a = session_with_messages(&world, "/a", 5).await;
    let deleted = session_with_messages(&world, "/deleted", 5).await;
    for (to, number) in [("DB_2", 2), ("DB_3", 3), ("DB_2", 2), ("DB", 1), ("DB_3", 3)] {
        // Another move was begun, and its rows remain.
        move_step(&world, to).await.ok();
        move_to(&world, to).await;
        assert_eq!(deployment.databases_with_session(&a), [number], "{to}");
        let mut cli = world.live_cli(&a).await;
        assert_eq!(cli.send_message(&a, to).await["ok"], true);
        cli.socket.close();
        run_until_idle().await;
        world.request("DELETE", &format!("/api/sessions/{deleted}"), "").await;
        let expected: Vec<usize> = vec![number];
        assert_eq!(deployment.databases_with_session(&world.create_session("/deleted").await), expected);
        assert_eq!(read_at_edge(&world, &worker_of(&world), &a).await.ok()["hasMore"], false);
    }
    let page = read_at_edge(&world, &worker_of(&world), &a).await.ok();
    let texts: Vec<&str> = page["messages"]
        .as_array()
        .unwrap()
        .iter()
        .skip(5)
        .map(|m| m["content"]["content"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(texts.len(), 5, "{page}");
}

/// Sends messages until `is_over`, and repeats each until it is acknowledged, as a CLI does. Returns their number.
async fn send_until(world: &World, session: &str, is_over: &AtomicBool) -> usize {
    let mut sent = 0;
    let mut cli = Cli::connect(world, json!({"sessionId": session})).await;
    while !is_over.load(Ordering::Relaxed) {
        let local_id = format!("load-{sent}");
        let message = json!({"sid": session, "localId": local_id, "message": {"text": local_id}});
        let mut ack = cli.emit_for_ack("message", &message);
        loop {
            let reply = cli.try_ack(ack).await;
            if reply.as_ref().is_some_and(|reply| reply["ok"] == true) {
                break;
            }
            if reply.is_some() || !cli.socket.is_open() {
                while world.hub().is_closed() {
                    run_until_idle().await;
                }
                cli = Cli::connect(world, json!({"sessionId": session})).await;
                ack = cli.emit_for_ack("message", &message);
            }
        }
        sent += 1;
    }
    sent
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_sent_during_a_move_are_all_there_once() {
    let deployment = Deployment::new();
    let world = deployment.namespace("team");
    let session = session_with_messages(&world, "/a", 100).await;
    for number in 0..30 {
        session_with_messages(&world, &format!("/other-{number}"), 3).await;
    }
    for db in &deployment.0 {
        db.set_round_trip_ms(6);
    }
    let rt = Arc::clone(&world.rt);
    deployment.0[1].set_hook(Some(Arc::new(move |_| {
        rt.set_now(rt.now() + 400);
        Fate::Execute
    })));
    let is_over = AtomicBool::new(false);
    let moving = async {
        let steps = move_to(&world, "DB_2").await;
        is_over.store(true, Ordering::Relaxed);
        steps
    };
    let (steps, sent) = futures::join!(moving, send_until(&world, &session, &is_over));
    assert!(steps.iter().filter(|step| *step == "copying").count() > 1, "{steps:?}");
    assert!(steps.iter().any(|step| step == "closed"), "{steps:?}");
    assert!(sent > 20, "{sent}");
    deployment.0[1].set_hook(None);
    let (mut texts, mut after) = (Vec::new(), 0);
    let worker = worker_of(&world);
    loop {
        let url = format!("/cli/sessions/{session}/messages?afterSeq={after}&limit=200");
        let request = EdgeRequest { method: "GET".into(), url, token: Some(world.token()), ..EdgeRequest::default() };
        let page = world.send_to_worker(&worker, request).await.ok();
        for message in page["messages"].as_array().unwrap() {
            assert_eq!(message["seq"], after + 1);
            after += 1;
            texts.push(message["localId"].as_str().unwrap_or_default().to_owned());
        }
        if page["hasMore"] == false {
            break;
        }
    }
    assert_eq!(texts[100..], (0..sent).map(|number| format!("load-{number}")).collect::<Vec<_>>());
}

/// A namespace with a row of most tables, and its sessions with messages.
pub async fn small_namespace(deployment: &Deployment) -> (World, [String; 2]) {
    let world = deployment.namespace("team");
    // Events are stored for a web client.
    let web = world.web("all=true").await;
    let sessions = [session_with_messages(&world, "/a", 3).await, session_with_messages(&world, "/b", 2).await];
    let mut cli = world.live_cli(&sessions[0]).await;
    let state = json!({
        "requests": {},
        "completedRequests": {"r0": {"tool": "Bash", "status": "approved", "completedAt": world.now()}},
    });
    cli.update_agent_state(&sessions[0], 1, &state).await;
    // Parts of a message and of a value, which are small here.
    deployment.0[0].execute(&format!(
        "INSERT INTO message_parts SELECT session_id, id, 1, 'part' FROM messages WHERE session_id = '{}' AND seq < 3;
         INSERT INTO value_parts VALUES ('team', '{}', 'whole', 1, 'part')",
        sessions[0], sessions[0]
    ));
    cli.socket.close();
    world.register_machine("m").await;
    run_until_idle().await;
    web.0.close();
    assert!(tables(&deployment.rows(1)).contains(&"events"), "{:?}", deployment.rows(1));
    (world, sessions)
}

/// Moves a namespace. Its object crashes at the batch with an index. Returns whether there was such a batch.
async fn crash_at(index: i64, fate: Fate) -> bool {
    let deployment = Deployment::new();
    let (world, sessions) = small_namespace(&deployment).await;
    let expected = export(&world).await;
    let stale = worker_of(&world);
    let pages = each(&sessions, async |session| read_at_edge(&world, &stale, session).await.text).await;
    let (left, is_counting) = (Arc::new(AtomicI64::new(index)), Arc::new(AtomicBool::new(true)));
    for db in &deployment.0 {
        let (left, is_counting) = (Arc::clone(&left), Arc::clone(&is_counting));
        db.set_hook(Some(Arc::new(move |_| match is_counting.load(Ordering::Relaxed) {
            true if left.fetch_sub(1, Ordering::Relaxed) == 0 => fate,
            _ => Fate::Execute,
        })));
    }
    let (mut has_crashed, mut is_done) = (false, false);
    for _ in 0..20 {
        let step = tokio::time::timeout(Duration::from_millis(500), move_step(&world, "DB_2")).await;
        match step {
            Ok(reply) => is_done = reply.ok()["isDone"] == true,
            Err(_) => {
                has_crashed = true;
                if index % 2 == 0 { world.restart() } else { world.redeploy() }
            }
        }
        is_counting.store(false, Ordering::Relaxed);
        for (session, page) in sessions.iter().zip(&pages) {
            let read = read_at_edge(&world, &stale, session).await;
            assert!(
                read.text == *page,
                "batch {index}: {} {}",
                read.status,
                read.text.get(..300).unwrap_or(&read.text)
            );
        }
        is_counting.store(true, Ordering::Relaxed);
        if is_done {
            break;
        }
    }
    assert!(is_done, "batch {index}");
    deployment.0.iter().for_each(|db| db.set_hook(None));
    assert!(export(&world).await == expected, "batch {index}");
    for number in [1, 3] {
        let rows = deployment.rows(number);
        let mark = ["fences", "namespace_places", "moved_namespaces"];
        assert!(tables(&rows).iter().all(|table| mark.contains(table)), "batch {index}: {rows:?}");
    }
    assert_eq!(deployment.databases_with_session(&sessions[0]), [2], "batch {index}");
    assert_stores_messages(&world, &sessions[1]).await;
    has_crashed
}

#[tokio::test(start_paused = true)]
async fn a_move_continues_after_a_crash_at_each_of_its_batches() {
    for fate in [Fate::Lost, Fate::ExecutedAndLost] {
        let mut index = 0;
        while crash_at(index, fate).await {
            index += 1;
        }
        assert!(index > 30, "only {index} batches");
    }
}

#[tokio::test(start_paused = true)]
async fn an_out_of_date_worker_reads_new_messages_after_each_move() {
    let deployment = Deployment::new();
    let world = deployment.namespace("team");
    let session = session_with_messages(&world, "/a", 1).await;
    let (stale, unknown) = (worker_of(&world), AtomicUsize::new(1));
    for to in ["DB_2", "DB_3", "DB", "DB_2"] {
        let count = unknown.fetch_add(1, Ordering::Relaxed);
        assert_eq!(read_at_edge(&world, &stale, &session).await.ok()["messages"].as_array().unwrap().len(), count);
        // Without the deletion of the earlier rows.
        while move_step(&world, to).await.ok()["step"] != "deleting" {}
        let mut cli = world.live_cli(&session).await;
        assert_eq!(cli.send_message(&session, to).await["ok"], true);
        cli.socket.close();
    }
    assert_eq!(read_at_edge(&world, &stale, &session).await.ok()["messages"].as_array().unwrap().len(), 5);
    read_at_edge(&world, &stale, "unknown").await.assert_error(404, "session_not_found");
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_move_ends_where_it_began() {
    let deployment = Deployment::new();
    let (world, sessions) = small_namespace(&deployment).await;
    let expected = export(&world).await;
    while move_step(&world, "DB_2").await.ok()["step"] != "closed" {}
    world.get("/api/sessions").await.assert_error(503, "hub_unavailable");
    let steps = move_to(&world, "DB").await;
    assert_eq!(steps, ["deleting"]);
    assert!(export(&world).await == expected);
    assert_eq!(deployment.databases_with_session(&sessions[0]), [1]);
    assert_eq!(tables(&deployment.rows(2)), ["fences", "moved_namespaces"]);
    assert_stores_messages(&world, &sessions[0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_was_interrupted_is_completed_wherever_the_namespace_moves_next() {
    for (to, number) in [("DB", 1), ("DB_2", 2), ("DB_3", 3)] {
        let deployment = Deployment::new();
        let (world, sessions) = small_namespace(&deployment).await;
        let expected = export(&world).await;
        while move_step(&world, "DB_2").await.ok()["step"] != "closed" {}
        deployment.0[0].set_hook(Some(Arc::new(|statements| {
            let is_switch = statements.iter().any(|statement| statement.sql.contains("INTO namespace_places"));
            if is_switch { Fate::ExecutedAndLost } else { Fate::Execute }
        })));
        let step = tokio::time::timeout(Duration::from_millis(500), move_step(&world, "DB_2")).await;
        assert!(step.is_err(), "the switch was not interrupted");
        deployment.0[0].set_hook(None);
        world.redeploy();
        move_to(&world, to).await;
        assert!(export(&world).await == expected, "{to}");
        assert_eq!(deployment.databases_with_session(&sessions[0]), [number], "{to}");
        assert_stores_messages(&world, &sessions[1]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_move_changes_nothing_if_the_table_of_places_names_another_database_or_none() {
    let deployment = Deployment::new();
    let (world, sessions) = small_namespace(&deployment).await;
    move_to(&world, "DB_2").await;
    let expected = export(&world).await;
    for sql in ["UPDATE namespace_places SET database = 1", "DELETE FROM namespace_places"] {
        deployment.0[0].execute(sql);
        for to in ["DB", "DB_2", "DB_3"] {
            assert_eq!(move_step(&world, to).await.assert_error(400, "invalid_field")["field"], "to");
        }
    }
    assert!(export(&world).await == expected);
    deployment.0[0].execute("INSERT INTO namespace_places (namespace, database) VALUES ('team', 2)");
    move_to(&world, "DB_3").await;
    assert!(export(&world).await == expected);
    assert_eq!(deployment.databases_with_session(&sessions[0]), [3]);
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_message_that_was_sent_again_replace_those_of_the_first_attempt() {
    let deployment = Deployment::new();
    let (world, sessions) = small_namespace(&deployment).await;
    while move_step(&world, "DB_2").await.ok()["step"] != "closed" {}
    // As many parts as before, of another message.
    deployment.0[0].execute(&format!(
        "UPDATE message_parts SET content = 'again', message_id =
           (SELECT id FROM messages WHERE session_id = '{0}' AND seq = 3) WHERE message_id =
           (SELECT id FROM messages WHERE session_id = '{0}' AND seq = 2)",
        sessions[0]
    ));
    move_to(&world, "DB_2").await;
    assert_eq!(deployment.0[1].number("SELECT count(*) FROM message_parts WHERE content = 'again'"), 1);
    assert_eq!(deployment.0[1].number("SELECT count(*) FROM message_parts"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_leaves_no_row_in_any_database_also_during_a_move() {
    for steps in [0, 1, 2, 5] {
        let deployment = Deployment::new();
        let (world, _) = small_namespace(&deployment).await;
        for _ in 0..steps {
            move_step(&world, "DB_2").await.ok();
        }
        delete(&world).await;
        for number in 1..=3 {
            assert_eq!(deployment.rows(number), [], "after {steps} steps, in the database {number}");
        }
        assert_eq!(world.rt.stored_entries().len(), 0);
        deployment.grow(1, 1_000_000);
        deployment.grow(2, 1_000_000);
        assert_eq!(deployment.databases_with_session(&world.create_session("/new").await), [3]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_move_is_refused_if_another_namespace_has_a_machine_with_the_same_id() {
    let deployment = Deployment::new();
    let world = deployment.namespace_with_closed("team", "DB_2,DB_3");
    world.register_machine("m").await;
    deployment.namespace_with_closed("other", "DB,DB_3").register_machine("m").await;
    assert_eq!(move_step(&world, "DB_2").await.assert_error(400, "invalid_field")["field"], "to");
    for to in ["", "DB_4", "DB_1"] {
        assert_eq!(move_step(&world, to).await.assert_error(400, "invalid_field")["field"], "to");
    }
    move_to(&world, "DB_3").await;
    assert_eq!(tables(&deployment.rows(3)), ["machines", "fences"]);
    assert_eq!(operator(&world, "POST", "delete", &Value::Null).await.ok()["isDone"], false);
    move_step(&world, "DB").await.assert_error(503, "hub_unavailable");
}
