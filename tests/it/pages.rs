//! Pages of a session's history: what they hold, where they end, and what they cost.

use crate::support::sqlite::Sqlite;
use proptest::prelude::*;
use serde_json::Value;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::store::Found;
use session_gateway_hub::store::history::{MAX_PAGE_BYTES, Page, PageRange, read_page};
use session_gateway_hub::store::response_budget::ResponseBudget;

/// A session whose messages have, as far as their rows say, so many bytes of content.
fn history(bytes: &[u64]) -> Sqlite {
    let db = Sqlite::with_schema();
    db.execute(
        "INSERT INTO sessions VALUES ('s', 'team', '/', 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 1, NULL, 1, NULL, NULL, NULL, NULL, NULL)",
    );
    for (at, bytes) in bytes.iter().enumerate() {
        let seq = at + 1;
        db.execute(&format!(
            "INSERT INTO messages (session_id, seq, id, created_at, content, bytes) VALUES ('s', {seq}, 'm{seq}', 5, '{{}}', {bytes})"
        ));
    }
    db
}

fn read(db: &Sqlite, range: PageRange, limit: u64) -> Page {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let budget = ResponseBudget::new(usize::MAX, usize::MAX);
    match runtime.block_on(read_page(db, &budget, (&Namespace::parse("team").unwrap(), "s"), range, limit)).unwrap() {
        Found::Owned(page) => page,
        odd => panic!("{odd:?}"),
    }
}

/// The seqs of a page, and whether there is more.
fn seqs(db: &Sqlite, range: PageRange, limit: u64) -> (Vec<u64>, bool) {
    let page = read(db, range, limit);
    let messages: Vec<Value> = serde_json::from_str(&format!("[{}]", page.messages)).unwrap();
    let seqs: Vec<u64> = messages.iter().map(|message| message["seq"].as_u64().unwrap()).collect();
    assert_eq!(page.last_seq, seqs.last().copied());
    (seqs, page.has_more)
}

#[test]
fn a_page_that_ends_by_its_bytes_says_exactly_whether_there_is_more() {
    let half = MAX_PAGE_BYTES / 2;
    let all = PageRange::After(0);
    assert_eq!(seqs(&history(&[half, half]), all, 5), (vec![1, 2], false), "the last message reaches the bound");
    assert_eq!(seqs(&history(&[MAX_PAGE_BYTES * 2]), all, 5), (vec![1], false));
    assert_eq!(seqs(&history(&[half, half, 1]), all, 5), (vec![1, 2], true));
    assert_eq!(seqs(&history(&[half, half - 1, 1]), all, 5), (vec![1, 2, 3], false));
    assert_eq!(seqs(&history(&[half, half, 1]), PageRange::Before(None), 5), (vec![3, 2, 1], false));
    assert_eq!(seqs(&history(&[half, half, 1]), all, 2), (vec![1, 2], true), "by both at once");
    assert_eq!(seqs(&history(&[half, half]), all, 2), (vec![1, 2], false));
    assert_eq!(seqs(&history(&[]), all, 2), (vec![], false));
}

#[test]
fn a_page_within_its_bytes_is_one_statement() {
    let db = history(&[1_000; 60]);
    let before = db.read_count();
    assert_eq!(seqs(&db, PageRange::Before(Some(61)), 50), ((11..=60).rev().collect(), true));
    assert_eq!(db.read_count() - before, 1);
    let statement = db.read_batches().pop().unwrap().pop().unwrap();
    assert!(!statement.sql.contains("OVER"), "nothing is counted while reading");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_follow_one_another_without_a_gap_and_end_where_they_say(
        sizes in prop::collection::vec(prop_oneof![0..2_000_000_u64, 4_000_000..9_000_000_u64], 0..12),
        limit in 1..6_u64,
        backwards: bool,
    ) {
        let db = history(&sizes);
        let mut left: Vec<u64> = (1..=sizes.len() as u64).collect();
        if backwards {
            left.reverse();
        }
        let mut range = if backwards { PageRange::Before(None) } else { PageRange::After(0) };
        loop {
            let mut bytes = 0;
            let expected: Vec<u64> = left.iter().take(limit as usize).copied().take_while(|seq| {
                let fits = bytes < MAX_PAGE_BYTES;
                bytes += sizes[*seq as usize - 1];
                fits
            }).collect();
            let rest = left.split_off(expected.len());
            prop_assert_eq!(seqs(&db, range, limit), (expected, !rest.is_empty()));
            let Some(last) = left.last() else { break };
            range = if backwards { PageRange::Before(Some(*last)) } else { PageRange::After(*last) };
            left = rest;
        }
    }
}
