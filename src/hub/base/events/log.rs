//! The log of recent events, from which a reconnecting web client receives what it missed.
//!
//! A row in the database holds the events of one batch, as text, and the number of the event before them, so that a missing
//! row is noticed. Where events are not in the log, because one was too large or rows are missing, there is a gap, across
//! which no client can resume. Memory holds the events since the hub woke; earlier ones are read when a client needs them.

use std::collections::VecDeque;
use std::ops::Range;

use crate::limits::{LOG_RETENTION_MS, MAX_LOG_ROW_BYTES, MAX_LOGGED_EVENT_BYTES, RETAINED_BYTES, RETAINED_EVENTS};
use crate::model::event::Event;
use crate::store::event_lines;
use crate::store::events::EventsRow;

/// The key of [`LogHead::encode`] in the key-value storage.
pub const HEAD_KEY: &str = "events";

/// How many events are added before superfluous rows are looked for again.
pub const TRIM_EVENTS: usize = RETAINED_EVENTS / 4;
/// How many bytes of events are added before superfluous rows are looked for again.
pub const TRIM_BYTES: usize = RETAINED_BYTES / 4;

/// Whether events are logged, as stored in the key-value storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogHead {
    On(LogSpan),
    /// With a number that is greater than those of all events logged before.
    Off(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSpan {
    /// Events up to this number are not in the log.
    pub start: u64,
    /// When the last web client disconnected, in Unix milliseconds; `None` while one is connected.
    pub idle_since: Option<u64>,
}

impl LogHead {
    pub fn encode(&self) -> String {
        match self {
            Self::On(LogSpan { start, idle_since: None }) => format!("on {start}"),
            Self::On(LogSpan { start, idle_since: Some(since) }) => format!("on {start} {since}"),
            Self::Off(last) => format!("off {last}"),
        }
    }

    /// Parses the text of [`encode`](Self::encode).
    pub fn decode(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        match *words.as_slice() {
            ["on", start] => Some(Self::On(LogSpan { start: start.parse().ok()?, idle_since: None })),
            ["on", start, since] => {
                Some(Self::On(LogSpan { start: start.parse().ok()?, idle_since: Some(since.parse().ok()?) }))
            }
            ["off", last] => last.parse().ok().map(Self::Off),
            _ => None,
        }
    }
}

/// What must be read from the database before further events are published or logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingRead {
    /// The number of the last logged event. No web client is connected that might have missed it.
    LastNumber,
    /// The rows after this number. Connected web clients have received all events up to it, but perhaps no later ones.
    RowsAfter(u64),
}

/// The log of events, while it is on.
#[derive(Debug)]
pub struct EventLog {
    span: LogSpan,
    /// With their numbers, in order.
    events: VecDeque<(u64, Event)>,
    /// The size of `events`.
    bytes: usize,
    /// Events up to this number are not in `events`.
    floor: u64,
    /// Whether the database may have events up to `floor`.
    has_older_rows: bool,
    last_number: u64,
    pending_read: Option<PendingRead>,
    /// The number of [`mark_uncertain`](Self::mark_uncertain) calls: a read that began before the last call is
    /// outdated.
    uncertain_commits: u64,
    events_since_trim: usize,
    bytes_since_trim: usize,
    /// The last numbers of rows that new rows may replace, which pop them from the end.
    pub superfluous_rows: Vec<u64>,
}

impl EventLog {
    /// Creates a log for events after `start`. A web client must be connected.
    pub fn new(start: u64) -> Self {
        Self {
            span: LogSpan { start, idle_since: None },
            events: VecDeque::new(),
            bytes: 0,
            floor: start,
            has_older_rows: false,
            last_number: start,
            pending_read: None,
            uncertain_commits: 0,
            events_since_trim: 0,
            bytes_since_trim: 0,
            superfluous_rows: Vec::new(),
        }
    }

    /// Restores the log after hibernation or a restart. `last_published` is the number of the last event that was published to the
    /// web clients that are still connected; `None` if there are none.
    pub fn restore(span: LogSpan, last_published: Option<u64>) -> Self {
        let last_number = last_published.unwrap_or_default().max(span.start);
        let pending_read = last_published.map_or(PendingRead::LastNumber, |_| PendingRead::RowsAfter(last_number));
        Self {
            floor: last_number,
            has_older_rows: last_number > span.start,
            last_number,
            pending_read: Some(pending_read),
            // Looks for superfluous rows with the next ones, because the size of the log is unknown.
            events_since_trim: TRIM_EVENTS,
            bytes_since_trim: TRIM_BYTES,
            span: span.clone(),
            ..Self::new(span.start)
        }
    }

    pub fn span(&self) -> &LogSpan {
        &self.span
    }

    /// Records that a web client is connected. Returns whether the span has changed.
    pub fn set_in_use(&mut self) -> bool {
        self.span.idle_since.take().is_some()
    }

    /// Records that no web client is connected. Returns whether the span has changed.
    pub fn set_idle(&mut self, now: u64) -> bool {
        let changes = self.span.idle_since.is_none();
        self.span.idle_since.get_or_insert(now);
        changes
    }

    /// When the log ends if no web client connects, in Unix milliseconds; `None` while one is connected.
    pub fn ends_at(&self) -> Option<u64> {
        self.span.idle_since.map(|since| since + LOG_RETENTION_MS)
    }

    /// What must be read from the database first, with the count of uncertain commits.
    pub fn pending_read(&self) -> Option<(PendingRead, u64)> {
        self.pending_read.map(|read| (read, self.uncertain_commits))
    }

    /// Whether connected web clients may have missed the events of a batch whose commit is uncertain.
    pub fn is_uncertain(&self) -> bool {
        self.uncertain_commits > 0 && self.pending_read.is_some()
    }

    /// Records that a batch failed in a way that leaves open whether it was committed.
    pub fn mark_uncertain(&mut self) {
        self.uncertain_commits += 1;
        // The batch may have replaced or deleted them.
        self.superfluous_rows.clear();
        self.pending_read.get_or_insert(PendingRead::RowsAfter(self.last_number));
    }

    /// Ends the pending read. Returns the number of the last logged event.
    pub fn finish_read(&mut self) -> u64 {
        self.pending_read = None;
        self.last_number
    }

    /// Sets the number of the last logged event, as read from the database.
    pub fn set_last_number(&mut self, number: u64) {
        self.last_number = number.max(self.span.start);
        self.floor = self.last_number;
        self.has_older_rows = self.last_number > self.span.start;
    }

    /// Decodes the row after the last logged event. Returns `None` if there is a gap before the row, or the row itself
    /// is a gap.
    pub fn decode_next(&self, row: &EventsRow) -> Option<Vec<(u64, Event)>> {
        event_lines::decode(&row.body).filter(|events| row.floor == self.last_number && !events.is_empty())
    }

    /// Encodes the events of a batch as rows. Of a large batch, encodes only the last events, as many as the log
    /// retains.
    pub fn encode_rows<'e>(&self, numbers: Range<u64>, events: impl Iterator<Item = &'e Event>) -> Vec<EventsRow> {
        let mut rows = RowsBuilder { finished: VecDeque::new(), current: EventsRow::after(self.last_number) };
        for (number, event) in numbers.zip(events) {
            let is_logged = event.body.text_bytes() <= MAX_LOGGED_EVENT_BYTES;
            if !is_logged || rows.current.bytes + event.body.text_bytes() > MAX_LOG_ROW_BYTES {
                rows.finish_row();
            }
            rows.current.last = number;
            rows.current.events += 1;
            match is_logged {
                true => push_event(&mut rows.current, number, event),
                false => rows.finish_row(),
            }
        }
        rows.finish_row();
        rows.finished.into()
    }

    /// Returns a row without events, which marks a gap up to `number`.
    pub fn gap_row(&self, number: u64) -> EventsRow {
        EventsRow { last: number, ..EventsRow::after(self.last_number) }
    }

    /// Counts written events. Returns whether a trim of the log is due.
    pub fn record_written(&mut self, events: usize, bytes: usize) -> bool {
        self.events_since_trim += events;
        self.bytes_since_trim += bytes;
        let is_due = self.events_since_trim >= TRIM_EVENTS || self.bytes_since_trim >= TRIM_BYTES;
        if is_due {
            (self.events_since_trim, self.bytes_since_trim) = (0, 0);
        }
        is_due
    }

    /// Adds a published event, unless it is from before the start of the log.
    pub fn push(&mut self, number: u64, event: Event) {
        if number <= self.span.start {
            return;
        }
        if event.body.text_bytes() > MAX_LOGGED_EVENT_BYTES {
            return self.push_gap(number);
        }
        self.last_number = number;
        self.bytes += event.body.text_bytes();
        self.events.push_back((number, event));
        if self.events.len() > RETAINED_EVENTS + TRIM_EVENTS || self.bytes > RETAINED_BYTES + TRIM_BYTES {
            self.trim();
        }
    }

    fn trim(&mut self) {
        while let Some((number, event)) = self.events.front() {
            let rest = self.bytes - event.body.text_bytes();
            if self.events.len() <= RETAINED_EVENTS && rest < RETAINED_BYTES {
                break;
            }
            (self.floor, self.has_older_rows, self.bytes) = (*number, false, rest);
            self.events.pop_front();
        }
    }

    /// Adds a gap up to `number`, and drops all events before it.
    pub fn push_gap(&mut self, number: u64) {
        self.events.clear();
        (self.bytes, self.floor, self.has_older_rows, self.last_number) = (0, number, false, number);
    }

    /// Whether the event with this number is known, and every event after it is in memory. It may be unknown if the database was
    /// restored to an earlier moment.
    pub fn can_resume_from(&self, number: u64) -> bool {
        number == self.floor || self.events.binary_search_by_key(&number, |(known, _)| *known).is_ok()
    }

    /// Returns which rows a client needs to resume from `number`: those after the first number, up to the second.
    pub fn rows_to_load(&self, number: u64) -> Option<(u64, u64)> {
        let is_older = self.has_older_rows && (self.span.start..self.floor).contains(&number);
        is_older.then_some((self.span.start, self.floor))
    }

    /// Inserts the rows up to `up_to`, oldest first, before the events in memory. Does nothing if these were inserted already.
    pub fn insert_loaded(&mut self, up_to: u64, rows: Vec<EventsRow>) {
        if !self.has_older_rows || self.floor != up_to {
            return;
        }
        self.has_older_rows = false;
        for row in rows.into_iter().rev() {
            let Some(events) =
                event_lines::decode(&row.body).filter(|events| row.last == self.floor && !events.is_empty())
            else {
                // A gap, or a row that was committed late and not published.
                self.floor = self.floor.max(row.last);
                return;
            };
            self.floor = row.floor;
            self.bytes += events.iter().map(|(_, event)| event.body.text_bytes()).sum::<usize>();
            events.into_iter().rev().for_each(|event| self.events.push_front(event));
        }
    }

    pub fn events_after(&self, number: u64) -> impl Iterator<Item = &(u64, Event)> {
        self.events.iter().filter(move |(known, _)| *known > number)
    }
}

struct RowsBuilder {
    finished: VecDeque<EventsRow>,
    current: EventsRow,
}

impl RowsBuilder {
    /// Starts a new row, unless the current one is empty. Drops the first rows that the log need not retain.
    fn finish_row(&mut self) {
        if self.current.events == 0 {
            return;
        }
        let next = EventsRow::after(self.current.last);
        self.finished.push_back(std::mem::replace(&mut self.current, next));
        let is_first_superfluous = |rows: &VecDeque<EventsRow>| {
            let others = || rows.iter().skip(1);
            let bytes: usize = others().map(|row| row.bytes).sum();
            bytes >= RETAINED_BYTES || others().map(|row| row.events).sum::<usize>() >= RETAINED_EVENTS
        };
        while is_first_superfluous(&self.finished) {
            self.finished.pop_front();
        }
    }
}

/// Appends the line of an event. The size of the row has that of the whole event, also of one that is a reference.
fn push_event(row: &mut EventsRow, number: u64, event: &Event) {
    let before = row.body.len();
    event_lines::push(&mut row.body, number, event);
    let message_bytes = if event.message_seq.is_some() { event.body.text_bytes() } else { 0 };
    row.bytes += row.body.len() - before + message_bytes;
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
