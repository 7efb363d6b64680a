//! Registering, loading and listing machines.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::hub::base::error::{Error, Kind, check_size};
use crate::hub::base::state::State;
use crate::hub::machines::updates::MachineField;
use crate::hub::write::large::without_large;
use crate::limits::{MAX_CONTENT_BYTES, MAX_MACHINE_ID_BYTES, MAX_MACHINES};
use crate::model::json::Json;
use crate::model::machine::Machine;
use crate::model::order::sort_by;
use crate::model::owner::Owner;
use crate::store::Found;
use crate::store::machines as store;

impl Hub {
    /// Loads the machines of the namespace, unless they are cached.
    pub(in crate::hub) async fn load_machines(self: &Arc<Self>) -> Result<(), Error> {
        let (mut machines, mut turn) = loop {
            if self.turn().cache.machines().is_some() {
                return Ok(());
            }
            self.flushed().await?;
            let generation = self.turn().cache.evictions.generation();
            let machines = store::load_all(&self.db, &self.config.namespace).await?;
            let turn = self.turn();
            if !turn.cache.evictions.cleared_since(generation) {
                break (machines, turn);
            }
        };
        for machine in machines.iter_mut().filter(|machine| machine.active) {
            let owner = Owner::Machine(machine.id.clone());
            machine.active_at = machine.active_at.max(turn.liveness.active_at(&owner));
            turn.start_timeout(owner);
        }
        turn.cache.insert_loaded_machines(machines);
        Ok(())
    }

    /// Loads the machines of the namespace. Returns an error if none of them has the id.
    pub fn load_machine<'a>(self: &'a Arc<Self>, id: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            loop {
                self.load_machines().await?;
                let generation = {
                    let turn = self.turn();
                    if turn.cache.machine(id).is_ok() {
                        return Ok(());
                    }
                    turn.cache.evictions.generation()
                };
                let owner = store::find_owner(&self.db, &self.config.namespace, id).await?;
                if self.turn().cache.evictions.cleared_since(generation) {
                    continue;
                }
                return match owner {
                    Found::Foreign => Err(Error::Forbidden(Kind::Machine)),
                    Found::Owned(()) | Found::Missing => Err(Error::NotFound(Kind::Machine)),
                };
            }
        })
    }

    /// Returns the machines that are online, the last active first, after their changes are durable. While the database is
    /// stalled, these are the last committed states. Of large values, only the length is included.
    pub async fn online_machines(self: &Arc<Self>) -> Result<Vec<Json>, Error> {
        self.load_machines().await?;
        let has_changes = self.turn().cache.has_changed_machine();
        if has_changes {
            self.flushed_or_stalled().await?;
        }
        Ok(self.turn().online_machines())
    }

    /// Registers a machine, or updates what changed since its last registration (`POST /cli/machines`).
    pub async fn put_machine(
        self: &Arc<Self>,
        id: &str,
        metadata: Json,
        runner_state: Option<Json>,
    ) -> Result<(), Error> {
        if id.is_empty() || id.len() > MAX_MACHINE_ID_BYTES {
            return Err(Error::field("id", format!("Field `id` must have 1 to {MAX_MACHINE_ID_BYTES} bytes.")));
        }
        let fields = [(MachineField::Metadata, Some(metadata)), (MachineField::RunnerState, runner_state)];
        let fields = fields.into_iter().filter_map(|(field, value)| Some((field, value?))).collect::<Vec<_>>();
        fields.iter().try_for_each(|(field, value)| check_size(field.name(), value, MAX_CONTENT_BYTES))?;
        match self.load_machine(id).await {
            Ok(()) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let committed = {
            let mut turn = self.turn();
            turn.ensure_write_queue_has_room(0)?;
            let now = self.rt.now();
            let is_new = turn.cache.machine(id).is_err();
            if is_new {
                turn.make_room_for_machine()?;
                let machine = Machine::new(id.to_owned(), self.config.namespace.clone(), now);
                turn.cache.insert_machine(machine);
            }
            for (field, value) in fields {
                let current = field.get(turn.cache.machine(id)?);
                // A large value is not in memory, so it can't be compared and counts as changed.
                if current.value != Some(&value) || current.large.is_some() {
                    let version = current.version + u64::from(!is_new);
                    turn.set_machine_field(id, field, version, Some(value))?;
                }
            }
            turn.record_machine_change(id, now)?;
            turn.commit_waiter()
        };
        self.wait_for_commit(committed).await
    }
}

impl State {
    fn online_machines(&self) -> Vec<Json> {
        let mut online: Vec<&Machine> = self.cache.list_machines().filter(|machine| machine.active).collect();
        sort_by(&mut online, |a, b| (b.active_at, &b.id).cmp(&(a.active_at, &a.id)));
        let to_json =
            |m: &Machine| without_large(m, [("metadata", &m.metadata_large), ("runnerState", &m.runner_state_large)]);
        online.into_iter().map(to_json).collect()
    }

    /// Deletes the machine that has been offline longest if the namespace has [`MAX_MACHINES`].
    fn make_room_for_machine(&mut self) -> Result<(), Error> {
        let Self { cache, connections, journal, .. } = self;
        let machines = cache.machines().ok_or(Error::NotFound(Kind::Machine))?;
        if machines.len() < MAX_MACHINES {
            return Ok(());
        }
        let is_offline = |m: &&Machine| !m.active && connections.of_owner(&Owner::Machine(m.id.clone())).is_empty();
        let longest_offline = machines.values().filter(is_offline).min_by_key(|m| (m.active_at, &m.id));
        let id = longest_offline.map(|m| m.id.clone()).ok_or(Error::TooManyMachines(MAX_MACHINES))?;
        cache.remove_machine(&id);
        journal.delete_machine(&id);
        Ok(())
    }
}
