//! Encoding the events of a batch as rows of the log.

use std::ops::Range;

use crate::limits::{MAX_ROW_BYTES, RETAINED_BYTES, RETAINED_EVENTS};
use crate::model::event::Event;
use crate::store::event_lines;
use crate::store::events::EventsRow;

/// The largest row of the log with more than one event, in bytes. The log is trimmed by whole rows.
pub const MAX_LOG_ROW_BYTES: usize = 256_000;
/// The largest logged event, in bytes. With its number and audience it fits a parameter of a D1 statement (2 MB).
pub const MAX_LOGGED_EVENT_BYTES: usize = 1_900_000;
const _: () = assert!(MAX_LOG_ROW_BYTES < MAX_LOGGED_EVENT_BYTES && MAX_LOGGED_EVENT_BYTES < MAX_ROW_BYTES);

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
            push_event(&mut row, number, event);
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

/// Appends the line of an event, and adds the bytes of the event to the row. A line that refers to a message counts the message, too.
fn push_event(row: &mut EventsRow, number: u64, event: &Event) {
    let before = row.body.len();
    event_lines::push(&mut row.body, number, event);
    let message_bytes = if event.message_seq.is_some() { event.body.text_bytes() } else { 0 };
    row.bytes += row.body.len() - before + message_bytes;
}
