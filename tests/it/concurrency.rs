//! What happens when two do something to one session at once, in every order of everything that they wait for.

use crate::support::World;
use crate::support::cli::Cli;
use crate::support::race::{Order, Race, in_every_order};
use crate::support::rest::Reply;
use serde_json::{Value, json};

/// A scene begins with a hub that knows everything, or with one that slept and has to ask the database.
const BEGINNINGS: [bool; 2] = [false, true];

fn of(session: &str) -> String {
    format!("sessionId={session}")
}

/// A session whose two CLIs are alive and serve these methods, the first one wins each. A request `r1` waits for an answer.
async fn two_clis(methods: &[&str]) -> (World, String, Vec<Cli>) {
    let world = World::new();
    let session = world.session("/code").await;
    let mut clis = vec![world.live_cli(&session).await, world.live_cli(&session).await];
    for method in methods {
        clis[0].register(method).await;
    }
    let state = json!({"requests": {"r1": {"tool": "shell", "arguments": {}}}});
    assert_eq!(clis[0].state(&session, 1, &state).await["version"], 2);
    (world, session, clis)
}

/// The one of the two who won, and the refusal of the other.
fn one_winner(replies: [Reply; 2]) -> (usize, Reply) {
    let [first, second] = replies;
    assert_ne!(first.status == 200, second.status == 200, "{first:?} {second:?}");
    if first.status == 200 { (0, second) } else { (1, first) }
}

#[tokio::test(start_paused = true)]
async fn of_an_approval_and_a_denial_one_wins_and_the_other_is_a_404() {
    for asleep in BEGINNINGS {
        let orders = in_every_order(async |order: &mut Order| {
            let (world, session, clis) = two_clis(&["permission"]).await;
            let mut race = Race::of(world, &of(&session), clis, asleep).await;
            let path = format!("/api/sessions/{session}/permissions/r1");
            let steps = ["approve", "deny"].map(|verb| race.ask("POST", &format!("{path}/{verb}"), &json!({})));
            race.run(order).await;
            let replies = [race.reply(steps[0]).await, race.reply(steps[1]).await];
            let (winner, refusal) = one_winner(replies);
            refusal.refuses(404, "request_not_found");
            assert_eq!(race.called, [(0, "permission".to_owned())], "the CLI heard of one answer");
            let shown = race.agreed(&session).await;
            assert_eq!(shown["agentStateVersion"], 3);
            assert_eq!(shown["agentState"]["requests"], json!({}));
            let completed = &shown["agentState"]["completedRequests"]["r1"];
            assert_eq!(completed["status"], ["approved", "denied"][winner]);
        })
        .await;
        assert!(orders > 5, "{orders}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_and_the_clis_own_record_of_it_complete_a_request_once() {
    for asleep in BEGINNINGS {
        let orders = in_every_order(async |order: &mut Order| {
            let (world, session, clis) = two_clis(&["permission"]).await;
            let mut race = Race::of(world, &of(&session), clis, asleep).await;
            let approve = race.ask("POST", &format!("/api/sessions/{session}/permissions/r1/approve"), &json!({}));
            let state = json!({"requests": {}, "completedRequests": {"r1": {"status": "approved", "by": "cli"}}});
            let update = json!({"sid": session, "expectedVersion": 2, "agentState": state});
            let update = race.say(0, "update-state", update);
            race.run(order).await;
            let (reply, ack) = (race.reply(approve).await, race.ack(update).await);
            let shown = race.agreed(&session).await;
            assert_eq!((&shown["agentStateVersion"], &shown["agentState"]["requests"]), (&json!(3), &json!({})));
            let by = &shown["agentState"]["completedRequests"]["r1"]["by"];
            match ack["result"].as_str().unwrap() {
                "success" => assert_eq!((&ack["version"], by), (&json!(3), &json!("cli"))),
                "version-mismatch" => assert_eq!((&ack["agentState"], by), (&shown["agentState"], &Value::Null)),
                other => panic!("{other}"),
            }
            // It was over before the web asked, or the answer counts.
            match race.called.is_empty() {
                true => drop(reply.refuses(404, "request_not_found")),
                false => drop(reply.ok()),
            }
        })
        .await;
        assert!(orders > 5, "{orders}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rename_and_an_update_of_the_metadata_never_undo_each_other() {
    for asleep in BEGINNINGS {
        let orders = in_every_order(async |order: &mut Order| {
            let (world, session, clis) = two_clis(&[]).await;
            let mut race = Race::of(world, &of(&session), clis, asleep).await;
            let rename = race.ask("PATCH", &format!("/api/sessions/{session}"), &json!({"name": "mine"}));
            let metadata = json!({"path": "/code", "host": "box", "by": "cli"});
            let update = json!({"sid": session, "expectedVersion": 1, "metadata": metadata});
            let update = race.say(0, "update-metadata", update);
            race.run(order).await;
            race.reply(rename).await.ok();
            let ack = race.ack(update).await;
            let shown = race.agreed(&session).await;
            assert_eq!(shown["metadata"]["name"], "mine");
            match ack["result"].as_str().unwrap() {
                // The name came after it.
                "success" => {
                    assert_eq!((&ack["version"], &shown["metadataVersion"]), (&json!(2), &json!(3)));
                    assert_eq!(shown["metadata"]["by"], "cli");
                }
                "version-mismatch" => {
                    assert_eq!((&ack["version"], &shown["metadataVersion"]), (&json!(2), &json!(2)));
                    assert_eq!(ack["metadata"], shown["metadata"], "it is told what stands");
                }
                other => panic!("{other}"),
            }
        })
        .await;
        assert!(orders > 3, "{orders}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_to_a_session_that_is_deleted_is_kept_until_then_or_refused() {
    for asleep in BEGINNINGS {
        let orders = in_every_order(async |order: &mut Order| {
            let world = World::new();
            let session = world.session("/code").await;
            let clis = vec![world.cli(&session).await];
            let mut race = Race::of(world, &of(&session), clis, asleep).await;
            let delete = race.ask("DELETE", &format!("/api/sessions/{session}"), &Value::Null);
            let message = race.say(0, "message", json!({"sid": session, "message": {"n": 1}, "localId": "l1"}));
            race.run(order).await;
            race.reply(delete).await.ok();
            let ack = race.ack(message).await;
            let told: Vec<Value> = race.heard().await.iter().map(|event| event["type"].clone()).collect();
            match ack["ok"].as_bool().unwrap() {
                true => assert_eq!(told, ["message-received", "session-removed"]),
                false => assert_eq!((&ack["code"], told), (&json!("not-found"), vec![json!("session-removed")])),
            }
            for table in ["sessions", "messages"] {
                assert_eq!(race.world.db.number(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
            }
            race.world.get(&format!("/api/sessions/{session}")).await.refuses(404, "session_not_found");
        })
        .await;
        assert!(orders > 3, "{orders}");
    }
}

#[tokio::test(start_paused = true)]
async fn messages_of_two_clis_have_one_order_for_everybody() {
    for asleep in BEGINNINGS {
        let orders = in_every_order(async |order: &mut Order| {
            let (world, session, clis) = two_clis(&[]).await;
            let mut race = Race::of(world, &of(&session), clis, asleep).await;
            let say = |cli| json!({"sid": session, "message": {"by": cli}});
            let said = [(0, 0), (1, 1), (0, 0)].map(|(cli, by)| race.say(cli, "message", say(by)));
            race.run(order).await;
            let mut by = [None; 3];
            for (step, cli) in said.into_iter().zip([0, 1, 0]) {
                let seq = race.ack(step).await["seq"].as_u64().unwrap() as usize;
                assert_eq!(by[seq - 1].replace(cli), None, "a seq is given once");
            }
            // Each hears of what the other one said, in the order of the seqs, and of nothing else.
            for cli in [0, 1] {
                let others = (1..=3).filter(|seq| by[seq - 1] != Some(cli));
                for seq in others {
                    assert_eq!(race.clis[cli].event("update").await["body"]["message"]["seq"], seq);
                }
                assert_eq!(race.clis[cli].heard_event("update").await, None);
            }
            let told = race.heard().await;
            let seqs: Vec<_> = told.iter().filter_map(|event| event["message"]["seq"].as_u64()).collect();
            assert_eq!(seqs, [1, 2, 3]);
            assert_eq!(race.agreed(&session).await["seq"], 3);
        })
        .await;
        assert!(orders > 20, "{orders}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_updates_of_a_state_one_wins_and_the_other_is_told_what_stands() {
    for asleep in BEGINNINGS {
        let orders = in_every_order(async |order: &mut Order| {
            let (world, session, clis) = two_clis(&[]).await;
            let mut race = Race::of(world, &of(&session), clis, asleep).await;
            let state = |cli| json!({"sid": session, "expectedVersion": 2, "agentState": {"by": cli}});
            let states = [0, 1].map(|cli| race.say(cli, "update-state", state(cli)));
            race.run(order).await;
            let acks = [race.ack(states[0]).await, race.ack(states[1]).await];
            let shown = race.agreed(&session).await;
            let winner = shown["agentState"]["by"].as_u64().unwrap() as usize;
            assert_eq!((&acks[winner]["result"], &acks[winner]["version"]), (&json!("success"), &json!(3)));
            let loser = &acks[1 - winner];
            assert_eq!((&loser["result"], &loser["version"]), (&json!("version-mismatch"), &json!(3)));
            assert_eq!(loser["agentState"], shown["agentState"]);
            let told = race.clis[1 - winner].event("update").await;
            assert_eq!(told["body"]["agentState"], json!({"version": 3, "value": shown["agentState"]}));
            assert_eq!(race.clis[winner].heard_event("update").await, None, "it knows");
        })
        .await;
        assert!(orders > 3, "{orders}");
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_ask_for_a_tag_at_once_get_one_session_in_whatever_order_the_database_answers() {
    let orders = in_every_order(async |order: &mut Order| {
        let world = World::new();
        let mut race = Race::of(world, "all=true", Vec::new(), false).await;
        let asked: Vec<_> = (0..3)
            .map(|n| {
                let body = json!({"tag": "/code", "metadata": {"path": "/code", "host": "box", "by": n}});
                race.ask("POST", "/cli/sessions", &body)
            })
            .collect();
        race.run(order).await;
        let mut sessions = Vec::new();
        for step in asked {
            sessions.push(race.reply(step).await.ok()["session"].clone());
        }
        assert!(sessions.iter().all(|session| *session == sessions[0]), "{sessions:?}");
        assert_eq!(race.world.db.number("SELECT count(*) FROM sessions"), 1);
        let told: Vec<Value> = race.heard().await.iter().map(|event| event["type"].clone()).collect();
        assert_eq!(told, ["session-added"]);
        let shown = race.world.shown(sessions[0]["id"].as_str().unwrap()).await;
        assert_eq!((&shown["metadata"], &shown["metadataVersion"]), (&sessions[0]["metadata"], &json!(1)));
    })
    .await;
    assert!(orders > 20, "{orders}");
}

#[tokio::test(start_paused = true)]
async fn two_resumes_at_once_ask_the_machine_once_and_are_answered_alike() {
    let orders = in_every_order(async |order: &mut Order| {
        let world = World::new();
        let runner = world.spawner("m", "box").await;
        let resumable = json!({"flavor": "beta", "betaSessionId": "agent-7", "machineId": "m"});
        let session = world.session_with("/code", resumable).await;
        let clis = vec![runner, world.cli(&session).await];
        let mut race = Race::of(world, &of(&session), clis, true).await;
        // It knows the session, but has to ask for the machines.
        race.world.shown(&session).await;
        let path = format!("/api/sessions/{session}/resume");
        let steps = [0, 1].map(|_| race.ask("POST", &path, &json!({})));
        let now = race.world.now();
        race.say(1, "session-alive", json!({"sid": session, "time": now}));
        race.run(order).await;
        for step in steps {
            assert_eq!(race.reply(step).await.ok(), json!({"success": true, "sessionId": session}));
        }
        assert!(race.called.len() <= 1, "{:?}", race.called);
        assert_eq!(race.agreed(&session).await["active"], true);
    })
    .await;
    assert!(orders > 20, "{orders}");
}

#[tokio::test(start_paused = true)]
async fn a_call_stays_with_the_socket_that_it_went_to_whoever_takes_the_method_over() {
    let orders = in_every_order(async |order: &mut Order| {
        let (world, session, clis) = two_clis(&["gitStatus"]).await;
        let mut race = Race::of(world, &of(&session), clis, false).await;
        let path = format!("/api/sessions/{session}/git-status");
        let call = race.ask("GET", &path, &Value::Null);
        race.say(1, "rpc-register", json!({"method": "gitStatus"}));
        race.close(0);
        race.run(order).await;
        let reply = race.reply(call).await.ok();
        let by = race.called[0].0;
        let closed_first = json!({"success": false, "error": "The CLI disconnected before it answered gitStatus"});
        assert!(reply == json!({"success": true}) || (by == 0 && reply == closed_first), "{by} {reply}");
        assert_eq!(race.called.len(), 1, "nothing is called twice");
        let next = race.world.start("GET", &path, "");
        race.clis[1].serve("gitStatus", &json!({"success": true, "by": "second"})).await;
        assert_eq!(next.reply().await.ok()["by"], "second");
    })
    .await;
    assert!(orders > 5, "{orders}");
}
