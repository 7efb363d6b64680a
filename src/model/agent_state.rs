//! Agent state: the permission requests that wait, and those that were answered (PROTOCOL.md "Versioned updates").
//!
//! `completedRequests` is an audit record that only grows. It is kept apart from the rest: in memory, in rows of its
//! own, and in updates, which carry the entries that changed.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::value::RawValue;

use super::json::{Flaw, Json, JsonObject};

const REQUESTS: &str = "requests";
/// The name of the record in a state.
pub const COMPLETED: &str = "completedRequests";

/// How many requests may wait in one state.
pub const MAX_PENDING: usize = 1_000;
/// The longest id of a request, in bytes.
pub const MAX_REQUEST_ID: usize = 255;

/// An agent state taken apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    /// Everything but the completed requests; `None` when the state is null.
    pub base: Option<Json>,
    /// The completed requests by their ids, in the order they were written.
    pub completed: Vec<(String, Json)>,
}

/// How a request was answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// When it was answered, in Unix milliseconds.
    pub completed_at: u64,
    /// What became of the request.
    pub status: Status,
    /// Why it was denied, in the words of whoever did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The permission mode of the session from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// How far the answer goes; `None` for a request that was canceled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The tools that the agent may use from now on without asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_tools: Option<Vec<String>>,
    /// Answers to questions that the agent asked, opaque to the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Json>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Its session was over before anybody answered.
    #[default]
    Canceled,
    /// The agent may not.
    Denied,
    /// The agent may.
    Approved,
}

/// How far an answer goes (PROTOCOL.md "Permissions").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// This request only.
    Approved,
    /// This one and what comes next.
    ApprovedForSession,
    /// Not this one; the agent goes on.
    Denied,
    /// Not this one, and the agent stops its task.
    Abort,
}

/// Takes a state apart. The state is an object or null, and so are the two maps of requests.
pub fn split(state: &Json) -> Result<Parts, Flaw> {
    if state.is_null() {
        return Ok(Parts::default());
    }
    let mut object = JsonObject::checked("agentState", state.raw())?;
    let requests = requests_of(&object, REQUESTS)?;
    if requests.members().count() > MAX_PENDING {
        return Err(Flaw::new(format!("agentState.{REQUESTS}"), format!("must have at most {MAX_PENDING} entries")));
    }
    // What is read of a request when it is answered must be readable.
    for (id, request) in requests.members() {
        JsonObject::checked(&format!("agentState.{REQUESTS}.{id}"), request)?;
    }
    let completed = requests_of(&object, COMPLETED)?;
    let completed = completed.members().map(|(id, entry)| (id.to_owned(), Json::from(entry))).collect();
    // A large state that has none need not be there twice.
    let base = if object.remove(COMPLETED).is_some() { object.to_json() } else { state.clone() };
    Ok(Parts { base: Some(base), completed })
}

/// A map of requests; empty when it is missing or null.
fn requests_of<'a>(state: &JsonObject<'a>, name: &str) -> Result<JsonObject<'a>, Flaw> {
    let Some(map) = state.get(name).filter(|map| map.get() != "null") else { return Ok(JsonObject::default()) };
    let map = JsonObject::checked(&format!("agentState.{name}"), map)?;
    if map.members().any(|(id, _)| id.is_empty() || id.len() > MAX_REQUEST_ID) {
        return Err(Flaw::new(format!("agentState.{name}"), format!("must have ids of 1 to {MAX_REQUEST_ID} bytes")));
    }
    Ok(map)
}

/// Completed requests as one object; none when there are none.
pub fn record<'a>(completed: impl Iterator<Item = (&'a str, &'a Json)>) -> Option<Json> {
    let mut entries = JsonObject::default();
    for (id, value) in completed {
        entries.push(id, value.raw());
    }
    (!entries.is_empty()).then(|| entries.to_json())
}

/// Puts a state together again.
pub fn join<'a>(base: Option<&Json>, completed: impl Iterator<Item = (&'a str, &'a Json)>) -> Option<Json> {
    let Some(entries) = record(completed) else { return base.cloned() };
    let mut object = base.and_then(|base| JsonObject::parse(base.text())).unwrap_or_default();
    object.set(COMPLETED, entries.raw());
    Some(object.to_json())
}

/// How many requests wait for an answer.
pub fn pending(base: Option<&Json>) -> usize {
    waiting(base).map_or(0, |requests| requests.members().count())
}

/// How many bytes each request that waits has.
pub fn waiting_sizes(base: Option<&Json>) -> Vec<usize> {
    waiting(base).unwrap_or_default().members().map(|(_, request)| request.get().len()).collect()
}

/// A request for permission, as a notification tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The id of the request, the agent's own.
    pub id: String,
    /// The tool that the agent wants to use.
    pub tool: Option<String>,
}

/// The requests that wait in a state and did not wait in the one before, in the order of the state.
pub fn newly_asked(before: Option<&Json>, base: Option<&Json>) -> Vec<Asked> {
    let after = waiting(base).unwrap_or_default();
    let before = waiting(before).unwrap_or_default();
    let known: HashSet<&str> = before.members().map(|(id, _)| id).collect();
    after.members().filter(|(id, _)| !known.contains(id)).map(|(id, request)| asked_by(id, request)).collect()
}

/// Those of some requests that wait, in the order of the ids.
pub fn still_asked<'a>(base: Option<&Json>, ids: impl Iterator<Item = &'a str>) -> Vec<Asked> {
    let waiting = waiting(base).unwrap_or_default();
    ids.filter_map(|id| waiting.get(id).map(|request| asked_by(id, request))).collect()
}

fn asked_by(id: &str, request: &RawValue) -> Asked {
    let tool =
        JsonObject::parse(request.get()).and_then(|request| serde_json::from_str(request.get("tool")?.get()).ok());
    Asked { id: id.to_owned(), tool }
}

fn waiting(base: Option<&Json>) -> Option<JsonObject<'_>> {
    JsonObject::parse(JsonObject::parse(base?.text())?.get(REQUESTS)?.get())
}

/// Moves a request that waits: the state without it, and its entry among the completed. `None` when it does not wait.
pub fn complete(base: &Json, id: &str, answer: &Answer) -> Option<(Json, Json)> {
    let mut object = JsonObject::parse(base.text())?;
    let mut requests = JsonObject::parse(object.get(REQUESTS)?.get())?;
    let entry = completed(requests.remove(id)?, &JsonObject::parse(Json::of(answer).text())?);
    let requests = requests.to_json();
    object.set(REQUESTS, requests.raw());
    Some((object.to_json(), entry))
}

/// Moves all requests that wait, with the same answer. `None` when none does.
pub fn complete_all(base: &Json, answer: &Answer) -> Option<Parts> {
    let mut object = JsonObject::parse(base.text())?;
    let requests = JsonObject::parse(object.get(REQUESTS)?.get()).filter(|requests| !requests.is_empty())?;
    let answer = Json::of(answer);
    let answer = JsonObject::parse(answer.text())?;
    let moved = requests.members().map(|(id, request)| (id.to_owned(), completed(request, &answer))).collect();
    let none = JsonObject::default().to_json();
    object.set(REQUESTS, none.raw());
    Some(Parts { base: Some(object.to_json()), completed: moved })
}

/// A request with its answer.
fn completed(request: &RawValue, answer: &JsonObject<'_>) -> Json {
    let mut entry = JsonObject::parse(request.get()).unwrap_or_default();
    for (name, value) in answer.members() {
        entry.set(name, value);
    }
    entry.to_json()
}

/// When an entry was completed, as it says itself.
pub fn completed_at(entry: &Json) -> Option<u64> {
    JsonObject::parse(entry.text())?.get("completedAt")?.get().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn a_state_comes_apart_and_together_again() {
        let state = json(
            r#"{"controlledByUser":false,"requests":{"r":{"tool":"T"}},"completedRequests":{"b":{"n":1.0},"a":{}},"x":1}"#,
        );
        let parts = split(&state).unwrap();
        assert_eq!(
            parts.base.as_ref().unwrap().text(),
            r#"{"controlledByUser":false,"requests":{"r":{"tool":"T"}},"x":1}"#
        );
        assert_eq!(parts.completed.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        let whole = join(parts.base.as_ref(), parts.completed.iter().map(|(id, v)| (id.as_str(), v))).unwrap();
        assert!(whole.text().ends_with(r#","x":1,"completedRequests":{"b":{"n":1.0},"a":{}}}"#), "{}", whole.text());
    }

    #[test]
    fn null_stays_null_unless_something_was_completed() {
        assert_eq!(split(&json("null")).unwrap(), Parts { base: None, completed: Vec::new() });
        assert_eq!(join(None, std::iter::empty()), None);
        let entry = json("{}");
        assert_eq!(join(None, [("a", &entry)].into_iter()).unwrap().text(), r#"{"completedRequests":{"a":{}}}"#);
    }

    #[test]
    fn a_completed_request_keeps_what_was_asked_and_says_how_it_was_answered() {
        let base = json(r#"{"requests":{"r":{"tool":"Bash","arguments":{"n":1.50},"createdAt":5},"s":{}}}"#);
        let answer =
            Answer { completed_at: 9, status: Status::Denied, decision: Some(Decision::Abort), ..Answer::default() };
        let (left, entry) = complete(&base, "r", &answer).unwrap();
        assert_eq!(left.text(), r#"{"requests":{"s":{}}}"#);
        assert_eq!(
            entry.text(),
            r#"{"tool":"Bash","arguments":{"n":1.50},"createdAt":5,"completedAt":9,"status":"denied","decision":"abort"}"#
        );
        assert_eq!(completed_at(&entry), Some(9));
        assert!(complete(&base, "t", &answer).is_none());
        assert_eq!(pending(Some(&base)), 2);
    }

    #[test]
    fn odd_states_have_no_requests() {
        for odd in ["{}", r#"{"requests":null}"#, r#"{"requests":[1]}"#, r#"{"requests":7}"#] {
            assert_eq!(pending(Some(&json(odd))), 0, "{odd}");
            assert!(complete(&json(odd), "r", &Answer::default()).is_none(), "{odd}");
            assert!(complete_all(&json(odd), &Answer::default()).is_none(), "{odd}");
        }
    }

    #[test]
    fn all_that_waits_moves_at_once_in_its_order() {
        let base = json(r#"{"x":1.0,"requests":{"b":{"tool":"T"},"a":{"n":1.50}},"y":2}"#);
        let answer = Answer { completed_at: 9, ..Answer::default() };
        let parts = complete_all(&base, &answer).unwrap();
        assert_eq!(parts.base.unwrap().text(), r#"{"x":1.0,"requests":{},"y":2}"#);
        let moved: Vec<(&str, &str)> = parts.completed.iter().map(|(id, entry)| (id.as_str(), entry.text())).collect();
        let [b, a] = [
            r#"{"tool":"T","completedAt":9,"status":"canceled"}"#,
            r#"{"n":1.50,"completedAt":9,"status":"canceled"}"#,
        ];
        assert_eq!(moved, [("b", b), ("a", a)]);
        assert!(complete_all(&json(r#"{"requests":{}}"#), &answer).is_none());
    }

    #[test]
    fn what_cannot_be_taken_apart_is_named() {
        let long = "x".repeat(MAX_REQUEST_ID + 1);
        let many = |count: usize| {
            let requests: Vec<String> = (0..count).map(|n| format!(r#""{n}":{{}}"#)).collect();
            format!(r#"{{"requests":{{{}}}}}"#, requests.join(","))
        };
        let flaws = [
            ("[]", "agentState"),
            (r#"{"\ud800":1}"#, "agentState"),
            (r#"{"requests":{},"requests":{}}"#, "agentState.requests"),
            (r#"{"requests":[]}"#, "agentState.requests"),
            (r#"{"requests":{"\ud800":{}}}"#, "agentState.requests"),
            (r#"{"requests":{"":{}}}"#, "agentState.requests"),
            (r#"{"requests":{"r":5}}"#, "agentState.requests.r"),
            (r#"{"requests":{"r":{"\udfff":5}}}"#, "agentState.requests.r"),
            (r#"{"completedRequests":5}"#, "agentState.completedRequests"),
            (r#"{"completedRequests":{"\ud800":{}}}"#, "agentState.completedRequests"),
            (r#"{"completedRequests":{"a":{},"a":{}}}"#, "agentState.completedRequests.a"),
            (&format!(r#"{{"requests":{{"{long}":{{}}}}}}"#), "agentState.requests"),
            (&format!(r#"{{"completedRequests":{{"{long}":{{}}}}}}"#), "agentState.completedRequests"),
            (&many(MAX_PENDING + 1), "agentState.requests"),
        ];
        for (state, field) in flaws {
            let flaw = split(&json(state)).unwrap_err();
            assert_eq!(flaw.field, field, "{state}");
        }
        assert!(split(&json(&many(MAX_PENDING))).is_ok());
        let odd = json(r#"{"requests":null,"completedRequests":null,"n":"\ud800"}"#);
        assert_eq!(split(&odd).unwrap().base.unwrap().text(), r#"{"requests":null,"n":"\ud800"}"#);
    }
}
