//! The life of a namespace: its export, the import into an empty namespace, and its deletion (docs/design/namespaces.md). When a
//! namespace is closed or opened, the object restarts: no hub remains that remembers the earlier rows.

use serde_json::value::RawValue;

use crate::hub::Hub;
use crate::hub::core::error::Error;
use crate::hub::core::namespace::ClosedFor;
use crate::hub::core::ports::Runtime;
use crate::hub::core::storage_keys::{CLOSED_FOR, EXPORTED};
use crate::hub::namespace::databases::{PAGE_MEMORY_BYTES, STEP_MS, delete_rows};
use crate::model::json::{Json, JsonObject};
use crate::model::order::sort_by;
use crate::store::fence::is_fence_refusal;
use crate::store::namespace_rows::{self, RowKey, TABLES, from_json, to_json};
use crate::store::{Database, DbError, Value, execute, places, query, removals};

/// A page of an export ends after this many bytes. Its last rows may have 6 MB more: a row has up to 3 MB, which escapes may double.
const PAGE_BYTES: usize = 2_000_000;
/// A page of an export ends after this many queries.
const PAGE_QUERIES: usize = 30;
/// What an export names the object's storage, which is no table of the database.
const STORAGE: &str = "storage";

/// A session whose rows are being exported.
#[derive(Debug, Clone, PartialEq)]
struct CurrentSession {
    tag: String,
    id: String,
}

/// Where the next page of an export begins.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportPosition {
    session: Option<CurrentSession>,
    /// An index in [`TABLES`]. Rows of a session only if there is a current session.
    table: usize,
    /// The key of the last row before the page.
    after: RowKey,
}

impl ExportPosition {
    pub fn start() -> Self {
        Self::of_table(None, 0)
    }

    fn of_table(session: Option<CurrentSession>, table: usize) -> Self {
        let after = TABLES.get(table).map(namespace_rows::Table::first_key).unwrap_or_default();
        Self { session, table, after }
    }

    /// Reads a cursor; `None` if it is not one that an export has returned.
    pub fn parse(cursor: &str) -> Option<Self> {
        let fields: Vec<&RawValue> = serde_json::from_str(cursor).ok()?;
        let fields = fields.into_iter().map(|field| from_json(field.get())).collect::<Option<Vec<Value>>>()?;
        let [Value::Text(table), tag, id, after @ ..] = fields.as_slice() else { return None };
        let session = match (tag, id) {
            (Value::Text(tag), Value::Text(id)) => Some(CurrentSession { tag: tag.clone(), id: id.clone() }),
            _ => None,
        };
        let (at, after) = (namespace_rows::position(table)?, after.to_vec());
        let table = TABLES.get(at)?;
        let is_valid = table.is_of_session() == session.is_some() && table.accepts_key(&after);
        is_valid.then_some(Self { session, table: at, after })
    }

    /// Returns the name of the table, the tag and the id of the session or null, and the key, as a JSON array.
    fn cursor(&self) -> String {
        let table = TABLES.get(self.table).map_or("", |table| table.name);
        let session = self.session.as_ref();
        let fields = [session.map(|session| &session.tag), session.map(|session| &session.id)];
        let fields = fields.map(|field| field.map_or(Value::Null, |text| text.as_str().into()));
        let mut text = format!(r#"["{table}""#);
        for field in fields.iter().chain(&self.after) {
            text.extend([",", to_json(field).text()]);
        }
        text.push(']');
        text
    }
}

/// A page of an export: its rows as JSON, separated by commas, and how many queries have read them.
#[derive(Default)]
struct ExportPage {
    rows: String,
    queries: usize,
}

impl ExportPage {
    fn add(&mut self, row: &str) {
        if !self.rows.is_empty() {
            self.rows.push(',');
        }
        self.rows.push_str(row);
    }

    /// Adds rows. Returns the position after the rows; `None` after the last session.
    async fn add_table(&mut self, hub: &Hub, position: ExportPosition) -> Result<Option<ExportPosition>, DbError> {
        let Some(table) = TABLES.get(position.table) else { return Ok(None) };
        self.queries += 1;
        let Some(session) = &position.session else {
            let db = if table.is_of_access() { &hub.access.db } else { &hub.db };
            let rows = query(db, table.page(&hub.config.namespace, None, &position.after)).await?;
            let is_session_table = TABLES.get(position.table + 1).is_some_and(namespace_rows::Table::is_of_session);
            let session = match rows.first().map(Vec::as_slice) {
                Some([Value::Text(id), Value::Text(tag), ..]) if is_session_table => {
                    Some(CurrentSession { tag: tag.clone(), id: id.clone() })
                }
                _ => None,
            };
            let last_key = table.last_key(&rows);
            rows.into_iter().for_each(|row| self.add(&table.to_json(row)));
            return Ok(match (session, last_key) {
                (Some(session), _) => Some(ExportPosition::of_table(Some(session), position.table + 1)),
                (None, Some(after)) => Some(ExportPosition { after, ..position }),
                (None, None) if is_session_table => None,
                (None, None) => Some(ExportPosition::of_table(None, position.table + 1)),
            });
        };
        // Messages are read alone, and then one batch reads the first pages of all other tables, because most sessions fit into them.
        let is_message_table = namespace_rows::position("messages") == Some(position.table);
        let count = if is_message_table { 1 } else { TABLES.len() };
        let tables = || TABLES.iter().enumerate().skip(position.table).take(count);
        let page_of = |(at, table): (usize, &namespace_rows::Table)| {
            let first_key = table.first_key();
            let after = if at == position.table { &position.after } else { &first_key };
            table.page(&hub.config.namespace, Some(&session.id), after)
        };
        let mut statements = tables().map(page_of).collect();
        let results = hub.db.batch(&mut statements).await?;
        for ((at, table), rows) in tables().zip(results) {
            let last_key = table.last_key(&rows);
            rows.into_iter().for_each(|row| self.add(&table.to_json(row)));
            if let Some(after) = last_key {
                return Ok(Some(ExportPosition { session: position.session, table: at, after }));
            }
        }
        if is_message_table {
            return Ok(Some(ExportPosition::of_table(position.session, position.table + 1)));
        }
        let sessions = namespace_rows::position("sessions").unwrap_or_default();
        Ok(Some(ExportPosition { session: None, table: sessions, after: vec![session.tag.as_str().into()] }))
    }

    fn add_storage(&mut self, rt: &dyn Runtime) {
        for prefix in EXPORTED {
            let mut entries = rt.kv_list(prefix);
            sort_by(&mut entries, |(a, _), (b, _)| a.cmp(b));
            for (key, value) in entries {
                let row = Json::object(&[("key", Json::of(&key)), ("value", Json::of(&value))]);
                self.add(Json::object(&[("table", Json::of(STORAGE)), ("row", row)]).text());
            }
        }
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= PAGE_BYTES || self.queries >= PAGE_QUERIES
    }
}

impl Hub {
    /// Whether the object must restart now: close all sockets, and start a new hub. Returns `true` once, and from then on this hub
    /// writes nothing to the database: a request that has begun before may still use it.
    pub fn take_restart_request(&self) -> bool {
        let must_restart = std::mem::take(&mut self.turn().must_restart);
        if must_restart {
            let numbered = self.places.iter().flat_map(|places| &places.fenced_by_number);
            [&self.db, &self.access.db].into_iter().chain(numbered).for_each(|db| db.db.retire());
        }
        must_restart
    }

    /// `GET /api/namespaces/export`: returns a page `{"rows": [...], "next"?: <cursor>}`. The last page has no `next`. Rows that are written
    /// during the export may be missing, but a message is never there without all earlier messages of its session.
    pub async fn export_page(&self, mut position: ExportPosition) -> Result<String, Error> {
        let _reservation = self.memory.try_reserve(PAGE_MEMORY_BYTES)?;
        let mut page = ExportPage::default();
        loop {
            let next = page.add_table(self, position).await?;
            match next {
                None => {
                    page.add_storage(&*self.rt);
                    return Ok(format!(r#"{{"rows":[{}]}}"#, page.rows));
                }
                Some(next) if page.is_full() => {
                    let cursor = Json::of(&next.cursor());
                    return Ok(format!(r#"{{"rows":[{}],"next":{}}}"#, page.rows, cursor.text()));
                }
                Some(next) => position = next,
            }
        }
    }

    /// Closes the namespace for an import, which needs a namespace without rows, or `continues` an import that was interrupted.
    pub async fn begin_import(&self, continues: bool) -> Result<(), Error> {
        let _change = self.begin_change()?;
        let closed_for = self.turn().closed_for;
        let is_ready = match continues {
            true => closed_for == Some(ClosedFor::Import),
            false => {
                !matches!(closed_for, Some(ClosedFor::Deletion | ClosedFor::Move))
                    && !namespace_rows::has_rows(&self.db, &self.access.db, &self.config.namespace).await?
            }
        };
        if !is_ready {
            return Err(Error::NamespaceNotEmpty);
        }
        self.close_for(ClosedFor::Import);
        Ok(())
    }

    /// Imports an array of rows of an export. Rows that the namespace has already do not change.
    pub async fn import_rows(&self, rows: &Json) -> Result<(), Error> {
        if self.turn().closed_for != Some(ClosedFor::Import) {
            return Err(Error::field("step", "Field `step` must be `begin` first."));
        }
        let invalid_row = |message: String| Error::field("rows", message);
        let invalid = || invalid_row("Field `rows` must be an array of rows of an export.".into());
        let (mut statements, mut access_statements, mut storage_entries) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows.read::<Vec<&RawValue>>().ok_or_else(invalid)? {
            let row = JsonObject::parse(row.get()).ok_or_else(invalid)?;
            let (Some(table), Some(row)) = (row.get("table"), row.get("row")) else { return Err(invalid()) };
            let (Some(Value::Text(name)), Some(row)) = (from_json(table.get()), JsonObject::parse(row.get())) else {
                return Err(invalid());
            };
            if name == STORAGE {
                let entry = parse_storage_entry(row);
                storage_entries.push(entry.ok_or_else(|| invalid_row("A row of `storage` is not valid.".into()))?);
                continue;
            }
            let table = namespace_rows::position(&name).and_then(|at| TABLES.get(at));
            let table = table.ok_or_else(|| invalid_row(format!("No table of an export has the name `{name}`.")))?;
            let statements = if table.is_of_access() { &mut access_statements } else { &mut statements };
            statements.push(table.insert(&self.config.namespace, row).map_err(invalid_row)?);
        }
        let written = execute(&self.access.db, access_statements).await;
        match written.and(execute(&self.db, statements).await) {
            Err(DbError::Refused(why)) if !is_fence_refusal(&why) => {
                let message = "The rows do not fit: another namespace has an id of them, or they refer to a session that was not imported.";
                return Err(invalid_row(message.into()));
            }
            result => result?,
        }
        storage_entries.into_iter().for_each(|(key, value)| self.rt.kv_put(&key, &value));
        Ok(())
    }

    pub async fn end_import(&self) -> Result<(), Error> {
        if self.turn().closed_for != Some(ClosedFor::Import) {
            return Ok(());
        }
        execute(&self.db, namespace_rows::complete_import(&self.config.namespace)).await?;
        let mut turn = self.turn();
        self.rt.kv_delete(CLOSED_FOR);
        turn.must_restart = true;
        Ok(())
    }

    /// `POST /api/namespaces/delete`: deletes a part of everything that the namespace has. Returns the number of sessions that remain;
    /// `None` when nothing remains, neither in the database nor in the object's storage. Must be repeated until then.
    pub async fn delete_part(&self) -> Result<Option<u64>, Error> {
        let _change = self.begin_change()?;
        if self.turn().closed_for != Some(ClosedFor::Deletion) {
            self.close_for(ClosedFor::Deletion);
            return Ok(Some(removals::count_sessions(&self.db, &self.config.namespace).await?));
        }
        let (namespace, ends_at) = (&self.config.namespace, self.rt.now() + STEP_MS);
        for db in self.all_used_databases().await? {
            if let Some(sessions) = delete_rows(db, namespace, &*self.rt, ends_at).await? {
                return Ok(Some(sessions));
            }
        }
        removals::delete_access(&self.access.db, namespace).await?;
        for db in self.all_used_databases().await? {
            if self.places.is_some() {
                places::mark_moved(db, namespace, false).await?;
            }
            removals::delete_fence(db, namespace.as_str()).await?;
        }
        if self.places.is_some() {
            places::forget(&self.access.db, namespace).await?;
            removals::delete_fence(&self.access.db, &places::access_key(namespace)).await?;
        }
        let mut turn = self.turn();
        self.rt.kv_list("").iter().for_each(|(key, _)| self.rt.kv_delete(key));
        turn.is_namespace_stored = false;
        turn.must_restart = true;
        Ok(None)
    }
}

/// Returns the key and the value of a row of the object's storage, if an export can have the key.
fn parse_storage_entry(mut row: JsonObject<'_>) -> Option<(String, String)> {
    let mut text = |name| match from_json(row.remove(name)?.get())? {
        Value::Text(text) => Some(text),
        _ => None,
    };
    let (key, value) = (text("key")?, text("value")?);
    EXPORTED.iter().any(|prefix| key.starts_with(prefix)).then_some((key, value))
}
