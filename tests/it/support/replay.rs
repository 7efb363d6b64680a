//! Web clients that reconnect, and the events that they receive.

use serde_json::{Value, json};
use session_gateway_hub::hub::peers::subscription::Format;

use super::cli::Cli;
use super::web::Web;
use super::{World, run_until_idle};

/// Both formats of events.
pub const FORMATS: [Format; 2] = [Format::Json, Format::Sse];
/// How long events are logged after the last web client disconnected, in milliseconds.
pub const TEN_MINUTES: u64 = 600_000;

/// A session with a CLI, and the query of a web client that receives all its events.
pub async fn replay_fixture() -> (World, String, Cli, String) {
    let world = World::new();
    let session = world.create_session("/code").await;
    let cli = world.cli(&session).await;
    let query = format!("all=true&sessionId={session}");
    (world, session, cli, query)
}

/// Connects a web client with the id of its last event. Returns `resume` of its first event, and the client.
pub async fn reconnect(world: &World, query: &str, last: &str, format: Format) -> (String, Web) {
    let mut web = Web(world.try_subscribe(query, Some(last), format).await.unwrap());
    let first = web.next_event().await;
    assert_eq!(first["type"], "connection-changed");
    (first["data"]["resume"].as_str().unwrap().to_owned(), web)
}

/// `resume` of the first event of a web client that reconnects.
pub async fn resume(world: &World, query: &str, last: &str) -> String {
    reconnect(world, query, last, Format::Json).await.0
}

/// The id of an event.
pub fn id(event: &Value) -> String {
    event["eventId"].as_str().unwrap().to_owned()
}

/// The texts of messages, and the types of other events.
pub fn texts(events: &[Value]) -> Vec<&str> {
    let content = |event: &'_ Value| event["message"]["content"]["content"].is_string();
    let text = |event| if content(event) { &event["message"]["content"]["content"] } else { &event["type"] };
    events.iter().map(|event| text(event).as_str().unwrap()).collect()
}

/// How many rows the log has.
pub fn count_rows(world: &World) -> i64 {
    world.db.number("SELECT count(*) FROM events")
}

/// An error after which a batch may or may not have been committed.
/// The argument of `message` for an agent's message with this text.
pub fn message(session: &str, text: &str) -> Value {
    json!({"sid": session, "message": {"role": "agent", "content": text}})
}

/// Advances the clock until no attempt at a batch is left.
pub async fn exhaust_retries(world: &World) {
    for _ in 0..10 {
        run_until_idle().await;
        world.rt.set_now(world.now() + 5_000);
    }
    run_until_idle().await;
}

/// The first event of a new web client.
pub async fn first_event(world: &World, query: &str) -> Value {
    Web(world.try_subscribe(query, None, Format::Json).await.unwrap()).next_event().await
}
