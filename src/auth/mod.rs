//! Authentication: access tokens of CLIs, scripts and devices, the JWTs of web clients, the codes of new devices, and the tokens
//! that answer a permission request from a notification.
//!
//! A valid token grants access to exactly one namespace. Secrets are compared in constant time and never logged.
//! Source: PROTOCOL.md "Authentication", RFC 7519 (JWT).

pub mod answer_token;
pub mod jwt;
mod mac;
pub mod pairing;
pub mod token;
