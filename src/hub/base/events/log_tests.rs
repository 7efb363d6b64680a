use super::*;
use crate::limits::{MAX_LOG_ROW_BYTES, MAX_LOGGED_EVENT_BYTES, RETAINED_BYTES, RETAINED_EVENTS};
use crate::model::event::Audience;

fn event(size: usize) -> Event {
    Event {
        audience: Audience::Session("s".into()),
        body: format!("{{{}}}", "x".repeat(size)).into(),
        message_seq: None,
    }
}

/// A log that starts after event 100, with its rows in the database.
struct StoredLog {
    log: EventLog,
    rows: Vec<EventsRow>,
}

impl StoredLog {
    fn new() -> Self {
        Self { log: EventLog::new(100), rows: Vec::new() }
    }

    /// Writes a batch of events of these sizes and publishes them.
    fn append(&mut self, sizes: &[usize]) {
        let events: Vec<Event> = sizes.iter().map(|size| event(*size)).collect();
        let numbers = self.log.last_number + 1..self.log.last_number + 1 + events.len() as u64;
        self.rows.extend(self.log.encode_rows(numbers.clone(), events.iter()));
        numbers.zip(events).for_each(|(number, event)| self.log.push(number, event));
    }

    /// The log after hibernation, with all rows loaded.
    fn restore(&self) -> EventLog {
        let mut log = EventLog::restore(self.log.span().clone(), None);
        assert_eq!(log.pending_read().map(|(read, _)| read), Some(PendingRead::LastNumber));
        log.set_last_number(self.rows.last().map_or(0, |row| row.last));
        assert_eq!(log.finish_read(), self.log.last_number);
        if let Some((after, up_to)) = log.rows_to_load(log.floor - 1) {
            assert_eq!((after, up_to), (100, self.log.last_number));
            log.insert_loaded(up_to, self.rows.clone());
        }
        log
    }
}

fn numbers(log: &EventLog) -> Vec<u64> {
    log.events_after(0).map(|(number, _)| *number).collect()
}

#[test]
fn decoding_a_row_restores_any_id_and_any_json() {
    let ids = ["", "m", "tab\there", "line\nbreak\r", "\"quoted\"", "\u{2028}", "日本", "\\", "1\ts\"a\"\t{}"];
    let audiences = ids
        .into_iter()
        .flat_map(|id| [Audience::Session(id.into()), Audience::SessionOnly(id.into()), Audience::Machine(id.into())]);
    let events: Vec<Event> = audiences
        .map(|audience| Event { audience, body: "{\"a\":\r\n\t\"b\\n\u{2028}\"}".to_owned().into(), message_seq: None })
        .collect();
    let log = EventLog::new(100);
    let end = 101 + events.len() as u64;
    let rows = log.encode_rows(101..end, events.iter());
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((row.last, row.floor, row.events), (end - 1, 100, events.len()));
    let decoded = log.decode_next(row).unwrap();
    assert!(decoded.iter().map(|(number, _)| *number).eq(101..end));
    for ((_, decoded), event) in decoded.iter().zip(&events) {
        assert_eq!(
            (&decoded.audience, decoded.body.concat()),
            (&event.audience, "{\"a\":  \t\"b\\n\u{2028}\"}".to_owned())
        );
    }
}

#[test]
fn malformed_heads_are_not_decoded() {
    for malformed in ["", "on", "on x", "on 1 x", "on 1 2 3", "off", "off x", "1"] {
        assert_eq!(LogHead::decode(malformed), None, "{malformed:?}");
    }
}

#[test]
fn loaded_events_come_before_those_published_during_the_read() {
    let mut stored = StoredLog::new();
    stored.append(&[1, 1]);
    let mut log = EventLog::restore(stored.log.span().clone(), None);
    log.set_last_number(102);
    log.finish_read();
    let (_, up_to) = log.rows_to_load(101).unwrap();
    log.push(103, event(1));
    log.insert_loaded(up_to, stored.rows.clone());
    log.insert_loaded(up_to, stored.rows.clone());
    assert_eq!((log.floor, numbers(&log)), (100, vec![101, 102, 103]));
    assert!(log.rows_to_load(99).is_none(), "the log starts after 100");
}

#[test]
fn at_least_1000_events_are_retained() {
    let mut stored = StoredLog::new();
    for n in 1..=3_000 {
        stored.append(&[1]);
        let retained = stored.log.events.len();
        assert!(retained >= RETAINED_EVENTS.min(n) && retained <= RETAINED_EVENTS + TRIM_EVENTS, "{retained}");
    }
    let retained = numbers(&stored.log);
    assert_eq!((retained.first().copied(), retained.last().copied()), (Some(stored.log.floor + 1), Some(3_100)));
    assert!(stored.log.rows_to_load(101).is_none(), "trimmed events are not loaded again");
}

#[test]
fn at_least_two_megabytes_of_events_are_retained() {
    let mut stored = StoredLog::new();
    for n in 1..=100 {
        stored.append(&[100_000, 10]);
        let bytes: usize = stored.log.events_after(0).map(|(_, event)| event.body.text_bytes()).sum();
        assert!(bytes >= RETAINED_BYTES.min(n * 100_000) && bytes <= RETAINED_BYTES + TRIM_BYTES, "{n}: {bytes}");
        assert_eq!(bytes, stored.log.bytes);
    }
}

#[test]
fn a_large_batch_is_split_into_rows() {
    let mut stored = StoredLog::new();
    stored.append(&[1, 100_000, 100_000, 100_000, 700_000, 1, 1]);
    let rows: Vec<(u64, u64, usize)> = stored.rows.iter().map(|row| (row.floor, row.last, row.events)).collect();
    assert_eq!(rows, [(100, 103, 3), (103, 104, 1), (104, 105, 1), (105, 107, 2)]);
    assert_eq!(numbers(&stored.restore()), (101..=107).collect::<Vec<_>>());
}

#[test]
fn only_the_end_of_a_batch_larger_than_the_log_is_written() {
    let mut stored = StoredLog::new();
    stored.append(&[1]);
    stored.append(&[100_000; 80]);
    let bytes: usize = stored.rows.iter().map(|row| row.body.len()).sum();
    assert!((RETAINED_BYTES..RETAINED_BYTES + 2 * MAX_LOG_ROW_BYTES).contains(&bytes), "{bytes}");
    let floor = stored.rows[1].floor;
    assert_eq!((stored.restore().floor, stored.restore().last_number), (floor, 181));
    assert_eq!(numbers(&stored.restore()), (floor + 1..=181).collect::<Vec<_>>());
    assert!(stored.log.floor <= floor);
}

#[test]
fn an_event_larger_than_a_row_is_a_gap() {
    let mut stored = StoredLog::new();
    stored.append(&[1]);
    stored.append(&[1, MAX_LOGGED_EVENT_BYTES, 1]);
    assert_eq!((numbers(&stored.log), stored.log.floor), (vec![104], 103));
    let restored = stored.restore();
    assert_eq!((numbers(&restored), restored.floor), (vec![104], 103));
    let gap = EventsRow { floor: 104, ..stored.rows[2].clone() };
    assert!(gap.body.is_empty() && stored.log.decode_next(&gap).is_none());
    stored.append(&[MAX_LOGGED_EVENT_BYTES]);
    assert_eq!((numbers(&stored.log), stored.log.floor), (vec![], 105));
    assert_eq!(stored.restore().floor, 105);
    stored.append(&[MAX_LOGGED_EVENT_BYTES - 2]);
    assert_eq!((numbers(&stored.log), stored.log.floor), (vec![106], 105));
    assert!(stored.rows.iter().all(|row| row.body.len() < 2_000_000));
}

#[test]
fn events_from_before_the_start_are_ignored() {
    let mut log = EventLog::new(100);
    log.push(100, event(1));
    log.push(101, event(1));
    assert_eq!((log.floor, numbers(&log)), (100, vec![101]));
}
