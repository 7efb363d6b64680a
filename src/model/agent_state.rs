//! Agent state: the pending and the completed permission requests of a session.
//!
//! `completedRequests` can become large, so the hub separates it from the rest of the state ([`AgentState::without_completed`]). In
//! memory, it is a map of its own. In the database, each completed request is a row, and an update writes only the requests that changed.
//! Source: PROTOCOL-CLI.md "Versioned updates".

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::json::{FieldError, Json, JsonObject, parse_whole};
use super::session::Session;
use crate::limits::MAX_PENDING_REQUESTS;

/// The longest id of a permission request, in bytes.
pub const MAX_REQUEST_ID_BYTES: usize = 255;

/// The first plausible time of a request: the year 2020, in Unix milliseconds.
const MIN_REQUEST_TIME: u64 = 1_577_836_800_000;
/// How far a plausible time of a request may be in the future, in milliseconds, because clocks differ.
pub const MAX_CLOCK_DIFFERENCE_MS: u64 = 60_000;

const REQUESTS: &str = "requests";
pub const COMPLETED_REQUESTS: &str = "completedRequests";

/// An agent state in two parts: the completed requests, and the state without them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentState {
    /// The state without its completed requests; `None` when the state is null.
    pub without_completed: Option<Json>,
    /// The completed requests with their ids, in the order of the state.
    pub completed: Vec<(String, Json)>,
}

/// An [`AgentState`] whose completed requests are not copied, but refer to the received text.
#[derive(Debug, Default)]
pub struct ReceivedState<'a> {
    pub without_completed: Option<Json>,
    pub completed: Vec<(String, &'a RawValue)>,
}

/// A permission request that is no longer pending.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedRequest {
    pub session_id: String,
    /// The agent's id of the request, unique in the session.
    pub request_id: String,
    /// Unix milliseconds. Completed requests are ordered by this time.
    pub completed_at: u64,
    pub value: Json,
}

/// The fields that are added to a request when it is completed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Unix milliseconds.
    pub completed_at: u64,
    pub status: Status,
    /// Why the request was denied, as free text of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// `None` for a canceled request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The tools that the agent may use from now on without asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_tools: Option<Vec<String>>,
    /// Answers to the agent's questions, opaque to the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Json>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The session ended before the request was answered.
    #[default]
    Canceled,
    Denied,
    Approved,
}

/// The decision of an answer, with its scope (PROTOCOL-WEB.md "Permissions").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Approved,
    ApprovedForSession,
    /// Denies this request; the agent continues its task.
    Denied,
    /// Denies this request; the agent stops its task.
    Abort,
}

/// Separates the completed requests of a state. The state and its two maps must each be an object or null.
pub fn split(state: &Json) -> Result<ReceivedState<'_>, FieldError> {
    if state.is_null() {
        return Ok(ReceivedState::default());
    }
    let object = JsonObject::parse_strict("agentState", state.raw())?;
    let received = request_map(&object, REQUESTS)?;
    // Some CLIs remove a request by setting it to null.
    let requests: JsonObject<'_> = received.members().filter(|(_, request)| request.get() != "null").collect();
    if requests.members().count() > MAX_PENDING_REQUESTS {
        let rule = format_args!("must have at most {MAX_PENDING_REQUESTS} entries");
        return Err(FieldError::of_rule(&format!("agentState.{REQUESTS}"), rule));
    }
    for (id, request) in requests.members() {
        JsonObject::parse_strict(&format!("agentState.{REQUESTS}.{id}"), request)?;
    }
    let completed = request_map(&object, COMPLETED_REQUESTS)?;
    let completed: Vec<(String, &RawValue)> = completed.members().map(|(id, entry)| (id.to_owned(), entry)).collect();
    let has_removed = requests.members().count() < received.members().count();
    let pending = has_removed.then(|| requests.to_json());
    let mut object = object;
    if let Some(pending) = &pending {
        object.set(REQUESTS, pending.raw());
    }
    // Without a change the clone shares the text, which may be large.
    let is_changed = object.remove(COMPLETED_REQUESTS).is_some() || pending.is_some();
    let without_completed = if is_changed { object.to_json() } else { state.clone() };
    Ok(ReceivedState { without_completed: Some(without_completed), completed })
}

/// Parses a map of requests; empty when it is missing or null.
fn request_map<'a>(state: &JsonObject<'a>, name: &str) -> Result<JsonObject<'a>, FieldError> {
    let Some(map) = state.get(name).filter(|map| map.get() != "null") else { return Ok(JsonObject::default()) };
    let map = JsonObject::parse_strict(&format!("agentState.{name}"), map)?;
    if map.members().any(|(id, _)| id.is_empty() || id.len() > MAX_REQUEST_ID_BYTES) {
        let rule = format_args!("must have ids of 1 to {MAX_REQUEST_ID_BYTES} bytes");
        return Err(FieldError::of_rule(&format!("agentState.{name}"), rule));
    }
    Ok(map)
}

/// Returns the completed requests as one object, or `None` when there are none.
pub fn completed_to_json<'a>(completed: impl Iterator<Item = (&'a str, &'a RawValue)>) -> Option<Json> {
    let entries: JsonObject<'_> = completed.collect();
    (!entries.is_empty()).then(|| entries.to_json())
}

pub fn join<'a>(
    without_completed: Option<&Json>,
    completed: impl Iterator<Item = (&'a str, &'a RawValue)>,
) -> Option<Json> {
    let Some(entries) = completed_to_json(completed) else { return without_completed.cloned() };
    let mut object = JsonObject::of(without_completed);
    object.set(COMPLETED_REQUESTS, entries.raw());
    Some(object.to_json())
}

/// Returns since when a pending request waits, in Unix milliseconds: its `createdAt` if that is plausible, else the time at which the
/// hub stored the request. If an earlier version of the hub stored no time, returns the time at which the agent began to work.
pub fn request_time(session: &Session, id: &str, request: &RawValue, now: u64) -> u64 {
    let times = JsonObject::of(session.request_times.as_ref());
    let stored_at = times.get(id).and_then(|time| parse_whole(time.get()));
    stored_at.or_else(|| plausible_time(request, now)).unwrap_or(session.thinking_at)
}

/// Returns the `createdAt` of a request, unless it is before 2020 or in the future. The SQL in `store::inbox` repeats the limits.
fn plausible_time(request: &RawValue, now: u64) -> Option<u64> {
    let created_at = parse_whole(JsonObject::parse(request.get())?.get("createdAt")?.get())?;
    (MIN_REQUEST_TIME..=now + MAX_CLOCK_DIFFERENCE_MS).contains(&created_at).then_some(created_at)
}

/// Returns a time for each pending request without a plausible time: the time in `before`, else `now`. `None` without such requests.
pub fn request_times(state: Option<&Json>, before: Option<&Json>, now: u64) -> Option<Json> {
    let before = JsonObject::of(before);
    let current_time = Json::of(&now);
    let mut times = JsonObject::default();
    for (id, request) in pending_map(state).members() {
        match before.get(id) {
            Some(time) => times.push(id, time),
            None if plausible_time(request, now).is_none() => times.push(id, current_time.raw()),
            None => {}
        }
    }
    (!times.is_empty()).then(|| times.to_json())
}

pub fn count_pending(state: Option<&Json>) -> usize {
    pending_map(state).members().count()
}

/// Whether an answer to a pending request chooses an approval after which the agent never asks (PROTOCOL-WEB.md "Permissions").
pub fn chooses_never_asking(state: Option<&Json>, id: &str, answers: &Json) -> bool {
    let choices = || {
        let request = pending_map(state).object(id)?;
        serde_json::from_str::<Vec<Value>>(request.get("choices")?.get()).ok()
    };
    let (Some(answers), Some(choices)) = (answers.read::<Value>(), choices()) else { return false };
    let chosen = answers.get("choice").map(|chosen| chosen.get("answers").unwrap_or(chosen)).and_then(Value::as_array);
    let never_asks = |choice: &&Value| choice.get("neverAsks") == Some(&Value::Bool(true));
    let is_chosen = |choice: &Value| chosen.is_some_and(|ids| ids.iter().any(|id| Some(id) == choice.get("id")));
    choices.iter().filter(never_asks).any(is_chosen)
}

/// The parts of a pending request that a notification shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRequest {
    /// The agent's id of the request.
    pub id: String,
    pub tool: Option<String>,
}

/// Returns the requests that are pending in `state` and not in `before`, in the order of `state`.
pub fn new_requests(before: Option<&Json>, state: Option<&Json>) -> Vec<PendingRequest> {
    let after = pending_map(state);
    let before = pending_map(before);
    let known: HashSet<&str> = before.members().map(|(id, _)| id).collect();
    after.members().filter(|(id, _)| !known.contains(id)).map(|(id, request)| pending_request(id, request)).collect()
}

/// Returns the requests with these ids that are still pending, in the order of `ids`.
pub fn find_pending<'a>(state: Option<&Json>, ids: impl Iterator<Item = &'a str>) -> Vec<PendingRequest> {
    let pending = pending_map(state);
    ids.filter_map(|id| pending.get(id).map(|request| pending_request(id, request))).collect()
}

fn pending_request(id: &str, request: &RawValue) -> PendingRequest {
    let tool = JsonObject::parse(request.get()).and_then(|request| request.text("tool"));
    PendingRequest { id: id.to_owned(), tool }
}

/// Returns the pending requests by id, in the order of the state.
pub fn pending_map(state: Option<&Json>) -> JsonObject<'_> {
    JsonObject::of(state).object(REQUESTS).unwrap_or_default()
}

/// Completes a pending request. Returns the state without it, and the completed entry; `None` when it is not pending.
pub fn complete(state: &Json, id: &str, answer: &Answer) -> Option<(Json, Json)> {
    let mut object = JsonObject::parse(state.text())?;
    let mut requests = object.object(REQUESTS)?;
    let entry = with_answer(requests.remove(id)?, &JsonObject::parse(Json::of(answer).text())?);
    let requests = requests.to_json();
    object.set(REQUESTS, requests.raw());
    Some((object.to_json(), entry))
}

/// Completes all pending requests with the same answer. Returns `None` when none is pending.
pub fn complete_all(state: &Json, answer: &Answer) -> Option<AgentState> {
    let mut object = JsonObject::parse(state.text())?;
    let requests = object.object(REQUESTS).filter(|requests| !requests.is_empty())?;
    let answer = Json::of(answer);
    let answer = JsonObject::parse(answer.text())?;
    let completed = requests.members().map(|(id, request)| (id.to_owned(), with_answer(request, &answer))).collect();
    let empty = JsonObject::default().to_json();
    object.set(REQUESTS, empty.raw());
    Some(AgentState { without_completed: Some(object.to_json()), completed })
}

fn with_answer(request: &RawValue, answer: &JsonObject<'_>) -> Json {
    let mut entry = JsonObject::parse(request.get()).unwrap_or_default();
    for (name, value) in answer.members() {
        entry.set(name, value);
    }
    entry.to_json()
}

/// Returns the time of a completed request in Unix milliseconds: its `completedAt`, else its `createdAt`.
pub fn completed_at(entry: &str) -> Option<u64> {
    let entry = JsonObject::parse(entry)?;
    ["completedAt", "createdAt"].iter().find_map(|name| parse_whole(entry.get(name)?.get()))
}

/// Shortens a completed request of more than `limit` bytes: its largest fields, usually `arguments`, are replaced by their lengths
/// (`argumentsBytes`). Returns `None` within the limit, and an empty object if that is not enough.
pub fn shorten(entry: &str, limit: usize) -> Option<Json> {
    let mut excess = entry.len().checked_sub(limit).filter(|excess| *excess > 0)?;
    let object = JsonObject::parse(entry).unwrap_or_default();
    let mut sizes: Vec<usize> = object.members().map(|(_, value)| value.get().len()).collect();
    sizes.sort_unstable();
    let mut min_replaced = usize::MAX;
    while let Some(size) = sizes.pop().filter(|size| excess > 0 && *size > LENGTH_FIELD_BYTES) {
        min_replaced = size;
        excess = excess.saturating_sub(size - LENGTH_FIELD_BYTES);
    }
    let lengths: Vec<Json> = object.members().map(|(_, value)| Json::of(&value.get().len())).collect();
    let mut shortened = JsonObject::default();
    for ((name, value), length) in object.members().zip(&lengths) {
        match value.get().len() >= min_replaced {
            true => shortened.push(&format!("{name}Bytes"), length.raw()),
            false => shortened.push(name, value),
        }
    }
    let shortened = shortened.to_json();
    Some(if shortened.text().len() <= limit { shortened } else { JsonObject::default().to_json() })
}

/// The most bytes that a replaced field takes: `Bytes` at the end of the name, and the length in place of the value.
const LENGTH_FIELD_BYTES: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn hundreds_of_thousands_of_removed_requests_are_read_in_one_pass() {
        let removed: Vec<String> = (0..300_000).map(|id| format!(r#""{id:06x}":null"#)).collect();
        let state = json(&format!(r#"{{"requests":{{{},"r":{{}}}}}}"#, removed.join(",")));
        assert_eq!(split(&state).unwrap().without_completed.unwrap().text(), r#"{"requests":{"r":{}}}"#);
    }

    #[test]
    fn states_of_another_shape_have_no_requests() {
        for other in ["{}", r#"{"requests":null}"#, r#"{"requests":[1]}"#, r#"{"requests":7}"#] {
            assert_eq!(count_pending(Some(&json(other))), 0, "{other}");
            assert!(complete(&json(other), "r", &Answer::default()).is_none(), "{other}");
            assert!(complete_all(&json(other), &Answer::default()).is_none(), "{other}");
        }
    }

    #[test]
    fn the_largest_fields_of_a_shortened_request_are_replaced_by_their_sizes() {
        let entry =
            |size: usize| format!(r#"{{"tool":"Write","arguments":{{"x":"{}"}},"completedAt":9}}"#, "y".repeat(size));
        assert_eq!(shorten(&entry(10), 1_000), None);
        let short = shorten(&entry(1_000), 1_000).unwrap();
        assert_eq!(short.text(), r#"{"tool":"Write","argumentsBytes":1008,"completedAt":9}"#);
        assert_eq!(shorten(short.text(), 1_000), None);
        let many: Vec<String> = (0..100).map(|n| format!(r#""f{n}":"{}""#, "z".repeat(n))).collect();
        let short = shorten(&format!("{{{}}}", many.join(",")), 3_000).unwrap();
        assert!(short.text().len() <= 3_000 && short.text().contains(r#""f40":"z"#), "{short:?}");
        for hopeless in [format!(r#"{{"{}":1}}"#, "n".repeat(2_000)), format!("[{}1]", "1,".repeat(1_000))] {
            assert_eq!(shorten(&hopeless, 1_000).unwrap().text(), "{}");
        }
    }

    #[test]
    fn the_time_of_a_completed_request_is_when_it_was_completed_or_else_created() {
        assert_eq!(completed_at(r#"{"createdAt":5,"completedAt":9}"#), Some(9));
        assert_eq!(completed_at(r#"{"createdAt":5,"completedAt":"9"}"#), Some(5));
        assert_eq!((completed_at("{}"), completed_at("5")), (None, None));
    }
}
