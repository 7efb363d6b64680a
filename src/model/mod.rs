//! The domain types (sessions, messages, machines, permission requests) and the rules on them.
//!
//! Depends on no transport, storage or runtime, so that everything here is a pure function of its arguments. JSON that a
//! client wrote keeps its text byte for byte ([`json`]).
//! Source: PROTOCOL.md and the specification that it extends.

pub mod agent_message;
pub mod agent_state;
pub mod catalog;
pub mod device;
pub mod event;
pub mod ids;
pub mod inbox;
pub mod json;
pub mod keyword;
pub mod large;
pub mod machine;
pub mod message;
pub mod method;
pub mod mode;
pub mod namespace;
pub mod order;
pub mod owner;
pub mod pending_request;
pub mod session;
pub mod settings;
pub mod summary;
pub mod text_parts;
pub mod todo;
pub mod vocabulary;
