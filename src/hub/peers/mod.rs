//! Sockets: who is at their other end, what they were sent, and the calls that wait for them. State machines without IO, but for the order of frames.

pub mod connections;
pub mod frame_text;
pub mod grace;
pub mod rpc;
pub mod subscription;
pub mod unread;
