//! Pages of a session's messages: content, size limit and number of statements.

use crate::support::sqlite::Sqlite;
use crate::support::store;
use proptest::prelude::*;
use session_gateway_hub::limits::MAX_PAGE_BYTES;
use session_gateway_hub::store::history::PageRange;

/// A database with a session `s`, whose messages have these sizes in the column `bytes`.
fn database(bytes: &[u64]) -> Sqlite {
    let db = Sqlite::with_schema();
    db.execute(
        "INSERT INTO sessions VALUES ('s', 'team', '/', 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 1, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL)",
    );
    for (index, bytes) in bytes.iter().enumerate() {
        let seq = index + 1;
        db.execute(&format!(
            "INSERT INTO messages (session_id, seq, id, created_at, content, bytes) VALUES ('s', {seq}, 'm{seq}', 5, '{{}}', {bytes})"
        ));
    }
    db
}

/// The seqs of a page, and whether there are more messages.
fn seqs(db: &Sqlite, range: PageRange, limit: u64) -> (Vec<u64>, bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store::seqs(db, "s", range, limit))
}

#[test]
fn has_more_is_exact_for_a_page_that_reaches_the_size_limit() {
    let half = MAX_PAGE_BYTES / 2;
    let all = PageRange::After(0);
    assert_eq!(seqs(&database(&[half, half]), all, 5), (vec![1, 2], false), "the last message reaches the limit");
    assert_eq!(seqs(&database(&[MAX_PAGE_BYTES * 2]), all, 5), (vec![1], false));
    assert_eq!(seqs(&database(&[half, half, 1]), all, 5), (vec![1, 2], true));
    assert_eq!(seqs(&database(&[half, half - 1, 1]), all, 5), (vec![1, 2, 3], false));
    assert_eq!(seqs(&database(&[half, half, 1]), PageRange::Before(None), 5), (vec![3, 2, 1], false));
    assert_eq!(seqs(&database(&[half, half, 1]), all, 2), (vec![1, 2], true), "both limits are reached");
    assert_eq!(seqs(&database(&[half, half]), all, 2), (vec![1, 2], false));
    assert_eq!(seqs(&database(&[]), all, 2), (vec![], false));
}

#[test]
fn a_page_below_the_size_limit_is_one_statement() {
    let db = database(&[1_000; 60]);
    let before = db.read_count();
    assert_eq!(seqs(&db, PageRange::Before(Some(61)), 50), ((11..=60).rev().collect(), true));
    assert_eq!(db.read_count() - before, 1);
    let statement = db.read_batches().pop().unwrap().pop().unwrap();
    assert!(!statement.sql.contains("OVER"), "a page below the size limit needs no window function");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn consecutive_pages_have_no_gap_and_an_exact_has_more(
        sizes in prop::collection::vec(prop_oneof![0..2_000_000_u64, 4_000_000..9_000_000_u64], 0..12),
        limit in 1..6_u64,
        backwards: bool,
    ) {
        let db = database(&sizes);
        let mut remaining: Vec<u64> = (1..=sizes.len() as u64).collect();
        if backwards {
            remaining.reverse();
        }
        let mut range = if backwards { PageRange::Before(None) } else { PageRange::After(0) };
        loop {
            let mut bytes = 0;
            let expected: Vec<u64> = remaining.iter().take(limit as usize).copied().take_while(|seq| {
                let fits = bytes < MAX_PAGE_BYTES;
                bytes += sizes[*seq as usize - 1];
                fits
            }).collect();
            let rest = remaining.split_off(expected.len());
            prop_assert_eq!(seqs(&db, range, limit), (expected, !rest.is_empty()));
            let Some(last) = remaining.last() else { break };
            range = if backwards { PageRange::Before(Some(*last)) } else { PageRange::After(*last) };
            remaining = rest;
        }
    }
}
