//! The SQL of the hub, run on a real SQLite with the real migrations: the same dialect that D1 runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use session_gateway_hub::store::{DbError, secrets};
use support::sqlite::Sqlite;

#[tokio::test]
async fn the_first_secret_offered_is_kept_and_everybody_gets_it() {
    let db = Sqlite::with_schema();
    assert_eq!(secrets::keep(&db, "jwt", "first").await.unwrap(), "first");
    assert_eq!(secrets::keep(&db, "jwt", "second").await.unwrap(), "first");
    assert_eq!(secrets::keep(&db, "other", "second").await.unwrap(), "second");
}

#[tokio::test]
async fn a_database_without_schema_says_so() {
    let error = secrets::keep(&Sqlite::without_schema(), "jwt", "x").await.unwrap_err();
    assert!(matches!(error, DbError::NoSchema(_)), "{error}");
}
