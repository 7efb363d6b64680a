//! Agent state: the permission requests that wait, and those that were answered (spec "AgentState").
//!
//! `completedRequests` is an audit record that only grows. It is kept apart from the rest: in memory, in rows of its
//! own, and in updates, which carry the entries that changed.

use serde::Serialize;

use super::json::{Json, JsonObject};

const REQUESTS: &str = "requests";
const COMPLETED: &str = "completedRequests";

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
    pub completed_at: u64,
    pub status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Json>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[default]
    Canceled,
    Denied,
    Approved,
}

/// How far an answer goes (spec "Decision meanings").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Approved,
    ApprovedForSession,
    Denied,
    Abort,
}

/// Takes a state apart. The state is an object or null.
pub fn split(state: &Json) -> Result<Parts, serde_json::Error> {
    let Some(mut object) = JsonObject::parse(state.text()) else {
        return Ok(Parts { base: None, completed: Vec::new() });
    };
    let completed = object.remove(COMPLETED).and_then(|value| JsonObject::parse(value.get()));
    let completed =
        completed.iter().flat_map(|c| c.members()).map(|(id, value)| (id.to_owned(), Json::from(value))).collect();
    Ok(Parts { base: Some(object.to_json()?), completed })
}

/// Puts a state together again.
pub fn join<'a>(
    base: Option<&Json>,
    completed: impl Iterator<Item = (&'a str, &'a Json)>,
) -> Result<Option<Json>, serde_json::Error> {
    let mut entries = JsonObject::default();
    for (id, value) in completed {
        entries.push(id, value.raw());
    }
    if entries.is_empty() {
        return Ok(base.cloned());
    }
    let entries = entries.to_json()?;
    let mut object = base.and_then(|base| JsonObject::parse(base.text())).unwrap_or_default();
    object.set(COMPLETED, entries.raw());
    object.to_json().map(Some)
}

/// The ids of the requests that wait for an answer.
pub fn pending(base: Option<&Json>) -> Vec<String> {
    let object = base.and_then(|base| JsonObject::parse(base.text()));
    let requests = object.and_then(|object| JsonObject::parse(object.get(REQUESTS)?.get()));
    requests.iter().flat_map(|r| r.members()).map(|(id, _)| id.to_owned()).collect()
}

/// Moves a request that waits: the state without it, and its entry among the completed. `None` when it does not wait.
pub fn complete(base: &Json, id: &str, answer: &Answer) -> Option<(Json, Json)> {
    let mut object = JsonObject::parse(base.text())?;
    let mut requests = JsonObject::parse(object.get(REQUESTS)?.get())?;
    let request = requests.remove(id)?;
    let answer = Json::of(answer).ok()?;
    let mut entry = JsonObject::parse(request.get()).unwrap_or_default();
    for (name, value) in JsonObject::parse(answer.text())?.members() {
        entry.set(name, value);
    }
    let entry = entry.to_json().ok()?;
    let requests = requests.to_json().ok()?;
    object.set(REQUESTS, requests.raw());
    Some((object.to_json().ok()?, entry))
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
        let whole = join(parts.base.as_ref(), parts.completed.iter().map(|(id, v)| (id.as_str(), v))).unwrap().unwrap();
        assert!(whole.text().ends_with(r#","x":1,"completedRequests":{"b":{"n":1.0},"a":{}}}"#), "{}", whole.text());
    }

    #[test]
    fn null_stays_null_unless_something_was_completed() {
        assert_eq!(split(&json("null")).unwrap(), Parts { base: None, completed: Vec::new() });
        assert_eq!(join(None, std::iter::empty()).unwrap(), None);
        let entry = json("{}");
        assert_eq!(
            join(None, [("a", &entry)].into_iter()).unwrap().unwrap().text(),
            r#"{"completedRequests":{"a":{}}}"#
        );
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
        assert_eq!(pending(Some(&base)), ["r", "s"]);
    }

    #[test]
    fn odd_states_have_no_requests() {
        for odd in ["{}", r#"{"requests":null}"#, r#"{"requests":[1]}"#, r#"{"requests":7}"#] {
            assert!(pending(Some(&json(odd))).is_empty(), "{odd}");
            assert!(complete(&json(odd), "r", &Answer::default()).is_none(), "{odd}");
        }
    }
}
