//! Devices of the namespace: browsers, phones and CLIs with a token of their own (`docs/design/devices.md`).
//!
//! The object writes revocations to D1, then closes the sockets. A worker may believe a revoked token for ten seconds more, so
//! the object's storage records the revocation, and a socket that opens later is refused.

pub mod access;
pub mod manage;
