//! Writing log lines.

use std::fmt::Display;

use super::glue;
use crate::log::{Level, LogLine};

/// Writes a line. `hash` is the hash of the namespace that the line is about.
pub fn write_line(hash: Option<&str>, line: &LogLine) {
    let namespace = hash.map(|hash| format!(r#","namespace":"{hash}""#)).unwrap_or_default();
    glue::log_line(line.level.into(), line.event, &(namespace + &line.members));
}

/// Writes a line of the level `error` about a fault.
pub fn log_error(event: &'static str, error: &dyn Display) {
    write_line(None, &LogLine::new(Level::Error, event).text("error", &error.to_string()));
}
