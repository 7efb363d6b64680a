//! Live text: forwards what an agent is writing (PROTOCOL.md "Live text"). It is never stored, and is dropped first
//! when the hub is overloaded.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::base::error::Error;
use crate::model::event::MessageDelta;
use crate::wire::cli;

impl Hub {
    /// Handles `message-delta`: sends it to the web clients that receive the session's messages, or drops it.
    pub async fn message_delta(self: &Arc<Self>, delta: &cli::MessageDelta) -> Result<(), Error> {
        let cli::MessageDelta { sid, id, text, offset, kind } = delta;
        self.load_session(sid).await?;
        let mut turn = self.turn();
        let received = turn.live_texts.receive(sid, id, *offset, text, self.rt.now());
        let Some((offset, text)) = received else { return Ok(()) };
        if turn.ensure_write_queue_has_room(0).is_ok() {
            turn.send_delta(&MessageDelta { session_id: sid, id, offset, text: &text, kind: *kind });
        }
        Ok(())
    }
}
