//! Registering machines.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::error::{Error, Kind, check_size};
use crate::hub::core::state::State;
use crate::hub::machines::updates::get_field;
use crate::limits::{MAX_CONTENT_BYTES, MAX_MACHINES};
use crate::model::json::Json;
use crate::model::large::VersionedField;
use crate::model::machine::Machine;
use crate::model::owner::Owner;

/// The longest machine id, in bytes.
const MAX_MACHINE_ID_BYTES: usize = 255;

impl Hub {
    /// Registers a machine, or updates the fields that changed since its last registration (`POST /cli/machines`).
    pub async fn register_machine(
        self: &Arc<Self>,
        id: &str,
        metadata: Json,
        runner_state: Option<Json>,
    ) -> Result<(), Error> {
        if id.is_empty() || id.len() > MAX_MACHINE_ID_BYTES {
            return Err(Error::field("id", format!("Field `id` must have 1 to {MAX_MACHINE_ID_BYTES} bytes.")));
        }
        let fields = [(VersionedField::MachineMetadata, Some(metadata)), (VersionedField::RunnerState, runner_state)];
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
                let State { cache, write_queue, .. } = &mut *turn;
                cache.insert_machine(machine, write_queue.queued_images());
            }
            for (field, value) in fields {
                let current = get_field(turn.cache.machine(id)?, field);
                // A large value is not in memory, so it can't be compared and counts as changed.
                if current.stored.inline() != Some(&value) {
                    let version = current.version + u64::from(!is_new);
                    turn.set_machine_field(id, field, version, Some(value))?;
                }
            }
            turn.record_machine_change(id, now)?;
            turn.add_commit_waiter()
        };
        self.commit_and_wait(committed).await
    }
}

impl State {
    /// Deletes the machine that has been offline longest if the namespace has [`MAX_MACHINES`].
    fn make_room_for_machine(&mut self) -> Result<(), Error> {
        let Self { cache, connections, write_queue, .. } = self;
        let machines = cache.machines().ok_or(Error::NotFound(Kind::Machine))?;
        if machines.len() < MAX_MACHINES {
            return Ok(());
        }
        let is_offline =
            |m: &&Machine| !m.active && connections.clis_of_owner(&Owner::Machine(m.id.clone())).is_empty();
        let longest_offline = machines.values().filter(is_offline).min_by_key(|m| (m.active_at, &m.id));
        let id = longest_offline.map(|m| m.id.clone()).ok_or(Error::TooManyMachines(MAX_MACHINES))?;
        cache.remove_machine(&id, write_queue.queued_images());
        write_queue.delete_machine(&id);
        Ok(())
    }
}
