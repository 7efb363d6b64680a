//! The outcome of a CLI's update to a versioned value (optimistic concurrency), and its answer.

use super::state::effect::Effect;
use crate::model::text_parts::TextParts;

/// The outcome of an update, with the value that is current afterwards (`null` for none).
#[derive(Debug, Clone, PartialEq)]
pub enum Updated {
    /// The update has become this version.
    Success { version: u64, value: TextParts },
    /// The update named another version than the current one, which is this.
    Mismatch { version: u64, value: TextParts },
}

/// Makes the answer to an update from its outcome; `None` when the client asked for no acknowledgement.
pub type Reply<'r> = &'r (dyn Fn(&Updated) -> Option<Effect> + Send + Sync);
