//! Whom a socket speaks for, and whose methods it serves.

/// The session or machine that something belongs to. Method names are scoped by it: two sessions may serve the same method.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// The session of this id.
    Session(String),
    /// The machine of this id.
    Machine(String),
}
