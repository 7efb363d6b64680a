//! The rows of a namespace, as exports and imports have the rows. Source: docs/design/namespaces.md.
//!
//! An export leaves out what belongs to the hub: the fence, the event log and the sizes of histories. An export also leaves out what is
//! temporary: codes for new devices, connections (`active`, `thinking`), and deleted sessions whose rows remain for a while. The
//! messages of a merged session are exported under the id of the session that has these messages now.

use std::mem::discriminant;
use std::sync::LazyLock;

use super::columns::Column as _;
use super::sessions::{history_of, names};
use super::{Database, DbError, Row, Statement, Value, of_namespace};
use crate::model::json::{Json, JsonObject};
use crate::model::namespace::Namespace;
use crate::model::settings::settings;

pub struct Table {
    pub name: &'static str,
    /// The SQL expressions of the exported columns, separated by commas.
    columns: &'static str,
    /// Everything after the columns in the SELECT of a page. `?1`: namespace. `?2`: id of the session, only if the rows belong to a
    /// session. The last parameters: the key of the row before the page.
    page: &'static str,
    /// A page with fewer rows is the last one.
    rows_per_page: usize,
    /// The columns of the key: the index of each in `columns`, and a value before all its values.
    key: &'static [(usize, Value)],
    scope: RowScope,
}

const BEFORE_ALL_TEXTS: Value = Value::Text(String::new());
const BEFORE_ALL_INTEGERS: Value = Value::Integer(-1);

/// What a row belongs to, and how it is imported. A row that the namespace has already does not change, except a generation.
#[derive(PartialEq)]
enum RowScope {
    /// The generation of the namespace's tokens, which only grows: revoked tokens remain revoked.
    Generation,
    /// The primary key begins with the namespace.
    Namespace,
    /// The primary key is an id, which is unique in all namespaces. The import of an id of another namespace fails.
    NamespaceById,
    /// The first column is the id of a session. If the namespace does not have the session, the import fails.
    Session,
}

macro_rules! defaults {
    ($($(#[$_meta:meta])* $setting:ident: $type:ty),*) => { [$((stringify!($setting), <$type>::DEFAULT)),*] };
}

/// The settings of a session that an export of an earlier version may lack, with their values.
static DEFAULTS: &[(&str, Value)] = &settings!(defaults);

/// The tables in the order of an export: those of the namespace, the sessions, and those that are repeated for each session.
pub static TABLES: [Table; 10] = [
    Table {
        name: "namespaces",
        columns: "generation",
        page: "FROM namespaces WHERE namespace = ?1 AND generation > ?2",
        rows_per_page: 2,
        key: &[(0, BEFORE_ALL_INTEGERS)],
        scope: RowScope::Generation,
    },
    Table {
        name: "devices",
        columns: "id, name, kind, token_hash, created_at, last_seen_at, revoked_at",
        page: "FROM devices WHERE namespace = ?1 AND id > ?2 ORDER BY id LIMIT 200",
        rows_per_page: 200,
        key: &[(0, BEFORE_ALL_TEXTS)],
        scope: RowScope::NamespaceById,
    },
    Table {
        name: "push_subscriptions",
        columns: "endpoint, p256dh, auth, hub, created_at, device, token_device, notify, secret",
        page: "FROM push_subscriptions WHERE namespace = ?1 AND endpoint > ?2 ORDER BY endpoint LIMIT 200",
        rows_per_page: 200,
        key: &[(0, BEFORE_ALL_TEXTS)],
        scope: RowScope::Namespace,
    },
    Table {
        name: "machines",
        columns: "id, seq, created_at, updated_at, 0 AS active, active_at, metadata, metadata_version, \
            metadata_parts, runner_state, runner_state_version, runner_state_parts",
        page: "FROM machines WHERE namespace = ?1 AND id > ?2 ORDER BY id LIMIT 1",
        rows_per_page: 1,
        key: &[(0, BEFORE_ALL_TEXTS)],
        scope: RowScope::NamespaceById,
    },
    Table {
        name: "value_parts",
        columns: "owner, whole, part, content",
        page: "FROM value_parts WHERE namespace = ?1 AND (owner, whole, part) > (?2, ?3, ?4) ORDER BY owner, whole, part LIMIT 1",
        rows_per_page: 1,
        key: &[(0, BEFORE_ALL_TEXTS), (1, BEFORE_ALL_TEXTS), (2, BEFORE_ALL_INTEGERS)],
        scope: RowScope::Namespace,
    },
    // In the order of the tags, which have an index. A page has one session.
    Table {
        name: "sessions",
        columns: concat!(
            "id, tag, seq, created_at, updated_at, active_at, thinking_at, 0 AS active, 0 AS thinking, mode, metadata, \
            metadata_version, metadata_parts, agent_state, agent_state_version, agent_state_parts, todos, permission_mode, \
            model_mode, unseen_since, ended_at, request_times",
            settings!(names)
        ),
        page: "FROM sessions WHERE namespace = ?1 AND tag > ?2 ORDER BY tag LIMIT 1",
        rows_per_page: 1,
        key: &[(1, BEFORE_ALL_TEXTS)],
        scope: RowScope::NamespaceById,
    },
    Table {
        name: "messages",
        columns: "?2 AS session_id, seq, id, local_id, created_at, content, parts, bytes",
        // At most 200 messages, and 1 MB more than the largest row.
        page: concat!(
            "FROM messages WHERE session_id = ",
            history_of!("?2", "?1"),
            " AND seq > ?3 AND seq <= (SELECT max(seq) FROM (
  SELECT seq, sum(size) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) - size AS before FROM (
    SELECT seq, min(bytes, 1500000) AS size FROM messages WHERE session_id = ",
            history_of!("?2", "?1"),
            " AND seq > ?3 ORDER BY seq LIMIT 200)) WHERE before < 1000000) ORDER BY seq"
        ),
        rows_per_page: 1,
        key: &[(1, BEFORE_ALL_INTEGERS)],
        scope: RowScope::Session,
    },
    Table {
        name: "message_parts",
        columns: "?2 AS session_id, message_id, part, content",
        page: concat!(
            "FROM message_parts WHERE session_id = ",
            history_of!("?2", "?1"),
            " AND (message_id, part) > (?3, ?4) ORDER BY message_id, part LIMIT 1"
        ),
        rows_per_page: 1,
        key: &[(1, BEFORE_ALL_TEXTS), (2, BEFORE_ALL_INTEGERS)],
        scope: RowScope::Session,
    },
    Table {
        name: "completed_requests",
        columns: "session_id, request_id, completed_at, value",
        page: "FROM completed_requests WHERE session_id = (SELECT id FROM sessions WHERE id = ?2 AND namespace = ?1)
  AND request_id > ?3 ORDER BY request_id LIMIT 5",
        rows_per_page: 5,
        key: &[(1, BEFORE_ALL_TEXTS)],
        scope: RowScope::Session,
    },
    Table {
        name: "held_messages",
        columns: "session_id, local_id, created_at, content",
        page: "FROM held_messages WHERE session_id = (SELECT id FROM sessions WHERE id = ?2 AND namespace = ?1)
  AND local_id > ?3 ORDER BY local_id LIMIT 20",
        rows_per_page: 20,
        key: &[(1, BEFORE_ALL_TEXTS)],
        scope: RowScope::Session,
    },
];

#[rustfmt::skip]
macro_rules! forget_missing_parts {
    ($table:literal, $column:literal) => {
        concat!(
            "UPDATE ", $table, " SET ", $column, " = NULL WHERE namespace = ?1 AND ", $column, " IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM value_parts WHERE value_parts.namespace = ?1 AND owner = ", $table, ".id AND whole = ", $column,
            ")"
        )
    };
}

/// The statements of a table, which are put together from its columns.
struct Sql {
    select: String,
    /// `?1`: namespace, then the columns.
    insert: String,
}

static SQL: LazyLock<Vec<(&'static str, Sql)>> =
    LazyLock::new(|| TABLES.iter().map(|table| (table.name, Sql::of(table))).collect());

impl Sql {
    fn of(table: &Table) -> Self {
        let Table { name, columns, page, scope, .. } = table;
        let names: Vec<&str> = table.column_names().collect();
        let params: Vec<String> = (2..names.len() + 2).map(|number| format!("?{number}")).collect();
        let (names, params) = (names.join(", "), params.join(", "));
        let insert = match scope {
            RowScope::Generation => format!(
                "INSERT INTO {name} (namespace, {names}) SELECT ?1, {params} WHERE true
ON CONFLICT (namespace) DO UPDATE SET generation = max(generation, excluded.generation)"
            ),
            RowScope::Namespace => format!(
                "INSERT INTO {name} (namespace, {names}) SELECT ?1, {params} WHERE true ON CONFLICT DO NOTHING"
            ),
            RowScope::NamespaceById => format!(
                "INSERT INTO {name} (namespace, {names}) SELECT ?1, {params}
WHERE NOT EXISTS (SELECT 1 FROM {name} WHERE id = ?2 AND namespace = ?1)"
            ),
            // Without the session, the id becomes NULL, which violates the NOT NULL constraint.
            RowScope::Session => format!(
                "INSERT INTO {name} ({names})
SELECT CASE WHEN EXISTS (SELECT 1 FROM sessions WHERE id = ?2 AND namespace = ?1) THEN {} WHERE true ON CONFLICT DO NOTHING",
                params.replacen("?2", "?2 END", 1)
            ),
        };
        Self { select: format!("SELECT {columns} {page}"), insert }
    }
}

/// Why a row of an export cannot be imported, as a sentence.
pub type InvalidRow = String;

pub type RowKey = Vec<Value>;

impl Table {
    /// Whether the rows are in the database with the tables of access.
    pub fn is_of_access(&self) -> bool {
        ["namespaces", "devices", "push_subscriptions"].contains(&self.name)
    }

    pub fn is_of_session(&self) -> bool {
        self.scope == RowScope::Session
    }

    fn sql(&self) -> Option<&'static Sql> {
        SQL.iter().find(|(name, _)| *name == self.name).map(|(_, sql)| sql)
    }

    fn column_names(&self) -> impl Iterator<Item = &'static str> {
        self.columns.split(", ").map(|column| column.rsplit(' ').next().unwrap_or_default())
    }

    pub fn first_key(&self) -> RowKey {
        self.key.iter().map(|(_, before_all)| before_all.clone()).collect()
    }

    /// Whether a key, which may come from a client, has the types of this table's keys.
    pub fn accepts_key(&self, key: &RowKey) -> bool {
        let types = |key: &RowKey| key.iter().map(discriminant).collect::<Vec<_>>();
        types(key) == types(&self.first_key())
    }

    /// Returns the statement that selects the page after a key. `session`: the id of the session, if the rows belong to a session.
    pub fn page(&self, namespace: &Namespace, session: Option<&str>, after: &RowKey) -> Statement {
        let mut params: Vec<Value> = vec![namespace.into()];
        params.extend(session.map(Value::from));
        params.extend(after.iter().cloned());
        Statement::new(self.sql().map_or("", |sql| &sql.select), params)
    }

    /// Returns the key of the last row of a page; `None` if the page is the last one.
    pub fn last_key(&self, rows: &[Row]) -> Option<RowKey> {
        let last = rows.last().filter(|_| rows.len() >= self.rows_per_page)?;
        self.key.iter().map(|(at, _)| last.get(*at).cloned()).collect()
    }

    /// Returns a row as the export has it: `{"table": <name>, "row": {<column>: <value>, ...}}`.
    pub fn to_json(&self, row: Row) -> String {
        let mut text = format!(r#"{{"table":"{}","row":{{"#, self.name);
        for (at, (name, value)) in self.column_names().zip(row).enumerate() {
            text.extend([if at == 0 { "\"" } else { ",\"" }, name, "\":"]);
            text.push_str(to_json(&value).text());
        }
        text.push_str("}}");
        text
    }

    pub fn insert(&self, namespace: &Namespace, mut row: JsonObject<'_>) -> Result<Statement, InvalidRow> {
        let mut params: Vec<Value> = vec![namespace.into()];
        for name in self.column_names() {
            let default = || DEFAULTS.iter().find(|(setting, _)| self.name == "sessions" && *setting == name);
            let value = match row.remove(name) {
                Some(value) => from_json(value.get()),
                None => default().map(|(_, value)| value.clone()),
            };
            params.push(value.ok_or_else(|| format!("A row of `{}` has no valid `{name}`.", self.name))?);
        }
        match row.members().next() {
            Some((name, _)) => Err(format!("This version of the hub does not know `{name}` of `{}`.", self.name)),
            None => Ok(Statement::new(self.sql().map_or("", |sql| &sql.insert), params)),
        }
    }
}

/// Returns the index of a table in [`TABLES`]; `None` for a table that no export has.
pub fn position(name: &str) -> Option<usize> {
    TABLES.iter().position(|table| table.name == name)
}

pub fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::null(),
        Value::Integer(number) => Json::of(number),
        Value::Text(text) => Json::of(text),
    }
}

/// Returns the value of a column or a key; `None` if the JSON text is neither a text, an integer nor null.
pub fn from_json(json: &str) -> Option<Value> {
    match json.as_bytes() {
        b"null" => Some(Value::Null),
        [b'"', ..] => serde_json::from_str(json).ok().map(Value::Text),
        _ => json.parse().ok().map(Value::Integer),
    }
}

const SELECT_HAS_ROWS: &str = "
SELECT EXISTS (SELECT 1 FROM sessions WHERE namespace IN (?1, '/' || ?1, '//' || ?1))
  OR EXISTS (SELECT 1 FROM machines WHERE namespace = ?1) OR EXISTS (SELECT 1 FROM value_parts WHERE namespace = ?1)";

const SELECT_HAS_ACCESS: &str = "
SELECT EXISTS (SELECT 1 FROM devices WHERE namespace = ?1)
  OR EXISTS (SELECT 1 FROM push_subscriptions WHERE namespace = ?1)";

/// Removes the names of large values without parts: their value was replaced during the export. `?1`: namespace.
const FORGET_MISSING_PARTS: [&str; 4] = [
    forget_missing_parts!("sessions", "metadata_parts"),
    forget_missing_parts!("sessions", "agent_state_parts"),
    forget_missing_parts!("machines", "metadata_parts"),
    forget_missing_parts!("machines", "runner_state_parts"),
];

pub fn complete_import(namespace: &Namespace) -> Vec<Statement> {
    of_namespace(namespace, FORGET_MISSING_PARTS)
}

/// Whether the namespace has rows in the way of an import, also of deleted sessions. `access`: the database with the tables of access.
pub async fn has_rows(db: &dyn Database, access: &dyn Database, namespace: &Namespace) -> Result<bool, DbError> {
    for (db, sql) in [(db, SELECT_HAS_ROWS), (access, SELECT_HAS_ACCESS)] {
        let rows = super::query(db, Statement::new(sql, [namespace.into()])).await?;
        if rows.first().is_some_and(|row| row.first() == Some(&Value::Integer(1))) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_the_namespace_and_have_a_parameter_for_each_column() {
        for table in &TABLES {
            let Sql { select, insert } = table.sql().unwrap();
            assert!(select.contains("namespace = ?1") && insert.contains("?1"), "{}", table.name);
            assert!(insert.contains(&format!("?{}", table.column_names().count() + 1)), "{insert}");
            assert!(table.accepts_key(&table.first_key()), "{}", table.name);
        }
    }
}
