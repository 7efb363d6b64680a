//! Filler sessions: large sessions that fill the hub's memory, so that the hub evicts the clients' sessions. Few runs have
//! them.

use super::responses::Purpose;
use super::world::World;

/// A run has filler sessions if its seed has the remainder [`SEED_REMAINDER`] after division by this number.
const SEED_INTERVAL: u64 = 100;
const SEED_REMAINDER: u64 = 50;
/// More sessions of this size than the hub caches.
const FILLER_SESSIONS: usize = 44;
const METADATA_BYTES: usize = 590_000;

/// Whether the run of a seed has filler sessions.
pub fn has_filler_sessions(seed: u64) -> bool {
    seed % SEED_INTERVAL == SEED_REMAINDER
}

impl World {
    /// In a run with filler sessions: may make the hub load them. The caller then makes the hub look up another session.
    pub fn fill_memory(&mut self, namespace_index: usize) {
        if !self.has_filler_sessions || self.rng.chance(70) {
            return;
        }
        let name = self.objects[namespace_index].name;
        for number in 0..FILLER_SESSIONS {
            let id = format!("filler-{name}-{number}");
            self.db.sqlite.execute(&format!(
                r#"INSERT OR IGNORE INTO sessions (id, namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active,
                  thinking, metadata, metadata_version, agent_state_version)
                VALUES ('{id}', '{name}', '/{id}', 0, 0, 0, 0, 0, 0, 0,
                  '{{"path":"/","host":"h","lifecycleState":"archived","padding":"' || printf('%.{METADATA_BYTES}c', 'x') || '"}}', 1, 1)"#
            ));
            let path = format!("/api/sessions/{id}/git-status");
            self.request(namespace_index, "GET", &path, String::new(), Purpose::Filler);
        }
    }
}
