//! Drives the [`EventStream`](crate::hub::base::events::stream::EventStream): publishes events, and reads the log when connected
//! web clients may have missed some.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::base::events::stream::Output;
use crate::hub::turn::Turn;
use crate::limits::BACKGROUND_RETRY_MS;
use crate::model::event::Event;
use crate::store::DbError;
use crate::store::events::{self, EventsRow};

/// How often the hub reads the event log after a failed batch if D1 rejects each read.
const MAX_REJECTED_LOG_READS: u32 = 10;

impl Turn<'_> {
    /// Publishes an event whose change is durable. An event without a number changed nothing in the database.
    pub(in crate::hub) fn publish(&mut self, number: Option<u64>, event: impl FnOnce() -> Event) {
        if let Some(output) = self.state.events.committed(number, event) {
            self.perform(output);
        }
    }

    /// Withdraws the events of a batch that failed. If it may have been committed, reads the log to find out.
    pub(in crate::hub) fn handle_failed_batch(&mut self, error: &DbError) {
        self.state.event_appender.on_failed();
        if let Some(output) = self.state.events.failed(error.may_have_committed()) {
            self.perform(output);
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Send(number, event) => {
                self.broadcast(number, &event.body, |subscription| subscription.receives(&event.audience));
            }
            Output::Gap(number) => self.send_gap_notice(number, None),
            Output::Read => {
                if let Some(hub) = self.hub.this.upgrade() {
                    self.hub.rt.spawn(Box::pin(hub.sync_event_log_soon()));
                }
            }
        }
    }
}

impl Hub {
    /// Reads the end of the log from the database after a wake or an uncertain commit, and publishes the events that connected
    /// clients have missed.
    pub(in crate::hub) async fn sync_event_log(&self) -> Result<(), DbError> {
        let namespace = &self.config.namespace;
        loop {
            let Some(read) = self.turn().events.pending_read() else { return Ok(()) };
            let rows = match read.after {
                Some(number) => events::load(&self.db, namespace, number, None).await?,
                None => {
                    let last = events::load_last_number(&self.db, namespace).await?;
                    last.map(EventsRow::after).into_iter().collect()
                }
            };
            let mut turn = self.turn();
            let outputs = turn.events.rows_read(read, &rows);
            outputs.into_iter().for_each(|output| turn.perform(output));
            turn.persist_last_published();
        }
    }

    /// Reads the log until a read succeeds or [`MAX_REJECTED_LOG_READS`] are rejected: connected web clients would otherwise wait for
    /// its events until the next batch or the next session that is loaded.
    async fn sync_event_log_soon(self: Arc<Self>) {
        let mut rejected_reads = 0;
        while let Err(error) = self.sync_event_log().await {
            // A query with an unknown outcome has already been repeated for `DB_RETRY_MS`.
            if !error.may_have_committed() {
                rejected_reads += 1;
                // The object cannot hibernate while it sleeps.
                if rejected_reads == MAX_REJECTED_LOG_READS {
                    return;
                }
                self.rt.sleep(BACKGROUND_RETRY_MS).await;
            }
        }
    }
}
