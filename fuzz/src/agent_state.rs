//! Agent states: splitting and joining keeps their value, and a request is either pending or completed.

use serde_json::{Map, Value};
use session_gateway_hub::limits::MAX_PENDING_REQUESTS;
use session_gateway_hub::model::agent_state::MAX_REQUEST_ID_BYTES;
use session_gateway_hub::model::agent_state::{
    Answer, ReceivedState, Status, complete, complete_all, completed_at, count_pending, join, split,
};
use session_gateway_hub::model::json::Json;
use session_gateway_hub::model::large::VersionedField;

use super::value;

const ANSWER: Answer = Answer {
    completed_at: 9,
    status: Status::Denied,
    reason: None,
    mode: None,
    decision: None,
    allow_tools: None,
    answers: None,
};

pub fn run(text: &str) {
    let Ok(state) = Json::parse(text) else { return };
    let parts = match split(&state) {
        Ok(parts) => parts,
        Err(flaw) => {
            assert!(flaw.field.starts_with("agentState") && !flaw.message.is_empty());
            return;
        }
    };
    let joined = join_parts(&parts);
    let again = joined.as_ref().map(split).transpose().expect("a valid state").unwrap_or_default();
    let texts = |state: &ReceivedState<'_>| {
        state.completed.iter().map(|(id, entry)| (id.clone(), entry.get().to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(
        (&again.without_completed, texts(&again)),
        (&parts.without_completed, texts(&parts)),
        "split, joined and split again"
    );
    check_equal(&state, joined.as_ref());
    check_completion(&parts);
}

fn join_parts(parts: &ReceivedState<'_>) -> Option<Json> {
    join(parts.without_completed.as_ref(), parts.completed.iter().map(|(id, entry)| (id.as_str(), *entry)))
}

/// Compares the values of two states. An empty `completedRequests` may be missing.
fn check_equal(state: &Json, joined: Option<&Json>) {
    let (Some(mut before), Some(mut after)) =
        (value(state.text()), joined.map_or(Some(Value::Null), |joined| value(joined.text())))
    else {
        return;
    };
    for state in [&mut before, &mut after].into_iter().filter_map(Value::as_object_mut) {
        let is_empty = |completed: &Value| completed.is_null() || completed.as_object().is_some_and(Map::is_empty);
        if state.get("completedRequests").is_some_and(is_empty) {
            state.remove("completedRequests");
        }
    }
    assert_eq!(before, after);
}

fn check_completion(parts: &ReceivedState<'_>) {
    let pending = count_pending(parts.without_completed.as_ref());
    assert!(pending <= MAX_PENDING_REQUESTS);
    let Some(without_completed) = &parts.without_completed else { return };
    assert_eq!(
        count_pending(Some(&VersionedField::AgentState.excerpt(without_completed))),
        pending,
        "the excerpt of a large state has all pending requests"
    );
    let Some(all) = complete_all(without_completed, &ANSWER) else {
        assert_eq!(pending, 0);
        return;
    };
    assert_eq!(all.completed.len(), pending);
    assert_eq!(count_pending(all.without_completed.as_ref()), 0);
    for (id, entry) in &all.completed {
        assert!((1..=MAX_REQUEST_ID_BYTES).contains(&id.len()));
        assert_eq!(completed_at(entry.text()), Some(9));
        let (remaining, moved) = complete(without_completed, id, &ANSWER).expect("a pending request");
        assert_eq!((count_pending(Some(&remaining)), &moved), (pending - 1, entry), "the same as all at once");
        assert!(complete(&remaining, id, &ANSWER).is_none(), "it is no longer pending");
        split(&remaining).expect("a valid state");
    }
}
