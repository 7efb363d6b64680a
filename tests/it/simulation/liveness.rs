//! Activity and ends of sessions. CLIs send keep-alives. The checks are that a session stays active while its keep-alives are valid,
//! and that requests are canceled only after the end of their session.

use serde_json::{Value, json};

use super::cli::{PendingAck, is_archived};
use super::connections::{ConnectionId, Peer};
use super::oracle::{KeepAlive, ValueKind};
use super::rows::Row;
use super::world::World;

/// The keep-alive timeout of a session.
pub const SESSION_TIMEOUT_MS: u64 = 30_000;

impl World {
    /// Sends a keep-alive of a session. The CLI may have named another session in CONNECT, or none.
    pub fn cli_keep_alive(&mut self, i: usize, session: String) {
        let (namespace_index, now) = (self.clis[i].namespace_index, self.now());
        let Some(connection) = self.clis[i].connection else { return };
        let mut payload = json!({"sid": session, "time": now});
        if self.rng.chance(30) {
            // A clock that is two hours late, seconds instead of milliseconds, a string, or null.
            let times = [json!(now - 7_200_000), json!(now / 1_000), json!(now.to_string()), Value::Null];
            payload["time"] = self.rng.pick(&times).unwrap();
        }
        if self.rng.chance(40) {
            payload["thinking"] = json!(self.rng.chance(50));
        }
        if self.rng.chance(20) {
            payload["mode"] = json!(self.rng.pick(&["local", "remote"]));
            payload["permissionMode"] = json!(self.rng.pick(&["default", "plan"]));
        }
        if self.rng.chance(10) {
            payload["mode"] = json!("sideways");
        }
        // If an earlier keep-alive made the same change, the hub may acknowledge this keep-alive before that change is written.
        // So a fault whose error the hub has not received yet may still invalidate this keep-alive.
        let faults = self.db.seen_fault_count();
        let keep_alive = KeepAlive {
            time: now,
            connection,
            other_ends: self.oracle(namespace_index).session(&session).ends_of_others(connection),
            aborts: self.oracle(namespace_index).session(&session).aborts,
            disruptions: self.disruptions(namespace_index, &session, connection, faults),
        };
        self.cli_emit(i, "session-alive", &payload, PendingAck::Alive { session, keep_alive });
    }

    /// The number of events that may invalidate a keep-alive of a connection: `faults` of the database, crashes, and requests
    /// to end the session.
    pub fn disruptions(&self, namespace_index: usize, session: &str, connection: ConnectionId, faults: u64) -> u64 {
        let record = self.oracles[namespace_index].sessions.get(session);
        faults + self.crashes + record.map_or(0, |record| record.ends_of(connection))
    }

    /// Whether neither side has closed a connection.
    fn is_open(&self, connection: ConnectionId) -> bool {
        let Some(connection) = self.connections.get(&connection) else { return false };
        self.objects[connection.namespace_index].rt.fake.is_open(connection.key) && connection.peer != Peer::Gone
    }

    /// Records the arrival of a CLI's frame at the hub. If the frame is a keep-alive, the timeout of an active session starts again
    /// at the arrival, even if the hub handles the frame later.
    pub fn observe_arrival(&mut self, namespace_index: usize, connection: ConnectionId, frame: &str) {
        let Some((_, payload)) = frame.split_once("[\"session-alive\",") else { return };
        let payload: Value = serde_json::from_str(payload.trim_end_matches(']')).unwrap();
        let session = payload["sid"].as_str().unwrap();
        let now = self.now();
        self.observe_activity(namespace_index, connection, session, now);
    }

    /// Records that the hub received activity of a session at `at` or later. The activity prolongs the session if the last
    /// keep-alive of the same connection is still valid.
    fn observe_activity(&mut self, namespace_index: usize, connection: ConnectionId, session: &str, at: u64) {
        let (now, is_open) = (self.now(), self.is_open(connection));
        let disruptions = self.disruptions(namespace_index, session, connection, self.db.fault_count());
        let record = self.oracle(namespace_index).session(session);
        let other_ends = record.ends_of_others(connection);
        let is_valid = |known: &&mut KeepAlive| {
            is_open
                && known.connection == connection
                && (known.disruptions, known.other_ends) == (disruptions, other_ends)
                && now < known.time + SESSION_TIMEOUT_MS
        };
        if let Some(keep_alive) = record.keep_alive.as_mut().filter(is_valid) {
            keep_alive.time = keep_alive.time.max(at);
        }
    }

    /// Records an acknowledged update. The update is activity of its session, or ends the session if it archives the session.
    pub fn observe_acknowledged_update(&mut self, i: usize, owner: &str, kind: ValueKind, value: &Value, sent_at: u64) {
        let namespace_index = self.clis[i].namespace_index;
        if kind == ValueKind::RunnerState {
            return;
        }
        if kind == ValueKind::Metadata {
            self.record_archive(i, owner, value);
        }
        if let Some(connection) = self.clis[i].connection {
            self.observe_activity(namespace_index, connection, owner, sent_at);
        }
    }

    /// Records a possible end if the CLI archives or unarchives a session, and that an archived session drops its held messages.
    pub fn record_archive(&mut self, i: usize, session: &str, metadata: &Value) {
        let known = self.clis[i].values.get(&ValueKind::Metadata);
        if is_archived(metadata) || known.is_some_and(|(_, known)| is_archived(known)) {
            let oracle = self.oracle(self.clis[i].namespace_index);
            oracle.record_possible_end(session);
            oracle.session(session).is_archive_requested |= is_archived(metadata);
        }
    }

    /// Checks that a session with a valid keep-alive is active.
    pub fn check_keep_alive(&mut self, namespace_index: usize, row: &Row) {
        let record = self.oracle(namespace_index).session(&row.id).clone();
        let is_archived = is_archived(&row.metadata);
        assert!(!is_archived || !row.is_active(), "{} is archived and active", row.id);
        let Some(keep_alive) = record.keep_alive.filter(|_| !is_archived && !record.may_end()) else { return };
        let KeepAlive { time, connection, .. } = keep_alive;
        let disruptions = self.disruptions(namespace_index, &row.id, connection, self.db.fault_count());
        // A `session-end` of another connection, or an abort, ends the session if the connection of the keep-alive is closed.
        let is_undisputed =
            (keep_alive.other_ends, keep_alive.aborts) == (record.ends_of_others(connection), record.aborts);
        let is_served = is_undisputed || self.is_open(connection);
        if keep_alive.disruptions == disruptions && is_served && self.now() < time + SESSION_TIMEOUT_MS {
            assert!(row.is_active(), "{} had a keep-alive at {time}, but is inactive", row.id);
        }
    }

    /// Checks that a permission request was canceled only if its session may have ended.
    pub fn check_canceled_requests(&mut self, namespace_index: usize, row: &Row) {
        let is_pending_end = |ack: &PendingAck| ack.ends() == Some(&*row.id);
        let ends = self
            .pending
            .values()
            .any(|request| request.namespace_index == namespace_index && request.purpose.ends(&row.id))
            || self.clis.iter().flat_map(|cli| cli.pending_acks.values()).any(is_pending_end);
        if ends {
            // The response to the request that ends the session is still in flight.
            return;
        }
        let record = self.oracle(namespace_index).session(&row.id);
        for (request, known) in &record.requests {
            let is_canceled = row.completed.get(request).is_some_and(|entry| entry["status"] == "canceled");
            let has_ended = record.cancellations() > known.ends_before || record.may_end();
            assert!(
                !is_canceled || has_ended,
                "request {request} of {} was canceled, but its session has not ended",
                row.id
            );
        }
    }
}
