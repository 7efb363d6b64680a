//! Who speaks: access tokens (`<SECRET>:<NAMESPACE>`) and the JWTs of web clients. See PROTOCOL.md "Authentication".

pub mod jwt;
pub mod token;
