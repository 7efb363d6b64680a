//! Authentication: access tokens of CLIs and scripts, and the JWTs of web clients.
//!
//! A valid token grants access to exactly one namespace. Secrets are compared in constant time and never logged.
//! Source: PROTOCOL.md "Authentication", RFC 7519 (JWT).

pub mod jwt;
pub mod token;
