//! The event `session-alive`: a keep-alive, whose invalid optional fields are ignored.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::limits::MAX_KEYWORD_BYTES;
use crate::model::session::ControlMode;

/// The longest activity, in characters. The rest of a longer activity is cut off.
const MAX_ACTIVITY_CHARS: usize = 200;

/// `session-alive`: a keep-alive with the current state of the session. The field `time` is ignored, because the clock of the
/// CLI may be wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionAlive {
    pub sid: String,
    pub thinking: Option<bool>,
    pub mode: Option<ControlMode>,
    pub permission_mode: Option<String>,
    pub model_mode: Option<String>,
    /// What the agent is doing: the first line of the received text, at most [`MAX_ACTIVITY_CHARS`].
    pub activity: Option<String>,
    /// The names of the invalid fields. An invalid field is `None` above, and the keep-alive is still valid.
    pub ignored: Vec<&'static str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionAliveFields<'a> {
    sid: String,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    mode: Option<&'a RawValue>,
    #[serde(borrow)]
    permission_mode: Option<&'a RawValue>,
    #[serde(borrow)]
    model_mode: Option<&'a RawValue>,
    #[serde(borrow)]
    activity: Option<&'a RawValue>,
}

impl SessionAliveFields<'_> {
    pub(super) fn read(self) -> SessionAlive {
        fn read_field<T>(
            ignored: &mut Vec<&'static str>,
            name: &'static str,
            field: Option<&RawValue>,
            read: impl Fn(&str) -> Option<T>,
        ) -> Option<T> {
            let value = read(field?.get());
            if value.is_none() {
                ignored.push(name);
            }
            value
        }
        let read_keyword = |text: &str| {
            let keyword: String = serde_json::from_str(text).ok()?;
            (keyword.len() <= MAX_KEYWORD_BYTES).then_some(keyword)
        };
        let read_line = |text: &str| {
            let text: String = serde_json::from_str(text).ok()?;
            let line = text.trim().lines().next().unwrap_or_default();
            Some(line.chars().take(MAX_ACTIVITY_CHARS).collect::<String>())
        };
        let mut ignored = Vec::new();
        SessionAlive {
            sid: self.sid,
            thinking: read_field(&mut ignored, "thinking", self.thinking, |text| serde_json::from_str(text).ok()),
            mode: read_field(&mut ignored, "mode", self.mode, |text| read_keyword(text)?.parse().ok()),
            permission_mode: read_field(&mut ignored, "permissionMode", self.permission_mode, read_keyword),
            model_mode: read_field(&mut ignored, "modelMode", self.model_mode, read_keyword),
            activity: read_field(&mut ignored, "activity", self.activity, read_line).filter(|line| !line.is_empty()),
            ignored,
        }
    }
}
