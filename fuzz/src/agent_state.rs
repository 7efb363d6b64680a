//! Agent states: what is taken apart comes together again and says the same, and a request is either waiting or answered.

use serde_json::{Map, Value};
use session_gateway_hub::model::agent_state::{
    AgentState, Answer, MAX_PENDING_REQUESTS, MAX_REQUEST_ID_BYTES, Status, complete, complete_all, completed_at,
    count_pending, join, split,
};
use session_gateway_hub::model::json::Json;
use session_gateway_hub::model::large::Field;

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
            assert!(flaw.field.starts_with("agentState") && !flaw.reason.is_empty());
            return;
        }
    };
    let whole = together(&parts);
    let again = whole.as_ref().map(split).transpose().expect("it came apart before").unwrap_or_default();
    assert_eq!(again, parts, "a second time");
    says_the_same(&state, whole.as_ref());
    moves(&parts);
}

fn together(parts: &AgentState) -> Option<Json> {
    join(parts.base.as_ref(), parts.completed.iter().map(|(id, entry)| (id.as_str(), entry)))
}

/// A state means what it meant; only an empty record of completed requests may be gone.
fn says_the_same(state: &Json, whole: Option<&Json>) {
    let (Some(mut before), Some(mut after)) =
        (value(state.text()), whole.map_or(Some(Value::Null), |w| value(w.text())))
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

fn moves(parts: &AgentState) {
    let waiting = count_pending(parts.base.as_ref());
    assert!(waiting <= MAX_PENDING_REQUESTS);
    let Some(base) = &parts.base else { return };
    assert_eq!(
        count_pending(Some(&Field::AgentState.excerpt(base))),
        waiting,
        "the head of a large state has all that waits"
    );
    let Some(all) = complete_all(base, &ANSWER) else {
        assert_eq!(waiting, 0);
        return;
    };
    assert_eq!(all.completed.len(), waiting);
    assert_eq!(count_pending(all.base.as_ref()), 0);
    for (id, entry) in &all.completed {
        assert!((1..=MAX_REQUEST_ID_BYTES).contains(&id.len()));
        assert_eq!(completed_at(entry), Some(9));
        let (left, moved) = complete(base, id, &ANSWER).expect("it waits");
        assert_eq!((count_pending(Some(&left)), &moved), (waiting - 1, entry), "one by one or all at once");
        assert!(complete(&left, id, &ANSWER).is_none(), "it waits no more");
        split(&left).expect("what is left is a state");
    }
}
