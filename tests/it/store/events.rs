//! Rows of the event log that are written into the rows of old events.

use crate::support::sqlite::Sqlite;
use crate::support::store::team;
use session_gateway_hub::limits::RETAINED_EVENTS;
use session_gateway_hub::store::Database;
use session_gateway_hub::store::events::{self, Appender, EventsRow, TRIM_EVENTS};

fn row(last: u64) -> EventsRow {
    EventsRow { last, floor: last - 1, events: 1, bytes: 10, body: format!("{last}\ts\"s\"\t{{}}\n") }
}

fn numbers(db: &Sqlite) -> Vec<i64> {
    (1..=19).filter(|last| db.number(&format!("SELECT count(*) FROM events WHERE last = {last}")) == 1).collect()
}

/// A log whose appender has written some rows.
struct WrittenLog {
    db: Sqlite,
    appender: Appender,
}

impl WrittenLog {
    fn new() -> Self {
        Self { db: Sqlite::with_schema(), appender: Appender::default() }
    }

    /// Writes a row for `events` events after number `start` of the log. If the results are lost, the appender does not get them.
    async fn write(&mut self, last: u64, events: usize, start: u64, results_are_lost: bool) {
        let mut batch = Vec::new();
        self.appender.append(&team(), start, vec![EventsRow { events, ..row(last) }], &mut batch);
        let results = self.db.batch(&mut batch).await.unwrap();
        if !results_are_lost {
            self.appender.on_written(&batch, results);
        }
    }
}

#[tokio::test]
async fn a_row_is_written_into_a_reusable_one_that_it_looks_up_itself() {
    let db = Sqlite::with_schema();
    for last in 1..=3 {
        db.batch(&mut events::write_into_reusable_row(&team(), row(last), 3, 1_000).to_vec()).await.unwrap();
    }
    assert_eq!(numbers(&db), [1, 2, 3], "none is reusable");
    for _ in 0..2 {
        // A repeated batch changes nothing.
        db.batch(&mut events::write_into_reusable_row(&team(), row(4), 2, 1_000).to_vec()).await.unwrap();
        assert_eq!(numbers(&db), [2, 3, 4]);
    }
    let loaded = events::load(&db, &team(), 1, None).await.unwrap();
    assert_eq!(loaded.last(), Some(&row(4)));
}

#[tokio::test]
async fn once_the_log_is_full_each_row_is_written_into_the_oldest_ones() {
    let mut log = WrittenLog::new();
    for last in 1..=6 {
        log.write(last, TRIM_EVENTS, 0, false).await;
    }
    assert_eq!(numbers(&log.db), [2, 3, 4, 5, 6], "the first row is followed by {RETAINED_EVENTS} events");
    for last in 7..=12 {
        log.write(last, TRIM_EVENTS, 0, false).await;
        assert_eq!(numbers(&log.db).len(), 5);
    }
    assert_eq!(numbers(&log.db), [8, 9, 10, 11, 12]);
}

#[tokio::test]
async fn rows_of_an_earlier_log_are_deleted_and_not_reused() {
    let mut log = WrittenLog::new();
    for last in [1, 2, 3] {
        log.write(last, 1, 0, false).await;
    }
    log.write(4, RETAINED_EVENTS, 0, false).await;
    // Rows 1 to 3 are reusable, but the hub deletes them when the log ends.
    log.db.batch(&mut vec![events::delete(&team(), 4)]).await.unwrap();
    log.write(10, 1, 9, false).await;
    assert_eq!(numbers(&log.db), [10]);
}

#[tokio::test]
async fn no_row_is_lost_after_a_batch_that_deleted_reusable_rows_and_whose_results_are_lost() {
    for fails in [false, true] {
        let mut log = WrittenLog::new();
        for last in [1, 2, 3] {
            log.write(last, 1, 0, false).await;
        }
        log.write(4, RETAINED_EVENTS, 0, false).await;
        log.write(5, TRIM_EVENTS, 0, true).await;
        if fails {
            log.appender.on_failed();
        }
        for last in [6, 7, 8] {
            log.write(last, 1, 0, false).await;
        }
        let numbers = numbers(&log.db);
        assert!([4, 5, 6, 7, 8].iter().all(|last| numbers.contains(last)), "{numbers:?}");
    }
}
