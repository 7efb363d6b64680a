//! Web clients that reconnect, and the events that they receive.

use super::prelude::*;

/// Both formats of events.
pub const FORMATS: [Format; 2] = [Format::Json, Format::Sse];
/// How long events are still logged after the last web client has disconnected, in milliseconds.
pub const TEN_MINUTES_MS: u64 = 600_000;

/// A session with a CLI, and the URL query of a web client that receives all events of the session.
pub async fn replay_fixture() -> (World, String, Cli, String) {
    let (world, session) = idle_session().await;
    let cli = world.cli(&session).await;
    let web_query = format!("all=true&sessionId={session}");
    (world, session, cli, web_query)
}

/// Like [`replay_fixture`], with a web client that has received a message, and the id of its last event.
pub async fn received_message() -> (World, String, Cli, String, Web, String) {
    let (world, session, mut cli, web_query) = replay_fixture().await;
    let mut web = world.web(&web_query).await;
    cli.send_message(&session, "received").await;
    let received = id(&web.next_event().await);
    (world, session, cli, web_query, web, received)
}

/// A redeployed hub, and the URL query and the last event id of a web client that has missed a message.
pub async fn missed_message() -> (World, String, String) {
    let (world, session, mut cli, web_query, _, received) = received_message().await;
    cli.send_message(&session, "missed").await;
    world.redeploy();
    (world, web_query, received)
}

/// Connects a web client with the id of its last event. Returns `resume` of its first event, and the client.
pub async fn reconnect(world: &World, web_query: &str, last_event_id: &str, format: Format) -> (String, Web) {
    let mut web = Web(world.open_event_stream(web_query, Some(last_event_id), format).await.unwrap());
    let first = web.next_event().await;
    assert_eq!(first["type"], "connection-changed");
    (first["data"]["resume"].as_str().unwrap().to_owned(), web)
}

/// Reconnects a web client, which must not get a gap. Returns the texts of the events that it missed.
pub async fn missed_texts(world: &World, web_query: &str, last_event_id: &str) -> Vec<String> {
    let (outcome, mut web) = reconnect(world, web_query, last_event_id, Format::Json).await;
    assert_eq!(outcome, "ok");
    texts(&web.events().await).into_iter().map(str::to_owned).collect()
}

/// Reconnects a web client. Returns `resume` of its first event.
pub async fn resume_outcome(world: &World, web_query: &str, last_event_id: &str) -> String {
    reconnect(world, web_query, last_event_id, Format::Json).await.0
}

pub fn id(event: &Value) -> String {
    event["eventId"].as_str().unwrap().to_owned()
}

/// The texts of messages, and the types of other events.
pub fn texts(events: &[Value]) -> Vec<&str> {
    let is_message = |event: &'_ Value| event["message"]["content"]["content"].is_string();
    let text = |event| if is_message(event) { &event["message"]["content"]["content"] } else { &event["type"] };
    events.iter().map(|event| text(event).as_str().unwrap()).collect()
}

/// The number of rows of the event log.
pub fn count_event_rows(world: &World) -> i64 {
    world.db.number("SELECT count(*) FROM events")
}

/// The argument of `message` for an agent's message with this text.
pub fn message(session: &str, text: &str) -> Value {
    json!({"sid": session, "message": {"role": "agent", "content": text}})
}

/// Connects a new web client. Returns its first event.
pub async fn connect_and_read_first_event(world: &World, web_query: &str) -> Value {
    Web(world.open_event_stream(web_query, None, Format::Json).await.unwrap()).next_event().await
}
