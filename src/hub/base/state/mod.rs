//! The hub's state in memory. State machines without IO.

pub mod activation_waiters;
pub mod cache;
pub mod committed;
pub mod completed_requests;
pub mod effect;
pub mod entry;
pub mod evictions;
pub mod in_flight;
pub mod kept_requests;
pub mod live_text;
pub mod liveness;
pub mod local_ids;
pub mod lookup;
pub mod reminders;
pub mod reservations;
pub mod schedule;
pub mod session_list;
pub mod sweep;
pub mod upload_slots;

use std::collections::HashMap;

use crate::hub::base::events::log::EventLog;
use crate::hub::base::events::numbering::EventNumbers;
use crate::hub::base::peers::connections::Connections;
use crate::hub::base::peers::rpc::Rpc;
use crate::hub::base::ports::ConnId;
use crate::hub::base::push::state::PushState;
use crate::store::journal::Journal;
use activation_waiters::ActivationWaiters;
use cache::Cache;
use effect::Effect;
use in_flight::InFlight;
use kept_requests::KeptRequests;
use live_text::LiveTexts;
use liveness::Liveness;
use lookup::{Lookup, UnknownLocalId};
use reminders::Reminders;
use reservations::Reservations;
use schedule::Schedule;
use sweep::Sweep;
use upload_slots::UploadSlots;

/// Everything the hub holds in memory. Never locked across an await.
pub(in crate::hub) struct State {
    pub connections: Connections,
    pub reservations: Reservations,
    pub rpc: Rpc,
    pub liveness: Liveness,
    pub kept_requests: KeptRequests,
    pub sweep: Sweep,
    pub event_numbers: EventNumbers,
    /// The replay log; `None` while no web client is connected or may resume.
    pub log: Option<EventLog>,
    pub schedule: Schedule,
    pub cache: Cache,
    /// The sockets whose attachments are older than their peers in memory. A socket appears once for each change, so that the
    /// length shows whether the burst goes on.
    pub unwritten_attachments: Vec<ConnId>,
    /// The lookups whose batch has not begun.
    pub lookups: Vec<Lookup>,
    /// The messages that wait for the lookups of the next batch.
    pub unknown_local_ids: Vec<UnknownLocalId>,
    pub journal: Journal<Effect>,
    /// Whether the namespace's name is in the object's storage.
    pub namespace_stored: bool,
    pub activation_waiters: ActivationWaiters,
    pub in_flight: InFlight,
    pub upload_slots: UploadSlots,
    pub reminders: Reminders,
    pub live_texts: LiveTexts,
    pub push: PushState,
    /// How often each unknown event of CLIs was received.
    pub unknown_events: HashMap<String, u64>,
}

impl State {
    /// Whether no CLI and no web client is connected.
    pub fn is_idle(&self) -> bool {
        self.connections.clis().next().is_none() && self.connections.subscriptions().next().is_none()
    }
}
