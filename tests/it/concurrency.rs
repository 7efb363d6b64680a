//! Concurrent operations on one session. Each test runs them in every order in which their reads, writes and calls can
//! complete.

use crate::support::prelude::*;
use crate::support::race::{InitialCache, Race, Schedule, in_every_order};

/// Runs a test in every order, with each cache. There must be more orders than `fewest`.
async fn in_every_order_and_cache(fewest: usize, test: impl AsyncFn(InitialCache, &mut Schedule)) {
    for cache in [InitialCache::Loaded, InitialCache::Empty] {
        let schedules = in_every_order(async |schedule: &mut Schedule| test(cache, schedule).await).await;
        assert!(schedules > fewest, "{schedules}");
    }
}

fn subscribe_to(session: &str) -> String {
    format!("sessionId={session}")
}

/// An active session with two CLIs and the pending permission request `r1`. The first CLI has registered the methods.
async fn two_clis(methods: &[&str], cache: InitialCache) -> (Race, String) {
    let (world, session) = idle_session().await;
    let mut clis = vec![world.live_cli(&session).await, world.live_cli(&session).await];
    for method in methods {
        clis[0].register(method).await;
    }
    let state = json!({"requests": {"r1": {"tool": "shell", "arguments": {}}}});
    assert_eq!(clis[0].update_agent_state(&session, 1, &state).await["version"], 2);
    (Race::new(world, &subscribe_to(&session), clis, cache).await, session)
}

/// Returns the index of the request that succeeded, and the response to the other request.
fn accepted_and_rejected(replies: [Reply; 2]) -> (usize, Reply) {
    let [first, second] = replies;
    assert_ne!(first.status == 200, second.status == 200, "{first:?} {second:?}");
    if first.status == 200 { (0, second) } else { (1, first) }
}

#[tokio::test(start_paused = true)]
async fn of_a_concurrent_approval_and_denial_the_second_is_a_404() {
    in_every_order_and_cache(5, async |cache, schedule| {
        let (mut race, session) = two_clis(&["permission"], cache).await;
        let path = format!("/api/sessions/{session}/permissions/r1");
        let steps = ["approve", "deny"].map(|verb| race.request("POST", &format!("{path}/{verb}"), &json!({})));
        race.run(schedule).await;
        let replies = [race.reply(steps[0]).await, race.reply(steps[1]).await];
        let (accepted, rejected) = accepted_and_rejected(replies);
        rejected.assert_error(404, "request_not_found");
        assert_eq!(race.received_calls, [(0, "permission".to_owned())], "the CLI receives one answer");
        let record = race.check_agreement(&session).await;
        assert_eq!(record["agentStateVersion"], 3);
        assert_eq!(record["agentState"]["requests"], json!({}));
        let completed = &record["agentState"]["completedRequests"]["r1"];
        assert_eq!(completed["status"], ["approved", "denied"][accepted]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_concurrent_approval_and_update_by_the_cli_complete_a_request_once() {
    in_every_order_and_cache(5, async |cache, schedule| {
        let (mut race, session) = two_clis(&["permission"], cache).await;
        let approve = race.request("POST", &format!("/api/sessions/{session}/permissions/r1/approve"), &json!({}));
        let state = json!({"requests": {}, "completedRequests": {"r1": {"status": "approved", "by": "cli"}}});
        let update = json!({"sid": session, "expectedVersion": 2, "agentState": state});
        let update = race.emit(0, "update-state", update);
        race.run(schedule).await;
        let (reply, ack) = (race.reply(approve).await, race.ack(update).await);
        let record = race.check_agreement(&session).await;
        assert_eq!((&record["agentStateVersion"], &record["agentState"]["requests"]), (&json!(3), &json!({})));
        let by = &record["agentState"]["completedRequests"]["r1"]["by"];
        match ack["result"].as_str().unwrap() {
            "success" => assert_eq!((&ack["version"], by), (&json!(3), &json!("cli"))),
            "version-mismatch" => assert_eq!((&ack["agentState"], by), (&record["agentState"], &Value::Null)),
            other => panic!("{other}"),
        }
        // The approval fails only if the update was processed before it.
        match race.received_calls.is_empty() {
            true => drop(reply.assert_error(404, "request_not_found")),
            false => drop(reply.ok()),
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_concurrent_rename_and_metadata_update_do_not_overwrite_each_other() {
    in_every_order_and_cache(3, async |cache, schedule| {
        let (mut race, session) = two_clis(&[], cache).await;
        let rename = race.request("PATCH", &format!("/api/sessions/{session}"), &json!({"name": "mine"}));
        let metadata = json!({"path": "/code", "host": "box", "by": "cli"});
        let update = json!({"sid": session, "expectedVersion": 1, "metadata": metadata});
        let update = race.emit(0, "update-metadata", update);
        race.run(schedule).await;
        race.reply(rename).await.ok();
        let ack = race.ack(update).await;
        let record = race.check_agreement(&session).await;
        assert_eq!(record["metadata"]["name"], "mine");
        match ack["result"].as_str().unwrap() {
            // The rename was processed after the update.
            "success" => {
                assert_eq!((&ack["version"], &record["metadataVersion"]), (&json!(2), &json!(3)));
                assert_eq!(record["metadata"]["by"], "cli");
            }
            "version-mismatch" => {
                assert_eq!((&ack["version"], &record["metadataVersion"]), (&json!(2), &json!(2)));
                assert_eq!(ack["metadata"], record["metadata"], "the mismatch has the current value");
            }
            other => panic!("{other}"),
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_message_during_a_deletion_is_published_before_the_removal_or_rejected() {
    in_every_order_and_cache(3, async |cache, schedule| {
        let (world, session) = idle_session().await;
        let clis = vec![world.cli(&session).await];
        let mut race = Race::new(world, &subscribe_to(&session), clis, cache).await;
        let delete = race.request("DELETE", &format!("/api/sessions/{session}"), &Value::Null);
        let message = race.emit(0, "message", json!({"sid": session, "message": {"n": 1}, "localId": "l1"}));
        race.run(schedule).await;
        race.reply(delete).await.ok();
        let ack = race.ack(message).await;
        let events: Vec<Value> = race.events().await.iter().map(|event| event["type"].clone()).collect();
        match ack["ok"].as_bool().unwrap() {
            true => assert_eq!(events, ["message-received", "session-removed"]),
            false => assert_eq!((&ack["code"], events), (&json!("not-found"), vec![json!("session-removed")])),
        }
        race.world.get(&format!("/api/sessions/{session}")).await.assert_error(404, "session_not_found");
        race.world.advance(1_000).await;
        for table in ["sessions", "messages"] {
            assert_eq!(race.world.db.number(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn messages_of_two_clis_have_the_same_order_for_all_clients() {
    in_every_order_and_cache(20, async |cache, schedule| {
        let (mut race, session) = two_clis(&[], cache).await;
        let message = |cli| json!({"sid": session, "message": {"by": cli}});
        let sent = [(0, 0), (1, 1), (0, 0)].map(|(cli, by)| race.emit(cli, "message", message(by)));
        race.run(schedule).await;
        let mut sender_by_seq = [None; 3];
        for (step, cli) in sent.into_iter().zip([0, 1, 0]) {
            let seq = race.ack(step).await["seq"].as_u64().unwrap() as usize;
            assert_eq!(sender_by_seq[seq - 1].replace(cli), None, "each seq is used once");
        }
        // Each CLI receives only the messages of the other CLI, in the order of their seqs.
        for cli in [0, 1] {
            let others = (1..=3).filter(|seq| sender_by_seq[seq - 1] != Some(cli));
            for seq in others {
                assert_eq!(race.clis[cli].next_event("update").await["body"]["message"]["seq"], seq);
            }
            assert_eq!(race.clis[cli].try_event("update").await, None);
        }
        let events = race.events().await;
        let seqs: Vec<_> = events.iter().filter_map(|event| event["message"]["seq"].as_u64()).collect();
        assert_eq!(seqs, [1, 2, 3]);
        assert_eq!(race.check_agreement(&session).await["seq"], 3);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_concurrent_state_updates_gets_the_current_value() {
    in_every_order_and_cache(3, async |cache, schedule| {
        let (mut race, session) = two_clis(&[], cache).await;
        let state = |cli| json!({"sid": session, "expectedVersion": 2, "agentState": {"by": cli}});
        let states = [0, 1].map(|cli| race.emit(cli, "update-state", state(cli)));
        race.run(schedule).await;
        let acks = [race.ack(states[0]).await, race.ack(states[1]).await];
        let record = race.check_agreement(&session).await;
        let accepted = record["agentState"]["by"].as_u64().unwrap() as usize;
        assert_eq!((&acks[accepted]["result"], &acks[accepted]["version"]), (&json!("success"), &json!(3)));
        let rejected = &acks[1 - accepted];
        assert_eq!((&rejected["result"], &rejected["version"]), (&json!("version-mismatch"), &json!(3)));
        assert_eq!(rejected["agentState"], record["agentState"]);
        let update = race.clis[1 - accepted].next_event("update").await;
        assert_eq!(update["body"]["agentState"], json!({"version": 3, "value": record["agentState"]}));
        assert_eq!(race.clis[accepted].try_event("update").await, None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_for_a_tag_get_one_session() {
    let schedules = in_every_order(async |schedule: &mut Schedule| {
        let world = World::new();
        let mut race = Race::new(world, "all=true", Vec::new(), InitialCache::Loaded).await;
        let requests: Vec<_> = (0..3)
            .map(|n| {
                let body = json!({"tag": "/code", "metadata": {"path": "/code", "host": "box", "by": n}});
                race.request("POST", "/cli/sessions", &body)
            })
            .collect();
        race.run(schedule).await;
        let sessions = each(requests, async |step| race.reply(step).await.ok()["session"].clone()).await;
        assert!(sessions.iter().all(|session| *session == sessions[0]), "{sessions:?}");
        assert_eq!(race.world.db.number("SELECT count(*) FROM sessions"), 1);
        let events: Vec<Value> = race.events().await.iter().map(|event| event["type"].clone()).collect();
        assert_eq!(events, ["session-added"]);
        let record = race.world.get_session(sessions[0]["id"].as_str().unwrap()).await;
        assert_eq!((&record["metadata"], &record["metadataVersion"]), (&sessions[0]["metadata"], &json!(1)));
    })
    .await;
    assert!(schedules > 20, "{schedules}");
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_is_not_affected_by_a_new_registration_of_its_method() {
    let schedules = in_every_order(async |schedule: &mut Schedule| {
        let (mut race, session) = two_clis(&["gitStatus"], InitialCache::Loaded).await;
        let path = format!("/api/sessions/{session}/git-status");
        let call = race.request("GET", &path, &Value::Null);
        race.emit(1, "rpc-register", json!({"method": "gitStatus"}));
        race.close(0);
        race.run(schedule).await;
        let reply = race.reply(call).await.ok();
        let called_cli = race.received_calls[0].0;
        let error_of_first = json!({"success": false, "error": "The CLI disconnected before it answered gitStatus"});
        assert!(
            reply == json!({"success": true}) || (called_cli == 0 && reply == error_of_first),
            "{called_cli} {reply}"
        );
        assert_eq!(race.received_calls.len(), 1, "the method is called once");
        let next = race.world.start("GET", &path, "");
        race.clis[1].respond_to_next_call("gitStatus", &json!({"success": true, "by": "second"})).await;
        assert_eq!(next.reply().await.ok()["by"], "second");
    })
    .await;
    assert!(schedules > 5, "{schedules}");
}
