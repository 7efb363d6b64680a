//! Devices: browsers, phones and CLIs with a token of their own.

use serde::Deserialize;
use strum::IntoStaticStr;

/// The longest name of a device, in characters.
pub const MAX_DEVICE_NAME_CHARS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum DeviceKind {
    Browser,
    Phone,
    Cli,
}

/// Trims the name of a device. `None` if it is empty, too long, or has characters that could hide or reorder text.
pub fn parse_device_name(name: &str) -> Option<String> {
    let name = name.trim();
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
                | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
    };
    let is_valid = (1..=MAX_DEVICE_NAME_CHARS).contains(&name.chars().count()) && !name.contains(is_hidden);
    is_valid.then(|| name.to_owned())
}
