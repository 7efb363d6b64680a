//! Pairing: adding a device with a code, or with a request that a person approves.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_code_becomes_a_device_whose_token_opens_the_namespace_everywhere() {
    let hub = Hub::new();
    let created = hub.post("/api/devices/codes", &hub.world.token(), &json!({})).await.ok();
    let code = created["code"].as_str().unwrap();
    assert_eq!(created["url"], format!("https://hub.example/pair#{code}"));
    assert_eq!(created["expiresAt"], hub.world.now() + 5 * 60_000);
    let added = hub.redeem(&code.replace('-', " ").to_lowercase(), "  Anna's phone ").await.ok();
    assert_eq!(added["namespace"], "team");
    let device = &added["device"];
    assert_eq!((&device["name"], &device["kind"]), (&json!("Anna's phone"), &json!("phone")));
    let token = added["token"].as_str().unwrap();
    assert!(token.starts_with("sgd_") && token.len() == 47, "{token}");

    hub.get("/api/sessions", token).await.ok();
    hub.get("/cli/sessions/none", token).await.assert_error(404, "session_not_found");
    let signed_in = hub.sign_in(token).await.ok();
    assert_eq!(signed_in["namespace"], "team");
    let jwt = signed_in["token"].as_str().unwrap();
    hub.get("/api/sessions", jwt).await.ok();
    assert!(hub.connect(token).await.is_ok());

    for (caller, is_current) in [(token, true), (jwt, true), (&*hub.world.token(), false)] {
        let list = hub.get("/api/devices", caller).await.ok();
        assert_eq!(list["devices"].as_array().unwrap().len(), 1);
        assert_eq!(list["devices"][0]["id"], device["id"]);
        assert_eq!(list["devices"][0]["isCurrent"], is_current, "{caller}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_without_a_keyboard_gets_its_token_once_a_person_has_approved_it() {
    let hub = Hub::new();
    let request = hub.post_without_token("/api/devices/requests", &json!({"name": "server", "kind": "cli"})).await.ok();
    let (code, secret) = (request["code"].as_str().unwrap(), &request["secret"]);
    assert!(code.starts_with('R') && request["url"] == format!("https://hub.example/pair#{code}"), "{request}");
    assert_eq!(request["intervalMs"], 3_000);
    let poll = async || hub.post_without_token("/api/devices/requests/token", &json!({"secret": secret})).await;
    assert_eq!(poll().await.ok(), json!({"status": "pending"}));
    hub.redeem(code, "thief").await.assert_error(404, "unknown_code");

    let (url, person) = (format!("/api/devices/requests/{code}"), hub.world.token());
    assert_eq!(pick(&hub.get(&url, &person).await.ok()["request"], ["name", "kind"]), json!(["server", "cli"]));
    hub.post(&url, &person, &json!({"decision": "approve"})).await.ok();
    hub.post(&url, &person, &json!({"decision": "approve"})).await.ok();
    hub.post(&url, &person, &json!({"decision": "deny"})).await.assert_error(409, "already_decided");
    let other = "secret:neighbour";
    let neighbour = Hub::of(hub.world.neighbour());
    neighbour.post(&url, other, &json!({"decision": "approve"})).await.assert_error(409, "already_decided");

    let [first, second] = [poll().await.ok(), poll().await.ok()];
    assert_eq!((&first["status"], &first["namespace"]), (&json!("approved"), &json!("team")));
    assert_eq!(first["device"], second["device"], "the response may be lost, so a second token replaces the first one");
    hub.get("/api/sessions", first["token"].as_str().unwrap()).await.assert_error(401, "unauthorized");
    hub.get("/api/sessions", second["token"].as_str().unwrap()).await.ok();
    poll().await.assert_error(404, "unknown_code");
}

#[tokio::test(start_paused = true)]
async fn a_denied_or_expired_request_gets_no_token() {
    let hub = Hub::new();
    let person = hub.world.token();
    for (decision, status, code) in [(Some("deny"), 403, "request_denied"), (None, 404, "unknown_code")] {
        let request = hub.post_without_token("/api/devices/requests", &json!({"name": "a", "kind": "cli"})).await.ok();
        let url = format!("/api/devices/requests/{}", request["code"].as_str().unwrap());
        match decision {
            Some(decision) => drop(hub.post(&url, &person, &json!({"decision": decision})).await.ok()),
            None => hub.world.advance(5 * 60_000).await,
        }
        let poll = hub.post_without_token("/api/devices/requests/token", &json!({"secret": request["secret"]})).await;
        poll.assert_error(status, code);
        if decision.is_none() {
            hub.get(&url, &person).await.assert_error(404, "unknown_code");
            hub.post(&url, &person, &json!({"decision": "approve"})).await.assert_error(404, "unknown_code");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_code_is_valid_once_and_for_five_minutes() {
    let hub = Hub::new();
    let code = hub.create_code().await;
    hub.world.advance(5 * 60_000 - 1).await;
    let (a, b) = futures::join!(hub.redeem(&code, "a"), hub.redeem(&code, "b"));
    let mut statuses = [a.status.as_u16(), b.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404], "one of two concurrent devices gets the token");
    hub.redeem(&code, "c").await.assert_error(404, "unknown_code");
    let code = hub.create_code().await;
    hub.world.advance(5 * 60_000).await;
    hub.redeem(&code, "late").await.assert_error(404, "unknown_code");
}

#[tokio::test(start_paused = true)]
async fn who_shows_a_code_learns_which_device_has_used_it_and_nobody_learns_the_code() {
    let hub = Hub::new();
    let person = hub.world.token();
    let create = async || hub.post("/api/devices/codes", &person, &json!({})).await.ok();
    let user_of = async |created: &Value, token: &str| {
        hub.get(&format!("/api/devices/codes/{}", created["deviceId"].as_str().unwrap()), token).await
    };
    let (used, unused) = (create().await, create().await);
    assert_eq!(user_of(&used, &person).await.ok(), json!({"device": null}));
    let added = hub.redeem(used["code"].as_str().unwrap(), "phone").await.ok();
    let shown = user_of(&used, &person).await;
    assert_eq!(shown.ok(), json!({"device": added["device"]}));
    assert!(!shown.text.contains(used["code"].as_str().unwrap()) && !shown.text.contains("sgd_"), "{}", shown.text);
    assert_eq!(user_of(&unused, &person).await.ok(), json!({"device": null}), "the device has used another code");
    hub.of_neighbour(async |neighbour| {
        for code in [&used, &unused] {
            let url = format!("/api/devices/codes/{}", code["deviceId"].as_str().unwrap());
            neighbour.get(&url, "secret:neighbour").await.assert_error(404, "unknown_code");
        }
    })
    .await;
    // A browser that was connected already revokes the device that it has added. This deletes all codes.
    hub.revoke(added["device"]["id"].as_str().unwrap()).await.ok();
    assert_eq!(user_of(&used, &person).await.ok()["device"]["name"], "phone");
    user_of(&unused, &person).await.assert_error(404, "unknown_code");
    let expiring = create().await;
    hub.world.advance(5 * 60_000).await;
    user_of(&expiring, &person).await.assert_error(404, "unknown_code");
    let request = hub.post_without_token("/api/devices/requests", &json!({"name": "a", "kind": "cli"})).await.ok();
    assert_eq!(request.get("deviceId"), None);
}

#[tokio::test(start_paused = true)]
async fn five_codes_may_wait_and_a_used_one_makes_room() {
    let hub = Hub::new();
    let create = async || hub.post("/api/devices/codes", &hub.world.token(), &json!({"name": "Ada's"})).await;
    let first = create().await.ok();
    for _ in 1..5 {
        create().await.ok();
    }
    create().await.assert_error(409, "too_many_codes");
    hub.of_neighbour(async |neighbour| drop(neighbour.create_code().await)).await;
    let device = hub.redeem(first["code"].as_str().unwrap(), "phone").await.ok()["device"].clone();
    assert_eq!(device["name"], "Ada's", "the name of the code replaces the one of the device");
    create().await.ok();
    create().await.assert_error(409, "too_many_codes");
}

#[tokio::test(start_paused = true)]
async fn five_wrong_codes_with_the_right_first_five_characters_delete_a_code() {
    for (wrong, status) in [(4, 200), (5, 404)] {
        let hub = Hub::new();
        let code = hub.create_code().await;
        let others = if code.ends_with("AAA") { "BBB" } else { "AAA" };
        for _ in 0..wrong {
            let guess = format!("{}{others}", &code[..6]);
            hub.redeem(&guess, "guess").await.assert_error(404, "unknown_code");
        }
        assert_eq!(hub.redeem(&code, "phone").await.status, status, "after {wrong} wrong guesses");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_the_database_adds_one_device() {
    let hub = Hub::new();
    let code = hub.create_code().await;
    hub.world.db.lose_response(retryable_error());
    let token = hub.redeem(&code, "phone").await.ok()["token"].as_str().unwrap().to_owned();
    hub.get("/api/sessions", &token).await.ok();
    assert_eq!(hub.world.db.number("SELECT count(*) FROM devices"), 1);
}

#[tokio::test(start_paused = true)]
async fn names_that_could_deceive_are_refused() {
    let hub = Hub::new();
    let long = "x".repeat(65);
    for name in ["", "  ", "a\u{0}b", "a\nb", "a\u{202e}b", "a\u{200b}b", "\u{2066}a", long.as_str()] {
        let reply = hub.post_without_token("/api/devices/requests", &json!({"name": name, "kind": "cli"})).await;
        assert_eq!(reply.assert_error(400, "invalid_field")["field"], "name", "{name:?}");
    }
    let name = r#"<b>"Ada's" \ phone 🦀"#;
    let (id, token) = hub.add_device(name).await;
    let list = hub.get("/api/devices", &token).await.ok();
    assert_eq!((&list["devices"][0]["id"], &list["devices"][0]["name"]), (&json!(id), &json!(name)));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_has_at_most_a_hundred_devices() {
    let hub = Hub::new();
    hub.world.db.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
         INSERT INTO devices SELECT 'd' || i, 'team', 'x', 'cli', 'h' || i, 1, 1, NULL FROM n",
    );
    hub.redeem(&hub.create_code().await, "one more").await.assert_error(409, "too_many_devices");
    hub.revoke("d1").await.ok();
    hub.redeem(&hub.create_code().await, "one more").await.ok();
}
