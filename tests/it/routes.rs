//! Responses of the HTTP routes to valid requests. The tests of invalid requests are in `bad_input`.

use crate::support::edge::EdgeRequest;
use crate::support::prelude::*;
use crate::support::route_fixture::RouteFixture;
use crate::support::routes::object_routes;

#[tokio::test(start_paused = true)]
async fn sessions_and_machines_of_another_namespace_are_neither_listed_nor_changed() {
    let world = World::new();
    let neighbour = world.neighbour();
    let session = neighbour.create_session("/neighbour").await;
    neighbour.spawner("m", "neighbour").await;
    neighbour.live_cli(&session).await.send_message(&session, "hello").await;
    assert_eq!(world.get("/api/sessions?archived=include").await.ok(), json!({"sessions": []}));
    assert_eq!(world.get("/api/machines").await.ok(), json!({"machines": []}));
    let duplicate = json!({"id": "m", "metadata": {"host": "mine"}});
    world.post("/cli/machines", &duplicate).await.assert_error(403, "forbidden");
    assert_eq!(neighbour.get("/api/machines").await.ok()["machines"][0]["metadata"], json!({"host": "neighbour"}));
    assert_eq!(neighbour.get_session(&session).await["seq"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_head_request_has_the_status_and_headers_of_get_and_no_body() {
    for route in object_routes().filter(|route| route.method == "GET" && route.call.is_none()) {
        let fixture = RouteFixture::new(route).await;
        let send = |method: &str| {
            let request = EdgeRequest { method: method.to_owned(), ..fixture.valid_request() };
            fixture.world.send_to_edge(request).reply()
        };
        let (get, head) = (send("GET").await, send("HEAD").await);
        assert_eq!((head.status, head.headers), (get.status, get.headers), "{}", route.path);
        assert_eq!(head.text, "", "{}", route.path);
    }
}

#[tokio::test(start_paused = true)]
async fn path_parameters_are_percent_decoded_on_every_route() {
    for route in object_routes().filter(|route| route.path.contains('{')) {
        let mut fixture = RouteFixture::new(route).await;
        let mut request = fixture.valid_request();
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let first = route.path.split('/').position(|segment| segment.starts_with('{')).unwrap();
        let mut segments: Vec<String> = request.url.split('/').map(str::to_owned).collect();
        segments[first] = match segments[first].split_once('?') {
            Some((id, query)) => format!("{}?{query}", encode(id)),
            None => encode(&segments[first]),
        };
        request.url = segments.join("/").replace("/r1/", &format!("/{}/", encode("r1")));
        let reply = fixture.run(request).await;
        assert_eq!(reply.status, 200, "{} {}: {reply:?}", route.method, route.path);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_response_has_all_fields() {
    let (world, session, mut cli) = live_session().await;
    cli.send_message(&session, "hello").await;
    let detail = world.get_session(&session).await;
    let expected = json!({
        "id": session, "namespace": "team", "tag": "/code", "seq": 1,
        "createdAt": world.now(), "updatedAt": world.now(), "activeAt": world.now(), "thinkingAt": world.now(),
        "lastMessageAt": world.now(),
        "active": true, "thinking": false,
        "metadata": {"path": "/code", "host": "box"}, "metadataVersion": 1,
        "agentState": null, "agentStateVersion": 1,
    });
    assert_eq!(detail, expected);
    assert_eq!(world.get(&format!("/cli/sessions/{session}")).await.ok()["session"], expected);
}

#[tokio::test(start_paused = true)]
async fn sessions_are_sorted_by_activity_and_then_by_the_last_change() {
    let world = World::new();
    let mut ids = Vec::new();
    for tag in ["/a", "/b", "/c"] {
        ids.push(world.create_session(tag).await);
        world.advance(1_000).await;
    }
    let _cli = world.live_cli(&ids[1]).await;
    world.advance(1_000).await;
    world.request("PATCH", &format!("/api/sessions/{}", ids[0]), r#"{"name":"renamed"}"#).await.ok();
    let list = world.get("/api/sessions").await.ok();
    let order: Vec<&str> =
        list["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert_eq!(order, [&ids[1], &ids[0], &ids[2]]);
    let expected = json!({
        "id": ids[0], "active": false, "thinking": false, "thinkingAt": START, "activeAt": START,
        "updatedAt": world.now(), "createdAt": START,
        "metadata": {"path": "/a", "host": "box", "name": "renamed", "flavor": null},
        "todoProgress": null, "pendingRequestsCount": 0,
    });
    assert_eq!(list["sessions"][1], expected);
}

#[tokio::test(start_paused = true)]
async fn a_rename_trims_the_name_and_limits_its_length_and_checks_the_version() {
    let (world, session) = idle_session().await;
    let path = format!("/api/sessions/{session}");
    let rename = async |body: Value| world.request("PATCH", &path, body.to_string()).await;
    assert_eq!(rename(json!({"name": "  one  "})).await.ok(), json!({"ok": true, "metadataVersion": 2}));
    assert_eq!(world.get_session(&session).await["metadata"]["name"], "one");
    let longest = "\u{1F980}".repeat(255);
    assert_eq!(rename(json!({"name": longest, "expectedVersion": 2})).await.ok()["metadataVersion"], 3);
    rename(json!({"name": "stale", "expectedVersion": 2})).await.assert_error(409, "version_conflict");
    rename(json!({"name": "stale", "expectedVersion": 9_007_199_254_740_993_u64}))
        .await
        .assert_error(409, "version_conflict");
    for name in [String::new(), "   ".into(), "x".repeat(256)] {
        assert_eq!(rename(json!({"name": name})).await.assert_error(400, "invalid_field")["field"], "name");
    }
    assert_eq!(world.get_session(&session).await["metadata"], json!({"path": "/code", "host": "box", "name": longest}));
}

#[tokio::test(start_paused = true)]
async fn a_message_from_the_web_is_sent_to_the_cli_with_its_attachments() {
    let (world, session, mut cli) = live_session().await;
    let path = format!("/api/sessions/{session}/messages");
    let attachment = json!({"id": "a", "filename": "f.txt", "mimeType": "text/plain", "size": 3, "path": "/up/f.txt"});
    let body = json!({"text": "look", "localId": "l1", "attachments": [attachment], "unknown": 1});
    let sent = world.post(&path, &body).await.ok();
    let message = &sent["message"];
    assert_eq!(
        sent,
        json!({"ok": true, "message": {
            "id": message["id"], "seq": 1, "localId": "l1", "createdAt": world.now(),
        }})
    );
    let update = cli.next_event("update").await;
    assert_eq!(update["body"]["t"], "new-message");
    assert_eq!(
        update["body"]["message"],
        json!({
            "id": message["id"], "seq": 1, "localId": "l1", "createdAt": world.now(),
            "content": {
                "role": "user",
                "content": {"type": "text", "text": "look", "attachments": [attachment]},
                "meta": {"sentFrom": "web"},
            },
        })
    );
    assert_eq!(world.post(&path, &body).await.ok(), sent, "a repeated local id returns the first message");
    cli.socket.assert_no_frames().await;
    world.post(&path, &json!({"attachments": [attachment]})).await.ok();
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_1_mib_applies_to_the_unescaped_text() {
    let (world, session, _cli) = live_session().await;
    let path = format!("/api/sessions/{session}/messages");
    let longest = 1024 * 1024;
    for character in ["x", "\\u0078"] {
        world.request("POST", &path, format!(r#"{{"text":"{}"}}"#, character.repeat(longest))).await.ok();
    }
    let too_long = json!({"text": "x".repeat(longest + 1)});
    assert_eq!(world.post(&path, &too_long).await.assert_error(400, "invalid_field")["field"], "text");
    let huge = json!({"text": "x".repeat(9 * 1024 * 1024)});
    let error = world.post(&path, &huge).await.assert_error(413, "body_too_large");
    assert!(error["error"].as_str().unwrap().contains("8388608"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_text_of_1_mib_may_consist_of_characters_that_json_escapes() {
    let (world, session, _cli) = live_session().await;
    let path = format!("/api/sessions/{session}/messages");
    for character in ["\n", "\"", "\u{1}"] {
        let reply = world.post(&path, &json!({"text": character.repeat(1024 * 1024)})).await;
        assert_eq!(reply.status, 200, "1 MiB of {character:?}: {}", reply.text);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_are_paged() {
    let (world, session, mut cli) = live_session().await;
    for n in 1..=5 {
        cli.send_message(&session, &n.to_string()).await;
    }
    let page = async |query: &str| {
        let page = world.get(&format!("/api/sessions/{session}/messages{query}")).await.ok();
        let seqs: Vec<u64> =
            page["messages"].as_array().unwrap().iter().map(|message| message["seq"].as_u64().unwrap()).collect();
        assert_eq!(page["hasMore"], page["page"]["hasMore"]);
        (seqs, page["page"].clone())
    };
    let page_info = |limit: u64, before_seq: Value, next: Value, has_more: bool| json!({"limit": limit, "beforeSeq": before_seq, "nextBeforeSeq": next, "hasMore": has_more});
    assert_eq!(page("").await, (vec![5, 4, 3, 2, 1], page_info(50, Value::Null, Value::Null, false)));
    assert_eq!(page("?limit=2").await, (vec![5, 4], page_info(2, Value::Null, json!(4), true)));
    assert_eq!(page("?limit=2&beforeSeq=4").await, (vec![3, 2], page_info(2, json!(4), json!(2), true)));
    assert_eq!(page("?limit=2&beforeSeq=2").await, (vec![1], page_info(2, json!(2), Value::Null, false)));
    assert_eq!(page("?afterSeq=3").await.0, [4, 5]);
    assert_eq!(page("?afterSeq=0&limit=200").await.0, [1, 2, 3, 4, 5]);
    let first = world.get(&format!("/api/sessions/{session}/messages?limit=1")).await.ok();
    let message = &first["messages"][0];
    assert_eq!(
        message,
        &json!({"id": message["id"], "seq": 5, "localId": null, "createdAt": world.now(),
            "content": {"role": "agent", "content": "5"}})
    );
}

#[tokio::test(start_paused = true)]
async fn online_machines_are_sorted_by_their_last_activity() {
    let world = World::new();
    for id in ["m1", "m2", "m3"] {
        world.register_machine(id).await;
    }
    for id in ["m1", "m2"] {
        let mut runner = world.runner(id).await;
        runner.emit_with_ack("machine-alive", &json!({"machineId": id, "time": world.now()})).await;
        world.advance(1_000).await;
    }
    let list = world.get("/api/machines").await.ok();
    let ids: Vec<&str> =
        list["machines"].as_array().unwrap().iter().map(|machine| machine["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["m2", "m1"]);
    let machine = &list["machines"][0];
    let expected = json!({
        "id": "m2", "namespace": "team", "seq": machine["seq"], "createdAt": START,
        "updatedAt": machine["updatedAt"], "active": true, "activeAt": START + 1_000,
        "metadata": {"host": "box", "platform": "linux"}, "metadataVersion": 1,
        "runnerState": null, "runnerStateVersion": 1,
    });
    assert_eq!(machine, &expected);
    assert_eq!(world.get("/cli/machines/m2").await.ok()["machine"], expected);
}

#[tokio::test(start_paused = true)]
async fn registering_a_machine_again_increments_only_the_versions_of_changed_fields() {
    let world = World::new();
    let register = async |body: Value| world.post("/cli/machines", &body).await.ok()["machine"].clone();
    let first = register(json!({"id": "m", "metadata": {"host": "a"}, "runnerState": {"pid": 1}})).await;
    assert_eq!((&first["metadataVersion"], &first["runnerStateVersion"]), (&json!(1), &json!(1)));
    let second = register(json!({"id": "m", "metadata": {"host": "b"}})).await;
    assert_eq!((&second["metadataVersion"], &second["runnerStateVersion"]), (&json!(2), &json!(1)));
    assert_eq!((&second["metadata"], &second["runnerState"]), (&json!({"host": "b"}), &json!({"pid": 1})));
}

#[tokio::test(start_paused = true)]
async fn visibility_can_be_set_for_an_existing_subscription_of_the_namespace() {
    let world = World::new();
    let mut socket = world.open_event_stream("", None, Default::default()).await.unwrap();
    let first_event: Value = serde_json::from_str(&socket.next_text().await).unwrap();
    let id = &first_event["data"]["subscriptionId"];
    let set_visibility = async |body: Value| world.post("/api/visibility", &body).await;
    assert_eq!(set_visibility(json!({"subscriptionId": id, "visibility": "visible"})).await.ok(), json!({"ok": true}));
    set_visibility(json!({"subscriptionId": "none", "visibility": "hidden"}))
        .await
        .assert_error(404, "subscription_not_found");
    let neighbour = world.neighbour();
    let foreign = neighbour.post("/api/visibility", &json!({"subscriptionId": id, "visibility": "hidden"})).await;
    foreign.assert_error(404, "subscription_not_found");
    socket.close();
    set_visibility(json!({"subscriptionId": id, "visibility": "hidden"}))
        .await
        .assert_error(404, "subscription_not_found");
}
