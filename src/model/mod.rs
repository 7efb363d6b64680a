//! The nouns of the service and the rules on them. Knows nothing of transport, storage or the runtime.

pub mod agent_state;
pub mod completed_request;
pub mod event;
pub mod ids;
pub mod json;
pub mod large;
pub mod machine;
pub mod message;
pub mod method;
pub mod mode;
pub mod namespace;
pub mod order;
pub mod owner;
pub mod ready;
pub mod session;
pub mod summary;
pub mod todo;
pub mod vocabulary;
pub mod words;
