//! Secrets that the hub makes for itself once and keeps.

use super::{Columns, Database, DbError, Statement, query, sql};

/// The secret of this name; `fresh` becomes it when there is none yet. Race-safe: the first offer wins, and every
/// caller gets the same.
pub async fn keep(db: &dyn Database, name: &str, fresh: &str) -> Result<String, DbError> {
    if let Some(row) = query(db, Statement::new(sql::SECRET, [name.into()])).await?.pop() {
        return Ok(Columns::of(row).text());
    }
    let offer = Statement::new(sql::OFFER_SECRET, [name.into(), fresh.into()]);
    let read = Statement::new(sql::SECRET, [name.into()]);
    let row = db.batch(vec![offer, read]).await?.pop().and_then(|mut rows| rows.pop());
    row.map(|row| Columns::of(row).text()).ok_or_else(|| DbError::Refused(format!("the secret {name} was not kept")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::Sqlite;

    #[tokio::test]
    async fn the_first_offer_wins_and_everybody_gets_it() {
        let db = Sqlite::with_schema();
        assert_eq!(keep(&db, "jwt", "first").await.unwrap(), "first");
        assert_eq!(keep(&db, "jwt", "second").await.unwrap(), "first");
        assert_eq!(keep(&db, "other", "second").await.unwrap(), "second");
    }

    #[tokio::test]
    async fn a_database_without_schema_says_so() {
        let error = keep(&Sqlite::without_schema(), "jwt", "x").await.unwrap_err();
        assert!(matches!(error, DbError::NoSchema(_)), "{error}");
    }
}
