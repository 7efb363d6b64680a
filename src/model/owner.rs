use serde::{Deserialize, Serialize};

/// The session or machine that a connection or an RPC method belongs to. Two owners may register methods of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    Session(String),
    Machine(String),
}

impl Owner {
    pub fn id(&self) -> &str {
        match self {
            Self::Session(id) | Self::Machine(id) => id,
        }
    }
}
