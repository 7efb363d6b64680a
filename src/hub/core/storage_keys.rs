//! Keys of the object's key-value storage, which survives hibernation and restarts. `push` and `events` define further keys.

use crate::model::owner::Owner;

/// The name of the namespace. An object that an alarm wakes has no other source of the name.
pub const NAMESPACE: &str = "namespace";
/// The time of the last tick, which sends heartbeats and pings, in Unix milliseconds.
pub const LAST_TICK: &str = "beaten";
/// The current epoch of the database's fence ([`crate::store::fence`]).
pub const EPOCH: &str = "epoch";
/// The number of the namespace's database, if the deployment has or had several.
pub const PLACE: &str = "database";
/// The numbers of all databases with rows of the namespace, now or before, separated by spaces. Missing if the object did not choose.
pub const USED_DATABASES: &str = "databases";
/// The current epoch of the fence around the tables of access, if the deployment has several databases.
pub const ACCESS_EPOCH: &str = "access-epoch";
/// Present while the namespace moves to another database. The value is a [`MoveCursor`](crate::hub::namespace::databases).
pub const MOVE: &str = "move";
/// When the database was last known to be stalled, in Unix milliseconds.
pub const LAST_DB_STALL: &str = "stalled";
/// Present while messages of deleted sessions may remain in the database.
pub const SWEEP: &str = "sweep";
/// When the next deletion of old data is due, in Unix milliseconds.
pub const RETENTION: &str = "retention";
/// Present while the namespace is closed. The value is that of [`ClosedFor`](crate::hub::core::namespace::ClosedFor).
pub const CLOSED_FOR: &str = "closed-for";
/// The prefix of the keys of active owners. The value is a [`StoredDeadline`](crate::hub::core::sessions::liveness::StoredDeadline).
pub const ALIVE: &str = "alive:";

/// The prefix of the keys of inactive sessions with pending requests. The value is when these are canceled, in Unix milliseconds.
pub const KEPT_REQUESTS: &str = "kept:";

/// The prefix of the keys of resumed sessions. The value is until when a keep-alive reopens an archived session, in Unix milliseconds.
pub const REACTIVATION: &str = "reopen:";

/// The prefix of the keys of requests that were answered from a notification. The value is when, in Unix milliseconds.
pub const ANSWERED_REQUESTS: &str = "answered:";

/// The generation of the namespace's tokens.
pub const GENERATION: &str = "generation";
/// The prefix of the keys of revoked devices. The value is when the device was revoked, in Unix milliseconds.
pub const REVOKED_DEVICES: &str = "revoked:";

/// The prefix of the keys of devices that the database has confirmed as valid. A revocation deletes the key.
pub const CONFIRMED_DEVICES: &str = "confirmed:";

/// The prefix of the keys of revocations whose clients are still connected, followed by the id of the device, or nothing for all.
pub const REVOKING: &str = "revoking:";

/// The prefix of the keys of the latest notifications, followed by the id of the notification with 20 digits. The value is JSON.
pub const PUSH_LOG: &str = "pushed:";

/// The prefixes of the keys that an export has. All other keys belong to the object, to a connection, or to a change in progress.
pub const EXPORTED: [&str; 3] = [KEPT_REQUESTS, ANSWERED_REQUESTS, PUSH_LOG];

pub fn deadline_key(owner: &Owner) -> String {
    match owner {
        Owner::Session(id) => format!("{ALIVE}s:{id}"),
        Owner::Machine(id) => format!("{ALIVE}m:{id}"),
    }
}

/// Returns the owner of a [`deadline_key`].
pub fn alive_owner(key: &str) -> Option<Owner> {
    let (kind, id) = key.strip_prefix(ALIVE)?.split_once(':')?;
    match kind {
        "s" => Some(Owner::Session(id.to_owned())),
        "m" => Some(Owner::Machine(id.to_owned())),
        _ => None,
    }
}
