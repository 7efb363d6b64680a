//! Reading the summaries of the session list.

use super::columns::Columns;
use super::held_messages::held_messages_count;
use super::sessions::{last_message_at, names, read_listed_columns, small_columns};
use super::{Database, DbError, Row, Statement, Value, query};
use crate::model::namespace::Namespace;
use crate::model::session::Session;
use crate::model::settings::settings;
use crate::model::summary::{ListedMetadata, SummaryFields, listed_texts};
use crate::model::todo::Progress;

/// The most sessions of a page of the list, and of one read for it.
pub const MAX_LISTED_SESSIONS: usize = 1_000;

/// SQL that selects the JSON of texts in metadata. The list shows at most 512 bytes of each text (`MAX_LISTED_TEXT_BYTES`). SQL
/// selects 513 characters, so that the hub sees whether the text is longer.
macro_rules! texts {
    ($first:literal $($path:literal)*) => {
        concat!(texts!(@ $first), $(", ", texts!(@ $path)),*)
    };
    (@ $path:literal) => {
        concat!("ifnull(substr(meta -> '$.", $path, "', 1, 513), '')")
    };
}

macro_rules! concatenated {
    ($($(#[$_meta:meta])* $column:ident: $_:ty),*) => { concat!($(" || ifnull(", stringify!($column), ", '')"),*) };
}

/// Selects the summary fields of sessions in the order of their tags. The database returns only the parts of large columns that
/// the list shows. A value that SQLite rejects, because its JSON is nested too deeply, counts as NULL. The rows have at most 500,000
/// bytes (`LIST_READ_BYTES`); `found` is their number without this limit.
#[rustfmt::skip]
macro_rules! select_summaries {
    ($sessions:literal) => { concat!("
SELECT tag, id, created_at, texts, total, completed, pending, found, updated_at, last_message_at, held_messages_count",
    small_columns!(names), settings!(names), "
FROM (WITH listed AS MATERIALIZED (
  SELECT tag, id, created_at, updated_at, last_message_at, held_messages_count", small_columns!(names), settings!(names), ",
    iif(meta IS NULL, NULL, json_array(", listed_texts!(texts), ")) AS texts, json_array_length(todos) AS total,
    (SELECT count(*) FROM json_each(todos) WHERE value ->> 'status' = 'completed') AS completed,
    iif(json_type(state, '$.requests') = 'object', (SELECT count(*) FROM json_each(state, '$.requests')), 0) AS pending
  FROM (SELECT id, tag, created_at, updated_at, todos", small_columns!(names), settings!(names), ",
      ", last_message_at!(), " AS last_message_at, ", held_messages_count!(), " AS held_messages_count,
      CASE WHEN json_valid(metadata) THEN iif(json_type(metadata) = 'object', metadata, NULL) END AS meta,
      CASE WHEN json_valid(agent_state) THEN agent_state END AS state
    FROM sessions WHERE ", $sessions, "))
  SELECT *, count(*) OVER () AS found, sum(300 + length(CAST(tag || ifnull(texts, '') || ifnull(permission_mode, '') ||
    ifnull(model_mode, '')", settings!(concatenated), " AS BLOB))) OVER (ORDER BY tag ROWS UNBOUNDED PRECEDING) AS bytes
  FROM listed)
WHERE bytes <= 500000 ORDER BY tag"
    ) };
}

/// `?1`: namespace, `?2`: the tag before the first, `?3`: the number of sessions.
const SELECT_AFTER: &str = select_summaries!("namespace = ?1 AND tag > ?2 ORDER BY tag LIMIT ?3");

/// `?1`: namespace, `?2`: JSON array of ids.
const SELECT_BY_IDS: &str = select_summaries!("id IN (SELECT value FROM json_each(?2)) AND +sessions.namespace = ?1");

/// How many characters of the end of a tag [`count_without_tag`] selects. The SQL repeats the number.
pub const TAG_END_CHARS: usize = 16;

/// The number of sessions, and the ends of their tags, each after a line break; no session if one has the tag. The subquery, unlike
/// a second condition, keeps SQLite from reading the rows then. `?1`: namespace, `?2`: tag.
const COUNT_WITHOUT_TAG: &str = "
SELECT count(*), coalesce(group_concat(char(10) || substr(tag, -16), ''), '') FROM sessions
WHERE namespace = (SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE namespace = ?1 AND tag = ?2))";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The summaries after a tag, in the order of the tags.
    After(String),
    Ids(Vec<String>),
}

#[derive(Debug)]
pub struct Summaries {
    pub fields: Vec<SummaryFields>,
    /// The tag of the last summary; empty if there is none.
    pub last_tag: String,
    pub is_complete: bool,
}

pub async fn load(db: &dyn Database, namespace: &Namespace, selection: &Selection) -> Result<Summaries, DbError> {
    let (statement, limit) = match selection {
        Selection::After(tag) => {
            let limit = MAX_LISTED_SESSIONS as u64;
            (Statement::new(SELECT_AFTER, [namespace.into(), tag.as_str().into(), limit.into()]), MAX_LISTED_SESSIONS)
        }
        Selection::Ids(ids) => (Statement::new(SELECT_BY_IDS, [namespace.into(), Value::json(ids)]), usize::MAX),
    };
    let rows = query(db, statement).await?;
    let count = rows.len();
    let mut read = Summaries { fields: Vec::with_capacity(count), last_tag: String::new(), is_complete: count < limit };
    let parse_texts = |text: String| serde_json::from_str::<Vec<String>>(&text).ok();
    let to_metadata =
        |texts: Vec<String>| ListedMetadata::of_texts(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    for row in rows {
        let mut c = Columns::new("sessions", row);
        read.last_tag = c.text("tag")?;
        let (id, created_at) = (c.text("id")?, c.number("created_at")?);
        let texts = c.optional("texts", |c, column| c.parse(column, "an array of texts", parse_texts))?;
        let (total, completed) = (c.optional("total", Columns::count)?, c.count("completed")?);
        let pending_requests_count = c.count("pending")?;
        read.is_complete &= c.count("found")? == count;
        let mut session = Session::new(id, namespace.clone(), String::new(), None, created_at);
        read_listed_columns(&mut c, &mut session)?;
        read.fields.push(SummaryFields {
            metadata: texts.map(to_metadata),
            todo_progress: total.map(|total| Progress { completed, total }),
            pending_requests_count,
            ..SummaryFields::of(&session)
        });
    }
    Ok(read)
}

/// Counts the sessions of a namespace, and selects the [ends](TAG_END_CHARS) of their tags. Finds none if a session has the tag.
pub fn count_without_tag(namespace: &Namespace, tag: &str) -> Statement {
    Statement::new(COUNT_WITHOUT_TAG, [namespace.into(), tag.into()])
}

/// Reads the row of [`count_without_tag`].
pub fn read_tags(mut rows: Vec<Row>) -> Result<(usize, String), DbError> {
    let mut c = Columns::new("sessions", rows.pop().unwrap_or_default());
    Ok((c.count("count")?, c.text("tag_ends")?))
}
