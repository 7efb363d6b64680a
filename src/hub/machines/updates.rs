//! Versioned fields of a machine: metadata and runner state. An update names the version that it is based on (optimistic
//! concurrency). Each change increments the version, and is sent to CLIs and web clients.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::effect::Effect;
use crate::hub::core::error::{Error, check_size};
use crate::hub::core::sessions::before_images::HubQueue;
use crate::hub::core::state::State;
use crate::hub::core::versioned::VersionedUpdate;
use crate::hub::machines::load::to_listed;
use crate::hub::turn::Turn;
use crate::hub::write::large::{FieldValue, incomplete_value};
use crate::limits::{MAX_CONTENT_BYTES, MAX_MACHINE_BYTES};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::large::VersionedField;
use crate::model::machine::Machine;
use crate::model::owner::Owner;
use crate::model::text_parts::TextParts;
use crate::wire::update::{UpdateBody, VALUE_PLACEHOLDER, Versioned, update_frame};

/// A machine's value of at most this size, in bytes, is never stored as a large value, so it is always in memory.
const SMALL_VALUE_BYTES: usize = 4_000;

pub(super) fn get_field(m: &Machine, field: VersionedField) -> FieldValue<'_> {
    match field {
        VersionedField::RunnerState => FieldValue { stored: &m.runner_state, version: m.runner_state_version },
        _ => FieldValue { stored: &m.metadata, version: m.metadata_version },
    }
}

impl Hub {
    /// Updates the metadata or the runner state of a machine for a CLI.
    pub async fn update_machine(self: &Arc<Self>, update: &VersionedUpdate<'_>) -> Result<(), Error> {
        let VersionedUpdate { id, field, value, .. } = update;
        if *field == VersionedField::MachineMetadata && !value.is_object() {
            return Err(Error::field("metadata", "Field `metadata` must be an object."));
        }
        check_size(field.name(), value, MAX_CONTENT_BYTES)?;
        self.load_machine(id).await?;
        let large = {
            let mut turn = self.turn();
            turn.ensure_write_queue_has_room(value.text().len())?;
            let current = get_field(turn.cache.machine(id)?, *field);
            let version = current.version;
            if version == update.expected_version {
                turn.apply_machine_update(update, version + 1)?;
                None
            } else if let Some(large) = current.stored.large() {
                Some((large.clone(), version))
            } else {
                let value = TextParts::value(current.stored.json().cloned());
                turn.reply_on_commit(update.reply(false, version, value));
                None
            }
        };
        if let Some((large, version)) = large {
            let value = self.read_durable_value(id, &large).await?.ok_or_else(incomplete_value)?;
            let reply = update.reply(false, version, TextParts::value(Some(value)));
            reply.into_iter().for_each(|reply| self.turn().send_committed_reply(reply));
            return Ok(());
        }
        self.start_commit();
        Ok(())
    }
}

impl Turn<'_> {
    /// Sets a field, and queues the write, the event, the update for the other CLIs, and the reply.
    fn apply_machine_update(&mut self, update: &VersionedUpdate<'_>, version: u64) -> Result<(), Error> {
        let VersionedUpdate { id, field, .. } = *update;
        let now = self.hub.rt.now();
        let value = Some(update.value.clone()).filter(|value| !value.is_null());
        self.set_machine_fields(id, [(field, version, value.clone())])?;
        let value = TextParts::queued_value(field, value);
        let versioned = Some(Versioned::new(version));
        let (metadata, runner_state) = match field {
            VersionedField::RunnerState => (None, versioned),
            _ => (versioned, None),
        };
        let body = UpdateBody::UpdateMachine { machine_id: id, metadata, runner_state };
        let frame = update_frame(&self.hub.new_id(), self.state.events.next_unused(now), now, &body);
        let parts = value.clone().insert_into(&frame, VALUE_PLACEHOLDER);
        let (owner, except) = (Owner::Machine(id.to_owned()), Some(update.from));
        self.state.write_queue.on_commit(Effect::Update { owner, except, parts });
        self.state.reply_on_commit(update.reply(true, version, value));
        Ok(())
    }

    /// Sets fields to values with these versions. If the machines would occupy more than [`MAX_MACHINE_BYTES`] of memory, a value above
    /// [`SMALL_VALUE_BYTES`] becomes a large value, of which memory holds only an excerpt.
    pub(super) fn set_machine_fields(
        &mut self,
        id: &str,
        fields: impl IntoIterator<Item = (VersionedField, u64, Option<Json>)>,
    ) -> Result<(), Error> {
        let (hub, now) = (self.hub, self.hub.rt.now());
        let mut bytes = self.state.cache.machine_bytes();
        self.state.change_machine(id, now, |m, write_queue| {
            for (field, new_version, new_value) in fields {
                bytes += new_value.as_ref().map_or(0, |value| value.text().len());
                let is_full = bytes > MAX_MACHINE_BYTES;
                let max_inline_bytes = if is_full { SMALL_VALUE_BYTES } else { field.max_inline_bytes() };
                let (current, version) = match field {
                    VersionedField::RunnerState => (&mut m.runner_state, &mut m.runner_state_version),
                    _ => (&mut m.metadata, &mut m.metadata_version),
                };
                *version = new_version;
                hub.set_value_within(max_inline_bytes, write_queue, (id, field), new_version, current, new_value);
            }
        })
    }
}

impl State {
    /// Changes a machine, and queues the write and the event of a difference. A later `activeAt` is no difference.
    pub(super) fn change_machine<T>(
        &mut self,
        id: &str,
        now: u64,
        change: impl FnOnce(&mut Machine, &mut HubQueue) -> T,
    ) -> Result<T, Error> {
        let machine = self.cache.machine_mut(id, &mut self.write_queue)?;
        let before = machine.clone();
        let result = change(machine, &mut self.write_queue);
        if *machine != (Machine { active_at: machine.active_at, ..before }) {
            (machine.seq, machine.updated_at) = (machine.seq + 1, now);
            let event = Event::machine_updated(id, &to_listed(machine));
            self.write_queue.queue_machine(id);
            self.write_queue.on_commit(Effect::Publish(event));
        }
        Ok(result)
    }
}
