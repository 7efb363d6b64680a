//! A closed namespace accepts only the requests of the operator that import, move or delete it.

use crate::hub::core::ports::Runtime;
use crate::hub::core::storage_keys::CLOSED_FOR;

/// What a namespace is closed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedFor {
    Import,
    Move,
    Deletion,
}

impl ClosedFor {
    /// The value in the object's storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Move => "move",
            Self::Deletion => "deletion",
        }
    }

    /// Reads the object's storage; `None` if the namespace is not closed.
    pub fn load(rt: &dyn Runtime) -> Option<Self> {
        let stored = rt.kv_get(CLOSED_FOR)?;
        [Self::Import, Self::Move, Self::Deletion].into_iter().find(|reason| reason.as_str() == stored)
    }
}
