//! Reading machines: when a machine is needed, all machines of the namespace are loaded into memory.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::hub::base::error::{Error, Kind};
use crate::hub::base::state::State;
use crate::hub::base::state::evictions::Key;
use crate::hub::write::large::{ResponseText, machine_segments, without_large};
use crate::model::json::Json;
use crate::model::machine::Machine;
use crate::model::order::sort_by;
use crate::model::owner::Owner;
use crate::store::{Found, machines as store};

impl Hub {
    /// Loads the machines of the namespace, unless they are cached.
    pub(in crate::hub) async fn load_machines(self: &Arc<Self>) -> Result<(), Error> {
        loop {
            if self.turn().cache.machines().is_some() {
                return Ok(());
            }
            let ticket = self.begin_read().await?;
            let mut machines = store::load_all(&self.db, &self.config.namespace).await?;
            let mut turn = self.turn();
            let Some(read) = turn.cache.evictions.redeem(&ticket, Key::Namespace) else { continue };
            for machine in machines.iter_mut().filter(|machine| machine.active) {
                let owner = Owner::Machine(machine.id.clone());
                machine.active_at = machine.active_at.max(turn.liveness.active_at(&owner));
                turn.start_deadline_if_missing(owner);
            }
            turn.cache.insert_loaded_machines(read, machines);
        }
    }

    /// Loads the machines of the namespace. Returns an error if none of them has the id.
    pub fn load_machine<'a>(self: &'a Arc<Self>, id: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            loop {
                self.load_machines().await?;
                let ticket = {
                    let turn = self.turn();
                    if turn.cache.machine(id).is_ok() {
                        return Ok(());
                    }
                    turn.cache.evictions.take_ticket()
                };
                let owner = store::find_owner(&self.db, &self.config.namespace, id).await?;
                if self.turn().cache.evictions.redeem(&ticket, Key::Namespace).is_none() {
                    continue;
                }
                return match owner {
                    Found::Foreign => Err(Error::Forbidden(Kind::Machine)),
                    Found::InNamespace(()) | Found::Missing => Err(Error::NotFound(Kind::Machine)),
                };
            }
        })
    }

    /// Returns the machines that are online, the last active first, after their changes are durable. While the database is
    /// stalled, returns their last committed states. Of large values, only the length is included.
    pub async fn list_online_machines(self: &Arc<Self>) -> Result<Vec<Json>, Error> {
        self.load_machines().await?;
        let has_changes = !self.turn().write_queue.committed_machines().is_empty();
        if has_changes {
            self.flush_unless_stalled().await?;
        }
        Ok(self.turn().online_machines_as_json())
    }

    /// Returns a machine as JSON text like [`Hub::serialize_session`].
    pub async fn serialize_machine(self: &Arc<Self>, id: &str) -> Result<ResponseText, Error> {
        let mut attempted = Vec::new();
        let split = |machine: &Machine| Some(machine_segments(machine));
        loop {
            let changed = self.serialize_changed(Kind::Machine, |write_queue| write_queue.committed_machine(id), split);
            if let Some(text) = changed.await? {
                return Ok(text);
            }
            self.load_machine(id).await?;
            let (segments, is_changed) = {
                let turn = self.turn();
                (turn.cache.machine(id).map(machine_segments)?, turn.write_queue.committed_machine(id).is_some())
            };
            if let Some(text) = self.read_segments(id, segments, is_changed, &mut attempted).await? {
                return Ok(text);
            }
        }
    }
}

impl State {
    pub(in crate::hub) fn online_machines_as_json(&self) -> Vec<Json> {
        let mut online: Vec<&Machine> =
            self.cache.list_machines(&self.write_queue).filter(|machine| machine.active).collect();
        sort_by(&mut online, |a, b| (b.active_at, &b.id).cmp(&(a.active_at, &a.id)));
        let to_json = |m: &Machine| without_large(m, [("metadata", &m.metadata), ("runnerState", &m.runner_state)]);
        online.into_iter().map(to_json).collect()
    }
}
