//! Live text: forwards the text that an agent is writing (PROTOCOL-EVENTS.md "Live text"). Live text is never stored. An
//! overloaded hub drops live text before anything else.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::peers::subscription::Format;
use crate::hub::core::ports::ConnId;
use crate::hub::core::sessions::live_text::ReceivedDelta;
use crate::hub::core::state::State;
use crate::model::event::DeltaEvent;
use crate::wire::cli;

impl Hub {
    /// Handles `message-delta`: sends it to the web clients that receive the session's messages, or drops it.
    pub async fn on_message_delta(self: &Arc<Self>, delta: &cli::MessageDelta) -> Result<(), Error> {
        self.load_session(&delta.sid).await?;
        let mut turn = self.turn();
        let State { live_texts, memory_reservations, connections, .. } = &mut *turn;
        let cli::MessageDelta { sid, id, text, offset, kind } = delta;
        let received = ReceivedDelta { session: sid, id, offset: *offset, text, kind: *kind };
        let Some((offset, text)) = live_texts.receive(&received, self.rt.now(), memory_reservations) else {
            return Ok(());
        };
        let clients: Vec<(ConnId, Format)> = connections.subscribers_of_session(sid).collect();
        if !clients.is_empty() && turn.ensure_write_queue_has_room(0).is_ok() {
            let delta = DeltaEvent { session_id: sid, id, offset, text: &text, kind: *kind };
            turn.send_delta(&clients, &delta.encode());
        }
        Ok(())
    }
}
