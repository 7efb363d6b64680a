//! Authentication: access tokens of CLIs, scripts and devices, the JWTs of web clients, and the codes of new devices.
//!
//! A valid token grants access to exactly one namespace. Secrets are compared in constant time and never logged.
//! Source: PROTOCOL.md "Authentication", RFC 7519 (JWT).

pub mod jwt;
pub mod pairing;
pub mod token;
