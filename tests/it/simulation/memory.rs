//! Sessions that fill the hub's memory, so that it evicts those of the clients. Only few seeds have them.

use super::responses::Purpose;
use super::world::World;

/// A run fills the memory if its seed has this remainder after division by [`SEED_INTERVAL`].
const SEED_INTERVAL: u64 = 100;
const SEED_REMAINDER: u64 = 50;
/// The number of large sessions: more than the hub holds in memory.
const COUNT: usize = 44;
const BYTES: usize = 590_000;

/// Whether a run fills the memory.
pub fn fills_memory(seed: u64) -> bool {
    seed % SEED_INTERVAL == SEED_REMAINDER
}

impl World {
    /// Loads large sessions while others are being looked up, in a run that fills the memory.
    pub fn fill_memory(&mut self, namespace_index: usize) {
        if !self.fills_memory || self.rng.chance(70) {
            return;
        }
        let name = self.objects[namespace_index].name;
        for number in 0..COUNT {
            let id = format!("filler-{name}-{number}");
            self.db.sqlite.execute(&format!(
                r#"INSERT OR IGNORE INTO sessions (id, namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active,
                  thinking, metadata, metadata_version, agent_state_version)
                VALUES ('{id}', '{name}', '/{id}', 0, 0, 0, 0, 0, 0, 0,
                  '{{"path":"/","host":"h","lifecycleState":"archived","padding":"' || printf('%.{BYTES}c', 'x') || '"}}', 1, 1)"#
            ));
            let path = format!("/api/sessions/{id}/git-status");
            self.request(namespace_index, "GET", &path, String::new(), Purpose::Filler);
        }
    }
}
