//! The connected CLIs and web clients: their sockets, their unacknowledged bytes, and the RPC calls to CLIs. Without I/O.

pub mod cli;
pub mod connections;
pub mod frame_queue;
pub mod handshake;
pub mod rpc;
pub mod send_window;
pub mod subscription;
