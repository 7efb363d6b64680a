//! Inbound frames of CLIs: authentication with CONNECT, then events.

pub mod connect;
pub mod events;
pub mod frames;
pub mod registrations;
pub mod replies;
