//! Lookups of sessions in the database. Concurrent lookups share a batch, for example when many CLIs reconnect after a wake or create
//! sessions.

use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::{BoxFuture, join};

use crate::hub::Hub;
use crate::hub::core::sessions::evictions::Lookup;
use crate::store::{Database, DbError, Row, Statement};

/// The largest number of session lookups in one batch: each may return a row of 2 MB.
pub const MAX_GROUPED_LOOKUPS: usize = 16;

impl Hub {
    /// Runs statements with small results in a batch with other lookups. Returns the rows of each statement. Other tasks may run
    /// between the read and the return.
    pub(in crate::hub) async fn look_up(
        self: &Arc<Self>,
        statements: Vec<Statement>,
    ) -> Result<Vec<Vec<Row>>, DbError> {
        let (sender, receiver) = oneshot::channel();
        let is_first = {
            let lookups = &mut self.turn().lookups;
            lookups.push(Lookup { statements, sender });
            lookups.len() == 1
        };
        if is_first {
            self.spawn(|hub| async move { hub.run_lookups().await });
        }
        receiver.await.unwrap_or_else(|_| Err(DbError::Unavailable("the hub was interrupted".into())))
    }

    /// Runs a read, and reads the last rows of the event log at the same time, because the next change needs them.
    pub(in crate::hub) async fn read_beside_log(
        &self,
        read: BoxFuture<'_, Result<Vec<Vec<Row>>, DbError>>,
    ) -> Result<Vec<Vec<Row>>, DbError> {
        let is_database_idle = self.db.is_idle() && self.turn().lookups.is_empty();
        let sync_log = async {
            if is_database_idle {
                // After an error, the change reads the log again.
                let _ = self.publish_missed_events().await;
            }
        };
        join(read, sync_log).await.0
    }

    /// Waits one pass of the event loop, and longer while more lookups begin. Then runs all waiting lookups.
    async fn run_lookups(self: &Arc<Self>) {
        self.await_burst_end(1, |state| state.lookups.len()).await;
        let mut lookups = std::mem::take(&mut self.turn().lookups);
        while !lookups.is_empty() {
            let later_lookups = lookups.split_off(lookups.len().min(MAX_GROUPED_LOOKUPS));
            let batch = std::mem::replace(&mut lookups, later_lookups);
            self.spawn(|hub| async move { hub.run_lookup_batch(batch).await });
        }
    }

    async fn run_lookup_batch(&self, mut lookups: Vec<Lookup>) {
        let counts: Vec<usize> = lookups.iter().map(|lookup| lookup.statements.len()).collect();
        let mut statements = lookups.iter_mut().flat_map(|lookup| std::mem::take(&mut lookup.statements)).collect();
        let mut rows = self.db.batch(&mut statements).await.map(Vec::into_iter);
        for (lookup, count) in lookups.into_iter().zip(counts) {
            let own_rows = rows.as_mut().map(|rows| rows.by_ref().take(count).collect()).map_err(|error| error.clone());
            // Fails if the request has ended.
            let _ = lookup.sender.send(own_rows);
        }
    }
}
