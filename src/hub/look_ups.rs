//! Look-ups of sessions in the database. Those that begin together share a batch: of creators that waited for the same commit, and
//! of CLIs that reconnect after a wake.

use std::sync::Arc;

use futures::channel::oneshot;

use super::Hub;
use super::state::look_up::LookUp;
use crate::limits::MAX_GROUPED_LOOK_UPS;
use crate::store::{Database, DbError, Row, Statement};

impl Hub {
    /// Runs statements that read little, and returns the rows of each. Other tasks may run between the read and the return.
    pub(super) async fn look_up(self: &Arc<Self>, statements: Vec<Statement>) -> Result<Vec<Vec<Row>>, DbError> {
        let (sender, receiver) = oneshot::channel();
        let is_first = {
            let look_ups = &mut self.state().look_ups;
            look_ups.push(LookUp { statements, sender });
            look_ups.len() == 1
        };
        if is_first {
            let hub = Arc::clone(self);
            self.rt.spawn(Box::pin(async move { hub.run_look_ups().await }));
        }
        receiver.await.unwrap_or_else(|_| Err(DbError::Unavailable("the hub was interrupted".into())))
    }

    /// Whether no query is in progress or about to begin.
    pub(super) fn is_database_idle(&self) -> bool {
        self.db.is_idle() && self.state().look_ups.is_empty()
    }

    /// Waits one turn of the event loop, and longer while more look-ups begin, then runs them.
    async fn run_look_ups(self: &Arc<Self>) {
        self.await_burst(1, |state| state.look_ups.len()).await;
        let mut look_ups = std::mem::take(&mut self.state().look_ups);
        while !look_ups.is_empty() {
            let rest = look_ups.split_off(look_ups.len().min(MAX_GROUPED_LOOK_UPS));
            let (hub, batch) = (Arc::clone(self), std::mem::replace(&mut look_ups, rest));
            self.rt.spawn(Box::pin(async move { hub.run_batch(batch).await }));
        }
    }

    async fn run_batch(&self, mut look_ups: Vec<LookUp>) {
        let counts: Vec<usize> = look_ups.iter().map(|look_up| look_up.statements.len()).collect();
        let mut statements = look_ups.iter_mut().flat_map(|look_up| std::mem::take(&mut look_up.statements)).collect();
        let mut rows = self.db.batch(&mut statements).await.map(Vec::into_iter);
        for (look_up, count) in look_ups.into_iter().zip(counts) {
            let own_rows = rows.as_mut().map(|rows| rows.by_ref().take(count).collect()).map_err(|error| error.clone());
            // The request may have ended.
            let _ = look_up.sender.send(own_rows);
        }
    }
}
