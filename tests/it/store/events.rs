//! Rows of the event log: a new row reuses the row of events that are no longer retained.

use crate::support::prelude::*;
use crate::support::store::team_namespace;
use session_gateway_hub::limits::RETAINED_EVENTS;
use session_gateway_hub::store::events::{self, Appender, EventsRow, TRIM_EVENTS};
use session_gateway_hub::store::{Row, Statement};

fn row(last: u64) -> EventsRow {
    EventsRow { last, floor: last - 1, events: 1, bytes: 10, body: format!("{last}\ts\"s\"\t{{}}\n") }
}

fn stored_rows(db: &Sqlite) -> Vec<i64> {
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

    /// Writes the row `last` with `events` events into the log that starts after the event number `start`.
    async fn write(&mut self, last: u64, events: usize, start: u64) {
        let (batch, results) = self.write_without_results(last, events, start).await;
        self.appender.on_written(&batch, results);
    }

    /// Like [`write`](Self::write), but the appender does not get the results. Returns the batch and the results.
    async fn write_without_results(&mut self, last: u64, events: usize, start: u64) -> (Vec<Statement>, Vec<Vec<Row>>) {
        let mut batch = Vec::new();
        self.appender.append(&team_namespace(), start, vec![EventsRow { events, ..row(last) }], &mut batch);
        let results = self.db.batch(&mut batch).await.unwrap();
        (batch, results)
    }
}

#[tokio::test]
async fn the_statement_that_writes_a_row_finds_the_reusable_row_itself() {
    let db = Sqlite::with_schema();
    for last in 1..=3 {
        db.batch(&mut events::write_into_reusable_row(&team_namespace(), row(last), 3, 1_000).to_vec()).await.unwrap();
    }
    assert_eq!(stored_rows(&db), [1, 2, 3], "no row is reusable");
    for _ in 0..2 {
        // A repeated batch changes nothing.
        db.batch(&mut events::write_into_reusable_row(&team_namespace(), row(4), 2, 1_000).to_vec()).await.unwrap();
        assert_eq!(stored_rows(&db), [2, 3, 4]);
    }
    assert_eq!(events::load(&db, &team_namespace(), 1, None).await.unwrap().last(), Some(&row(4)));
}

#[tokio::test]
async fn a_new_row_replaces_the_oldest_row_if_the_log_is_full() {
    let mut log = WrittenLog::new();
    for last in 1..=6 {
        log.write(last, TRIM_EVENTS, 0).await;
    }
    assert_eq!(stored_rows(&log.db), [2, 3, 4, 5, 6], "the first row is followed by {RETAINED_EVENTS} events");
    for last in 7..=12 {
        log.write(last, TRIM_EVENTS, 0).await;
        assert_eq!(stored_rows(&log.db).len(), 5);
    }
    assert_eq!(stored_rows(&log.db), [8, 9, 10, 11, 12]);
}

#[tokio::test]
async fn rows_of_an_earlier_log_are_deleted_and_not_reused() {
    let mut log = WrittenLog::new();
    for last in [1, 2, 3] {
        log.write(last, 1, 0).await;
    }
    log.write(4, RETAINED_EVENTS, 0).await;
    // Rows 1 to 3 are reusable, but the hub deletes them when the log ends.
    log.db.batch(&mut vec![events::delete(&team_namespace(), 4)]).await.unwrap();
    log.write(10, 1, 9).await;
    assert_eq!(stored_rows(&log.db), [10]);
}

#[tokio::test]
async fn no_row_is_lost_if_the_results_of_a_batch_that_deleted_reusable_rows_are_lost() {
    for fails in [false, true] {
        let mut log = WrittenLog::new();
        for last in [1, 2, 3] {
            log.write(last, 1, 0).await;
        }
        log.write(4, RETAINED_EVENTS, 0).await;
        log.write_without_results(5, TRIM_EVENTS, 0).await;
        if fails {
            log.appender.on_failed();
        }
        for last in [6, 7, 8] {
            log.write(last, 1, 0).await;
        }
        let rows = stored_rows(&log.db);
        assert!([4, 5, 6, 7, 8].iter().all(|last| rows.contains(last)), "{rows:?}");
    }
}
