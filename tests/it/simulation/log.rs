//! The log of a run, which a failure prints.

#[derive(Default)]
pub struct Log {
    pub lines: Vec<String>,
    /// Whether the log contains all details, not only the steps.
    pub verbose: bool,
}

pub fn truncate(mut text: String) -> String {
    let longest = text.floor_char_boundary(4_000);
    if longest < text.len() {
        text.truncate(longest);
        text.push_str("...");
    }
    text
}
