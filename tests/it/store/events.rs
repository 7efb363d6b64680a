//! Rows of the event log that take the place of superfluous ones.

use crate::support::sqlite::Sqlite;
use crate::support::store::team;
use session_gateway_hub::store::Database;
use session_gateway_hub::store::events::{self, EventsRow};

fn row(last: u64) -> EventsRow {
    EventsRow { last, floor: last - 1, events: 1, bytes: 10, body: format!("{last}\ts\"s\"\t{{}}\n") }
}

#[tokio::test]
async fn a_row_replaces_a_superfluous_one_that_it_looks_up_itself() {
    let db = Sqlite::with_schema();
    let numbers = || -> Vec<i64> {
        (1..=9).filter(|last| db.number(&format!("SELECT count(*) FROM events WHERE last = {last}")) == 1).collect()
    };
    for last in 1..=3 {
        db.batch(&mut events::write_replacing_any(&team(), row(last), 3, 1_000).to_vec()).await.unwrap();
    }
    assert_eq!(numbers(), [1, 2, 3], "none is superfluous");
    for _ in 0..2 {
        // A repeated batch changes nothing.
        db.batch(&mut events::write_replacing_any(&team(), row(4), 2, 1_000).to_vec()).await.unwrap();
        assert_eq!(numbers(), [2, 3, 4]);
    }
    let loaded = events::load(&db, &team(), 1, None).await.unwrap();
    assert_eq!(loaded.last(), Some(&row(4)));
}
