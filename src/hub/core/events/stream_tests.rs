use super::*;
use crate::hub::core::events::log::{MAX_LOG_ROW_BYTES, MAX_LOGGED_EVENT_BYTES};
use crate::limits::RETAINED_BYTES;
use crate::model::event::Audience;
use crate::model::json::Json;

/// The clock, in Unix milliseconds: the first number is 101.
const NOW: u64 = 0;

fn event(size: usize) -> Event {
    Event {
        audience: Audience::Session("s".into()),
        body: format!("{{{}}}", "x".repeat(size)).into(),
        message_seq: None,
    }
}

fn namespace() -> Namespace {
    Namespace::parse("team").unwrap()
}

/// A stream that continues after event 100.
fn woken_stream(head: &str, last_published: Option<u64>) -> EventStream {
    let mut stream = EventStream::new(&namespace(), NOW);
    stream.on_wake(head, last_published);
    stream
}

/// A live stream whose log starts after event 100, with its rows in the database.
struct StoredStream {
    stream: EventStream,
    rows: Vec<EventsRow>,
}

impl StoredStream {
    fn new() -> Self {
        let mut stream = woken_stream("off 99", None);
        assert!(stream.on_client_connected());
        Self { stream, rows: Vec::new() }
    }

    /// Reserves numbers for a batch with events of these sizes, and writes its rows.
    fn write(&mut self, sizes: &[usize]) -> Vec<(u64, Event)> {
        let events: Vec<Event> = sizes.iter().map(|size| event(*size)).collect();
        let numbers = self.stream.reserve_for_batch(events.len(), NOW);
        self.rows.extend(self.stream.encode_batch(numbers.clone(), events.iter()));
        numbers.zip(events).collect()
    }

    /// Writes a batch with events of these sizes. Returns the numbers of the events that are sent.
    fn commit(&mut self, sizes: &[usize]) -> Vec<u64> {
        let events = self.write(sizes).into_iter();
        sent_numbers(events.filter_map(|(number, event)| self.stream.on_committed(Some(number), || event)))
    }

    /// Ends the pending read: the stream gets the rows that the read selects.
    fn finish_read(&mut self) -> Vec<Action> {
        let read = self.stream.pending_read().unwrap();
        let after = read.after.unwrap_or_default();
        let rows: Vec<EventsRow> = self.rows.iter().filter(|row| row.last > after).cloned().collect();
        self.stream.on_rows_read(read, &rows)
    }

    /// Returns the stream after a restart without clients. All rows are loaded.
    fn restarted(&self) -> EventStream {
        let mut restarted = Self { stream: woken_stream(&self.stream.head(), None), rows: self.rows.clone() };
        assert_eq!(restarted.finish_read(), []);
        assert_eq!(restarted.stream.last_published, self.stream.last_published);
        if let Some((after, up_to)) = restarted.stream.log.rows_to_load(100) {
            assert_eq!((after, up_to), (100, self.stream.last_published));
            restarted.stream.log.insert_loaded(up_to, restarted.rows);
        }
        restarted.stream
    }
}

fn sent_numbers(actions: impl IntoIterator<Item = Action>) -> Vec<u64> {
    let number = |action| match action {
        Action::Send(number, _) => number,
        other => panic!("{other:?}"),
    };
    actions.into_iter().map(number).collect()
}

fn event_numbers(stream: &EventStream) -> Vec<u64> {
    stream.log.events_after(0).map(|(number, _)| *number).collect()
}

/// The smallest number from which a client can resume.
fn first_resumable(stream: &EventStream) -> u64 {
    (0..10_000).find(|number| stream.log.can_resume_from(*number)).unwrap()
}

#[test]
fn the_number_of_a_failed_batch_is_not_used_again() {
    let mut stored = StoredStream::new();
    stored.write(&[1, 1]);
    assert_eq!(stored.stream.on_failed(false), None);
    assert_eq!(stored.stream.pending_read(), None);
    assert_eq!(stored.commit(&[1]), [103]);
    assert_eq!(stored.stream.next_unused(NOW), 104);
}

#[test]
fn a_read_that_began_before_the_last_failure_is_ignored() {
    let mut stored = StoredStream::new();
    stored.write(&[1]);
    stored.rows.clear();
    stored.stream.on_failed(true);
    let first = stored.stream.pending_read().unwrap();
    assert_eq!(stored.finish_read(), [], "the batch was not committed");
    stored.write(&[1]);
    stored.stream.on_failed(true);
    assert_eq!(stored.stream.on_rows_read(first, &[]), []);
    assert!(stored.stream.pending_read().is_some());
    assert_eq!(sent_numbers(stored.finish_read()), [102]);
}

#[test]
fn a_malformed_head_is_ignored() {
    for malformed in ["", "on", "on x", "on 1 x", "on 1 2 3", "off", "off x", "off 1 2", "1"] {
        let stream = woken_stream(malformed, None);
        assert_eq!((stream.phase, stream.last_published), (Phase::Off, 0), "{malformed:?}");
    }
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
    let end = 101 + events.len() as u64;
    let rows = encode_rows(100, 101..end, events.iter());
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((row.last, row.floor, row.events), (end - 1, 100, events.len()));
    let decoded = decode(row).unwrap();
    assert!(decoded.iter().map(|(number, _)| *number).eq(101..end));
    for ((_, decoded), event) in decoded.iter().zip(&events) {
        assert_eq!(
            (&decoded.audience, decoded.body.concat()),
            (&event.audience, "{\"a\":  \t\"b\\n\u{2028}\"}".to_owned())
        );
    }
}

#[test]
fn loaded_events_come_before_those_published_during_the_read() {
    let mut stored = StoredStream::new();
    stored.commit(&[1, 1]);
    let older = stored.rows.clone();
    stored.stream = woken_stream(&stored.stream.head(), None);
    stored.finish_read();
    let (_, up_to) = stored.stream.log.rows_to_load(101).unwrap();
    assert_eq!(stored.commit(&[1]), [103]);
    for _ in 0..2 {
        stored.stream.log.insert_loaded(up_to, older.clone());
        assert_eq!((first_resumable(&stored.stream), event_numbers(&stored.stream)), (100, vec![101, 102, 103]));
    }
    assert!(stored.stream.log.rows_to_load(99).is_none(), "the log starts after 100");
}

#[test]
fn a_large_batch_is_split_into_rows() {
    let mut stored = StoredStream::new();
    stored.commit(&[1, 100_000, 100_000, 100_000, 700_000, 1, 1]);
    let rows: Vec<(u64, u64, usize)> = stored.rows.iter().map(|row| (row.floor, row.last, row.events)).collect();
    assert_eq!(rows, [(100, 103, 3), (103, 104, 1), (104, 105, 1), (105, 107, 2)]);
    assert_eq!(event_numbers(&stored.restarted()), (101..=107).collect::<Vec<_>>());
}

#[test]
fn only_the_end_of_a_batch_larger_than_the_log_is_written() {
    let mut stored = StoredStream::new();
    stored.commit(&[1]);
    stored.commit(&[100_000; 80]);
    let bytes: usize = stored.rows.iter().map(|row| row.body.len()).sum();
    assert!((RETAINED_BYTES..RETAINED_BYTES + 2 * MAX_LOG_ROW_BYTES).contains(&bytes), "{bytes}");
    let start = stored.rows[1].floor;
    let restarted = stored.restarted();
    assert_eq!((first_resumable(&restarted), restarted.last_published), (start, 181));
    assert_eq!(event_numbers(&restarted), (start + 1..=181).collect::<Vec<_>>());
    assert!(first_resumable(&stored.stream) <= start);
}

#[test]
fn an_event_larger_than_a_row_is_a_gap() {
    let mut stored = StoredStream::new();
    stored.commit(&[1]);
    assert_eq!(stored.commit(&[1, MAX_LOGGED_EVENT_BYTES, 1]), [102, 103, 104], "all are sent");
    for stream in [&stored.stream, &stored.restarted()] {
        assert_eq!((event_numbers(stream), first_resumable(stream)), (vec![104], 103));
    }
    let gap = &stored.rows[2];
    assert!(gap.body.is_empty() && decode(gap).is_none());
    stored.commit(&[MAX_LOGGED_EVENT_BYTES]);
    for stream in [&stored.stream, &stored.restarted()] {
        assert_eq!((event_numbers(stream), first_resumable(stream)), (vec![], 105));
    }
    stored.commit(&[MAX_LOGGED_EVENT_BYTES - 2]);
    assert_eq!((event_numbers(&stored.stream), first_resumable(&stored.stream)), (vec![106], 105));
    assert!(stored.rows.iter().all(|row| row.body.len() < 2_000_000));
}

#[test]
fn frames_of_both_formats_contain_the_id() {
    let ids = EventIds::new(&Namespace::parse("a").unwrap());
    let prefix = &ids.prefix;
    let text = r#"{"type":"x","data":{}}"#;
    let value = TextParts::value(Some(Json::parse("{}").unwrap()));
    for body in [TextParts::from(text.to_owned()), value.insert_into(r#"{"type":"x","data":null}"#, r#""data":null"#)] {
        let json = format!(r#"{{"eventId":"{prefix}-7","type":"x","data":{{}}}}"#);
        assert_eq!(ids.frame(Format::Json, 7, &body), json);
        assert_eq!(ids.frame(Format::Sse, 7, &body), format!("id: {prefix}-7\ndata: {text}\n\n"));
    }
}
