//! Versioned fields of a machine: metadata and runner state. An update names the version that it is based on (optimistic
//! concurrency). Each change increments the version, and is sent to CLIs and web clients.

use std::sync::Arc;

use serde::Serialize;

use crate::hub::Hub;
use crate::hub::core::effect::Effect;
use crate::hub::core::error::{Error, check_size};
use crate::hub::core::state::State;
use crate::hub::core::versioned::VersionedUpdate;
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MachineChanges<'a> {
    active: bool,
    active_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
    /// The length of metadata that is too large for an event, in place of `metadata`.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_bytes: Option<usize>,
    metadata_version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    runner_state: Option<&'a Json>,
    /// The length of a runner state that is too large for an event, in place of `runner_state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    runner_state_bytes: Option<usize>,
    runner_state_version: u64,
}

impl<'a> MachineChanges<'a> {
    fn of(m: &'a Machine) -> Self {
        Self {
            active: m.active,
            active_at: m.active_at,
            metadata: m.metadata.inline(),
            metadata_bytes: m.metadata.large().map(|large| large.bytes),
            metadata_version: m.metadata_version,
            runner_state: m.runner_state.inline(),
            runner_state_bytes: m.runner_state.large().map(|large| large.bytes),
            runner_state_version: m.runner_state_version,
        }
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
        self.set_machine_field(id, field, version, value.clone())?;
        self.state.record_machine_change(id, now)?;
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

    /// Sets a field. If the machines would occupy more than [`MAX_MACHINE_BYTES`] of memory, a value above
    /// [`SMALL_VALUE_BYTES`] becomes a large value, of which memory holds only an excerpt.
    pub(super) fn set_machine_field(
        &mut self,
        id: &str,
        field: VersionedField,
        new_version: u64,
        new_value: Option<Json>,
    ) -> Result<(), Error> {
        let State { cache, write_queue, .. } = &mut *self.state;
        let new_bytes = new_value.as_ref().map_or(0, |value| value.text().len());
        let is_full = cache.machine_bytes() + new_bytes > MAX_MACHINE_BYTES;
        let max_inline_bytes = if is_full { SMALL_VALUE_BYTES } else { field.max_inline_bytes() };
        let m = cache.machine_mut(id, write_queue)?;
        let (current, version) = match field {
            VersionedField::RunnerState => (&mut m.runner_state, &mut m.runner_state_version),
            _ => (&mut m.metadata, &mut m.metadata_version),
        };
        *version = new_version;
        self.hub.set_value_within(max_inline_bytes, write_queue, (id, field), new_version, current, new_value);
        Ok(())
    }
}

impl State {
    /// Queues the write of a changed machine and the `machine-updated` event.
    pub(super) fn record_machine_change(&mut self, id: &str, now: u64) -> Result<(), Error> {
        let machine = self.machine_mut(id)?;
        machine.seq += 1;
        machine.updated_at = now;
        let event = Event::machine_updated(id, &MachineChanges::of(machine));
        self.write_queue.queue_machine(id);
        self.write_queue.on_commit(Effect::Publish(event));
        Ok(())
    }
}
