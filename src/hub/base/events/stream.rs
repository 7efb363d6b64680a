//! The event stream of a namespace: the numbers of its events, and which of them web clients receive, have missed, or can resume
//! from.

use std::ops::Range;
use std::sync::Arc;

use super::ids::EventIds;
use super::log::{Log, decode};
use super::rows::encode_rows;
use crate::limits::LOG_RETENTION_MS;
use crate::model::event::Event;
use crate::model::namespace::Namespace;
use crate::store::events::EventsRow;

/// The key of [`EventStream::head`] in the key-value storage.
pub const HEAD_KEY: &str = "events";

/// What the hub must do after an input.
#[derive(Debug, PartialEq)]
pub enum Output {
    /// Send an event, with the id of this number, to the web clients that subscribed to it.
    Send(u64, Arc<Event>),
    /// Notify all web clients, with the id of this number, that they have missed events.
    Gap(u64),
    /// Read the log soon: web clients may have missed events of the last batch.
    Read,
}

/// A read of the log, which ends with [`EventStream::rows_read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Web clients have received all events up to this number. `None` if no web client is connected, so that only the number of the
    /// last event must be read.
    pub after: Option<u64>,
    /// The last number of the batch that caused the read, so that an earlier read does not end this one.
    batch_end: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Off,
    CatchingUp(Read),
    Live,
}

/// A state machine without IO. Events always have numbers. They are logged and sent unless the stream is off.
///
/// ```text
///                      client_connected: store
///         +-----+ -------------------------------> +------+  committed: send
/// new --> | Off |                                  | Live |  client_connected, client_gone: store
///         +-----+ <------------------------------- +------+
///           |  ^           alarm_fired: store        |  ^
///     woken |  | alarm_fired: store     failed: read |  | rows_read: send, gap
///           v  |                                     v  |
///         +-------------------------------------------------+
///         | CatchingUp: no batch is logged before rows_read |
///         +-------------------------------------------------+
/// ```
///
/// `failed` changes the state only if the batch may have been committed. If the log started during the commit, no row has the
/// events of the batch: that is a gap. *Store* is a new [`head`](Self::head).
///
/// A number is the Unix time in microseconds, or the last number plus one if that is greater. The numbers of a batch are reserved
/// before its commit, and not used again if it fails.
#[derive(Debug)]
pub struct EventStream {
    pub ids: EventIds,
    phase: Phase,
    /// Empty while the stream is off.
    log: Log,
    last_used: u64,
    /// The last number that is reserved for an event; that of the last published event when none is reserved.
    last_reserved: u64,
    last_published: u64,
}

/// Inputs.
impl EventStream {
    /// `now` is in Unix milliseconds, here and below.
    pub fn new(namespace: &Namespace, now: u64) -> Self {
        let last = now * 1000;
        Self {
            ids: EventIds::new(namespace),
            phase: Phase::Off,
            log: Log::default(),
            last_used: last,
            last_reserved: last,
            last_published: last,
        }
    }

    /// Continues after hibernation or a restart. `last_published` is the number of the last event that was sent to the web clients
    /// that are still connected; `None` if there are none.
    pub fn woken(&mut self, head: &str, last_published: Option<u64>) {
        let (state, numbers) = head.split_once(' ').unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = numbers.split(' ').map(str::parse).collect();
        let (start, idle_since) = match (state, numbers.as_deref()) {
            ("on", Ok([start])) => (*start, None),
            ("on", Ok([start, since])) => (*start, Some(*since)),
            // The numbers of later events are not stored, but no web client has received them.
            ("off", Ok([last])) => return self.continue_after(self.last_published.max(last + 1)),
            _ => return,
        };
        let last = last_published.unwrap_or_default().max(start);
        self.continue_after(last);
        self.log = Log::new(start, last, idle_since);
        self.phase = Phase::CatchingUp(Read { after: last_published.map(|_| last), batch_end: last });
    }

    /// Returns whether to store the head.
    pub fn client_connected(&mut self) -> bool {
        if self.phase == Phase::Off {
            // The events of a batch in flight are not in the log.
            self.log = Log::new(self.last_reserved, self.last_reserved, None);
            self.phase = Phase::Live;
            return true;
        }
        self.log.idle_since.take().is_some()
    }

    /// The last web client has disconnected. Returns whether to store the head.
    pub fn client_gone(&mut self, now: u64) -> bool {
        let changes = self.phase != Phase::Off && self.log.idle_since.is_none();
        if changes {
            self.log.idle_since = Some(now);
        }
        changes
    }

    /// Ends the log [`LOG_RETENTION_MS`] after the last web client disconnected. Then returns the number up to which to delete the
    /// rows, and the head must be stored.
    pub fn alarm_fired(&mut self, now: u64) -> Option<u64> {
        self.ends_at().filter(|end| *end <= now)?;
        // Separates this log from the next one, which may start before the rows of this one are deleted.
        let last = self.next_unused(now);
        if self.pending_read().is_some() {
            // The number of the last logged event is unknown, and the next log must start after it.
            self.continue_after(last);
        }
        (self.phase, self.log) = (Phase::Off, Log::default());
        Some(last)
    }

    /// An event is durable. It has no number if nothing was written: it is sent with the id of the event before it, and not logged.
    pub fn committed(&mut self, number: Option<u64>, event: impl FnOnce() -> Event) -> Option<Output> {
        self.last_published = number.unwrap_or(self.last_published);
        (self.phase != Phase::Off).then(|| self.send(number, event()))
    }

    fn send(&mut self, number: Option<u64>, event: Event) -> Output {
        let event = Arc::new(event);
        if let Some(number) = number {
            self.log.push(number, &event);
        }
        Output::Send(self.last_published, event)
    }

    /// A batch is durable that makes the events up to `number` useless: no web client can resume from one before `number`.
    pub fn cleared(&mut self, number: u64) {
        self.last_published = number;
        self.log.push_gap(number);
    }

    /// A batch failed, perhaps after its commit.
    pub fn failed(&mut self, may_have_committed: bool) -> Option<Output> {
        let batch_end = std::mem::replace(&mut self.last_reserved, self.last_published);
        if !may_have_committed || batch_end == self.last_published || self.phase == Phase::Off {
            return None;
        }
        if batch_end > self.log.start {
            self.phase = Phase::CatchingUp(Read { after: Some(self.last_logged()), batch_end });
            return Some(Output::Read);
        }
        // The log started during the commit, and has no row of the batch.
        self.continue_after(batch_end);
        Some(Output::Gap(batch_end))
    }

    /// The rows of a [pending read](Self::pending_read), oldest first, were read. Ignores a read that is not pending.
    pub fn rows_read(&mut self, read: Read, rows: &[EventsRow]) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.phase != Phase::CatchingUp(read) {
            return outputs;
        }
        self.phase = Phase::Live;
        if read.after.is_none() {
            let last = rows.last().map_or(0, |row| row.last).max(self.log.start);
            self.log = Log::new(self.log.start, last, self.log.idle_since);
            self.continue_after(last);
            return outputs;
        }
        for row in rows {
            match decode(row).filter(|_| row.floor == self.last_logged()) {
                Some(events) => {
                    for (number, event) in events {
                        self.last_published = number;
                        outputs.push(self.send(Some(number), event));
                    }
                }
                None => {
                    self.cleared(row.last);
                    outputs.push(Output::Gap(row.last));
                }
            }
        }
        self.continue_after(self.last_logged());
        outputs
    }

    /// The rows of [`rows_to_load`](Self::rows_to_load), up to its second number and oldest first, were read.
    pub fn older_rows_read(&mut self, up_to: u64, rows: Vec<EventsRow>) {
        self.log.insert_loaded(up_to, rows);
    }

    /// Sets the number of the last published event. Numbers continue after it.
    fn continue_after(&mut self, number: u64) {
        self.last_used = self.last_used.max(number);
        (self.last_reserved, self.last_published) = (number, number);
    }
}

/// Numbers, and rows for the log.
impl EventStream {
    /// Returns a number that no event gets: for an update to CLIs, a message, or the end of a log.
    pub fn next_unused(&mut self, now: u64) -> u64 {
        self.last_used = (self.last_used + 1).max(now * 1000);
        self.last_used
    }

    /// Reserves the numbers of the events of a batch, which has at least one.
    pub fn reserve_for_batch(&mut self, events: usize, now: u64) -> Range<u64> {
        let first = (self.last_used + 1).max(now * 1000);
        let end = first + events as u64;
        (self.last_used, self.last_reserved) = (end - 1, end - 1);
        first..end
    }

    /// Returns the rows that log the events of a batch; none while the stream is off.
    pub fn encode_batch<'e>(&self, numbers: Range<u64>, events: impl Iterator<Item = &'e Event>) -> Vec<EventsRow> {
        if self.phase == Phase::Off {
            return Vec::new();
        }
        encode_rows(self.last_logged(), numbers, events)
    }

    /// Returns the row, without events, that marks a gap up to `number`; none while the stream is off.
    pub fn encode_gap(&self, number: u64) -> Vec<EventsRow> {
        let is_logged = self.phase != Phase::Off;
        is_logged.then(|| EventsRow { last: number, ..EventsRow::after(self.last_logged()) }).into_iter().collect()
    }

    fn last_logged(&self) -> u64 {
        self.last_published.max(self.log.start)
    }
}

/// Queries.
impl EventStream {
    /// The state for the next start: `on` with the number before the first event of the log and the time, in Unix milliseconds, when
    /// the last web client disconnected; or `off` with a number that is greater than those of all events logged before.
    pub fn head(&self) -> String {
        match (self.phase, self.log.idle_since) {
            (Phase::Off, _) => format!("off {}", self.last_used),
            (_, None) => format!("on {}", self.log.start),
            (_, Some(since)) => format!("on {} {since}", self.log.start),
        }
    }

    /// Events up to this number are not in the log.
    pub fn log_start(&self) -> u64 {
        self.log.start
    }

    /// When the log ends if no web client connects, in Unix milliseconds; `None` while one is connected or the stream is off.
    pub fn ends_at(&self) -> Option<u64> {
        self.log.idle_since.map(|since| since + LOG_RETENTION_MS)
    }

    pub fn last_published(&self) -> u64 {
        self.last_published
    }

    /// What must be read before another batch is logged.
    pub fn pending_read(&self) -> Option<Read> {
        match self.phase {
            Phase::CatchingUp(read) => Some(read),
            Phase::Off | Phase::Live => None,
        }
    }

    /// Returns which rows a client needs to resume: those after the first number, up to the second. `None` if all of them are in
    /// memory, or the client cannot resume.
    pub fn rows_to_load(&self, last_event_id: &str) -> Option<(u64, u64)> {
        self.log.rows_to_load(self.ids.parse(last_event_id)?)
    }

    /// Returns the number of a web client's last event if every event after it is in memory.
    pub fn resume_point(&self, last_event_id: &str) -> Option<u64> {
        let number = self.ids.parse(last_event_id)?;
        (self.phase != Phase::Off && self.log.can_resume_from(number)).then_some(number)
    }

    /// Returns the events in memory after a number.
    pub fn events_after(&self, number: u64) -> impl Iterator<Item = &(u64, Arc<Event>)> {
        self.log.events_after(number)
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
