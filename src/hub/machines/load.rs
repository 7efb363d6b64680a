//! Reading machines: when a machine is needed, all machines of the namespace are loaded into memory.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::hub::core::error::{Error, Kind};
use crate::hub::core::sessions::evictions::{CurrentRead, Key};
use crate::hub::turn::Turn;
use crate::hub::write::large::{machine_segments, without_large};
use crate::memory_budget::ResponseText;
use crate::model::json::Json;
use crate::model::machine::Machine;
use crate::model::order::sort_by;
use crate::model::owner::Owner;
use crate::store::{Database, Found, Statement, machines as store};

impl Hub {
    /// Loads the machines of the namespace, unless they are cached.
    pub(in crate::hub) async fn load_machines(self: &Arc<Self>) -> Result<(), Error> {
        self.read_machines(None).await.map(drop)
    }

    /// Loads the machines of the namespace. Returns an error if none of them has the id.
    pub fn load_machine<'a>(self: &'a Arc<Self>, id: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let owner = self.read_machines(Some(id)).await?;
            match owner {
                _ if self.turn().cache.machine(id).is_ok() => Ok(()),
                Found::Foreign => Err(Error::Forbidden(Kind::Machine)),
                Found::InNamespace(()) | Found::Missing => Err(Error::NotFound(Kind::Machine)),
            }
        })
    }

    /// Loads the machines of the namespace, unless they are cached. In the same batch, reads whether machine `id` belongs to the
    /// namespace, unless this machine is cached.
    fn read_machines<'a>(self: &'a Arc<Self>, id: Option<&'a str>) -> BoxFuture<'a, Result<Found<()>, Error>> {
        Box::pin(async move {
            let namespace = &self.config.namespace;
            loop {
                let is_cached = {
                    let turn = self.turn();
                    let is_cached = turn.cache.machines().is_some();
                    if is_cached && id.is_none_or(|id| turn.cache.machine(id).is_ok()) {
                        return Ok(Found::InNamespace(()));
                    }
                    is_cached
                };
                let ticket = match is_cached {
                    true => self.turn().cache.evictions.take_ticket(),
                    false => self.begin_read().await?,
                };
                let select_all = (!is_cached).then(|| store::select_all(namespace));
                let select_owner = id.map(|id| store::select_owner(namespace, id));
                let mut statements: Vec<Statement> = select_all.into_iter().chain(select_owner).collect();
                let mut results = self.read_beside_log(self.db.batch(&mut statements)).await?.into_iter();
                let mut next_rows = || results.next().unwrap_or_default();
                let machines = if is_cached { Vec::new() } else { store::read_all(namespace, next_rows())? };
                let owner = store::read_owner(next_rows())?;
                let mut turn = self.turn();
                let Some(read) = turn.cache.evictions.redeem(&ticket, Key::Namespace) else { continue };
                if !is_cached {
                    turn.insert_machines(read, machines);
                }
                return Ok(owner);
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
        let turn = self.turn();
        let machines = turn.cache.list_machines(&turn.write_queue);
        let mut online: Vec<&Machine> = machines.filter(|machine| machine.active).collect();
        sort_by(&mut online, |a, b| (b.active_at, &b.id).cmp(&(a.active_at, &a.id)));
        Ok(online.into_iter().map(to_listed).collect())
    }

    /// Returns a machine as JSON text like [`Hub::serialize_session`].
    pub async fn serialize_machine(self: &Arc<Self>, id: &str) -> Result<ResponseText, Error> {
        let mut previous_values = Vec::new();
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
            if let Some(text) = self.read_segments(id, segments, is_changed, &mut previous_values).await? {
                return Ok(text);
            }
        }
    }
}

impl Turn<'_> {
    /// Inserts the machines that were read from the database, and starts the deadlines of those that are active.
    fn insert_machines(&mut self, read: CurrentRead, mut machines: Vec<Machine>) {
        for machine in machines.iter_mut().filter(|machine| machine.active) {
            let owner = Owner::Machine(machine.id.clone());
            machine.active_at = machine.active_at.max(self.state.liveness.active_at(&owner));
            self.start_deadline_if_missing(owner);
        }
        self.state.cache.insert_loaded_machines(read, machines);
    }
}

/// Returns a machine as the list and its event have it: with the lengths of large values in their place.
pub(super) fn to_listed(m: &Machine) -> Json {
    without_large(m, [("metadata", &m.metadata), ("runnerState", &m.runner_state)])
}
