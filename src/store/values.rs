//! Reading values larger than a row.

use super::rows::PARTS_AT_ONCE;
use super::{Columns, Database, DbError, Statement, query, sql};
use crate::model::large::LargeRef;
use crate::model::namespace::Namespace;

/// Adds the whole of a large value to a text, from a few of its parts at a time. Answers whether it is all there: another
/// value may have taken its place meanwhile.
pub async fn add(
    db: &dyn Database,
    namespace: &Namespace,
    owner: &str,
    large: &LargeRef,
    text: &mut String,
) -> Result<bool, DbError> {
    let name = large.to_string();
    for before in (0..large.parts).step_by(PARTS_AT_ONCE) {
        let last = large.parts.min(before + PARTS_AT_ONCE);
        let (from, to) = (before as u64, last as u64);
        let params = [namespace.as_ref().into(), owner.into(), name.as_str().into(), from.into(), to.into()];
        let parts = query(db, Statement::new(sql::VALUE_PARTS, params)).await?;
        if parts.len() != last - before {
            return Ok(false);
        }
        parts.into_iter().for_each(|part| text.push_str(&Columns::of(part).text()));
    }
    Ok(true)
}
