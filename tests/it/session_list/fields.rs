//! The fields of a session in the list. The list must be the same from memory and from the database.

use std::collections::BTreeSet;

use crate::support::prelude::*;
use crate::support::settings::set_values;
use serde_json::Map;

/// The largest text in a summary, in bytes of JSON (`SessionSummary` in docs/openapi.yaml).
const MAX_TEXT_BYTES: usize = 512;

/// Returns the list from memory, after a comparison with the list from the database.
async fn compare_lists(world: &World, query: &str) -> Vec<Value> {
    let path = format!("/api/sessions{query}");
    run_until_idle().await;
    let from_memory = world.get(&path).await;
    world.hibernate_and_wake().await;
    assert_eq!(world.get(&path).await.text, from_memory.text);
    from_memory.ok()["sessions"].as_array().unwrap().clone()
}

/// The metadata in the list of a namespace whose only session has this metadata.
async fn metadata_in_list(metadata: Value) -> Value {
    let world = World::new();
    world.post("/cli/sessions", &json!({"tag": "/code", "metadata": metadata})).await.ok();
    compare_lists(&world, "?archived=include").await[0]["metadata"].clone()
}

/// The paths of all fields of an object, such as `metadata.worktree.branch`.
fn field_paths(object: &Map<String, Value>, prefix: &str) -> BTreeSet<String> {
    let paths = object.iter().flat_map(|(name, value)| match value.as_object() {
        Some(nested) => field_paths(nested, &format!("{prefix}{name}.")),
        None => BTreeSet::from([format!("{prefix}{name}")]),
    });
    paths.collect()
}

/// The paths of the fields that openapi.yaml documents for a summary.
fn documented_paths() -> BTreeSet<String> {
    let api = include_str!("../../../docs/openapi.yaml");
    let (_, schema) = api.split_once("\n    SessionSummary:\n").unwrap();
    // The keys above a line, with their indentation.
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut paths = BTreeSet::new();
    for line in schema.lines().take_while(|line| line.starts_with("      ")) {
        let (indentation, text) = (line.len() - line.trim_start().len(), line.trim());
        above.retain(|(other, _)| *other < indentation);
        let Some((key, value)) = text.split_once(':') else { continue };
        if value.starts_with(" {") && above.last().is_some_and(|(_, key)| *key == "properties") {
            let parents = above.iter().map(|(_, key)| *key).filter(|key| *key != "properties");
            paths.insert(parents.chain([key]).collect::<Vec<_>>().join("."));
        }
        above.push((indentation, key));
    }
    paths
}

#[tokio::test(start_paused = true)]
async fn the_list_from_memory_and_the_list_from_the_database_agree_in_every_field() {
    let world = World::new();
    let metadata = json!({
        "name": "N", "machineId": "m", "summary": {"text": "S", "updatedAt": 5}, "flavor": "alpha", "agentName": "Zeta",
        "lifecycleState": "running", "tools": ["not listed"],
        "worktree": {"basePath": "/b", "branch": "main", "name": "w", "worktreePath": "/w", "createdAt": 3},
    });
    let (session, mut cli) = world.active_session_with("/code", metadata).await;
    let todos = json!({"role": "agent", "content": {"type": "alpha", "data": {"type": "plan", "entries": [
        {"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]}}});
    cli.emit_with_ack("message", &json!({"sid": session, "message": todos})).await;
    cli.update_agent_state(&session, 1, &json!({"requests": {"r1": {}, "r2": {}}})).await;
    let now = world.now();
    let modes = json!({"thinking": true, "permissionMode": "plan", "modelMode": "model_fast"});
    let mut alive = json!({"sid": session, "time": now});
    alive.as_object_mut().unwrap().extend(modes.as_object().unwrap().clone());
    cli.emit_with_ack("session-alive", &alive).await;
    world.change_session(&session, &set_values()).await;
    let listed = compare_lists(&world, "").await;
    let mut expected = json!({
        "id": session, "active": true, "thinking": true, "thinkingAt": now, "activeAt": now, "lastMessageAt": now, "updatedAt": listed[0]["updatedAt"],
        "createdAt": listed[0]["createdAt"],
        "metadata": {
            "name": "N", "path": "/code", "host": "box", "machineId": "m", "summary": {"text": "S"}, "flavor": "alpha",
            "agentName": "Zeta", "lifecycleState": "running",
            "worktree": {"basePath": "/b", "branch": "main", "name": "w", "worktreePath": "/w"},
        },
        "todoProgress": {"completed": 1, "total": 2}, "pendingRequestsCount": 2, "permissionMode": "plan",
        "modelMode": "model_fast",
    });
    expected.as_object_mut().unwrap().extend(set_values());
    assert_eq!(listed, [expected]);
    let ready = json!({"role": "agent", "content": {"type": "event", "data": {"type": "ready"}}});
    cli.emit_with_ack("message", &json!({"sid": session, "message": ready})).await;
    cli.emit_with_ack("session-end", &json!({"sid": session})).await;
    let ended = compare_lists(&world, "").await;
    assert_eq!((&ended[0]["endedAt"], &ended[0]["unseenSince"]), (&json!(world.now()), &json!(world.now())));
    let away = world.create_session("/away").await;
    let body = json!({"text": "for later", "hold": true});
    world.post(&format!("/api/sessions/{away}/messages"), &body).await.ok();
    let with_held = compare_lists(&world, "").await;
    assert_eq!(with_held.iter().find(|summary| summary["id"] == away.as_str()).unwrap()["heldMessagesCount"], 1);
    // The activity is not stored, and a CLI is connected.
    let unset = ["activity", "activityAt", "disconnected", "heldMessagesCount"];
    let mut paths = BTreeSet::from(unset.map(str::to_owned));
    paths.extend([&listed[0], &ended[0]].iter().flat_map(|summary| field_paths(summary.as_object().unwrap(), "")));
    assert_eq!(paths, documented_paths(), "a session has every field of a summary");
}

#[tokio::test(start_paused = true)]
async fn a_text_is_listed_up_to_its_limit_whatever_its_characters_are() {
    let fits = "x".repeat(MAX_TEXT_BYTES - 2);
    for (text, shown) in [
        (fits.clone(), fits.clone()),
        ("x".repeat(40_000), fits.clone()),
        ("é".repeat(1_000), "é".repeat(255)),
        ("\u{1F980}".repeat(500), "\u{1F980}".repeat(127)),
        // An escape sequence is never cut, and counts as its bytes.
        ("\n".repeat(500), "\n".repeat(255)),
        (format!("{}\u{0}\u{0}", &fits[6..]), format!("{}\u{0}", &fits[6..])),
        (format!("{}\u{0}", &fits[5..]), fits[5..].to_owned()),
        ("\\\"".repeat(300), "\\\"".repeat(127) + "\\"),
    ] {
        let metadata = json!({"path": "/code", "host": "box", "summary": {"text": text}, "worktree": {"branch": text}});
        let listed = metadata_in_list(metadata).await;
        let expected = json!({"path": "/code", "host": "box", "summary": {"text": shown}, "flavor": null,
            "worktree": {"branch": shown}});
        assert_eq!(listed, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn half_of_a_surrogate_pair_is_never_cut_off() {
    let world = World::new();
    for filler in 0..13 {
        let text = format!("{}{}", "x".repeat(filler), r"\ud83e\udd80".repeat(100));
        let metadata = format!(r#"{{"path":"/","host":"h","summary":{{"text":"{text}"}}}}"#);
        let body = format!(r#"{{"tag":"/{filler}","metadata":{metadata}}}"#);
        world.request("POST", "/cli/sessions", body).await.ok();
    }
    for summary in compare_lists(&world, "").await {
        let text = summary["metadata"]["summary"]["text"].as_str().unwrap().trim_start_matches('x');
        assert!((40..=42).contains(&text.chars().count()) && text.chars().all(|crab| crab == '\u{1F980}'), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn values_of_other_types_are_not_listed() {
    let texts = ["name", "machineId", "summary", "flavor", "agentName", "worktree", "lifecycleState"];
    for value in [json!(null), json!(7), json!(1.5e30), json!(true), json!([]), json!({"a": 1}), json!(["x"])] {
        let mut metadata = json!({"path": "/code", "host": "box"});
        texts.iter().for_each(|name| metadata[name] = value.clone());
        assert_eq!(
            metadata_in_list(metadata).await,
            json!({"path": "/code", "host": "box", "flavor": null}),
            "{value}"
        );
        let nested = json!({"path": "/code", "host": "box", "summary": {"text": value},
            "worktree": {"basePath": value, "branch": "b", "name": value}});
        let expected = json!({"path": "/code", "host": "box", "flavor": null, "worktree": {"branch": "b"}});
        assert_eq!(metadata_in_list(nested).await, expected, "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_is_listed_whatever_its_form_is() {
    let world = World::new();
    for (number, members) in [
        r#""n\u0061me" : "a name with an escaped key""#,
        r#""name":"\ud800 is half of a pair","flavor":"beta""#,
        r#""name":"a \"name\" with \u0000, \\ and / in it""#,
        r#""summary":{"text":"first","text":"second"},"worktree":{"branch":"first","branch":"second"}"#,
        r#""worktree":{"branch":"b\u0062"}, "summary" : { "text" : "spaces" } , "name":"" "#,
        r#""__proto__":{"name":"x"},"constructor":"x","summary":"S","worktree":"w""#,
        r#""$.name":"x","name.first":"y","":"z""#,
    ]
    .iter()
    .enumerate()
    {
        let body = format!(r#"{{"tag":"/{number}","metadata":{{"path":"/{number}","host":"h",{members}}}}}"#);
        assert_eq!(world.request("POST", "/cli/sessions", body).await.status, 200);
    }
    assert_eq!(compare_lists(&world, "").await.len(), 7);
}

#[tokio::test(start_paused = true)]
async fn an_archived_session_without_metadata_is_in_the_archive() {
    let (world, session) = idle_session().await;
    let mut cli = world.cli(&session).await;
    cli.put_metadata(&session, 1, &Value::Null).await;
    assert_eq!(compare_lists(&world, "").await[0]["metadata"], Value::Null);
    world.post(&format!("/api/sessions/{session}/archive"), &json!({})).await.ok();
    assert_eq!(compare_lists(&world, "").await, Vec::<Value>::new());
    let archive = compare_lists(&world, "?archived=only").await;
    let metadata = json!({"path": "", "host": "", "flavor": null, "lifecycleState": "archived"});
    assert_eq!((archive.len(), &archive[0]["id"], &archive[0]["metadata"]), (1, &json!(session), &metadata));
}

#[tokio::test(start_paused = true)]
async fn a_renamed_session_without_metadata_is_listed_with_its_name() {
    let (world, session) = idle_session().await;
    let mut cli = world.cli(&session).await;
    cli.put_metadata(&session, 1, &Value::Null).await;
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name":"N"}"#).await.ok();
    let metadata = json!({"name": "N", "path": "", "host": "", "flavor": null});
    assert_eq!(compare_lists(&world, "").await[0]["metadata"], metadata);
}
