//! Registering machines.

use std::sync::Arc;

use futures::channel::oneshot::{self, Receiver};

use crate::hub::Hub;
use crate::hub::core::effect::Effect;
use crate::hub::core::error::{Error, Kind, check_size};
use crate::hub::core::sessions::before_images::{BeforeImages, Committed};
use crate::hub::core::state::State;
use crate::hub::machines::load::to_listed;
use crate::hub::machines::updates::get_field;
use crate::hub::turn::Turn;
use crate::hub::write::commit::interrupted;
use crate::limits::{MAX_CONTENT_BYTES, MAX_MACHINE_BYTES, MAX_MACHINES};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::large::{InlineOrLarge, VersionedField};
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
        let mut is_looked_up = false;
        loop {
            let loaded = if is_looked_up { self.load_machine(id).await } else { self.load_machines().await };
            match loaded {
                Ok(()) | Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
            let is_unsettled = {
                let turn = self.turn();
                turn.cache.machine(id).is_err() && turn.write_queue.committed_machine(id).is_some()
            };
            if is_unsettled {
                // Another registration or a deletion of the machine is not durable yet.
                self.wait_for_commit().await?;
                continue;
            }
            let added = {
                let mut turn = self.turn();
                turn.ensure_write_queue_has_room(0)?;
                let is_new = turn.cache.machine(id).is_err();
                if is_looked_up || !is_new {
                    turn.update_machine_fields(id, fields, is_new)?;
                    break;
                }
                turn.add_machine(id, &fields)
            };
            let Some(added) = added else {
                is_looked_up = true;
                continue;
            };
            self.start_commit();
            let added = added.await.unwrap_or_else(|_| Err(interrupted()));
            if added == Err(Error::DatabaseRejected)
                && let Err(foreign @ Error::Forbidden(_)) = self.load_machine(id).await
            {
                return Err(foreign);
            }
            return added;
        }
        self.flush().await
    }
}

impl Turn<'_> {
    /// Adds a new machine without a lookup: its write fails if the machine belongs to another namespace. Returns `None` if a lookup must
    /// come first, because the machine has large values, or replaces another one.
    fn add_machine(&mut self, id: &str, fields: &[(VersionedField, Json)]) -> Option<Receiver<Result<(), Error>>> {
        let (hub, now) = (self.hub, self.hub.rt.now());
        let field_bytes = || fields.iter().map(|(_, value)| value.text().len()).sum::<usize>();
        let State { cache, write_queue, .. } = &mut *self.state;
        if cache.machines()?.len() >= MAX_MACHINES
            || fields.iter().any(|(field, value)| field.is_large(value))
            || cache.machine_bytes() + field_bytes() > MAX_MACHINE_BYTES
        {
            return None;
        }
        let namespace = &hub.config.namespace;
        let mut machine = Machine { seq: 1, ..Machine::new(id.to_owned(), namespace.clone(), now) };
        for (field, value) in fields {
            let value = InlineOrLarge::from_inline(Some(value.clone()));
            match field {
                VersionedField::RunnerState => machine.runner_state = value,
                _ => machine.metadata = value,
            }
        }
        let (sender, added) = oneshot::channel();
        let publish = Effect::Publish(Event::machine_updated(id, &to_listed(&machine)));
        let effects = vec![Effect::AddMachine(Box::new(machine.clone())), publish, Effect::Resolve(sender)];
        let mut before = BeforeImages::default();
        before.machines.insert(id.to_owned(), Committed::Absent);
        write_queue.add_machine(namespace, &machine, effects, before);
        Some(added)
    }

    /// Updates the fields that changed. Inserts the machine first if it is new.
    fn update_machine_fields(
        &mut self,
        id: &str,
        fields: Vec<(VersionedField, Json)>,
        is_new: bool,
    ) -> Result<(), Error> {
        if is_new {
            self.state.make_room_for_machine()?;
            let machine = Machine::new(id.to_owned(), self.hub.config.namespace.clone(), self.hub.rt.now());
            let State { cache, write_queue, .. } = &mut *self.state;
            cache.insert_machine(machine, write_queue.queued_images());
        }
        let machine = self.state.cache.machine(id)?;
        let changed = fields.into_iter().filter_map(|(field, value)| {
            let current = get_field(machine, field);
            // A large value is not in memory, so it can't be compared and counts as changed.
            let is_changed = current.stored.inline() != Some(&value);
            is_changed.then(|| (field, current.version + u64::from(!is_new), Some(value)))
        });
        let changed: Vec<_> = changed.collect();
        self.set_machine_fields(id, changed)
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
