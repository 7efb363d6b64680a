//! How large things may be that pass through the hub.

use super::error::Error;
use crate::model::json::Json;

/// The largest frame a CLI may send, in bytes: the runtime closes a WebSocket on a larger one.
pub const MAX_FRAME_BYTES: u64 = 32 * 1024 * 1024;

/// Refuses a value whose JSON text has more than `limit` bytes. `what` names it in the error.
pub fn check_size(what: &'static str, value: &Json, limit: usize) -> Result<(), Error> {
    if value.text().len() > limit { Err(Error::TooLarge { what, limit }) } else { Ok(()) }
}
