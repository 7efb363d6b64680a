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
    let row = db.batch(&[offer, read]).await?.pop().and_then(|mut rows| rows.pop());
    row.map(|row| Columns::of(row).text()).ok_or_else(|| DbError::Refused(format!("the secret {name} was not kept")))
}
