//! Loading, registering and changing machines. All of a namespace are loaded together. `machine-alive` is written only if it changes one.

use futures::channel::oneshot::{self, Receiver};
use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::hub::core::effect::{Effect, VersionedUpdate};
use crate::hub::core::error::{Error, Kind, check_field, check_size};
use crate::hub::core::ports::ConnId;
use crate::hub::core::sessions::cached_session::{BeforeImages, HubQueue};
use crate::hub::core::sessions::evictions::Key;
use crate::hub::core::state::{AckTiming, State};
use crate::hub::turn::Turn;
use crate::hub::write::commit::interrupted;
use crate::hub::write::large::{incomplete_value, machine_segments, without_large};
use crate::limits::{MAX_CONTENT_BYTES, MAX_MACHINE_BYTES, MAX_MACHINES};
use crate::memory_budget::ResponseText;
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::large::{InlineOrLarge, VersionedField};
use crate::model::machine::Machine;
use crate::model::order::sort_by;
use crate::model::owner::Owner;
use crate::model::text_parts::TextParts;
use crate::store::columns::read_owned;
use crate::store::{Database, Found, Statement, machines as store};

const MAX_MACHINE_ID_BYTES: usize = 255;

/// A machine's value of at most this size, in bytes, is never stored as a large value, so it is always in memory.
const SMALL_VALUE_BYTES: usize = 4_000;

impl Hub {
    pub(in crate::hub) async fn load_machines(&self) -> Result<(), Error> {
        self.read_machines(None).await.map(drop)
    }

    /// Loads the machines of the namespace. Returns an error if none of them has the id.
    pub fn load_machine<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let owner = self.read_machines(Some(id)).await?;
            match owner {
                _ if self.turn().cache.machine(id).is_ok() => Ok(()),
                Found::Foreign => Err(Error::Forbidden(Kind::Machine)),
                Found::InNamespace(()) | Found::Missing => Err(Error::NotFound(Kind::Machine)),
            }
        })
    }

    /// Loads the machines unless they are cached. In the same batch, reads whether machine `id` is of the namespace unless it is cached.
    fn read_machines<'a>(&'a self, id: Option<&'a str>) -> BoxFuture<'a, Result<Found<()>, Error>> {
        Box::pin(async move {
            let namespace = &self.config.namespace;
            loop {
                let is_cached = self.turn().cache.machines().is_some();
                if is_cached && id.is_none_or(|id| self.turn().cache.machine(id).is_ok()) {
                    return Ok(Found::InNamespace(()));
                }
                let ticket = match is_cached {
                    true => self.turn().cache.evictions.take_ticket(),
                    false => self.begin_read().await?,
                };
                let select_all = (!is_cached).then(|| store::select_all(namespace));
                let select_owner = id.map(|id| store::select_owner(namespace, id));
                let mut statements: Vec<Statement> = select_all.into_iter().chain(select_owner).collect();
                let mut results = self.read_beside_log(self.db.batch(&mut statements)).await?.into_iter();
                let mut next_rows = || results.next().unwrap_or_default();
                let mut machines = if is_cached { Vec::new() } else { store::read_all(namespace, next_rows())? };
                let owner = read_owned("machines", next_rows())?;
                let mut turn = self.turn();
                let Some(read) = turn.cache.evictions.redeem(&ticket, Key::Namespace) else { continue };
                if !is_cached {
                    for Machine { id, active_at, .. } in machines.iter_mut().filter(|machine| machine.active) {
                        (*active_at, _) = turn.restore_liveness(Owner::Machine(id.clone()), *active_at);
                    }
                    turn.cache.insert_loaded_machines(read, machines);
                }
                return Ok(owner);
            }
        })
    }

    /// Returns the online machines, the last active first, after their changes are durable; if the database is stalled, as committed.
    pub async fn list_online_machines(&self) -> Result<Vec<Json>, Error> {
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
    pub async fn serialize_machine(&self, id: &str) -> Result<ResponseText, Error> {
        let load = || self.load_machine(id);
        self.serialize(
            (Kind::Machine, id),
            load,
            |cache| cache.machine(id),
            |queue| queue.committed_machine(id),
            machine_segments,
        )
        .await
    }

    /// Registers a machine, or updates the fields that changed since its last registration (`POST /cli/machines`).
    pub async fn register_machine(&self, id: &str, metadata: Json, runner_state: Option<Json>) -> Result<(), Error> {
        let is_id = (1..=MAX_MACHINE_ID_BYTES).contains(&id.len());
        check_field(is_id, "id", format_args!("have 1 to {MAX_MACHINE_ID_BYTES} bytes"))?;
        let fields = [(VersionedField::MachineMetadata, Some(metadata)), (VersionedField::RunnerState, runner_state)];
        let fields = fields.into_iter().filter_map(|(field, value)| Some((field, value?))).collect::<Vec<_>>();
        fields.iter().try_for_each(|(field, value)| check_size(field.name(), value, MAX_CONTENT_BYTES))?;
        let mut is_looked_up = false;
        loop {
            let loaded = if is_looked_up { self.load_machine(id).await } else { self.load_machines().await };
            if !matches!(loaded, Err(Error::NotFound(_))) {
                loaded?;
            }
            let is_unsettled =
                |state: &State| state.cache.machine(id).is_err() && state.write_queue.committed_machine(id).is_some();
            if is_unsettled(&self.turn()) {
                // Another registration or a deletion of the machine is not durable yet.
                self.wait_for_commit().await?;
                continue;
            }
            let added = {
                let mut turn = self.turn();
                turn.ensure_write_queue_has_room(0)?;
                if is_looked_up || turn.cache.machine(id).is_ok() {
                    turn.update_machine_fields(id, fields)?;
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

    pub async fn update_machine(&self, update: &VersionedUpdate<'_>) -> Result<(), Error> {
        let VersionedUpdate { id, field, ref value, .. } = *update;
        let is_valid = field != VersionedField::MachineMetadata || value.is_object();
        check_field(is_valid, "metadata", format_args!("be an object"))?;
        check_size(field.name(), value, MAX_CONTENT_BYTES)?;
        self.load_machine(id).await?;
        let large = {
            let mut turn = self.turn();
            turn.ensure_write_queue_has_room(value.text().len())?;
            let (stored, version) = turn.cache.machine(id)?.field(field);
            if version == update.expected_version {
                let (version, value) = (version + 1, Some(value.clone()).filter(|value| !value.is_null()));
                turn.set_machine_fields(id, [(field, version, value.clone())])?;
                let value = TextParts::queued_value(field, value);
                let owner = Owner::Machine(id.to_owned());
                turn.queue_update(owner, Some(update.from), field, version, value.clone());
                turn.reply_on_commit(update.reply(true, version, value));
                None
            } else if let Some(large) = stored.large() {
                Some((large.clone(), version))
            } else {
                let value = TextParts::value(stored.json().cloned());
                turn.reply_on_commit(update.reply(false, version, value));
                None
            }
        };
        if let Some((large, version)) = large {
            let value = self.read_durable_value(id, &large).await?.ok_or_else(incomplete_value)?;
            let reply = update.reply(false, version, TextParts::value(Some(value)));
            reply.iter().for_each(|reply| self.turn().send_committed_reply(reply));
            return Ok(());
        }
        self.start_commit();
        Ok(())
    }

    /// Records that an event of a CLI that names the machine arrived at `at`. An offline machine comes online.
    pub(in crate::hub) async fn record_machine_activity(
        &self,
        id: &str,
        from: ConnId,
        at: u64,
    ) -> Result<AckTiming, Error> {
        let owner = Owner::Machine(id.to_owned());
        self.turn().restart_deadline_on_arrival(owner.clone(), from, at);
        self.load_machine(id).await?;
        let timing = {
            let mut turn = self.turn();
            turn.restart_deadline_on_activity(owner, from, at);
            let was_active = turn.change_machine(id, |machine, _| {
                machine.active_at = machine.active_at.max(at);
                std::mem::replace(&mut machine.active, true)
            })?;
            turn.ack_timing(!was_active)
        };
        self.start_commit();
        Ok(timing)
    }

    /// Takes a machine offline after its deadline, unless activity has moved the deadline.
    pub(in crate::hub) async fn expire_machine(&self, id: &str) -> Result<(), Error> {
        let owner = Owner::Machine(id.to_owned());
        self.load_machine(id).await?;
        let mut turn = self.turn();
        if !turn.liveness.is_expired(&owner) {
            return Ok(());
        }
        turn.change_machine(id, |machine, _| machine.active = false)?;
        turn.liveness.stop(&owner);
        // Queued even if the machine is offline in memory, as for a session.
        turn.write_queue.on_commit(Effect::BecameInactive(owner));
        Ok(())
    }
}

impl Turn<'_> {
    /// Adds a new machine without a lookup: the write of a foreign one fails. `None` if it has large values or replaces one: look it up.
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
            *machine.field_mut(*field).0 = InlineOrLarge::from_inline(Some(value.clone()));
        }
        let (sender, added) = oneshot::channel();
        let publish = Effect::Publish(Event::machine_updated(id, &to_listed(&machine)));
        let effects = vec![Effect::AddMachine(Box::new(machine.clone())), publish, Effect::Resolve(sender)];
        let mut before = BeforeImages::default();
        before.machines.insert(id.to_owned(), None);
        write_queue.add_machine(namespace, &machine, effects, before);
        Some(added)
    }

    /// Updates the fields that changed. Inserts the machine first if it is new.
    fn update_machine_fields(&mut self, id: &str, fields: Vec<(VersionedField, Json)>) -> Result<(), Error> {
        let is_new = self.state.cache.machine(id).is_err();
        if is_new {
            self.state.make_room_for_machine()?;
            let machine = Machine::new(id.to_owned(), self.hub.config.namespace.clone(), self.hub.rt.now());
            let State { cache, write_queue, .. } = &mut *self.state;
            cache.insert_machine(machine, write_queue.queued_images());
        }
        let machine = self.state.cache.machine(id)?;
        let changed = fields.into_iter().filter_map(|(field, value)| {
            let (stored, version) = machine.field(field);
            // A large value is not in memory, so it can't be compared and counts as changed.
            let is_changed = stored.inline() != Some(&value);
            is_changed.then(|| (field, version + u64::from(!is_new), Some(value)))
        });
        let changed: Vec<_> = changed.collect();
        self.set_machine_fields(id, changed)
    }

    /// Sets fields to values with these versions. If the machines would occupy more than [`MAX_MACHINE_BYTES`] of memory, a value above
    /// [`SMALL_VALUE_BYTES`] becomes a large value, of which memory holds only an excerpt.
    fn set_machine_fields(
        &mut self,
        id: &str,
        fields: impl IntoIterator<Item = (VersionedField, u64, Option<Json>)>,
    ) -> Result<(), Error> {
        let hub = self.hub;
        let mut bytes = self.state.cache.machine_bytes();
        self.change_machine(id, |m, write_queue| {
            for (field, new_version, new_value) in fields {
                bytes += new_value.as_ref().map_or(0, |value| value.text().len());
                let is_full = bytes > MAX_MACHINE_BYTES;
                let max_inline_bytes = if is_full { SMALL_VALUE_BYTES } else { field.max_inline_bytes() };
                let (current, version) = m.field_mut(field);
                *version = new_version;
                write_queue.set_value_within(max_inline_bytes, &hub.ids, (id, field), new_version, current, new_value);
            }
        })
    }

    /// Changes a machine, and queues the write and the event of a difference. A later `activeAt` is no difference.
    fn change_machine<T>(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut Machine, &mut HubQueue) -> T,
    ) -> Result<T, Error> {
        let State { cache, write_queue, .. } = &mut *self.state;
        let machine = cache.machine_mut(id, write_queue)?;
        let before = machine.clone();
        let result = change(machine, write_queue);
        if *machine != (Machine { active_at: machine.active_at, ..before }) {
            (machine.seq, machine.updated_at) = (machine.seq + 1, self.hub.rt.now());
            let event = Event::machine_updated(id, &to_listed(machine));
            write_queue.queue_machine(id);
            write_queue.on_commit(Effect::Publish(event));
        }
        Ok(result)
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

/// Returns a machine as the list and its event have it: with the lengths of large values in their place.
fn to_listed(m: &Machine) -> Json {
    without_large(m, [("metadata", &m.metadata), ("runnerState", &m.runner_state)])
}
