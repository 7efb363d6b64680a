//! The sessions in the database.

use std::collections::BTreeMap;

use serde_json::Value;
use session_gateway_hub::store::Value as Column;

use super::world::World;

/// A session in the database.
pub struct Row {
    pub id: String,
    pub tag: String,
    pub seq: u64,
    /// With the field names of the protocol; a missing field is null.
    pub presence: Value,
    pub metadata: Value,
    pub metadata_version: u64,
    pub state: Value,
    pub state_version: u64,
    pub updated_at: u64,
    /// The messages by seq: id, local id, content.
    pub messages: BTreeMap<u64, (String, String, Value)>,
    pub completed: BTreeMap<String, Value>,
}

impl Row {
    pub fn is_active(&self) -> bool {
        self.presence["active"] == true
    }
}

impl World {
    /// Reads the sessions of a namespace from the database.
    pub fn read_rows(&self, ns: usize) -> BTreeMap<String, Row> {
        let of = format!("FROM sessions WHERE namespace = '{}'", self.objects[ns].name);
        let mut rows = BTreeMap::new();
        for row in self.db.sqlite.select(&format!(
            "SELECT id, tag, seq, json_object('active', json(iif(active, 'true', 'false')), 'thinking',
             json(iif(thinking, 'true', 'false')), 'mode', mode, 'permissionMode', permission_mode, 'modelMode', model_mode),
             {}, metadata_version, {}, agent_state_version, updated_at {of}",
            whole_value("metadata"),
            whole_value("agent_state"),
        )) {
            let mut c = row.into_iter();
            let row = Row {
                id: text(c.next()),
                tag: text(c.next()),
                seq: number(c.next()),
                presence: json(c.next()),
                metadata: json(c.next()),
                metadata_version: number(c.next()),
                state: json(c.next()),
                state_version: number(c.next()),
                updated_at: number(c.next()),
                messages: BTreeMap::new(),
                completed: BTreeMap::new(),
            };
            rows.insert(row.id.clone(), row);
        }
        let ids = format!("(SELECT id {of})");
        for row in self.db.sqlite.select(&format!(
            "SELECT session_id, seq, id, local_id, {WHOLE_MESSAGE} FROM messages WHERE session_id IN {ids}"
        )) {
            let mut c = row.into_iter();
            let (session, seq) = (text(c.next()), number(c.next()));
            let message = (text(c.next()), text(c.next()), json(c.next()));
            rows.get_mut(&session).unwrap().messages.insert(seq, message);
        }
        for row in self
            .db
            .sqlite
            .select(&format!("SELECT session_id, request_id, value FROM completed_requests WHERE session_id IN {ids}"))
        {
            let mut c = row.into_iter();
            let (session, request) = (text(c.next()), text(c.next()));
            rows.get_mut(&session).unwrap().completed.insert(request, json(c.next()));
        }
        rows
    }
}

/// The SQL expression for a session's value with its parts.
fn whole_value(value: &str) -> String {
    format!(
        "iif({value}_parts IS NULL, {value}, (SELECT group_concat(content, '') FROM (SELECT content FROM value_parts
         WHERE owner = sessions.id AND whole = {value}_parts ORDER BY part)))"
    )
}

/// The SQL expression for a message's content with its parts.
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
