//! Devices of the namespace: browsers, phones and CLIs with a token of their own (`docs/design/devices.md`).
//!
//! The object writes a revocation to D1 and to its own storage, then closes the device's sockets. A worker caches valid tokens for ten
//! seconds and may forward a revoked token in this time. So the object checks its own storage for each new socket.

pub mod access;
pub mod manage;
