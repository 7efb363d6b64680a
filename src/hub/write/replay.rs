//! Logs events with their changes, publishes them once these are durable, and loads them for web clients that reconnect.
//!
//! An event without a change in the database, such as a repeated keep-alive, has no number of its own and is not logged. Like a
//! heartbeat, it is sent with the id of the event before it.

use std::ops::Range;
use std::sync::Arc;

use crate::hub::Hub;
use crate::hub::base::error::Error;
use crate::hub::base::events::log::{EventLog, HEAD_KEY, LogHead, PendingRead, TRIM_BYTES, TRIM_EVENTS};
use crate::hub::base::state::State;
use crate::hub::base::state::effect::Effect;
use crate::hub::turn::Turn;
use crate::limits::{
    BACKGROUND_RETRY_MS, LOG_MEMORY_TIMEOUT_MS, MAX_REJECTED_LOG_READS, RETAINED_BYTES, RETAINED_EVENTS,
};
use crate::store::events::EventsRow;
use crate::store::{Database, DbError, Statement, events};

impl Hub {
    /// Reserves numbers for the events of a batch, and adds their rows to it. The events of an empty batch have no numbers.
    pub(in crate::hub) async fn log_events(
        &self,
        batch: &mut Vec<Statement>,
        effects: &[Effect],
    ) -> Result<Range<u64>, DbError> {
        let events = effects.iter().filter(|effect| effect.is_event()).count();
        if batch.is_empty() || events == 0 {
            return Ok(0..0);
        }
        self.sync_event_log().await?;
        let mut turn = self.turn();
        let numbers = turn.event_numbers.reserve(events, self.rt.now());
        if let Some(log) = &mut turn.log {
            let rows = log.encode_rows(numbers.clone(), effects.iter().filter_map(Effect::event));
            self.append_rows(log, rows, batch);
        }
        Ok(numbers)
    }

    /// Adds a gap to the log with a batch that makes earlier events useless. Returns the number for an event of the batch, and
    /// the last number in the gap.
    pub(in crate::hub) async fn log_gap(&self, batch: &mut Vec<Statement>) -> Result<(u64, u64), DbError> {
        self.sync_event_log().await?;
        let mut turn = self.turn();
        let numbers = turn.event_numbers.reserve(2, self.rt.now());
        if let Some(log) = &mut turn.log {
            let row = log.gap_row(numbers.end - 1);
            self.append_rows(log, vec![row], batch);
        }
        Ok((numbers.start, numbers.end - 1))
    }

    fn append_rows(&self, log: &mut EventLog, mut rows: Vec<EventsRow>, batch: &mut Vec<Statement>) {
        let namespace = &self.config.namespace;
        let sum = |size: fn(&EventsRow) -> usize| rows.iter().map(size).sum();
        let is_trim_due = log.record_written(sum(|row| row.events), sum(|row| row.bytes));
        if is_trim_due && log.superfluous_rows.is_empty() && !rows.is_empty() {
            batch.extend(events::write_replacing_any(namespace, rows.remove(0), RETAINED_EVENTS, RETAINED_BYTES));
        }
        batch.extend(events::write(namespace, rows, &mut log.superfluous_rows));
        if is_trim_due {
            self.append_trim(log, batch);
        }
    }

    fn append_trim(&self, log: &EventLog, batch: &mut Vec<Statement>) {
        let namespace = &self.config.namespace;
        // Deletes rows that became superfluous before a hibernation and were not replaced.
        let (most_events, most_bytes) = (RETAINED_EVENTS + TRIM_EVENTS, RETAINED_BYTES + TRIM_BYTES);
        batch.push(events::trim(namespace, most_events, most_bytes, log.span().start));
        batch.push(events::select_superfluous(namespace, RETAINED_EVENTS, RETAINED_BYTES));
    }

    /// Reads the end of the log from the database after a wake or an uncertain commit, and publishes the events that connected
    /// clients have missed.
    pub(in crate::hub) async fn sync_event_log(&self) -> Result<(), DbError> {
        let namespace = &self.config.namespace;
        loop {
            let pending = self.turn().log.as_ref().and_then(EventLog::pending_read);
            let Some(pending @ (read, _)) = pending else { return Ok(()) };
            let (last, rows) = match read {
                PendingRead::LastNumber => (events::load_last_number(&self.db, namespace).await?, Vec::new()),
                PendingRead::RowsAfter(number) => (None, events::load(&self.db, namespace, number, None).await?),
            };
            let mut turn = self.turn();
            let Some(log) = turn.log.as_mut().filter(|log| log.pending_read() == Some(pending)) else { continue };
            match read {
                PendingRead::LastNumber => log.set_last_number(last.unwrap_or(0)),
                PendingRead::RowsAfter(_) => rows.iter().for_each(|row| turn.publish_row(row)),
            }
            if let Some(last) = turn.log.as_mut().map(EventLog::finish_read) {
                turn.event_numbers.continue_after(last);
            }
            return Ok(());
        }
    }

    /// Returns the newer of two event ids. One that this hub did not make counts as older than any other.
    pub fn newer_event_id(&self, one: Option<String>, other: Option<String>) -> Option<String> {
        let numbers = &self.turn().event_numbers;
        one.into_iter().chain(other).max_by_key(|id| numbers.parse_id(id))
    }

    /// Loads the events after `last_event_id` that are still in the log, if there is memory for them. Call it before
    /// [`subscribe`](Self::subscribe).
    pub async fn load_missed_events(self: &Arc<Self>, last_event_id: Option<&str>) -> Result<(), Error> {
        self.sync_event_log().await?;
        let to_load = || {
            let turn = self.turn();
            let number = last_event_id.and_then(|id| turn.event_numbers.parse_id(id));
            turn.log.as_ref().zip(number).and_then(|(log, number)| log.rows_to_load(number))
        };
        if to_load().is_none() {
            return Ok(());
        }
        // One client loads the rows for all that wait. If it fails, they fail, too: in an outage each would wait for the same
        // time-out again.
        let requested_at = self.rt.now();
        let mut last_failure = self.log_reads.lock().await;
        let failed_during_wait = |failed_at| requested_at < failed_at && failed_at <= self.rt.now();
        if let Some((_, error)) = last_failure.as_ref().filter(|(failed_at, _)| failed_during_wait(*failed_at)) {
            return Err(error.clone().into());
        }
        if let Some((after, up_to)) = to_load() {
            // The rows as text, and their events. Without this memory, the client gets a gap. No task that frees memory needs the
            // lock. Clients that waited for it do not wait for memory again.
            let deadline = requested_at + LOG_MEMORY_TIMEOUT_MS;
            let memory = self.wait_for_memory_until(2 * (RETAINED_BYTES + TRIM_BYTES), deadline).await;
            let Ok(_memory) = memory else { return Ok(()) };
            let rows = events::load(&self.db, &self.config.namespace, after, Some(up_to)).await;
            let rows = rows.inspect_err(|error| *last_failure = Some((self.rt.now(), error.clone())))?;
            if let Some(log) = &mut self.turn().log {
                log.insert_loaded(up_to, rows);
            }
        }
        Ok(())
    }
}

impl Turn<'_> {
    /// Ends the log if no web client has been connected for long enough.
    pub(in crate::hub) fn stop_expired_log(&mut self, now: u64) {
        if self.state.log.as_ref().and_then(EventLog::ends_at).is_none_or(|end| end > now) {
            return;
        }
        let is_unread = self.state.log.take().is_some_and(|log| log.pending_read().is_some());
        // Separates this log from the next one, which may start before the rows of this one are deleted.
        let last = self.state.event_numbers.allocate(now);
        if is_unread {
            // The number of the last logged event is unknown, and the next log must start after it.
            self.state.event_numbers.continue_after(last);
        }
        self.hub.rt.kv_put(HEAD_KEY, &LogHead::Off(last).encode());
        let Some(hub) = self.hub.this.upgrade() else { return };
        self.hub.rt.spawn(Box::pin(async move {
            // If this fails, the next log deletes the rows, because they are before its start.
            let _ = hub.db.batch(&mut vec![events::delete(&hub.config.namespace, last)]).await;
        }));
    }

    /// Withdraws the events of a batch that failed. If it may have been committed, reads the log to find out, until a read
    /// succeeds or [`MAX_REJECTED_LOG_READS`] are rejected: connected web clients would otherwise wait for these events until the
    /// next batch or the next session that is loaded.
    pub(in crate::hub) fn handle_failed_batch(&mut self, error: &DbError) {
        let reserved = self.state.event_numbers.last_reserved();
        self.state.event_numbers.withdraw();
        if !error.may_have_committed() || reserved == self.state.event_numbers.last_published() {
            return;
        }
        match &mut self.state.log {
            Some(log) if reserved > log.span().start => {
                let is_being_read = log.is_uncertain();
                log.mark_uncertain();
                if let Some(hub) = self.hub.this.upgrade().filter(|_| !is_being_read) {
                    self.hub.rt.spawn(Box::pin(async move {
                        let mut rejected_reads = 0;
                        while let Err(error) = hub.sync_event_log().await {
                            // A query with an unknown outcome has already been repeated for `DB_RETRY_MS`.
                            if !error.may_have_committed() {
                                rejected_reads += 1;
                                // The object cannot hibernate while it sleeps.
                                if rejected_reads == MAX_REJECTED_LOG_READS {
                                    return;
                                }
                                hub.rt.sleep(BACKGROUND_RETRY_MS).await;
                            }
                        }
                    }));
                }
            }
            // The log started during the commit, and has no row of the batch.
            Some(_) => {
                self.state.event_numbers.continue_after(reserved);
                self.send_gap_notice(None);
            }
            None => {}
        }
    }
}

impl State {
    /// Returns the number of a web client's last event if every event after it is in memory.
    pub(in crate::hub) fn resume_point(&self, last_event_id: &str) -> Option<u64> {
        let number = self.event_numbers.parse_id(last_event_id)?;
        self.log.as_ref()?.can_resume_from(number).then_some(number)
    }
}
