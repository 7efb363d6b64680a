//! Whether a machine is online, as reported by the `machine-alive` of its runner (PROTOCOL.md "Liveness"). Only changes are
//! written to the database.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::commit::AckTiming;
use crate::hub::error::Error;
use crate::hub::ports::ConnId;
use crate::hub::state::effect::Effect;
use crate::hub::state::liveness::is_fresh;
use crate::hub::storage_keys::alive_key;
use crate::model::owner::Owner;
use crate::wire::cli::MachineAlive;

impl Hub {
    pub async fn machine_alive(self: &Arc<Self>, alive: MachineAlive, from: ConnId) -> Result<AckTiming, Error> {
        if !is_fresh(alive.time, self.rt.now()) {
            return Ok(AckTiming::Now);
        }
        self.record_machine_activity(&alive.machine_id, from).await
    }

    /// Records a sign of life of a machine: any event of a CLI that names it. An offline machine becomes online.
    pub(in crate::hub) async fn record_machine_activity(
        self: &Arc<Self>,
        id: &str,
        from: ConnId,
    ) -> Result<AckTiming, Error> {
        self.load_machine(id).await?;
        let timing = {
            let (mut state, now) = (self.state(), self.rt.now());
            self.record_keep_alive(&mut state, Owner::Machine(id.to_owned()), Some(from));
            let machine = state.cache.machine_mut(id)?;
            machine.active_at = now;
            let was_active = std::mem::replace(&mut machine.active, true);
            if !was_active {
                state.record_machine_change(id, now)?;
            }
            state.ack_timing(!was_active)
        };
        self.start_commit();
        Ok(timing)
    }

    /// Takes a machine offline after its timeout.
    pub(in crate::hub) async fn end_machine(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        self.load_machine(id).await?;
        {
            let mut state = self.state();
            let owner = Owner::Machine(id.to_owned());
            state.liveness.stop(&owner);
            if std::mem::replace(&mut state.cache.machine_mut(id)?.active, false) {
                state.record_machine_change(id, self.rt.now())?;
                state.journal.on_commit(Effect::Ended(owner));
            } else {
                self.rt.kv_delete(&alive_key(&owner));
            }
        }
        self.start_commit();
        Ok(())
    }
}
