//! A session gateway hub: web clients watch and steer coding agents that run in CLIs on machines.
//!
//! One crate, three layers. The stateless worker (`platform::worker`) authenticates and routes; one Durable Object per
//! namespace (`platform::object`) runs a [`hub`]; D1 behind [`store`] is the durable record. [`model`] holds the nouns,
//! [`wire`] the packets and events, [`auth`] the tokens, [`push`] what a web push is made of, [`http`] the routes and the only map from errors to statuses.
//! `platform` alone sees the runtime, and is compiled for wasm only; everything else is tested natively.

pub mod auth;
pub mod http;
pub mod hub;
pub mod model;
#[cfg(target_arch = "wasm32")]
pub mod platform;
pub mod push;
pub mod store;
pub mod wire;
