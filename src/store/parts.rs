//! Texts larger than a row, split into parts with rows of their own.
//!
//! A large text is too large for one transaction: its parts are written in several, and then the row that refers to them. Until then,
//! they are *unreachable*. Those that stay so after a fault are deleted before the next large text of their owner is written.

use super::bulk::{BulkRow, BulkStatements};
use super::columns::Columns;
use super::{Database, DbError, Statement, Value, query};
use crate::limits::MAX_PART_BYTES;
use crate::model::namespace::Namespace;

/// How many parts are written or read at once. Limited because no reservation covers JavaScript's copies of the parts.
pub const PARTS_AT_ONCE: usize = 2;

/// Splits a text between characters into parts of at most [`MAX_PART_BYTES`].
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut remaining = text;
    std::iter::from_fn(move || {
        let (part, after) = remaining.split_at_checked(remaining.floor_char_boundary(MAX_PART_BYTES))?;
        remaining = after;
        (!part.is_empty()).then_some(part)
    })
}

/// Returns rows with the parts of a text, which are numbered from `first`.
pub fn rows<'a>(owner: &'a str, whole: Value, text: &'a str, first: u64) -> impl Iterator<Item = BulkRow<'a>> {
    split(text).zip(first..).map(move |(content, part)| BulkRow {
        columns: vec![("owner", owner.into()), ("whole", whole.clone()), ("part", part.into())],
        texts: vec![("content", Some(content))],
    })
}

/// Builds the transactions that write parts. The first transaction deletes the unreachable parts of the owners with the SQL
/// statement `delete`. The other transactions write the rows with the SQL statement `upsert`.
pub fn build_transactions<'a>(
    namespace: &'a Namespace,
    (delete, owners): (&'static str, impl Iterator<Item = &'a str>),
    (upsert, mut rows): (&'static str, impl Iterator<Item = BulkRow<'a>> + 'a),
) -> impl Iterator<Item = Vec<Statement>> + 'a {
    let mut deletion = BulkStatements::new(namespace);
    deletion.add_ids(delete, owners);
    let next_transaction = move || {
        let mut bulk = BulkStatements::new(namespace);
        bulk.add_rows(upsert, rows.by_ref().take(PARTS_AT_ONCE));
        bulk.statements
    };
    let writes = std::iter::once(deletion.statements).chain(std::iter::repeat_with(next_transaction));
    writes.take_while(|statements| !statements.is_empty())
}

/// Appends `count` parts to `text`. `select(after, last)` selects the contents of the parts above `after` up to `last`. Returns
/// `false` if parts are missing, because the text has been replaced or deleted.
pub async fn append(
    text: &mut String,
    db: &dyn Database,
    table: &'static str,
    count: u64,
    select: &(dyn Fn(u64, u64) -> Statement + Sync),
) -> Result<bool, DbError> {
    for after in (0..count).step_by(PARTS_AT_ONCE) {
        let last = count.min(after + PARTS_AT_ONCE as u64);
        let rows = query(db, select(after, last)).await?;
        if rows.len() as u64 != last - after {
            return Ok(false);
        }
        for row in rows {
            text.push_str(&Columns::new(table, row).text("content")?);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_only_between_characters() {
        let text = "ü".repeat(MAX_PART_BYTES);
        let parts: Vec<&str> = split(&text).collect();
        assert_eq!(parts.len(), 2);
        assert!(parts.iter().all(|part| part.len() <= MAX_PART_BYTES));
        assert_eq!(parts.concat(), text);
        assert_eq!(split("short").collect::<Vec<_>>(), ["short"]);
    }
}
