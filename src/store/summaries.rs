//! Sessions: the summaries of the session list.

use super::columns::Columns;
use super::sessions::current_updated_at;
use super::{Database, DbError, Row, Statement, Value, query};
use crate::limits::MAX_LISTED_SESSIONS;
use crate::model::json::Json;
use crate::model::namespace::Namespace;
use crate::model::summary::SummaryFields;

/// A text in the metadata as JSON, of which the list shows at most 512 bytes
/// ([`MAX_LISTED_TEXT_BYTES`](crate::limits::MAX_LISTED_TEXT_BYTES)): one character more tells that it is longer.
macro_rules! listed_text {
    ($path:literal) => {
        concat!("substr(meta -> '$.", $path, "', 1, 513)")
    };
}

/// Selects the summary fields of sessions as one JSON text each, in the order of their tags. Of the large columns only the listed
/// fields leave the database. A value that SQLite rejects, because its JSON is nested too deeply, counts as NULL. The rows end
/// before they have more than 500,000 bytes ([`LIST_READ_BYTES`](crate::limits::LIST_READ_BYTES)); `found` is the number of rows
/// without this limit.
macro_rules! select_summaries {
    ($sessions:literal) => {
        concat!(
            "
SELECT tag, summary, found FROM (WITH listed AS MATERIALIZED (
SELECT tag, json_object('id', id, 'active', json(iif(active, 'true', 'false')),
  'thinking', json(iif(thinking, 'true', 'false')), 'activeAt', active_at, 'updatedAt', changed_at, 'createdAt', created_at,
  'metadata', iif(meta IS NULL, NULL, json_object('name', ",
            listed_text!("name"),
            ", 'path', ",
            listed_text!("path"),
            ", 'host', ",
            listed_text!("host"),
            ", 'machineId', ",
            listed_text!("machineId"),
            ", 'summary', json_object('text', ",
            listed_text!("summary.text"),
            "), 'flavor', ",
            listed_text!("flavor"),
            ", 'agentName', ",
            listed_text!("agentName"),
            ", 'worktree', json_object('basePath', ",
            listed_text!("worktree.basePath"),
            ", 'branch', ",
            listed_text!("worktree.branch"),
            ", 'name', ",
            listed_text!("worktree.name"),
            ", 'worktreePath', ",
            listed_text!("worktree.worktreePath"),
            "), 'lifecycleState', ",
            listed_text!("lifecycleState"),
            ")),
  'todoProgress', iif(todos IS NULL, NULL, json_object('total', json_array_length(todos),
    'completed', (SELECT count(*) FROM json_each(todos) WHERE value ->> 'status' = 'completed'))),
  'pendingRequestsCount', iif(json_type(state, '$.requests') = 'object',
    (SELECT count(*) FROM json_each(state, '$.requests')), 0),
  'permissionMode', permission_mode, 'modelMode', model_mode) AS summary
FROM (SELECT *, CASE WHEN json_valid(metadata) THEN iif(json_type(metadata) = 'object', metadata, NULL) END AS meta,
  CASE WHEN json_valid(agent_state) THEN agent_state END AS state, ",
            current_updated_at!(),
            " AS changed_at FROM sessions WHERE ",
            $sessions,
            "))
SELECT *, count(*) OVER () AS found,
  sum(length(CAST(tag AS BLOB)) + length(CAST(summary AS BLOB))) OVER (ORDER BY tag ROWS UNBOUNDED PRECEDING) AS bytes
FROM listed) WHERE bytes <= 500000 ORDER BY tag"
        )
    };
}

/// `?1`: namespace, `?2`: the tag before the first, `?3`: the number of sessions.
const SELECT_AFTER: &str = select_summaries!("namespace = ?1 AND tag > ?2 ORDER BY tag LIMIT ?3");

/// `?1`: namespace, `?2`: JSON array of ids.
const SELECT_BY_IDS: &str = select_summaries!("id IN (SELECT value FROM json_each(?2)) AND +sessions.namespace = ?1");

/// The number of sessions; 0 if one of them has the tag. `?1`: namespace, `?2`: tag.
const COUNT_WITHOUT_TAG: &str = "
SELECT CASE WHEN EXISTS (SELECT 1 FROM sessions WHERE namespace = ?1 AND tag = ?2) THEN 0
  ELSE (SELECT count(*) FROM sessions WHERE namespace = ?1) END";

/// Summaries that were read at once.
#[derive(Debug)]
pub struct Summaries {
    pub fields: Vec<SummaryFields>,
    /// The tag of the last one.
    pub last_tag: Option<String>,
    /// Whether they are all that were requested.
    pub is_complete: bool,
}

/// Reads the summaries of the sessions after a tag, in the order of their tags.
pub async fn load_after(db: &dyn Database, namespace: &Namespace, tag: &str) -> Result<Summaries, DbError> {
    let count = MAX_LISTED_SESSIONS as u64;
    let params = [namespace.as_ref().into(), tag.into(), count.into()];
    let mut read = read_summaries(query(db, Statement::new(SELECT_AFTER, params)).await?)?;
    read.is_complete &= read.fields.len() < MAX_LISTED_SESSIONS;
    Ok(read)
}

/// Reads the summaries of the sessions with these ids.
pub async fn load_by_ids(db: &dyn Database, namespace: &Namespace, ids: &[String]) -> Result<Summaries, DbError> {
    let ids = Value::Text(Json::of(ids).text().to_owned());
    read_summaries(query(db, Statement::new(SELECT_BY_IDS, [namespace.as_ref().into(), ids])).await?)
}

fn read_summaries(rows: Vec<Row>) -> Result<Summaries, DbError> {
    let (count, mut found, mut last_tag) = (rows.len() as u64, 0, None);
    let parse = |text: String| serde_json::from_str(&text).ok();
    let mut read = |row: Row| {
        let mut columns = Columns::new("sessions", row);
        last_tag = Some(columns.text("tag")?);
        let fields = columns.parse("summary", "the JSON of a summary", parse);
        found = columns.number("found")?;
        fields
    };
    let fields = rows.into_iter().map(&mut read).collect::<Result<Vec<SummaryFields>, _>>()?;
    Ok(Summaries { fields, last_tag, is_complete: found == count })
}

/// The statement for [`read_count`].
pub fn count_without_tag(namespace: &Namespace, tag: &str) -> Statement {
    Statement::new(COUNT_WITHOUT_TAG, [namespace.as_ref().into(), tag.into()])
}

pub fn read_count(mut rows: Vec<Row>) -> Result<usize, DbError> {
    let count = Columns::new("sessions", rows.pop().unwrap_or_default()).number("count")?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}
