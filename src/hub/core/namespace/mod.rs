//! What concerns a whole namespace: its quotas, what it uses of them, and the deletion of old data. State machines without IO.

pub mod deletion;
pub mod quotas;
pub mod recent_writers;

use strum::{EnumString, IntoStaticStr};

use crate::hub::core::ports::Runtime;
use crate::hub::core::storage_keys::CLOSED_FOR;

/// What a namespace is closed for: it accepts only the requests of the operator that import, move or delete it. The names are the values in
/// the object's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ClosedFor {
    Import,
    Move,
    Deletion,
}

impl ClosedFor {
    /// Reads the object's storage; `None` if the namespace is not closed.
    pub fn load(rt: &dyn Runtime) -> Option<Self> {
        rt.kv_get(CLOSED_FOR)?.parse().ok()
    }
}
