//! Whether a machine is online: its runner sends `machine-alive` (PROTOCOL-CLI.md "Liveness"). Only changes are written to the
//! database.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::effect::Effect;
use crate::hub::core::error::Error;
use crate::hub::core::ports::ConnId;
use crate::hub::core::state::AckTiming;
use crate::hub::core::storage_keys::deadline_key;
use crate::model::owner::Owner;

impl Hub {
    /// Records that an event of a CLI that names the machine arrived at `at`. An offline machine comes online.
    pub(in crate::hub) async fn record_machine_activity(
        self: &Arc<Self>,
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
            let machine = turn.machine_mut(id)?;
            machine.active_at = machine.active_at.max(at);
            let was_active = std::mem::replace(&mut machine.active, true);
            if !was_active {
                turn.record_machine_change(id, self.rt.now())?;
            }
            turn.ack_timing(!was_active)
        };
        self.start_commit();
        Ok(timing)
    }

    /// Takes a machine offline after its deadline, unless activity has moved the deadline.
    pub(in crate::hub) async fn expire_machine(self: &Arc<Self>, id: &str) -> Result<(), Error> {
        let owner = Owner::Machine(id.to_owned());
        self.load_machine(id).await?;
        let mut turn = self.turn();
        if !turn.liveness.is_expired(&owner) {
            return Ok(());
        }
        let machine = turn.machine_mut(id)?;
        let was_active = std::mem::replace(&mut machine.active, false);
        turn.liveness.stop(&owner);
        if was_active {
            turn.record_machine_change(id, self.rt.now())?;
            turn.write_queue.on_commit(Effect::BecameInactive(owner));
        } else {
            self.rt.kv_delete(&deadline_key(&owner));
        }
        Ok(())
    }
}
