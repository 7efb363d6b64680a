//! CLIs that name an `installationId` in CONNECT: while one installation serves a session, other installations are refused.

use crate::support::prelude::*;

async fn connect(world: &World, installation: &str) -> Cli {
    Cli::connect(world, json!({"installationId": installation})).await
}

fn message(session: &str, local_id: &str) -> Value {
    json!({"sid": session, "message": {"text": local_id}, "localId": local_id})
}

/// Sends each event that speaks for a session, and a registration. Returns the codes of the acknowledgements, null for success.
async fn codes(cli: &mut Cli, session: &str) -> Vec<Value> {
    let mut codes = Vec::new();
    for (event, payload) in [
        ("message", message(session, "m")),
        ("message-delta", json!({"sid": session, "id": "d", "text": "x"})),
        ("session-alive", json!({"sid": session, "time": 0})),
        ("rpc-register", json!({"method": format!("{session}:abort")})),
        ("update-metadata", json!({"sid": session, "expectedVersion": 0, "metadata": null})),
        ("update-state", json!({"sid": session, "expectedVersion": 0, "agentState": null})),
        ("session-end", json!({"sid": session, "time": 0})),
    ] {
        codes.push(cli.emit_with_ack(event, &payload).await["code"].clone());
    }
    codes
}

/// A session that the installation `laptop` serves.
async fn served_session() -> (World, String, Cli) {
    let (world, session) = idle_session().await;
    let mut laptop = connect(&world, "laptop").await;
    laptop.send_keep_alive(&world, &session).await;
    run_until_idle().await;
    (world, session, laptop)
}

#[tokio::test(start_paused = true)]
async fn another_installation_may_not_speak_for_a_session_or_register_its_methods_until_the_first_closes() {
    for hibernates in [false, true] {
        let (world, session, laptop) = served_session().await;
        let mut server = connect(&world, "server").await;
        world.hibernate_if(hibernates).await;
        let before = world.get_session(&session).await;
        assert_eq!(codes(&mut server, &session).await, vec![json!("served-elsewhere"); 7], "{hibernates}");
        let error = server.next_event("error").await;
        assert_eq!((&error["code"], &error["scope"]), (&json!("served-elsewhere"), &json!("session")));
        assert_eq!(error["id"], session);
        assert_eq!(world.get_session(&session).await, before);
        laptop.socket.close();
        run_until_idle().await;
        assert_eq!(codes(&mut server, &session).await, vec![Value::Null; 7], "{hibernates}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_without_an_installation_and_one_of_the_same_installation_are_never_refused() {
    let (world, session, _laptop) = served_session().await;
    let mut same = connect(&world, "laptop").await;
    let mut unnamed = world.bare_cli().await;
    for cli in [&mut same, &mut unnamed] {
        assert_eq!(codes(cli, &session).await, vec![Value::Null; 7]);
    }
    let unnamed = world.cli(&session).await;
    drop(unnamed);
    let (session, mut unnamed) = world.active_session("/other").await;
    let mut server = connect(&world, "server").await;
    assert_eq!(codes(&mut server, &session).await, vec![Value::Null; 7], "the first socket named no installation");
    assert_eq!(unnamed.send_message(&session, "x").await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn another_installation_that_names_the_session_in_connect_gets_an_error_and_no_updates() {
    let (world, session, mut laptop) = served_session().await;
    let mut server = Cli::connect(&world, json!({"sessionId": session, "installationId": "server"})).await;
    let error = server.next_event("error").await;
    assert_eq!((&error["code"], &error["id"]), (&json!("served-elsewhere"), &json!(session)));
    world.request("PATCH", &format!("/api/sessions/{session}"), r#"{"name": "n"}"#).await.ok();
    assert_eq!(laptop.next_event("update").await["body"]["t"], "update-session");
    assert!(server.try_event("update").await.is_none());
    laptop.socket.close();
    run_until_idle().await;
    let mut server = Cli::connect(&world, json!({"sessionId": session, "installationId": "server"})).await;
    assert!(server.try_event("error").await.is_none());
    let mut laptop = Cli::connect(&world, json!({"sessionId": session, "installationId": "laptop"})).await;
    assert_eq!(laptop.next_event("error").await["code"], "served-elsewhere");
}

#[tokio::test(start_paused = true)]
async fn another_installation_takes_over_once_the_ping_of_the_first_has_timed_out() {
    let (world, session, laptop) = served_session().await;
    world.advance_in_steps(60_000).await;
    let mut server = connect(&world, "server").await;
    assert_eq!(server.emit_with_ack("message", &message(&session, "a")).await["code"], "served-elsewhere");
    world.advance_in_steps(31_000).await;
    assert!(!laptop.socket.is_open());
    assert_eq!(server.emit_with_ack("message", &message(&session, "a")).await["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn of_two_installations_that_speak_at_once_one_serves_the_session() {
    let (world, session) = idle_session().await;
    let (mut laptop, mut server) = (connect(&world, "laptop").await, connect(&world, "server").await);
    world.hibernate_and_wake().await;
    world.db.hold_results(BatchKind::Reads);
    let acks = [
        laptop.emit_for_ack("message", &message(&session, "a")),
        server.emit_for_ack("message", &message(&session, "b")),
    ];
    world.release_results().await;
    assert_eq!(laptop.wait_for_ack(acks[0]).await["ok"], true);
    assert_eq!(server.wait_for_ack(acks[1]).await["ok"], true);
    assert_eq!(server.next_event("error").await["code"], "served-elsewhere");
    assert_eq!(laptop.emit_with_ack("message", &message(&session, "c")).await["ok"], true);
    assert_eq!(server.emit_with_ack("message", &message(&session, "d")).await["code"], "served-elsewhere");
}

#[tokio::test(start_paused = true)]
async fn frames_of_a_refused_socket_that_wait_when_it_closes_have_no_effect() {
    let (world, session, laptop) = served_session().await;
    let server = connect(&world, "server").await;
    for local_id in ["a", "b"] {
        server.emit("message", &message(&session, local_id));
    }
    server.socket.close();
    run_until_idle().await;
    assert_eq!(world.get(&format!("/api/sessions/{session}/messages")).await.ok()["messages"], json!([]));
    drop(laptop);
}

#[tokio::test(start_paused = true)]
async fn keep_alives_of_a_refused_socket_do_not_keep_the_session_active() {
    let (world, session, _laptop) = served_session().await;
    let mut server = connect(&world, "server").await;
    world.advance(29_000).await;
    assert_eq!(
        server.emit_with_ack("session-alive", &json!({"sid": session, "time": 0})).await["code"],
        "served-elsewhere"
    );
    world.advance(2_000).await;
    assert_eq!(world.get_session(&session).await["active"], false);
}

#[tokio::test(start_paused = true)]
async fn an_installation_id_must_be_a_string_of_1_to_100_bytes() {
    let world = World::new();
    for invalid in [json!(5), json!(["a"]), json!({}), json!(""), json!("x".repeat(101)), json!("é".repeat(51))] {
        let mut cli = Cli::start_connect(&world, &json!({"token": world.token(), "installationId": invalid}));
        assert!(matches!(cli.receive().await, Received::Open(_)));
        let Received::ConnectError(error) = cli.receive().await else { panic!("{invalid}") };
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with("Invalid auth. ") && message.contains("installationId"), "{message}");
    }
    for valid in [json!(null), json!("x".repeat(100)), json!("a \u{0}\"é")] {
        Cli::connect(&world, json!({"installationId": valid})).await;
    }
}
