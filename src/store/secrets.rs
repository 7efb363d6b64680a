//! Secrets that the hub generates once.

use super::columns::{find_last, read_last};
use super::{Database, DbError, Statement};

pub const JWT_SECRET: &str = "JWT_SECRET";

/// Writes a secret unless one of this name exists. `?1`: name, `?2`: value.
pub const INSERT: &str = "INSERT INTO secrets (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";

const SELECT: &str = "SELECT value FROM secrets WHERE name = ?1";

/// Returns the secret with this name. If there is none, stores `generated` under the name and returns it. Concurrent
/// callers all get the value that was stored first.
pub async fn get_or_insert(db: &dyn Database, name: &str, generated: &str) -> Result<String, DbError> {
    let select = Statement::new(SELECT, [name.into()]);
    if let Some(mut c) = find_last(db, "secrets", vec![select.clone()]).await? {
        return c.text("value");
    }
    let insert = Statement::new(INSERT, [name.into(), generated.into()]);
    read_last(db, "secrets", vec![insert, select]).await?.text("value")
}
