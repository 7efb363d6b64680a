//! Values (metadata, agent state, runner state) larger than a row. The row of the session or machine holds the fields that the hub
//! itself reads, and a name. The parts of the whole text are stored under this name, in the column `whole`.

use super::bulk::BulkRow;
use super::columns::ValueColumns;
use super::{Database, DbError, Statement, parts};
use crate::model::json::Json;
use crate::model::large::{InlineOrLarge, LargeRef, VersionedField};
use crate::model::namespace::Namespace;

/// SQL condition: all parts of the two values of a session or machine exist. The field `parts` of the JSON row is the number of
/// these parts; it is absent if neither value is large.
#[rustfmt::skip]
macro_rules! all_parts_exist {
    ($one:literal, $other:literal) => { concat!(
        "value ->> 'parts' IS NULL OR value ->> 'parts' = (SELECT count(*) FROM value_parts
    WHERE namespace = ?2 AND owner = value ->> 'id' AND whole IN (value ->> '", $one, "', value ->> '", $other, "'))") };
}
pub(super) use all_parts_exist;

/// `?1`: JSON array of [parts](parts::rows), `?2`: namespace, `?3`: a large content.
const UPSERT_PARTS: &str = "
INSERT INTO value_parts (namespace, owner, whole, part, content)
SELECT ?2, value ->> 'owner', value ->> 'whole', value ->> 'part', coalesce(?3, value ->> 'content')
FROM json_each(?1) WHERE true
ON CONFLICT (namespace, owner, whole, part) DO UPDATE SET content = excluded.content";

/// Deletes parts that no row refers to: their value was replaced or never written, or their owner was deleted.
/// `?1`: JSON array of ids of sessions and machines, `?2`: namespace.
pub(super) const DELETE_UNREACHABLE_PARTS: &str = "
DELETE FROM value_parts
WHERE namespace = ?2 AND owner IN (SELECT value FROM json_each(?1))
  AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = owner AND namespace = ?2
    AND whole IN (coalesce(metadata_parts, ''), coalesce(agent_state_parts, '')))
  AND NOT EXISTS (SELECT 1 FROM machines WHERE id = owner AND namespace = ?2
    AND whole IN (coalesce(metadata_parts, ''), coalesce(runner_state_parts, '')))";

/// Selects parts of a value in order. `?1`: namespace, `?2`: owner, `?3`: name, `?4`: the part before the first, `?5`: the last.
const SELECT_PARTS: &str = "
SELECT content FROM value_parts WHERE namespace = ?1 AND owner = ?2 AND whole = ?3 AND part > ?4 AND part <= ?5
ORDER BY part";

/// A value larger than a row that is not stored yet.
#[derive(Debug, Clone)]
pub struct LargeValue {
    /// The id of the session or machine.
    pub owner: String,
    pub large: LargeRef,
    pub value: Json,
}

impl LargeValue {
    /// Creates a value whose parts are stored under `id`, which must be unique.
    pub fn new(owner: &str, version: u64, id: String, value: Json) -> Self {
        let text = value.text();
        let large = LargeRef { version, parts: parts::split(text).count(), bytes: text.len(), id };
        Self { owner: owner.to_owned(), large, value }
    }

    pub fn to_field(&self, field: VersionedField) -> InlineOrLarge {
        InlineOrLarge::Large { excerpt: field.excerpt(&self.value), large: self.large.clone() }
    }
}

/// Returns a row with the two values of a session or machine, and with the number of parts of large values that must be stored, which
/// `all_parts_exist` checks. The number is NULL without large values.
pub(super) fn to_row<'a>(values: [(ValueColumns, &'a InlineOrLarge, u64); 2]) -> BulkRow<'a> {
    let large = values.iter().filter_map(|(_, value, _)| value.large());
    let parts = large.map(|large| large.parts as u64).reduce(|one, other| one + other);
    let mut row = BulkRow { columns: vec![("parts", parts.into())], texts: Vec::new() };
    for ([name, version_name, parts_name], value, version) in values {
        row.columns.push((version_name, version.into()));
        row.columns.push((parts_name, value.large().map(LargeRef::to_string).into()));
        row.texts.push((name, value.json().map(Json::text)));
    }
    row
}

/// Builds the transactions that must be committed before the rows that refer to the values.
pub fn write_parts<'a>(
    namespace: &'a Namespace,
    values: &'a [LargeValue],
) -> impl Iterator<Item = Vec<Statement>> + 'a {
    let owners = values.iter().map(|value| value.owner.as_str());
    let rows = values.iter().flat_map(|v| parts::rows(&v.owner, v.large.to_string().into(), v.value.text(), 1));
    parts::build_transactions(namespace, (DELETE_UNREACHABLE_PARTS, owners), (UPSERT_PARTS, rows))
}

/// Appends a large value to a text. Returns `false` if some parts are missing, because another value has replaced this value.
pub async fn append(
    text: &mut String,
    db: &dyn Database,
    namespace: &Namespace,
    owner: &str,
    large: &LargeRef,
) -> Result<bool, DbError> {
    let name = large.to_string();
    let select = |after: u64, last: u64| {
        let params = [namespace.into(), owner.into(), name.as_str().into(), after.into(), last.into()];
        Statement::new(SELECT_PARTS, params)
    };
    parts::append(text, db, "value_parts", large.parts as u64, &select).await
}
