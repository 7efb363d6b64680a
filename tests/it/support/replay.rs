//! Web clients that come back, and what they are told.

use serde_json::{Value, json};
use session_gateway_hub::hub::peers::subscription::Format;
use session_gateway_hub::store::DbError;

use super::cli::Cli;
use super::web::Web;
use super::{World, quiet};

/// The two kinds of event channel.
pub const FORMATS: [Format; 2] = [Format::Json, Format::Sse];
/// How long the log goes on after the last web client left, in milliseconds.
pub const TEN_MINUTES: u64 = 600_000;

/// A session with a CLI, and the query of a web client that hears all of it.
pub async fn live() -> (World, String, Cli, String) {
    let world = World::new();
    let session = world.session("/code").await;
    let cli = world.cli(&session).await;
    let query = format!("all=true&sessionId={session}");
    (world, session, cli, query)
}

/// Opens the event channel with the id of the last event heard; answers what the greeting says and the client.
pub async fn come_back(world: &World, query: &str, last: &str, format: Format) -> (String, Web) {
    let mut web = Web(world.try_subscribe(query, Some(last), format).await.unwrap());
    let greeting = web.event().await;
    assert_eq!(greeting["type"], "connection-changed");
    (greeting["data"]["resume"].as_str().unwrap().to_owned(), web)
}

/// What the greeting of one that comes back says.
pub async fn resume(world: &World, query: &str, last: &str) -> String {
    come_back(world, query, last, Format::Json).await.0
}

/// The id of an event.
pub fn id(event: &Value) -> String {
    event["eventId"].as_str().unwrap().to_owned()
}

/// What messages say, and the type of all else.
pub fn said(events: &[Value]) -> Vec<&str> {
    let words = |event: &'_ Value| event["message"]["content"]["content"].is_string();
    let say = |event| if words(event) { &event["message"]["content"]["content"] } else { &event["type"] };
    events.iter().map(|event| say(event).as_str().unwrap()).collect()
}

/// How many rows of events there are.
pub fn rows(world: &World) -> i64 {
    world.db.number("SELECT count(*) FROM events")
}

/// A fault after which nobody knows what became of a batch.
pub fn passing() -> DbError {
    DbError::Retryable("Network connection lost".into())
}

/// What a CLI sends for an agent that says this.
pub fn message(session: &str, text: &str) -> Value {
    json!({"sid": session, "message": {"role": "agent", "content": text}})
}

/// Lets every pause between two attempts at a batch pass.
pub async fn exhaust(world: &World) {
    for _ in 0..10 {
        quiet().await;
        world.rt.set_now(world.now() + 5_000);
    }
    quiet().await;
}

/// The greeting of a client that comes for the first time, and hears nothing else.
pub async fn web_greeting(world: &World, query: &str) -> Value {
    Web(world.try_subscribe(query, None, Format::Json).await.unwrap()).event().await
}
