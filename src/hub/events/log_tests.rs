//! The log of events: what is held, what is read again, and what shows that something is missing.

use super::*;

fn event(size: usize) -> Event {
    Event { audience: Audience::Session("s".into()), body: format!("{{{}}}", "x".repeat(size)) }
}

/// A log with its rows.
struct Kept {
    log: EventLog,
    rows: Vec<EventsRow>,
}

impl Kept {
    fn new() -> Self {
        Self { log: EventLog::begin(100), rows: Vec::new() }
    }

    /// Writes a batch of events and tells them.
    fn append(&mut self, sizes: &[usize]) {
        let events: Vec<Event> = sizes.iter().map(|size| event(*size)).collect();
        let numbers = self.log.end + 1..self.log.end + 1 + events.len() as u64;
        self.rows.extend(self.log.rows(numbers.clone(), events.iter().map(Cow::Borrowed)));
        numbers.zip(events).for_each(|(number, event)| self.log.hold(number, event));
    }

    /// The log after a sleep, with everything read.
    fn woken(&self) -> EventLog {
        let mut log = EventLog::woken(self.log.span().clone(), None);
        assert_eq!(log.catch_up().map(|(catch_up, _)| catch_up), Some(CatchUp::End));
        log.read_end(self.rows.last().map_or(0, |row| row.last));
        assert_eq!(log.all_read(), self.log.end);
        if let Some((after, up_to)) = log.older(log.floor - 1) {
            assert_eq!((after, up_to), (100, self.log.end));
            log.load(up_to, self.rows.clone());
        }
        log
    }
}

fn numbers(log: &EventLog) -> Vec<u64> {
    log.after(0).map(|(number, _)| *number).collect()
}

#[test]
fn a_row_gives_back_its_events_whatever_their_owners_are_called_and_however_their_json_is_broken_into_lines() {
    let odd = ["", "m", "tab\there", "line\nbreak\r", "\"quoted\"", "\u{2028}", "日本", "\\", "1\ts\"a\"\t{}"];
    let audiences = odd
        .into_iter()
        .flat_map(|id| [Audience::Session(id.into()), Audience::Conversation(id.into()), Audience::Machine(id.into())]);
    let events: Vec<Event> =
        audiences.map(|audience| Event { audience, body: "{\"a\":\r\n\t\"b\\n\u{2028}\"}".into() }).collect();
    let log = EventLog::begin(100);
    let end = 101 + events.len() as u64;
    let rows = log.rows(101..end, events.iter().map(Cow::Borrowed));
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((row.last, row.floor, row.events), (end - 1, 100, events.len()));
    let read = log.read_next(row).unwrap();
    assert!(read.iter().map(|(number, _)| *number).eq(101..end));
    for ((_, read), event) in read.iter().zip(&events) {
        assert_eq!((&read.audience, read.body.as_str()), (&event.audience, "{\"a\":  \t\"b\\n\u{2028}\"}"));
    }
}

#[test]
fn what_is_no_row_is_not_taken_for_one() {
    for odd in ["x", "1\ts\"a\"", "\ts\"a\"\t{}", "1\tx\"a\"\t{}", "1\tsa\t{}", "1\t\t{}", "1\tä\"a\"\t{}"] {
        assert_eq!(decode(odd), None, "{odd:?}");
    }
    for odd in ["", "on", "on x", "on 1 x", "on 1 2 3", "off", "off x", "1"] {
        assert_eq!(Head::decode(odd), None, "{odd:?}");
    }
}

#[test]
fn a_head_is_read_as_it_was_noted() {
    for head in [
        Head::Off(7),
        Head::On(Span { start: 7, left: None }),
        Head::On(Span { start: 7, left: Some(1_800_000_000_000) }),
    ] {
        assert_eq!(Head::decode(&head.encode()), Some(head));
    }
}

#[test]
fn a_woken_log_holds_the_same_once_it_is_read() {
    let mut kept = Kept::new();
    assert_eq!(kept.woken().floor, 100);
    for size in 1..5 {
        kept.append(&[size, size]);
    }
    let mut log = kept.woken();
    assert_eq!((log.floor, numbers(&log)), (100, (101..=108).collect()));
    assert!(log.older(100).is_none(), "nothing is read twice");
    log.hold(109, event(1));
    assert_eq!(log.after(106).map(|(number, _)| *number).collect::<Vec<_>>(), [107, 108, 109]);
}

#[test]
fn what_was_told_meanwhile_stands_behind_what_is_read() {
    let mut kept = Kept::new();
    kept.append(&[1, 1]);
    let mut log = EventLog::woken(kept.log.span().clone(), None);
    log.read_end(102);
    log.all_read();
    let (_, up_to) = log.older(101).unwrap();
    log.hold(103, event(1));
    log.load(up_to, kept.rows.clone());
    log.load(up_to, kept.rows.clone());
    assert_eq!((log.floor, numbers(&log)), (100, vec![101, 102, 103]));
    assert!(log.older(99).is_none(), "from before the log's start nothing can be read");
}

#[test]
fn at_least_the_last_thousand_events_are_held_and_not_many_more() {
    let mut kept = Kept::new();
    for n in 1..=3_000 {
        kept.append(&[1]);
        let held = kept.log.held.len();
        assert!(held >= KEEP_EVENTS.min(n) && held <= KEEP_EVENTS + SLACK_EVENTS, "{held}");
    }
    let held = numbers(&kept.log);
    assert_eq!((held.first().copied(), held.last().copied()), (Some(kept.log.floor + 1), Some(3_100)));
    assert!(kept.log.older(101).is_none(), "what was dropped is not read again");
}

#[test]
fn at_least_two_megabytes_of_events_are_held_and_not_much_more() {
    let mut kept = Kept::new();
    for n in 1..=100 {
        kept.append(&[100_000, 10]);
        let bytes: usize = kept.log.after(0).map(|(_, event)| event.body.len()).sum();
        assert!(bytes >= KEEP_BYTES.min(n * 100_000) && bytes <= KEEP_BYTES + SLACK_BYTES, "{n}: {bytes}");
        assert_eq!(bytes, kept.log.bytes);
    }
}

#[test]
fn rows_are_dropped_when_enough_have_come_and_with_the_first_ones_after_a_wake() {
    let row = |events, bytes| EventsRow { events, body: "x".repeat(bytes), ..EventsRow::after(0) };
    let mut log = EventLog::begin(100);
    assert!(!log.wants_trim(&[row(SLACK_EVENTS, 10)]));
    assert!(log.wants_trim(&[row(1, 10)]));
    assert!(!log.wants_trim(&[row(1, SLACK_BYTES / 2), row(1, SLACK_BYTES / 2)]));
    assert!(log.wants_trim(&[row(1, 1)]));
    assert!(!log.wants_trim(&[row(1, 1)]));
    let mut woken = EventLog::woken(log.span().clone(), None);
    assert!(woken.wants_trim(&[row(1, 1)]) && !woken.wants_trim(&[row(1, 1)]));
}

#[test]
fn a_large_batch_is_cut_into_rows_that_follow_one_another() {
    let mut kept = Kept::new();
    kept.append(&[1, 100_000, 100_000, 100_000, 700_000, 1, 1]);
    let rows: Vec<(u64, u64, usize)> = kept.rows.iter().map(|row| (row.floor, row.last, row.events)).collect();
    assert_eq!(rows, [(100, 103, 3), (103, 104, 1), (104, 105, 1), (105, 107, 2)]);
    assert_eq!(numbers(&kept.woken()), (101..=107).collect::<Vec<_>>());
}

#[test]
fn of_a_batch_larger_than_the_log_the_end_is_written() {
    let mut kept = Kept::new();
    kept.append(&[1]);
    kept.append(&[100_000; 80]);
    let bytes: usize = kept.rows.iter().map(|row| row.body.len()).sum();
    assert!((KEEP_BYTES..KEEP_BYTES + 2 * ROW_BYTES).contains(&bytes), "{bytes}");
    let floor = kept.rows[1].floor;
    assert_eq!((kept.woken().floor, kept.woken().end), (floor, 181));
    assert_eq!(numbers(&kept.woken()), (floor + 1..=181).collect::<Vec<_>>());
    assert!(kept.log.floor <= floor);
}

#[test]
fn an_event_that_fits_no_row_is_not_held_and_nothing_before_it() {
    let mut kept = Kept::new();
    kept.append(&[1]);
    kept.append(&[1, MAX_EVENT_BYTES, 1]);
    assert_eq!((numbers(&kept.log), kept.log.floor), (vec![104], 103));
    let woken = kept.woken();
    assert_eq!((numbers(&woken), woken.floor), (vec![104], 103));
    let not_held = EventsRow { floor: 104, ..kept.rows[2].clone() };
    assert!(not_held.body.is_empty() && kept.log.read_next(&not_held).is_none());
    kept.append(&[MAX_EVENT_BYTES]);
    assert_eq!((numbers(&kept.log), kept.log.floor), (vec![], 105));
    assert_eq!(kept.woken().floor, 105);
    kept.append(&[MAX_EVENT_BYTES - 2]);
    assert_eq!((numbers(&kept.log), kept.log.floor), (vec![106], 105));
    assert!(kept.rows.iter().all(|row| row.body.len() < 2_000_000));
}

#[test]
fn rows_that_do_not_follow_one_another_are_worth_nothing() {
    let mut kept = Kept::new();
    for _ in 0..4 {
        kept.append(&[1]);
    }
    let loaded = |rows: Vec<EventsRow>| {
        let mut log = EventLog::woken(Span { start: 100, left: None }, None);
        log.read_end(104);
        log.load(104, rows);
        (log.floor, numbers(&log))
    };
    let rows = &kept.rows;
    assert_eq!(loaded(rows.clone()), (100, vec![101, 102, 103, 104]));
    assert_eq!(loaded([&rows[..1], &rows[2..]].concat()), (102, vec![103, 104]));
    assert_eq!(loaded(rows[..3].to_vec()), (104, vec![]));
    assert_eq!(loaded(Vec::new()), (104, vec![]));
    let torn = EventsRow { body: "torn".into(), ..rows[1].clone() };
    assert_eq!(loaded(vec![rows[0].clone(), torn, rows[2].clone(), rows[3].clone()]), (102, vec![103, 104]));
    let mut late = rows.clone();
    late[3].floor = 102;
    assert_eq!(loaded(late).0, 103, "somebody may have missed what came late");
}

#[test]
fn what_was_read_before_a_doubt_says_nothing() {
    let mut log = EventLog::begin(100);
    assert!(log.catch_up().is_none() && !log.is_in_doubt());
    log.doubt();
    let asked = log.catch_up();
    assert_eq!(asked.map(|(catch_up, _)| catch_up), Some(CatchUp::After(100)));
    assert!(log.is_in_doubt());
    log.doubt();
    assert_ne!(log.catch_up(), asked);
    assert_eq!(log.all_read(), 100);
    assert!(log.catch_up().is_none() && !log.is_in_doubt());
}

#[test]
fn those_who_are_still_there_after_a_sleep_have_heard_what_was_told() {
    let log = EventLog::woken(Span { start: 100, left: None }, Some(104));
    assert_eq!((log.catch_up().map(|(catch_up, _)| catch_up), log.floor), (Some(CatchUp::After(104)), 104));
    assert_eq!(log.older(102), Some((100, 104)));
    assert!(!log.is_in_doubt());
    let early = EventLog::woken(Span { start: 100, left: None }, Some(99));
    assert_eq!((early.floor, early.older(100)), (100, None));
}

#[test]
fn the_log_ends_ten_minutes_after_the_last_client_left() {
    let mut log = EventLog::begin(100);
    assert_eq!(log.ends_at(), None);
    assert!(log.leave(1_000) && !log.leave(2_000), "what counts is when the last one left");
    assert_eq!(log.ends_at(), Some(1_000 + KEEP_MS));
    assert!(log.join() && !log.join());
    assert_eq!(log.ends_at(), None);
}

#[test]
fn events_of_before_the_start_are_not_held() {
    let mut log = EventLog::begin(100);
    log.hold(100, event(1));
    log.hold(101, event(1));
    assert_eq!((log.floor, numbers(&log)), (100, vec![101]));
}
