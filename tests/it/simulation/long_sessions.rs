//! Long sessions: each has more messages than the hub keeps local ids in memory. So the hub looks up the local id of a new
//! message in the database. Every fourth seed has one long session in each namespace.

use session_gateway_hub::limits::MAX_LOCAL_IDS;

use super::world::{NEIGHBOUR, TEAM, World};

const SEED_INTERVAL: u64 = 4;

/// The number of messages of a long session when the run starts. Clients count them as read.
pub const INITIAL_MESSAGES: u64 = MAX_LOCAL_IDS as u64 + 1;

/// Whether a run has long sessions.
pub fn has_long_sessions(seed: u64) -> bool {
    seed.is_multiple_of(SEED_INTERVAL)
}

/// The number of messages that a session has when the run starts.
pub fn stored_messages(session: &str) -> u64 {
    if session.starts_with("long-") { INITIAL_MESSAGES } else { 0 }
}

impl World {
    /// Stores a long session in each namespace, with a tag that CLIs use.
    pub fn add_long_sessions(&mut self) {
        for namespace_index in [TEAM, NEIGHBOUR] {
            let (name, tag) = (self.objects[namespace_index].name, self.pick_tag(namespace_index, 1));
            let (id, machine) = (format!("long-{name}"), self.machine_id(namespace_index));
            self.db.sqlite.execute(&format!(
                r#"INSERT INTO sessions (id, namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active,
                  thinking, metadata, metadata_version, agent_state_version)
                VALUES ('{id}', '{name}', '{tag}', 0, 0, 0, 0, 0, 0, 0,
                  '{{"path":"{tag}","host":"box","machineId":"{machine}","alphaSessionId":"a"}}', 1, 1);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {INITIAL_MESSAGES})
                INSERT INTO messages (session_id, seq, id, local_id, created_at, content)
                SELECT '{id}', i, 'stored-{name}-' || i, 'stored-' || i, 0, '1' FROM n"#
            ));
        }
    }
}
