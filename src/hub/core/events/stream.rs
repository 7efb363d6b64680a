//! The event stream of a namespace: the ids and frames of its events, and which of them clients get, have missed, or can resume from.

use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::log::{Log, decode, encode_rows};
use crate::hub::core::peers::subscription::Format;
use crate::model::event::Event;
use crate::model::namespace::Namespace;
use crate::model::text_parts::TextParts;
use crate::store::Statement;
use crate::store::events::{Appender, EventsRow};

/// How long events are logged after the last web client disconnected, in milliseconds (PROTOCOL-EVENTS.md "Events for web clients").
pub const LOG_RETENTION_MS: u64 = 600_000;

/// The key of [`EventStream::head`] in the key-value storage.
pub const HEAD_KEY: &str = "events";

/// What the hub must do after an input to the [`EventStream`].
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Send an event to the web clients that subscribed to it. The event's id has this number.
    Send(u64, Arc<Event>),
    /// Notify all web clients that they have missed the events up to this number. The id of the notice has this number.
    Gap(u64),
    /// Start a task that reads the log: web clients may have missed events of the last batch.
    Read,
}

/// A read of the log, which ends with [`EventStream::on_rows_read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The clients have received all events up to this number. `None` without clients: only the number of the last event must be read.
    pub after: Option<u64>,
    /// The last number of the batch that caused the read. Distinguishes this read from an earlier read with the same `after`.
    batch_end: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Off,
    CatchingUp(Read),
    Live,
}

/// A state machine without I/O. Events always have numbers. Events are logged and sent unless the stream is off.
///
/// ```text
///                      client_connected: store
///         +-----+ -------------------------------> +------+  committed: send
/// new --> | Off |                                  | Live |  client_connected: store
///         +-----+ <------------------------------- +------+  last_client_disconnected: store
///           |  ^          log_alarm: store           |  ^
///      wake |  | log_alarm: store       failed: read |  | rows_read: send, gap
///           v  |                                     v  |
///         +-------------------------------------------------+
///         | CatchingUp: no batch is logged before rows_read |
///         +-------------------------------------------------+
/// ```
///
/// An arrow has the name of the input without `on_`, and the [`Action`]s. *Store*: the caller must store the new
/// [`head`](Self::head). `on_failed` changes the state only if the batch may have been committed. If the log started during the
/// commit, the log lacks the events of the batch, and clients get a gap notice.
///
/// The number of an event is the Unix time in microseconds, or the last number plus one if that is greater. The numbers of a batch
/// are reserved before its commit, and not used again if the commit fails.
#[derive(Debug)]
pub struct EventStream {
    pub ids: EventIds,
    phase: Phase,
    /// Empty while the stream is off.
    pub log: Log,
    pub appender: Appender,
    last_used: u64,
    /// The last number that is reserved for an event; `last_published` if none is reserved.
    last_reserved: u64,
    /// The number of the last event that was sent to web clients.
    pub last_published: u64,
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
            appender: Appender::default(),
            last_used: last,
            last_reserved: last,
            last_published: last,
        }
    }

    /// Continues after hibernation or a restart. `last_published` is the number of the last event that was sent to the web clients
    /// that are still connected; `None` if there are none.
    pub fn on_wake(&mut self, head: &str, last_published: Option<u64>) {
        let (state, numbers) = head.split_once(' ').unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = numbers.split(' ').map(str::parse).collect();
        let (start, idle_since) = match (state, numbers.as_deref()) {
            ("on", Ok([start])) => (*start, None),
            ("on", Ok([start, since])) => (*start, Some(*since)),
            // Events since the head was stored have greater numbers. No web client has received them, so their numbers need not be known.
            ("off", Ok([last])) => return self.continue_after(self.last_published.max(last + 1)),
            _ => return,
        };
        let last = last_published.unwrap_or_default().max(start);
        self.continue_after(last);
        self.log = Log::new(start, last, idle_since);
        self.phase = Phase::CatchingUp(Read { after: last_published.map(|_| last), batch_end: last });
    }

    /// A web client has connected. Returns whether the caller must store the head.
    pub fn on_client_connected(&mut self) -> bool {
        if self.phase == Phase::Off {
            // The events of a batch in flight are not in the log.
            self.log = Log::new(self.last_reserved, self.last_reserved, None);
            self.phase = Phase::Live;
            return true;
        }
        self.log.idle_since.take().is_some()
    }

    /// The last web client has disconnected. Returns whether the caller must store the head.
    pub fn on_last_client_disconnected(&mut self, now: u64) -> bool {
        let changes = self.phase != Phase::Off && self.log.idle_since.is_none();
        if changes {
            self.log.idle_since = Some(now);
        }
        changes
    }

    /// The object's alarm has fired. Turns the stream off if [`LOG_RETENTION_MS`] have passed since the last web client disconnected.
    /// If it did, returns the number up to which the caller must delete the rows; the caller must also store the head.
    pub fn on_log_alarm(&mut self, now: u64) -> Option<u64> {
        self.logging_ends_at().filter(|end| *end <= now)?;
        // Separates this log from the next log, which may start before the rows of this log are deleted.
        let last = self.next_unused(now);
        if self.pending_read().is_some() {
            // The number of the last logged event is unknown, and the next log must start after it.
            self.continue_after(last);
        }
        (self.phase, self.log) = (Phase::Off, Log::default());
        Some(last)
    }

    /// The change of an event is durable. An event without a number wrote nothing: it is sent with the previous id, and not logged.
    pub fn on_committed(&mut self, number: Option<u64>, event: impl FnOnce() -> Event) -> Option<Action> {
        self.last_published = number.unwrap_or(self.last_published);
        (self.phase != Phase::Off).then(|| self.log_and_send(number, event()))
    }

    fn log_and_send(&mut self, number: Option<u64>, event: Event) -> Action {
        let event = Arc::new(event);
        if let Some(number) = number {
            self.log.push(number, &event);
        }
        Action::Send(self.last_published, event)
    }

    /// A durable batch has made the events up to `number` useless: no web client can resume from an earlier event.
    pub fn on_cleared(&mut self, number: u64) {
        self.last_published = number;
        self.log.push_gap(number);
    }

    /// A batch failed. `may_have_committed`: the outcome of the batch is unknown.
    pub fn on_failed(&mut self, may_have_committed: bool) -> Option<Action> {
        self.appender.on_failed();
        let batch_end = std::mem::replace(&mut self.last_reserved, self.last_published);
        if !may_have_committed || batch_end == self.last_published || self.phase == Phase::Off {
            return None;
        }
        if batch_end > self.log.start {
            self.phase = Phase::CatchingUp(Read { after: Some(self.last_logged()), batch_end });
            return Some(Action::Read);
        }
        // The log started during the commit, and has no row of the batch.
        self.continue_after(batch_end);
        Some(Action::Gap(batch_end))
    }

    /// A [pending read](Self::pending_read) returned these rows, oldest first. Ignores a read that is not pending.
    pub fn on_rows_read(&mut self, read: Read, rows: &[EventsRow]) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.phase != Phase::CatchingUp(read) {
            return actions;
        }
        self.phase = Phase::Live;
        if read.after.is_none() {
            let last = rows.last().map_or(0, |row| row.last).max(self.log.start);
            self.log = Log::new(self.log.start, last, self.log.idle_since);
            self.continue_after(last);
            return actions;
        }
        for row in rows {
            match decode(row).filter(|_| row.floor == self.last_logged()) {
                Some(events) => {
                    for (number, event) in events {
                        self.last_published = number;
                        actions.push(self.log_and_send(Some(number), event));
                    }
                }
                None => {
                    self.on_cleared(row.last);
                    actions.push(Action::Gap(row.last));
                }
            }
        }
        self.continue_after(self.last_logged());
        actions
    }

    /// Sets the number of the last published event. Later numbers are greater.
    fn continue_after(&mut self, number: u64) {
        self.last_used = self.last_used.max(number);
        (self.last_reserved, self.last_published) = (number, number);
    }
}

/// Numbers, and rows for the log.
impl EventStream {
    /// Returns a number that no event has: for an update to CLIs, a message, or the end of a log.
    pub fn next_unused(&mut self, now: u64) -> u64 {
        self.last_used = (self.last_used + 1).max(now * 1000);
        self.last_used
    }

    /// Reserves numbers for the events of a batch. `events` is at least 1.
    pub fn reserve_for_batch(&mut self, events: usize, now: u64) -> Range<u64> {
        let first = (self.last_used + 1).max(now * 1000);
        let end = first + events as u64;
        (self.last_used, self.last_reserved) = (end - 1, end - 1);
        first..end
    }

    /// Returns the rows that log the events of a batch; no rows while the stream is off.
    pub fn encode_batch<'e>(&self, numbers: Range<u64>, events: impl Iterator<Item = &'e Event>) -> Vec<EventsRow> {
        if self.phase == Phase::Off { Vec::new() } else { encode_rows(self.last_logged(), numbers, events) }
    }

    /// Returns a row without events, which marks a gap up to `number`; no row while the stream is off.
    pub fn encode_gap(&self, number: u64) -> Vec<EventsRow> {
        let row = EventsRow { last: number, ..EventsRow::empty_after(self.last_logged()) };
        if self.phase == Phase::Off { Vec::new() } else { vec![row] }
    }

    /// Adds statements to a batch that write rows of the log.
    pub fn append_rows(&mut self, namespace: &Namespace, rows: Vec<EventsRow>, batch: &mut Vec<Statement>) {
        self.appender.append(namespace, self.log.start, rows, batch);
    }

    fn last_logged(&self) -> u64 {
        self.last_published.max(self.log.start)
    }
}

/// Queries.
impl EventStream {
    /// Encodes the state that the next instance needs: `off N`, or `on START`, or `on START IDLE_SINCE`. The numbers of all
    /// logged events are at most N; the numbers of the current log are above START. IDLE_SINCE is the time, in Unix
    /// milliseconds, when the last web client disconnected.
    pub fn head(&self) -> String {
        match (self.phase, self.log.idle_since) {
            (Phase::Off, _) => format!("off {}", self.last_used),
            (_, None) => format!("on {}", self.log.start),
            (_, Some(since)) => format!("on {} {since}", self.log.start),
        }
    }

    /// When the stream is turned off, in Unix milliseconds; `None` while a web client is connected or the stream is off.
    pub fn logging_ends_at(&self) -> Option<u64> {
        self.log.idle_since.map(|since| since + LOG_RETENTION_MS)
    }

    /// Returns the read that must end before another batch is logged.
    pub fn pending_read(&self) -> Option<Read> {
        match self.phase {
            Phase::CatchingUp(read) => Some(read),
            Phase::Off | Phase::Live => None,
        }
    }

    /// Returns the rows that a client needs to resume, as in [`Log::rows_to_load`]; `None` if the client cannot resume.
    pub fn rows_to_load(&self, last_event_id: &str) -> Option<(u64, u64)> {
        self.log.rows_to_load(self.ids.parse(last_event_id)?)
    }

    /// Returns the number of a web client's last event if every event after it is in memory.
    pub fn resume_point(&self, last_event_id: &str) -> Option<u64> {
        let number = self.ids.parse(last_event_id)?;
        (self.phase != Phase::Off && self.log.can_resume_from(number)).then_some(number)
    }
}

/// Makes and parses the ids of a namespace's events. An id is `<hash of the namespace>-<number>`.
#[derive(Debug)]
pub struct EventIds {
    prefix: String,
}

impl EventIds {
    pub fn new(namespace: &Namespace) -> Self {
        let digest = Sha256::digest(namespace.as_str());
        Self { prefix: digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect() }
    }

    /// Parses an event id; `None` when it is malformed or of another namespace.
    pub fn parse(&self, id: &str) -> Option<u64> {
        id.strip_prefix(self.prefix.as_str())?.strip_prefix('-')?.parse().ok()
    }

    /// Returns the frame of an event. The body must be a JSON object with at least one field.
    pub fn frame(&self, format: Format, number: u64, body: &TextParts) -> String {
        let prefix = &self.prefix;
        let start = match format {
            Format::Json => format!(r#"{{"eventId":"{prefix}-{number}","#),
            Format::Sse => format!("id: {prefix}-{number}\ndata: "),
        };
        let mut frame = String::with_capacity(start.len() + body.text_bytes() + 2);
        frame.push_str(&start);
        match format {
            Format::Json => {
                let mut texts = body.texts();
                let first = texts.next().unwrap_or_default();
                frame.push_str(first.strip_prefix('{').unwrap_or(first));
                texts.for_each(|text| frame.push_str(text));
            }
            Format::Sse => {
                body.push_single_line(&mut frame);
                frame.push_str("\n\n");
            }
        }
        frame
    }
}

/// Returns the frame of an event without an id. A client that disconnects after this frame resumes from the last id that it received.
pub fn frame_without_id(format: Format, body: &str) -> String {
    match format {
        Format::Json => body.to_owned(),
        Format::Sse => format!("data: {body}\n\n"),
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
