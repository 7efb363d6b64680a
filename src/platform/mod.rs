//! The only place that sees the runtime: the worker's entry, the namespace's object, and the ports over D1, sockets,
//! alarm and storage. Shells only; what they do is decided elsewhere and tested natively.

mod convert;
mod d1;
mod glue;
mod guard;
mod object;
mod runtime;
mod settings;
mod upload;
mod worker;
