//! Keys of the object's key-value storage, which survives hibernation and restarts. `push` and `events` define their own.

use crate::model::owner::Owner;

/// The name of the namespace. An object that an alarm wakes has no other source of the name.
pub const NAMESPACE: &str = "namespace";
/// The time of the last tick, which sends heartbeats and pings, in Unix milliseconds.
pub const LAST_TICK: &str = "beaten";
/// The current epoch of the database's fence ([`crate::store::fence`]).
pub const EPOCH: &str = "epoch";
/// When the database was last known to be stalled, in Unix milliseconds.
pub const LAST_DB_STALL: &str = "stalled";
/// Present while messages of deleted sessions may remain in the database.
pub const SWEEP: &str = "sweep";
/// The prefix of the keys of active owners. The value is a [`StoredDeadline`](crate::hub::base::state::liveness::StoredDeadline).
pub const ALIVE: &str = "alive:";

/// The prefix of the keys of inactive sessions with pending requests. The value is the time, in Unix milliseconds, at which the
/// requests are canceled.
pub const KEPT_REQUESTS: &str = "kept:";

pub fn kept_requests_key(session: &str) -> String {
    format!("{KEPT_REQUESTS}{session}")
}

/// The prefix of the keys of resumed sessions. The value is a time in Unix milliseconds: until then, a keep-alive reopens the
/// session if the session is archived.
pub const REACTIVATION: &str = "reopen:";

pub fn reactivation_key(session: &str) -> String {
    format!("{REACTIVATION}{session}")
}

/// The generation of the namespace's tokens.
pub const GENERATION: &str = "generation";
/// The prefix of the keys of revoked devices. The value is when the device was revoked, in Unix milliseconds.
pub const REVOKED_DEVICES: &str = "revoked:";

/// Returns the key of a revoked device.
pub fn revoked_device_key(id: &str) -> String {
    format!("{REVOKED_DEVICES}{id}")
}

pub fn alive_key(owner: &Owner) -> String {
    match owner {
        Owner::Session(id) => format!("{ALIVE}s:{id}"),
        Owner::Machine(id) => format!("{ALIVE}m:{id}"),
    }
}

/// Returns the owner of an [`alive_key`].
pub fn alive_owner(key: &str) -> Option<Owner> {
    let (kind, id) = key.strip_prefix(ALIVE)?.split_once(':')?;
    match kind {
        "s" => Some(Owner::Session(id.to_owned())),
        "m" => Some(Owner::Machine(id.to_owned())),
        _ => None,
    }
}
