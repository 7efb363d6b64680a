//! The result of a CLI's update to a versioned field (optimistic concurrency).

use crate::hub::base::state::effect::Reply;
use crate::model::text_parts::TextParts;

/// The result of an update, with the current version of the field and its current value (`null` for none).
#[derive(Debug, Clone, PartialEq)]
pub enum UpdateResult {
    /// The update was applied as this version.
    Success { version: u64, value: TextParts },
    /// The update was not applied, because it is based on another version than this one.
    Mismatch { version: u64, value: TextParts },
}

/// Makes the reply to an update from its result; `None` when the CLI requested no acknowledgement.
pub type MakeReply<'r> = &'r (dyn Fn(&UpdateResult) -> Option<Reply> + Send + Sync);
