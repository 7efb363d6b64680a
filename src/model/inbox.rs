//! What waits for a person: permission requests, and sessions whose agents became ready or failed (PROTOCOL-WEB.md "GET /api/inbox").

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::agent_state::{pending_map, request_time};
use super::json::Json;
use super::session::Session;

/// A request above this size is listed without its arguments, in bytes. The SQL in `store::inbox` repeats the number.
pub const MAX_LISTED_REQUEST_BYTES: usize = 65_536;
/// The longest listed error of an agent, in characters. The SQL in `store::inbox` repeats the number.
const MAX_ERROR_CHARS: usize = 1_000;

/// The position of an item: since when it waits, the id of the session, and the id of the request or an empty text.
pub type Position = (u64, String, String);

#[derive(Debug)]
pub struct Item<'a> {
    pub position: Position,
    pub subject: Subject<'a>,
}

/// What an item shows besides its session.
#[derive(Debug)]
pub enum Subject<'a> {
    Request(Cow<'a, RawValue>),
    Ready,
    /// The agent cannot be started, with the reason.
    Failed(Option<Cow<'a, str>>),
}

/// Returns the items of a session, in any order. `now`: see [`request_time`].
pub fn items(session: &Session, now: u64) -> Vec<Item<'_>> {
    let position = |since, request: &str| (since, session.id.clone(), request.to_owned());
    let pending = pending_map(session.agent_state.json());
    let requests = pending.members().map(|(id, request)| {
        let since = request_time(session, id, request, now);
        Item { position: position(since, id), subject: Subject::Request(Cow::Borrowed(request)) }
    });
    let unseen = session.unseen_since.map(|since| {
        let fields = session.metadata_fields();
        let error = || fields.agent_error().map(|error| error.chars().take(MAX_ERROR_CHARS).collect());
        let subject = if fields.is_failed() { Subject::Failed(error().map(Cow::Owned)) } else { Subject::Ready };
        Item { position: position(since, ""), subject }
    });
    requests.chain(unseen).collect()
}

impl Item<'_> {
    /// Returns the item without a copy of its subject.
    pub fn reborrow(&self) -> Item<'_> {
        let subject = match &self.subject {
            Subject::Request(request) => Subject::Request(Cow::Borrowed(request)),
            Subject::Ready => Subject::Ready,
            Subject::Failed(error) => Subject::Failed(error.as_deref().map(Cow::Borrowed)),
        };
        Item { position: self.position.clone(), subject }
    }

    /// Appends the item as JSON. `session` is the JSON of the session's summary.
    pub fn write(&self, json: &mut String, session: &str) {
        let (since, _, request_id) = &self.position;
        let kind = match self.subject {
            Subject::Request(_) => "request",
            Subject::Ready => "ready",
            Subject::Failed(_) => "failed",
        };
        json.push_str(&format!(r#"{{"kind":"{kind}","since":{since},"session":{session}"#));
        match &self.subject {
            Subject::Request(request) => {
                let request = shorten(request);
                json.extend([r#","requestId":"#, Json::of(request_id).text(), r#","request":"#, request.get()]);
            }
            Subject::Failed(Some(error)) => json.extend([r#","error":"#, Json::of(error.as_ref()).text()]),
            Subject::Failed(None) | Subject::Ready => {}
        }
        json.push('}');
    }
}

fn shorten(request: &RawValue) -> Cow<'_, RawValue> {
    match request.get().len() > MAX_LISTED_REQUEST_BYTES {
        true => Cow::Owned(super::large::excerpt_request(request.get()).raw().to_owned()),
        false => Cow::Borrowed(request),
    }
}
