//! The sessions in the database.

use std::collections::BTreeMap;

use serde_json::Value;
use session_gateway_hub::store::Value as Column;

use super::world::World;

/// A session in the database.
#[derive(Clone, PartialEq)]
pub struct Row {
    pub id: String,
    pub tag: String,
    pub seq: u64,
    /// `active`, `thinking` and the modes, as an object with the field names of the protocol. A column that is NULL is null.
    pub presence: Value,
    pub metadata: Value,
    pub metadata_version: u64,
    pub agent_state: Value,
    pub agent_state_version: u64,
    pub updated_at: u64,
    /// The id, local id and content of each message, by seq.
    pub messages: BTreeMap<u64, (String, String, Value)>,
    /// The local ids of the held messages.
    pub held: Vec<String>,
    /// The completed requests by id.
    pub completed: BTreeMap<String, Value>,
}

impl Row {
    pub fn is_active(&self) -> bool {
        self.presence["active"] == true
    }
}

impl World {
    /// Reads the sessions of a namespace from the database.
    pub fn read_rows(&self, namespace_index: usize) -> BTreeMap<String, Row> {
        let name = self.objects[namespace_index].name;
        // After a merge, the messages of a session are stored under another id.
        let from_sessions = format!(
            "FROM (SELECT *, coalesce(history, id) AS history_id FROM sessions WHERE namespace = '{name}' AND id NOT LIKE 'filler-%') AS sessions"
        );
        let mut rows = BTreeMap::new();
        for row in self.db.sqlite.select(&format!(
            "SELECT id, tag, max(seq, coalesce((SELECT max(m.seq) FROM messages AS m WHERE m.session_id = history_id), 0)),
             json_object('active', json(iif(active, 'true', 'false')), 'thinking',
             json(iif(thinking, 'true', 'false')), 'mode', mode, 'permissionMode', permission_mode, 'modelMode', model_mode),
             {}, metadata_version, {}, agent_state_version, max(updated_at, coalesce((SELECT m.created_at FROM messages AS m
             WHERE m.session_id = history_id ORDER BY m.seq DESC LIMIT 1), 0)) {from_sessions}",
            whole_value("metadata"),
            whole_value("agent_state"),
        )) {
            let mut columns = row.into_iter();
            let row = Row {
                id: text(columns.next()),
                tag: text(columns.next()),
                seq: number(columns.next()),
                presence: json(columns.next()),
                metadata: json(columns.next()),
                metadata_version: number(columns.next()),
                agent_state: json(columns.next()),
                agent_state_version: number(columns.next()),
                updated_at: number(columns.next()),
                messages: BTreeMap::new(),
                held: Vec::new(),
                completed: BTreeMap::new(),
            };
            rows.insert(row.id.clone(), row);
        }
        let ids = format!("(SELECT id {from_sessions})");
        for row in self.db.sqlite.select(&format!(
            "SELECT sessions.id, messages.seq, messages.id, local_id, {WHOLE_MESSAGE} {from_sessions}
             JOIN messages ON messages.session_id = sessions.history_id AND messages.id NOT LIKE 'stored-%'"
        )) {
            let mut columns = row.into_iter();
            let (session, seq) = (text(columns.next()), number(columns.next()));
            let message = (text(columns.next()), text(columns.next()), json(columns.next()));
            rows.get_mut(&session).unwrap().messages.insert(seq, message);
        }
        for row in
            self.db.sqlite.select(&format!("SELECT session_id, local_id FROM held_messages WHERE session_id IN {ids}"))
        {
            let mut columns = row.into_iter();
            rows.get_mut(&text(columns.next())).unwrap().held.push(text(columns.next()));
        }
        for row in self
            .db
            .sqlite
            .select(&format!("SELECT session_id, request_id, value FROM completed_requests WHERE session_id IN {ids}"))
        {
            let mut columns = row.into_iter();
            let (session, request) = (text(columns.next()), text(columns.next()));
            rows.get_mut(&session).unwrap().completed.insert(request, json(columns.next()));
        }
        rows
    }
}

/// The SQL expression for a value of a session, joined from its parts if it is stored in parts. The column `<value>_parts`
/// identifies these parts.
fn whole_value(value: &str) -> String {
    format!(
        "iif({value}_parts IS NULL, {value}, (SELECT group_concat(content, '') FROM (SELECT content FROM value_parts
         WHERE owner = sessions.id AND whole = {value}_parts ORDER BY part)))"
    )
}

/// The SQL expression for the content of a message, joined with the parts that are stored separately.
const WHOLE_MESSAGE: &str =
    "iif(parts = 0, content, content || (SELECT group_concat(content, '') FROM (SELECT content FROM message_parts AS p
     WHERE p.session_id = messages.session_id AND p.message_id = messages.id ORDER BY part)))";

pub fn text(column: Option<Column>) -> String {
    match column {
        Some(Column::Text(text)) => text,
        other => panic!("not text: {other:?}"),
    }
}

pub fn number(column: Option<Column>) -> u64 {
    match column {
        Some(Column::Integer(number)) => u64::try_from(number).unwrap(),
        other => panic!("not a number: {other:?}"),
    }
}

fn json(column: Option<Column>) -> Value {
    match column {
        Some(Column::Text(text)) => serde_json::from_str(&text).unwrap(),
        _ => Value::Null,
    }
}
