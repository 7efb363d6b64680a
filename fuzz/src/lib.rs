//! The bodies of the fuzz targets: each takes a text as somebody might send it, and panics when a property of the code
//! that reads it does not hold.
//!
//! cargo-fuzz runs them through `main.rs` (`npm run fuzz`); `tests/it/fuzz.rs` of the hub runs them over their seeds with
//! the stable toolchain.

mod access_token;
mod agent_state;
mod cli_event;
mod engineio;
mod json;
mod push_endpoint;
mod query;
mod retry_after;
mod socketio;
mod todo;
mod vocabulary;

/// The body of a target.
type Body = fn(&str);

/// Every target by its name.
pub const TARGETS: [(&str, Body); 11] = [
    ("access_token", access_token::run),
    ("agent_state", agent_state::run),
    ("cli_event", cli_event::run),
    ("engineio", engineio::run),
    ("json", json::run),
    ("push_endpoint", push_endpoint::run),
    ("query", query::run),
    ("retry_after", retry_after::run),
    ("socketio", socketio::run),
    ("todo", todo::run),
    ("vocabulary", vocabulary::run),
];

/// Runs the body of a target on one input.
pub fn run(target: &str, input: &str) {
    let known = TARGETS.iter().find(|(name, _)| *name == target);
    let (_, body) = known.unwrap_or_else(|| panic!("there is no fuzz target {target}"));
    body(input);
}

/// The input's lines, as many as a target wants; those that are missing are empty, and the last takes the rest.
fn lines<const N: usize>(input: &str) -> [&str; N] {
    let mut parts = input.splitn(N, '\n');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// The text as `serde_json` reads it into memory, for comparison; `None` when it is nested too deep for that, or has a
/// number too large.
fn value(text: &str) -> Option<serde_json::Value> {
    serde_json::from_str(text).ok()
}
