//! The bodies of the fuzz targets. Each takes an untrusted text and panics if a property of the code that parses it does not
//! hold.
//!
//! cargo-fuzz runs them through `main.rs` (`npm run fuzz`). `tests/it/fuzz.rs` runs them on their seeds with the stable
//! toolchain.

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

type Body = fn(&str);

/// All targets with their names.
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

/// Splits the input into `N` lines. Missing lines are empty; the last one takes the rest of the input.
fn lines<const N: usize>(input: &str) -> [&str; N] {
    let mut parts = input.splitn(N, '\n');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// The text as parsed by `serde_json`, for comparison; `None` if it is not JSON, is nested too deep or has a number that is
/// too large.
fn value(text: &str) -> Option<serde_json::Value> {
    serde_json::from_str(text).ok()
}
