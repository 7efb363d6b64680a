//! The log of events: the events in memory, to which earlier ones are added when a client needs them, and the rows of the database.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::limits::{MAX_ROW_BYTES, RETAINED_BYTES, RETAINED_EVENTS};
use crate::model::event::Event;
use crate::store::events::{EventsRow, TRIM_BYTES, TRIM_EVENTS, decode_lines, push_line};

/// The largest row of the log with more than one event, in bytes. The log is trimmed by whole rows.
pub const MAX_LOG_ROW_BYTES: usize = 256_000;
/// The largest logged event, in bytes. With its number and audience it fits a parameter of a D1 statement (2 MB).
pub const MAX_LOGGED_EVENT_BYTES: usize = 1_900_000;
const _: () = assert!(MAX_LOG_ROW_BYTES < MAX_LOGGED_EVENT_BYTES && MAX_LOGGED_EVENT_BYTES < MAX_ROW_BYTES);

#[derive(Debug, Default)]
pub struct Log {
    /// Events up to this number are not in the log.
    pub start: u64,
    /// When the last web client disconnected, in Unix milliseconds; `None` while one is connected.
    pub idle_since: Option<u64>,
    /// Events with their numbers, oldest first.
    events: VecDeque<(u64, Arc<Event>)>,
    /// The size of `events`.
    bytes: usize,
    /// Events up to this number are not in `events`.
    floor: u64,
    /// Whether the database may have events of the log up to `floor`.
    has_older_rows: bool,
}

impl Log {
    /// Creates a log of the events after `start`. The events up to `last` are only in the database.
    pub fn new(start: u64, last: u64, idle_since: Option<u64>) -> Self {
        Self { start, idle_since, floor: last, has_older_rows: last > start, ..Self::default() }
    }

    /// Adds a published event, unless it is from before the start of the log.
    pub fn push(&mut self, number: u64, event: &Arc<Event>) {
        if number <= self.start {
            return;
        }
        if event.body.text_bytes() > MAX_LOGGED_EVENT_BYTES {
            return self.push_gap(number);
        }
        self.bytes += event.body.text_bytes();
        self.events.push_back((number, Arc::clone(event)));
        if self.events.len() > RETAINED_EVENTS + TRIM_EVENTS || self.bytes > RETAINED_BYTES + TRIM_BYTES {
            self.trim();
        }
    }

    fn trim(&mut self) {
        while let Some((number, event)) = self.events.front() {
            let remaining_bytes = self.bytes - event.body.text_bytes();
            if self.events.len() <= RETAINED_EVENTS && remaining_bytes < RETAINED_BYTES {
                break;
            }
            (self.floor, self.has_older_rows, self.bytes) = (*number, false, remaining_bytes);
            self.events.pop_front();
        }
    }

    /// Adds a gap up to `number`, and drops all events before it.
    pub fn push_gap(&mut self, number: u64) {
        self.events.clear();
        (self.bytes, self.floor, self.has_older_rows) = (0, number, false);
    }

    /// Whether a client can resume after the event `number`: the event is known, and all later events are in memory. The event is
    /// unknown if the database was restored to an earlier time.
    pub fn can_resume_from(&self, number: u64) -> bool {
        number == self.floor || self.events.binary_search_by_key(&number, |(known, _)| *known).is_ok()
    }

    /// Returns the events in memory after a number.
    pub fn events_after(&self, number: u64) -> impl Iterator<Item = &(u64, Arc<Event>)> {
        self.events.iter().filter(move |(known, _)| *known > number)
    }

    /// Returns the range of rows that a client needs to resume from `number`: after the first number, up to the second.
    pub fn rows_to_load(&self, number: u64) -> Option<(u64, u64)> {
        let is_older = self.has_older_rows && (self.start..self.floor).contains(&number);
        is_older.then_some((self.start, self.floor))
    }

    /// Inserts the rows up to `up_to`, oldest first, before the events in memory. Does nothing if they were inserted before.
    pub fn insert_loaded(&mut self, up_to: u64, rows: Vec<EventsRow>) {
        if !self.has_older_rows || self.floor != up_to {
            return;
        }
        self.has_older_rows = false;
        for row in rows.into_iter().rev() {
            let Some(events) = decode(&row).filter(|_| row.last == self.floor) else {
                // A gap, or a row that was committed late and not published.
                self.floor = self.floor.max(row.last);
                return;
            };
            self.floor = row.floor;
            self.bytes += events.iter().map(|(_, event)| event.body.text_bytes()).sum::<usize>();
            events.into_iter().rev().for_each(|(number, event)| self.events.push_front((number, Arc::new(event))));
        }
    }
}

/// Decodes the events of a row; `None` if it marks a gap or is malformed.
pub fn decode(row: &EventsRow) -> Option<Vec<(u64, Event)>> {
    decode_lines(&row.body).filter(|events| !events.is_empty())
}

/// Encodes the events of a batch as the rows after the number `floor`. Encodes only the last events of a large batch, as many as the
/// log retains. An event that is too large for a row gets an empty row.
pub fn encode_rows<'e>(floor: u64, numbers: Range<u64>, events: impl Iterator<Item = &'e Event>) -> Vec<EventsRow> {
    let (mut rows, mut row) = (Vec::new(), EventsRow::empty_after(floor));
    for (number, event) in numbers.zip(events) {
        let bytes = event.body.text_bytes();
        let is_logged = bytes <= MAX_LOGGED_EVENT_BYTES;
        let fits = is_logged && !row.body.is_empty() && row.bytes + bytes <= MAX_LOG_ROW_BYTES;
        if row.events > 0 && !fits {
            let next = EventsRow::empty_after(row.last);
            push_row(&mut rows, std::mem::replace(&mut row, next));
        }
        row.last = number;
        row.events += 1;
        if is_logged {
            let length = row.body.len();
            push_line(&mut row.body, number, event);
            // A line that refers to a message counts the message, too.
            let message_bytes = if event.message_seq.is_some() { bytes } else { 0 };
            row.bytes += row.body.len() - length + message_bytes;
        }
    }
    push_row(&mut rows, row);
    rows
}

/// Appends a row. Drops the first rows that the log need not retain.
fn push_row(rows: &mut Vec<EventsRow>, row: EventsRow) {
    rows.push(row);
    let need_not_retain_first = |rows: &[EventsRow]| {
        let later_rows = || rows.iter().skip(1);
        let bytes: usize = later_rows().map(|row| row.bytes).sum();
        bytes >= RETAINED_BYTES || later_rows().map(|row| row.events).sum::<usize>() >= RETAINED_EVENTS
    };
    while need_not_retain_first(rows) {
        rows.remove(0);
    }
}
