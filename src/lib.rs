//! A session gateway hub: web clients watch and control coding agents that run in CLIs on machines.
//!
//! The stateless worker (`platform::worker`) authenticates requests and routes them. One Durable Object per namespace
//! (`platform::object`) runs the [`hub`], whose state is in memory. All durable data is in D1, behind [`store`].
//!
//! Only `platform`, which is compiled for wasm only, depends on the runtime. The other modules are tested natively.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod auth;
pub mod http;
pub mod hub;
pub mod limits;
pub mod log;
pub mod memory_budget;
pub mod metrics;
pub mod model;
#[cfg(target_arch = "wasm32")]
pub mod platform;
pub mod push;
pub mod store;
pub mod wire;
