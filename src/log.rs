//! Log lines: one JSON object for each fault. The platform adds the time and the hash of the namespace, and writes the line if its
//! level is high enough (docs/MONITORING.md "Logs").
//!
//! A log line contains no token, no content of a message, no query string, no title, and no name of a namespace.

use std::fmt::{self, Display, Formatter};

use sha2::{Digest as _, Sha256};
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::model::json::Json;

/// The most characters of a text in a line.
const MAX_TEXT_CHARS: usize = 300;
const DEFAULT_SAMPLES_PER_MILLION: u32 = 10_000;
/// The first bytes of the hash of a namespace that lines contain.
const HASH_BYTES: usize = 6;

/// How important a line is. The order is ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    pub level: Level,
    /// What happened, in kebab-case.
    pub event: &'static str,
    /// The other members as JSON text without braces; begins with a comma unless it is empty.
    pub members: String,
}

impl LogLine {
    pub fn new(level: Level, event: &'static str) -> Self {
        Self { level, event, members: String::new() }
    }

    pub fn number(self, name: &str, value: u64) -> Self {
        self.member(name, &value.to_string())
    }

    /// Adds a text, of which the first [`MAX_TEXT_CHARS`] are kept.
    pub fn text(self, name: &str, value: &str) -> Self {
        let end = value.char_indices().nth(MAX_TEXT_CHARS).map_or(value.len(), |(at, _)| at);
        self.member(name, Json::of(value.get(..end).unwrap_or_default()).text())
    }

    fn member(mut self, name: &str, json: &str) -> Self {
        self.members.push_str(&format!(r#","{name}":{json}"#));
        self
    }
}

impl Display for LogLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, r#"{{"event":"{}"{}}}"#, self.event, self.members)
    }
}

/// Parses `LOG_LEVEL` and `LOG_SAMPLE_RATE`. Returns the level, and how many of a million successful requests get a line.
pub fn parse_settings(level: Option<&str>, sample_rate: Option<&str>) -> Result<(Level, u32), String> {
    let level = level.map_or(Ok(Level::Info), |text| {
        let names = Level::VARIANTS.join("`, `");
        text.trim().parse().map_err(|_| format!("LOG_LEVEL must be one of `{names}`, but is `{text}`."))
    })?;
    let samples_per_million = sample_rate.map_or(Ok(DEFAULT_SAMPLES_PER_MILLION), |text| {
        let rate = parse_millionths(text.trim()).filter(|rate| *rate <= 1_000_000);
        rate.ok_or_else(|| format!("LOG_SAMPLE_RATE must be a number from 0 to 1, but is `{text}`."))
    })?;
    Ok((level, samples_per_million))
}

/// Parses a decimal number such as `0.01`, without the float parser of the standard library, which would add ten kilobytes to the worker.
fn parse_millionths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_plain = [whole, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let fraction = format!("{fraction:0<6}");
    let millionths: u32 = fraction.get(..6)?.parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(1_000_000)?.checked_add(millionths).filter(|_| is_plain)
}

/// Returns the hash by which log lines and metrics name a namespace: the first 12 hexadecimal digits of SHA-256.
pub fn hash_of_namespace(name: &str) -> String {
    Sha256::digest(name).iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_line_is_one_json_object_of_bounded_length() {
        let line = LogLine::new(Level::Warn, "push-failed").number("status", 503).text("reason", &"\n\"é".repeat(200));
        let parsed: Value = serde_json::from_str(&line.to_string()).unwrap();
        assert_eq!((parsed["event"].as_str(), parsed["status"].as_u64()), (Some("push-failed"), Some(503)));
        assert_eq!(parsed["reason"].as_str().unwrap(), "\n\"é".repeat(100));
        assert!(!line.to_string().contains('\n'));
    }

    #[test]
    fn settings_have_defaults_and_are_checked() {
        assert_eq!(parse_settings(None, None), Ok((Level::Info, 10_000)));
        for (rate, expected) in [("1", 1_000_000), ("1.0", 1_000_000), ("0", 0), ("0.25", 250_000), ("0.0000019", 1)] {
            assert_eq!(parse_settings(Some("error"), Some(rate)), Ok((Level::Error, expected)), "{rate}");
        }
        assert!(parse_settings(Some("verbose"), None).unwrap_err().contains("`debug`, `info`, `warn`, `error`"));
        for wrong in ["1.5", "-1", "+1", "NaN", "1%", "", ".", "1e-2", "0.é", "4295"] {
            assert!(parse_settings(None, Some(wrong)).unwrap_err().contains("LOG_SAMPLE_RATE"), "{wrong}");
        }
    }

    /// Computed with `printf default | sha256sum`.
    #[test]
    fn the_hash_of_a_namespace_is_the_beginning_of_its_sha256() {
        assert_eq!(hash_of_namespace("default"), "37a8eec1ce19");
    }
}
