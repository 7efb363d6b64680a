//! The hub's peers: CLIs and web clients, their sockets, what they were sent, and the RPC calls to CLIs. State machines
//! without IO.

pub mod cli;
pub mod connections;
pub mod frame_queue;
pub mod grace;
pub mod rpc;
pub mod send_window;
pub mod subscription;
