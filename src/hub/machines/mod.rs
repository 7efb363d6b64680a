//! Machines, which spawn sessions (PROTOCOL-WEB.md "Machines"). A machine is registered by its runner, and is online while its
//! keep-alives arrive. All machines of a namespace stay in memory, so their number and size are limited.

pub mod manage;
pub mod spawn;
