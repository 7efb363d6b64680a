//! Machines: made known by their runners, online while they give signs of life.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Serialize;

use crate::hub::commit::AckTiming;
use crate::hub::error::{Error, Kind, check_size};
use crate::hub::large::{unreadable, without};
use crate::hub::limits::{MAX_CONTENT_BYTES, MAX_MACHINE_BYTES, MAX_MACHINE_ID_BYTES, MAX_MACHINES, SMALL_VALUE_BYTES};
use crate::hub::ports::ConnId;
use crate::hub::state::effect::Effect;
use crate::hub::state::liveness::is_fresh;
use crate::hub::storage_keys::alive_key;
use crate::hub::versioned::{Reply, Updated};
use crate::hub::{Hub, State};
use crate::model::event::Event;
use crate::model::json::Json;
use crate::model::large::{Field, LargeRef};
use crate::model::machine::Machine;
use crate::model::order::sort_by;
use crate::model::owner::Owner;
use crate::model::text_parts::TextParts;
use crate::store::Found;
use crate::store::journal::Journal;
use crate::store::machines as store;
use crate::wire::cli::MachineAlive;
use crate::wire::update::{UpdateBody, VALUE_PLACEHOLDER, Versioned, update_frame};

/// Which of a machine's versioned values is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachinePart {
    /// What it is.
    Metadata,
    /// What its runner is at.
    RunnerState,
}

impl MachinePart {
    /// The name under which it stands in a machine.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::RunnerState => "runnerState",
        }
    }

    fn field(self) -> Field {
        match self {
            Self::Metadata => Field::MachineMetadata,
            Self::RunnerState => Field::RunnerState,
        }
    }

    /// What memory holds of it, where the whole of a large one is, and its version.
    fn of(self, m: &mut Machine) -> (&mut Option<Json>, &mut Option<LargeRef>, &mut u64) {
        match self {
            Self::Metadata => (&mut m.metadata, &mut m.metadata_large, &mut m.metadata_version),
            Self::RunnerState => (&mut m.runner_state, &mut m.runner_state_large, &mut m.runner_state_version),
        }
    }
}

/// The parts of a machine that changed, for `machine-updated`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Changes<'a> {
    active: bool,
    active_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
    /// In the place of a large one.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runner_state: Option<&'a Json>,
    /// In the place of a large one.
    #[serde(skip_serializing_if = "Option::is_none")]
    runner_state_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runner_state_version: Option<u64>,
}

impl Hub {
    /// Sees to it that the namespace's machines are in memory.
    pub(in crate::hub) async fn load_machines(self: &Arc<Self>) -> Result<(), Error> {
        let (mut machines, mut state) = loop {
            if self.state().cache.machines().is_some() {
                return Ok(());
            }
            self.flushed().await?;
            let mark = self.state().cache.generation();
            let machines = store::load_all(&self.db, &self.config.namespace).await?;
            let state = self.state();
            if !state.cache.cleared_since(mark) {
                break (machines, state);
            }
        };
        for machine in machines.iter_mut().filter(|machine| machine.active) {
            let owner = Owner::Machine(machine.id.clone());
            machine.active_at = machine.active_at.max(state.active_at_of(&owner));
            self.start_timeout(&mut state, owner);
        }
        state.cache.insert_loaded_machines(machines);
        Ok(())
    }

    /// Sees to it that a machine of this namespace is in memory.
    pub fn load_machine<'a>(self: &'a Arc<Self>, id: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            loop {
                self.load_machines().await?;
                let mark = {
                    let mut state = self.state();
                    if machine(&mut state, id).is_ok() {
                        return Ok(());
                    }
                    state.cache.generation()
                };
                let owner = store::find_owner(&self.db, &self.config.namespace, id).await?;
                if self.state().cache.cleared_since(mark) {
                    continue;
                }
                return match owner {
                    Found::Foreign => Err(Error::Foreign(Kind::Machine)),
                    Found::Owned(()) | Found::Missing => Err(Error::Missing(Kind::Machine)),
                };
            }
        })
    }

    /// The machines that are online, newest activity first, as JSON texts without large values.
    pub async fn online_machines(self: &Arc<Self>) -> Result<Vec<Json>, Error> {
        self.load_machines().await?;
        let online = self.online();
        self.flushed().await?;
        Ok(online)
    }

    fn online(&self) -> Vec<Json> {
        let state = self.state();
        let mut online: Vec<&Machine> =
            state.cache.machines().into_iter().flat_map(|m| m.values()).filter(|m| m.active).collect();
        sort_by(&mut online, |a, b| (b.active_at, &b.id).cmp(&(a.active_at, &a.id)));
        let without_large =
            |m: &Machine| without(m, [("metadata", &m.metadata_large), ("runnerState", &m.runner_state_large)]);
        online.into_iter().map(without_large).collect()
    }

    /// Makes a machine known, or takes over what it says of itself now (`POST /cli/machines`).
    pub async fn put_machine(
        self: &Arc<Self>,
        id: &str,
        metadata: Json,
        runner_state: Option<Json>,
    ) -> Result<(), Error> {
        if id.is_empty() || id.len() > MAX_MACHINE_ID_BYTES {
            return Err(Error::field("id", format!("Field `id` must have 1 to {MAX_MACHINE_ID_BYTES} bytes.")));
        }
        check_size("metadata", &metadata, MAX_CONTENT_BYTES)?;
        if let Some(runner_state) = &runner_state {
            check_size("runnerState", runner_state, MAX_CONTENT_BYTES)?;
        }
        match self.load_machine(id).await {
            Ok(()) | Err(Error::Missing(_)) => {}
            Err(error) => return Err(error),
        }
        let waiter = {
            let mut state = self.state();
            state.check_queue()?;
            let now = self.rt.now();
            let namespace = self.config.namespace.clone();
            let known = machine(&mut state, id).is_ok();
            if !known {
                state.make_room_for_machine()?;
            }
            let State { cache, journal, .. } = &mut *state;
            let mut would_be = cache.machine_bytes();
            let machines = cache.machines_mut().ok_or(Error::Missing(Kind::Machine))?;
            let m = machines.entry(id.to_owned()).or_insert_with(|| Machine::new(id.to_owned(), namespace, now));
            // A large one counts as new: memory does not have the other to compare.
            if m.metadata.as_ref() != Some(&metadata) || m.metadata_large.is_some() {
                m.metadata_version += u64::from(known);
                would_be += metadata.text().len();
                self.set_part(journal, (m, MachinePart::Metadata), Some(metadata), would_be);
            }
            if runner_state.is_some() && (m.runner_state != runner_state || m.runner_state_large.is_some()) {
                m.runner_state_version += u64::from(known);
                would_be += runner_state.as_ref().map_or(0, |value| value.text().len());
                self.set_part(journal, (m, MachinePart::RunnerState), runner_state, would_be);
            }
            note_change(&mut state, id, now);
            state.commit_waiter()
        };
        self.committed(waiter).await
    }

    /// `machine-alive`: a sign of life.
    pub async fn machine_alive(self: &Arc<Self>, alive: MachineAlive, from: ConnId) -> Result<AckTiming, Error> {
        let now = self.rt.now();
        if !is_fresh(alive.time, now) {
            return Ok(AckTiming::Now);
        }
        self.load_machine(&alive.machine_id).await?;
        {
            let mut state = self.state();
            self.record_keep_alive(&mut state, Owner::Machine(alive.machine_id.clone()), Some(from));
            let machine = machine(&mut state, &alive.machine_id)?;
            machine.active_at = now;
            if std::mem::replace(&mut machine.active, true) {
                return Ok(state.ack_timing(false));
            }
            note_change(&mut state, &alive.machine_id, now);
        }
        self.flush();
        Ok(AckTiming::OnCommit)
    }

    /// The clock ran out: the machine is offline.
    pub(in crate::hub) async fn machine_ended(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        self.load_machine(id).await?;
        {
            let mut state = self.state();
            let owner = Owner::Machine(id.to_owned());
            state.liveness.stop(&owner);
            if !std::mem::replace(&mut machine(&mut state, id)?.active, false) {
                self.rt.kv_delete(&alive_key(&owner));
                return Ok(());
            }
            note_change(&mut state, id, self.rt.now());
            state.journal.on_commit(Effect::Ended(owner));
        }
        self.flush();
        Ok(())
    }

    /// A CLI's versioned update of a machine's metadata or runner state. The outcome is told through `reply`.
    pub async fn update_machine(
        self: &Arc<Self>,
        id: &str,
        part: MachinePart,
        expected: u64,
        value: Json,
        from: ConnId,
        reply: Reply<'_>,
    ) -> Result<(), Error> {
        if part == MachinePart::Metadata && !value.is_object() {
            return Err(Error::field("metadata", "Field `metadata` must be an object."));
        }
        check_size(part.name(), &value, MAX_CONTENT_BYTES)?;
        self.load_machine(id).await?;
        let large = {
            let mut state = self.state();
            state.check_queue_for(value.text().len())?;
            let now = self.rt.now();
            let State { cache, journal, .. } = &mut *state;
            let would_be = cache.machine_bytes() + value.text().len();
            let m = cache.machines_mut().and_then(|machines| machines.get_mut(id));
            let m = m.ok_or(Error::Missing(Kind::Machine))?;
            let (held, large, version) = part.of(m);
            if *version == expected {
                *version += 1;
                let version = *version;
                let value = Some(value).filter(|value| !value.is_null());
                self.set_part(journal, (m, part), value.clone(), would_be);
                note_change(&mut state, id, now);
                self.tell_machine(&mut state, id, part, version, value.clone(), from);
                let outcome =
                    reply(&Updated::Success { version, value: TextParts::journaled_value(part.field(), value) });
                outcome.into_iter().for_each(|outcome| state.journal.on_commit(outcome));
                None
            } else if let Some(large) = large {
                Some((large.clone(), *version))
            } else {
                let outcome = reply(&Updated::Mismatch { version: *version, value: TextParts::value(held.clone()) });
                outcome.into_iter().for_each(|outcome| state.journal.on_commit(outcome));
                None
            }
        };
        if let Some((large, version)) = large {
            let _turn = self.large_reads.lock().await;
            // Where yet another one took its place, the next try hears of it.
            let value = self.whole(id, &large).await?.ok_or_else(unreadable)?;
            let outcome = reply(&Updated::Mismatch { version, value: TextParts::value(Some(value)) });
            self.run_effects(outcome.into_iter().collect(), 0..0);
            return Ok(());
        }
        self.flush();
        Ok(())
    }

    /// Puts a new value of a machine in place; its version is counted up already. `would_be`: how many bytes of machines
    /// memory would hold with it.
    fn set_part(
        &self,
        journal: &mut Journal<Effect>,
        (m, part): (&mut Machine, MachinePart),
        value: Option<Json>,
        would_be: usize,
    ) {
        let id = m.id.clone();
        let max_inline_bytes =
            if would_be > MAX_MACHINE_BYTES { SMALL_VALUE_BYTES } else { part.field().max_inline_bytes() };
        let (held, large, version) = part.of(m);
        let old = large.take();
        (*held, *large) =
            self.keep_within(max_inline_bytes, journal, (&id, part.field()), *version, old.as_ref(), value);
    }

    fn tell_machine(
        &self,
        state: &mut State,
        id: &str,
        part: MachinePart,
        version: u64,
        value: Option<Json>,
        from: ConnId,
    ) {
        let now = self.rt.now();
        let versioned = Some(Versioned { version, value: None });
        let (metadata, runner_state) = match part {
            MachinePart::Metadata => (versioned, None),
            MachinePart::RunnerState => (None, versioned),
        };
        let body = UpdateBody::UpdateMachine { machine_id: id, metadata, runner_state };
        let frame = update_frame(&self.new_id(), state.event_numbers.allocate(now), now, &body);
        let frame = TextParts::journaled_value(part.field(), value).insert_into(&frame, VALUE_PLACEHOLDER);
        state.journal.on_commit(Effect::Update { owner: Owner::Machine(id.to_owned()), except: Some(from), frame });
    }
}

impl State {
    /// Forgets the machine that has been away the longest where there are as many as may be. All of them may be there: then
    /// there is no room for another one.
    fn make_room_for_machine(&mut self) -> Result<(), Error> {
        let Self { cache, connections, journal, .. } = self;
        let machines = cache.machines_mut().ok_or(Error::Missing(Kind::Machine))?;
        if machines.len() < MAX_MACHINES {
            return Ok(());
        }
        let away = |m: &&Machine| !m.active && connections.of_owner(&Owner::Machine(m.id.clone())).is_empty();
        let longest = machines.values().filter(away).min_by_key(|m| (m.active_at, &m.id)).map(|m| m.id.clone());
        let id = longest.ok_or(Error::TooManyMachines(MAX_MACHINES))?;
        machines.remove(&id);
        journal.delete_machine(&id);
        Ok(())
    }
}

fn machine<'a>(state: &'a mut State, id: &str) -> Result<&'a mut Machine, Error> {
    state.cache.machines_mut().and_then(|machines| machines.get_mut(id)).ok_or(Error::Missing(Kind::Machine))
}

/// Notes a changed machine, and the event that tells of it.
fn note_change(state: &mut State, id: &str, now: u64) {
    let Ok(m) = machine(state, id) else { return };
    m.seq += 1;
    m.updated_at = now;
    let changes = Changes {
        active: m.active,
        active_at: m.active_at,
        metadata: m.metadata.as_ref().filter(|_| m.metadata_large.is_none()),
        metadata_bytes: m.metadata_large.as_ref().map(|large| large.bytes),
        metadata_version: Some(m.metadata_version),
        runner_state: m.runner_state.as_ref().filter(|_| m.runner_state_large.is_none()),
        runner_state_bytes: m.runner_state_large.as_ref().map(|large| large.bytes),
        runner_state_version: Some(m.runner_state_version),
    };
    let event = Event::machine_updated(id, &changes);
    state.journal.queue_machine(id);
    state.journal.on_commit(Effect::Publish(event));
}
