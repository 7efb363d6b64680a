//! The log of events for web clients that come back. A state machine without IO.
//!
//! Events are logged in the database, with the changes that they tell of: in one batch, so that the log never knows more
//! or less than what happened. A row holds the events of one batch and names the event before them, so that a row that
//! is missing shows. Memory holds what was told since the hub woke; what is older is read when a client comes back for it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::Range;

use crate::hub::events::numbering::one_line;
use crate::model::event::{Audience, Event};
use crate::store::events::EventsRow;

/// The key of the note that tells whether events are logged: a [`Head`].
pub const HEAD: &str = "events";

/// How long events are logged after the last web client left, in milliseconds.
pub const KEEP_MS: u64 = 600_000;
/// How many of the last events are held at least, unless they are larger than [`KEEP_BYTES`].
pub const KEEP_EVENTS: usize = 1_000;
/// How many bytes of the last events are held at least, unless they are more than [`KEEP_EVENTS`].
pub const KEEP_BYTES: usize = 2_000_000;
/// The largest event that is held, in bytes: with its number and audience it fits a parameter of D1 (2 MB).
pub const MAX_EVENT_BYTES: usize = 1_900_000;

/// How many bytes a row holds, unless it is one event: rows are dropped whole.
const ROW_BYTES: usize = 256_000;
/// How many events may come before the oldest are dropped: that goes some at a time.
const SLACK_EVENTS: usize = KEEP_EVENTS / 4;
/// How many bytes of events may come before the oldest are dropped.
const SLACK_BYTES: usize = KEEP_BYTES / 4;

/// Whether events are logged, as the notebook keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// They are.
    On(Span),
    /// They are not. All events that anybody heard have numbers up to this one.
    Off(u64),
}

/// From when on, and until when, events are logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Events up to this number are not in the log.
    pub start: u64,
    /// When the last web client left, in Unix milliseconds; none while one is there.
    pub left: Option<u64>,
}

impl Head {
    /// The note.
    pub fn encode(&self) -> String {
        match self {
            Self::On(Span { start, left: None }) => format!("on {start}"),
            Self::On(Span { start, left: Some(left) }) => format!("on {start} {left}"),
            Self::Off(last) => format!("off {last}"),
        }
    }

    /// Reads the note; none when it is not one.
    pub fn decode(note: &str) -> Option<Self> {
        let words: Vec<&str> = note.split(' ').collect();
        match *words.as_slice() {
            ["on", start] => Some(Self::On(Span { start: start.parse().ok()?, left: None })),
            ["on", start, left] => Some(Self::On(Span { start: start.parse().ok()?, left: Some(left.parse().ok()?) })),
            ["off", last] => last.parse().ok().map(Self::Off),
            _ => None,
        }
    }
}

/// What has to be read from the database before anything more is told or logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUp {
    /// With which number the log ends. Nobody who is there has heard anything.
    End,
    /// The rows after this number: those who are there have heard everything up to it, and perhaps no more.
    After(u64),
}

/// The log while somebody could come back.
#[derive(Debug)]
pub struct EventLog {
    span: Span,
    /// Events in order, with their numbers.
    held: VecDeque<(u64, Event)>,
    /// How many bytes of events are held.
    bytes: usize,
    /// Events up to this number are not in memory.
    floor: u64,
    /// Whether the database may have some of them.
    older: bool,
    /// The number with which the last row ends.
    end: u64,
    catch_up: Option<CatchUp>,
    /// Counts the doubts: what was read before the last one says nothing.
    doubts: u64,
    /// How many events and bytes were logged since rows were dropped.
    untrimmed: (usize, usize),
}

impl EventLog {
    /// A log of the events after this number, for a web client that is there.
    pub fn begin(start: u64) -> Self {
        Self {
            span: Span { start, left: None },
            held: VecDeque::new(),
            bytes: 0,
            floor: start,
            older: false,
            end: start,
            catch_up: None,
            doubts: 0,
            untrimmed: (0, 0),
        }
    }

    /// The log of before a sleep or a restart. `told` is the number of the last event that was told to those who are
    /// still there, if anybody is.
    pub fn woken(span: Span, told: Option<u64>) -> Self {
        let end = told.unwrap_or_default().max(span.start);
        let older = end > span.start;
        let catch_up = told.map_or(CatchUp::End, |_| CatchUp::After(end));
        // How much there is already is not known.
        let untrimmed = (SLACK_EVENTS, SLACK_BYTES);
        Self {
            floor: end,
            older,
            end,
            catch_up: Some(catch_up),
            untrimmed,
            span: span.clone(),
            ..Self::begin(span.start)
        }
    }

    /// From when on, and until when, events are logged.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Notes that a web client is there. Answers whether that is new.
    pub fn join(&mut self) -> bool {
        self.span.left.take().is_some()
    }

    /// Notes that no web client is there. Answers whether that is new.
    pub fn leave(&mut self, now: u64) -> bool {
        let new = self.span.left.is_none();
        self.span.left.get_or_insert(now);
        new
    }

    /// From when on nobody can come back any more.
    pub fn ends_at(&self) -> Option<u64> {
        self.span.left.map(|left| left + KEEP_MS)
    }

    /// What has to be read first, and how many doubts there were.
    pub fn catch_up(&self) -> Option<(CatchUp, u64)> {
        self.catch_up.map(|catch_up| (catch_up, self.doubts))
    }

    /// Whether somebody who is there may have to hear what is still to be read.
    pub fn is_in_doubt(&self) -> bool {
        self.doubts > 0 && self.catch_up.is_some()
    }

    /// Nobody knows whether the last row was written.
    pub fn doubt(&mut self) {
        self.doubts += 1;
        self.catch_up.get_or_insert(CatchUp::After(self.end));
    }

    /// All has been read. Answers the number with which the log ends.
    pub fn all_read(&mut self) -> u64 {
        self.catch_up = None;
        self.end
    }

    /// The database says with which number its last row ends.
    pub fn read_end(&mut self, last: u64) {
        self.end = last.max(self.span.start);
        self.floor = self.end;
        self.older = self.end > self.span.start;
    }

    /// The events of a row that follows the last one; none when it is not the next one, or says that its events are not
    /// held.
    pub fn read_next(&self, row: &EventsRow) -> Option<Vec<(u64, Event)>> {
        decode(&row.body).filter(|events| row.floor == self.end && !events.is_empty())
    }

    /// Rows for events that are about to happen, with their numbers; of more than is held the last ones.
    pub fn rows<'e>(&self, numbers: Range<u64>, events: impl Iterator<Item = Cow<'e, Event>>) -> Vec<EventsRow> {
        let mut rows = Rows { done: VecDeque::new(), open: EventsRow::after(self.end) };
        for (number, event) in numbers.zip(events) {
            let held = event.body.len() <= MAX_EVENT_BYTES;
            if !held || rows.open.body.len() + event.body.len() > ROW_BYTES {
                rows.close();
            }
            rows.open.last = number;
            rows.open.events += 1;
            match held {
                true => write_line(&mut rows.open.body, number, &event),
                false => rows.close(),
            }
        }
        rows.close();
        rows.done.into()
    }

    /// A row that says that nothing up to this number is held.
    pub fn gap(&self, number: u64) -> EventsRow {
        EventsRow { last: number, ..EventsRow::after(self.end) }
    }

    /// Whether it is time to drop rows, now that these are written.
    pub fn wants_trim(&mut self, rows: &[EventsRow]) -> bool {
        let (events, bytes) = self.untrimmed;
        let events = events + rows.iter().map(|row| row.events).sum::<usize>();
        let bytes = bytes + rows.iter().map(|row| row.body.len()).sum::<usize>();
        let due = events > SLACK_EVENTS || bytes > SLACK_BYTES;
        self.untrimmed = if due { (0, 0) } else { (events, bytes) };
        due
    }

    /// Holds an event that was told. Those of before the log's start were not logged.
    pub fn hold(&mut self, number: u64, event: Event) {
        if number <= self.span.start {
            return;
        }
        if event.body.len() > MAX_EVENT_BYTES {
            return self.lose(number);
        }
        self.end = number;
        self.bytes += event.body.len();
        self.held.push_back((number, event));
        if self.held.len() > KEEP_EVENTS + SLACK_EVENTS || self.bytes > KEEP_BYTES + SLACK_BYTES {
            self.trim();
        }
    }

    /// Drops the oldest events, as far as those after them are enough.
    fn trim(&mut self) {
        while let Some((number, event)) = self.held.front() {
            let rest = self.bytes - event.body.len();
            if self.held.len() <= KEEP_EVENTS && rest < KEEP_BYTES {
                break;
            }
            (self.floor, self.older, self.bytes) = (*number, false, rest);
            self.held.pop_front();
        }
    }

    /// Nothing up to this number is held.
    pub fn lose(&mut self, number: u64) {
        self.held.clear();
        (self.bytes, self.floor, self.older, self.end) = (0, number, false, number);
    }

    /// Whether whoever heard this event last can hear in memory all that came after it. A number that is none of the log's
    /// is from another history, such as one that ended when the database was put back to an earlier moment.
    pub fn knows(&self, number: u64) -> bool {
        number == self.floor || self.held.binary_search_by_key(&number, |(held, _)| *held).is_ok()
    }

    /// The numbers of the rows that have to be read for whoever heard this event last: above the first one, up to the
    /// second.
    pub fn older(&self, number: u64) -> Option<(u64, u64)> {
        (self.older && (self.span.start..self.floor).contains(&number)).then_some((self.span.start, self.floor))
    }

    /// Takes up the rows before what is in memory, oldest first. They were read when memory began after `up_to`.
    pub fn load(&mut self, up_to: u64, rows: Vec<EventsRow>) {
        if !self.older || self.floor != up_to {
            return;
        }
        self.older = false;
        for row in rows.into_iter().rev() {
            let Some(events) = decode(&row.body).filter(|events| row.last == self.floor && !events.is_empty()) else {
                // Something is missing here, or nobody was told of this row: whoever was here before does not know.
                self.floor = self.floor.max(row.last);
                return;
            };
            self.floor = row.floor;
            self.bytes += events.iter().map(|(_, event)| event.body.len()).sum::<usize>();
            events.into_iter().rev().for_each(|event| self.held.push_front(event));
        }
    }

    /// The events after a number.
    pub fn after(&self, number: u64) -> impl Iterator<Item = &(u64, Event)> {
        self.held.iter().filter(move |(held, _)| *held > number)
    }
}

/// Rows in the making.
struct Rows {
    done: VecDeque<EventsRow>,
    open: EventsRow,
}

impl Rows {
    /// Ends a row, unless it is empty, and begins the next one. The first ones are dropped when those after them are
    /// enough.
    fn close(&mut self) {
        if self.open.events == 0 {
            return;
        }
        let next = EventsRow::after(self.open.last);
        self.done.push_back(std::mem::replace(&mut self.open, next));
        let enough = |rows: &VecDeque<EventsRow>| {
            let rest = || rows.iter().skip(1);
            let bytes: usize = rest().map(|row| row.body.len()).sum();
            bytes >= KEEP_BYTES || rest().map(|row| row.events).sum::<usize>() >= KEEP_EVENTS
        };
        while enough(&self.done) {
            self.done.pop_front();
        }
    }
}

fn write_line(row: &mut String, number: u64, event: &Event) {
    let (kind, id) = match &event.audience {
        Audience::Session(id) => ('s', id),
        Audience::Conversation(id) => ('c', id),
        Audience::Machine(id) => ('m', id),
    };
    // As JSON the id has neither tabs nor line breaks, whatever its owner chose.
    let id = serde_json::to_string(id).unwrap_or_default();
    // Writing to a text does not fail.
    let _ = writeln!(row, "{number}\t{kind}{id}\t{}", one_line(&event.body));
}

/// The events of a row, with their numbers; none when its text is not one.
fn decode(row: &str) -> Option<Vec<(u64, Event)>> {
    row.lines().map(read_line).collect()
}

fn read_line(line: &str) -> Option<(u64, Event)> {
    let mut parts = line.splitn(3, '\t');
    let (number, audience, body) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (kind, id) = audience.split_at_checked(1)?;
    let id = serde_json::from_str(id).ok()?;
    let audience = match kind {
        "s" => Audience::Session(id),
        "c" => Audience::Conversation(id),
        "m" => Audience::Machine(id),
        _ => return None,
    };
    Some((number, Event { audience, body: body.to_owned() }))
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
