//! What web clients missed: events are numbered and logged with their changes, told when these are durable, and told
//! again to those who come back.
//!
//! Nothing is logged while nobody can come back. The log begins with the first web client and ends ten minutes after the
//! last one left. An event that tells of no change, such as a session's sign of life, is not logged: like a heartbeat it
//! goes out under the id of the event before it.

use std::ops::Range;

use crate::hub::error::Error;
use crate::hub::events::log::{CatchUp, EventLog, HEAD, Head, KEEP_BYTES, KEEP_EVENTS};
use crate::hub::peers::connections::Peer;
use crate::hub::peers::subscription::Subscription;
use crate::hub::state::effect::Effect;
use crate::hub::{Hub, State};
use crate::model::event::Event;
use crate::store::events::EventsRow;
use crate::store::{Columns, DbError, Statement, events};

impl Hub {
    /// Takes the log up where it was before a sleep or a restart.
    pub(in crate::hub) fn wake_log(&self) {
        let mut state = self.state();
        let note = self.rt.kv_list(HEAD).pop();
        let told = state.connections.subscriptions().map(|(_, subscription)| subscription.told).max();
        match note.and_then(|(_, note)| Head::decode(&note)) {
            Some(Head::On(span)) => {
                state.fanout.go_on_after(told.unwrap_or_default().max(span.start));
                state.log = Some(EventLog::woken(span, told));
            }
            // Numbers may have been given since then that nobody heard of.
            Some(Head::Off(last)) => {
                let after = state.fanout.told().max(last + 1);
                state.fanout.go_on_after(after);
            }
            None => {}
        }
        match told {
            Some(_) => self.join_log(&mut state),
            None => self.leave_log(&mut state),
        }
    }

    /// A web client is there: from now on events are logged.
    pub(in crate::hub) fn join_log(&self, state: &mut State) {
        // What is being committed at the moment is not in the log.
        let start = state.fanout.reserved();
        let begins = state.log.is_none();
        let log = state.log.get_or_insert_with(|| EventLog::begin(start));
        if log.join() || begins {
            self.note_head(log);
        }
    }

    /// A web client left. When it was the last one, the time is noted.
    pub(in crate::hub) fn leave_log(&self, state: &mut State) {
        if state.connections.subscriptions().next().is_some() {
            return self.persist_last_event_seq(state);
        }
        let now = self.rt.now();
        let Some(log) = &mut state.log else { return };
        if log.leave(now) {
            self.note_head(log);
            let end = log.ends_at();
            self.want_alarm(state, end);
        }
    }

    /// Ends the log when nobody can come back any more.
    pub(in crate::hub) fn end_log(&self, now: u64) {
        let mut state = self.state();
        if state.log.as_ref().and_then(EventLog::ends_at).is_none_or(|end| end > now) {
            return;
        }
        state.log = None;
        // Above all that was logged, also before a sleep, and below whatever the next log holds: it may begin before the
        // rows of this one are deleted.
        let last = state.fanout.number(now);
        self.rt.kv_put(HEAD, &Head::Off(last).encode());
        let Some(hub) = self.this.upgrade() else { return };
        self.rt.spawn(Box::pin(async move {
            // Rows that stay are before the start of the next log, which drops them.
            let _ = hub.commit(vec![events::delete(&hub.config.namespace, last)]).await;
        }));
    }

    /// The state of the log is noted when it begins, and when its last reader comes or goes.
    fn note_head(&self, log: &EventLog) {
        self.rt.kv_put(HEAD, &Head::On(log.span().clone()).encode());
    }

    /// Numbers for the events of a batch, whose rows are added to it. A batch that changes nothing has none.
    pub(in crate::hub) async fn log_events(
        &self,
        batch: &mut Vec<Statement>,
        outcomes: &[Effect],
    ) -> Result<Range<u64>, DbError> {
        let events = outcomes.iter().filter(|outcome| outcome.is_event()).count();
        if batch.is_empty() || events == 0 {
            return Ok(0..0);
        }
        self.catch_up().await?;
        let mut state = self.state();
        let numbers = state.fanout.reserve(events, self.rt.now());
        if let Some(log) = &mut state.log {
            let rows = log.rows(numbers.clone(), outcomes.iter().filter_map(Effect::event));
            self.log_rows(log, rows, batch);
        }
        Ok(numbers)
    }

    /// Two numbers for a batch after which nothing of before is worth replaying: one for an event that tells of it, and
    /// one after which the log goes on.
    pub(in crate::hub) async fn log_gap(&self, batch: &mut Vec<Statement>) -> Result<(u64, u64), DbError> {
        self.catch_up().await?;
        let mut state = self.state();
        let numbers = state.fanout.reserve(2, self.rt.now());
        if let Some(log) = &mut state.log {
            let row = log.gap(numbers.end - 1);
            self.log_rows(log, vec![row], batch);
        }
        Ok((numbers.start, numbers.end - 1))
    }

    fn log_rows(&self, log: &mut EventLog, rows: Vec<EventsRow>, batch: &mut Vec<Statement>) {
        let namespace = &self.config.namespace;
        let trims = log.wants_trim(&rows);
        batch.extend(events::append(namespace, rows));
        if trims {
            batch.push(events::trim(namespace, KEEP_EVENTS, KEEP_BYTES, log.span().start));
        }
    }

    /// Tells of an event those whom it concerns. Without a number it is not replayed.
    pub(in crate::hub) fn publish(&self, state: &mut State, number: Option<u64>, event: impl FnOnce() -> Event) {
        if let Some(number) = number {
            state.fanout.tell(number);
        }
        // Nobody is there, or was lately.
        if state.log.is_none() {
            return;
        }
        let event = event();
        self.send_event(state, &event);
        if let (Some(log), Some(number)) = (&mut state.log, number) {
            log.hold(number, event);
        }
    }

    /// Keeps the number of the last event that was told, in the attachment of one who heard of it: should the hub lose its
    /// memory and not its sockets, it knows what they have not heard.
    pub(in crate::hub) fn persist_last_event_seq(&self, state: &mut State) {
        let told = state.fanout.told();
        let first = state.connections.subscriptions().next().map(|(conn, first)| (conn, first.clone()));
        if let Some((conn, first)) = first.filter(|(_, first)| first.told != told) {
            self.put_peer(state, conn, Peer::Web(Subscription { told, ..first }));
        }
    }

    /// The events of a batch are not told: it failed. Where nobody knows whether it did, the database is asked.
    pub(in crate::hub) async fn handle_failed_batch(&self, error: &DbError) {
        {
            let mut state = self.state();
            let reserved = state.fanout.reserved();
            state.fanout.withdraw();
            if !error.leaves_doubt() || reserved == state.fanout.told() {
                return;
            }
            match &mut state.log {
                Some(log) if reserved > log.span().start => log.doubt(),
                // Whoever came while it was being committed finds nothing of it in the log.
                Some(_) => {
                    state.fanout.go_on_after(reserved);
                    self.tell_gap(&mut state);
                }
                None => {}
            }
        }
        // What can't be found out now is found out with the next batch, client or heartbeat.
        let _ = self.catch_up().await;
    }

    /// Asks the database again, where it could not be asked.
    pub(in crate::hub) fn resolve_doubt(&self) {
        if self.state().log.as_ref().is_some_and(EventLog::is_in_doubt)
            && let Some(hub) = self.this.upgrade()
        {
            self.rt.spawn(Box::pin(async move { drop(hub.catch_up().await) }));
        }
    }

    /// Reads how the log ends, where that is not known: after a wake, and when nobody knows whether a batch was committed.
    /// What those who are there have not heard they hear now.
    pub(in crate::hub) async fn catch_up(&self) -> Result<(), DbError> {
        let namespace = &self.config.namespace;
        loop {
            let catch_up = self.state().log.as_ref().and_then(EventLog::catch_up);
            let Some(asked @ (what, _)) = catch_up else { return Ok(()) };
            let statement = match what {
                CatchUp::End => events::select_end(namespace),
                CatchUp::After(number) => events::select(namespace, number, None),
            };
            let rows = self.attempt(vec![statement]).await?.pop().unwrap_or_default();
            let mut state = self.state();
            let Some(log) = state.log.as_mut().filter(|log| log.catch_up() == Some(asked)) else { continue };
            match what {
                CatchUp::End => log.read_end(rows.into_iter().next().map_or(0, |row| Columns::of(row).number())),
                CatchUp::After(_) => rows.into_iter().map(events::row).for_each(|row| self.tell_late(&mut state, &row)),
            }
            if let Some(end) = state.log.as_mut().map(EventLog::all_read) {
                state.fanout.go_on_after(end);
            }
            return Ok(());
        }
    }

    /// Tells the events of a row that was found in the log; that there were some, when they are not held.
    fn tell_late(&self, state: &mut State, row: &EventsRow) {
        let Some(log) = &mut state.log else { return };
        match log.read_next(row) {
            Some(events) => {
                events.into_iter().for_each(|(number, event)| self.publish(state, Some(number), || event));
            }
            None => {
                log.lose(row.last);
                state.fanout.go_on_after(row.last);
                self.tell_gap(state);
            }
        }
        self.persist_last_event_seq(state);
    }

    /// Makes ready for a web client that is about to subscribe: what it missed is in memory then, as far as it is held.
    pub async fn recall(&self, last_event_id: Option<&str>) -> Result<(), Error> {
        self.catch_up().await?;
        let older = {
            let state = self.state();
            let number = last_event_id.and_then(|id| state.fanout.number_of(id));
            state.log.as_ref().zip(number).and_then(|(log, number)| log.older(number))
        };
        if let Some((after, up_to)) = older {
            let statement = events::select(&self.config.namespace, after, Some(up_to));
            let rows = self.attempt(vec![statement]).await?.pop().unwrap_or_default();
            if let Some(log) = &mut self.state().log {
                log.load(up_to, rows.into_iter().map(events::row).collect());
            }
        }
        Ok(())
    }
}

impl State {
    /// The number of the event that a web client heard last, when all that came after it is held.
    pub(in crate::hub) fn held_after(&self, last_event_id: &str) -> Option<u64> {
        let number = self.fanout.number_of(last_event_id)?;
        self.log.as_ref()?.knows(number).then_some(number)
    }
}
