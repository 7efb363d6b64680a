//! Drives the [`EventStream`](crate::hub::core::events::stream::EventStream): publishes events, and reads the log when connected
//! web clients may have missed some.

use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::core::events::stream::Action;
use crate::hub::turn::Turn;
use crate::limits::BACKGROUND_RETRY_MS;
use crate::metrics::Counter;
use crate::model::event::Event;
use crate::store::DbError;
use crate::store::events::{self, EventsRow};

/// After how many rejected reads of the event log the hub gives up. Clients then get the missed events with the next batch.
const MAX_REJECTED_LOG_READS: u32 = 10;

impl Turn<'_> {
    /// Publishes an event once its change is durable. `number` is `None` for an event that changes nothing in the database.
    pub(in crate::hub) fn publish(&mut self, number: Option<u64>, event: impl FnOnce() -> Event) {
        if let Some(action) = self.state.events.on_committed(number, event) {
            self.perform_action(action);
        }
    }

    /// Withdraws the events of a batch that failed. If the batch may have been committed, reads the log to find out.
    pub(in crate::hub) fn withdraw_failed_events(&mut self, error: &DbError) {
        self.state.event_appender.on_failed();
        if let Some(action) = self.state.events.on_failed(error.is_outcome_unknown()) {
            self.perform_action(action);
        }
    }

    fn perform_action(&mut self, action: Action) {
        match action {
            Action::Send(number, event) => {
                self.hub.telemetry.metrics.count(Counter::Event);
                self.broadcast(number, &event.body, |subscription| subscription.receives(&event.audience));
            }
            Action::Gap(number) => self.send_gap_notice(number, None),
            Action::Read => {
                self.hub.spawn(Hub::publish_missed_events_with_retries);
            }
        }
    }
}

impl Hub {
    /// Publishes the events that connected clients may have missed: after a wake, or after a commit with an unknown outcome. Reads
    /// the events from the log in the database.
    pub(in crate::hub) async fn publish_missed_events(&self) -> Result<(), DbError> {
        let namespace = &self.config.namespace;
        loop {
            let Some(read) = self.turn().events.pending_read() else { return Ok(()) };
            let rows = match read.after {
                Some(number) => events::load(&self.db, namespace, number, None).await?,
                None => {
                    let last = events::load_last_number(&self.db, namespace).await?;
                    last.map(EventsRow::empty_after).into_iter().collect()
                }
            };
            let mut turn = self.turn();
            let actions = turn.events.on_rows_read(read, &rows);
            actions.into_iter().for_each(|action| turn.perform_action(action));
            turn.persist_last_published();
        }
    }

    /// Publishes missed events, and tries again if a read fails. Without this, clients would get the missed events only when the next
    /// batch is written or the next session is loaded.
    async fn publish_missed_events_with_retries(self: Arc<Self>) {
        let mut rejected_reads = 0;
        while let Err(error) = self.publish_missed_events().await {
            // After an unknown outcome, read again at once and do not count it: the query was already repeated for `DB_RETRY_PERIOD_MS`.
            if error.is_outcome_unknown() {
                continue;
            }
            rejected_reads += 1;
            // Stop trying, because the object cannot hibernate while this task sleeps.
            if rejected_reads == MAX_REJECTED_LOG_READS {
                return;
            }
            self.rt.sleep(BACKGROUND_RETRY_MS).await;
        }
    }
}
