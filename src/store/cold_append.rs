//! A cold append: one transaction that stores a message of a session that is not in memory, logs its event, and reads the session.
//! The database assigns the `seq`. Repeating the transaction changes nothing.

use super::columns::Columns;
use super::messages::MessageRef;
use super::sessions::{SELECT_BY_ID, SELECT_OWNED, current_seq, history_of, read_found};
use super::{DbError, Found, Row, Statement, Value, event_lines};
use crate::model::message::Message;
use crate::model::namespace::Namespace;
use crate::model::session::Session;

/// Appends a message, unless one with its local id exists, or the batch was committed before: then the message is the last one.
/// `?1`: session, `?2`: namespace, `?3`: id, `?4`: local id, `?5`: time, `?6`: bytes, `?7`: content.
const APPEND: &str = concat!(
    "
INSERT INTO messages (session_id, seq, id, local_id, created_at, parts, bytes, content)
SELECT coalesce(history, id), 1 + ",
    current_seq!(),
    ", ?3, ?4, ?5, 0, ?6, ?7
FROM sessions WHERE id = ?1 AND namespace = ?2
  AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.session_id = coalesce(history, sessions.id) AND m.local_id = ?4)
  AND ?3 IS NOT (SELECT m.id FROM messages AS m WHERE m.session_id = coalesce(history, sessions.id)
    ORDER BY m.seq DESC LIMIT 1)"
);

/// The last message of a session, or the one with a local id. `?1`: session, `?2`: namespace, `?3`: local id.
const SELECT_MESSAGE: &str = concat!(
    "
SELECT id, seq, created_at FROM (SELECT ",
    history_of!("?1", "?2"),
    " AS history), messages WHERE session_id = history
  AND seq = iif(?3 IS NULL, (SELECT max(m.seq) FROM messages AS m WHERE m.session_id = history),
    (SELECT m.seq FROM messages AS m WHERE m.session_id = history AND m.local_id = ?3))"
);

/// Adds a row with the event of the last message of a session after the last row of the log, unless that row has it already.
/// D1 binds numbers as floating-point numbers, which would be stored with an exponent in the text.
/// `?1`: session, `?2`: namespace, `?3`: id of the message, `?4`: the smallest number that the event may get, `?5`: the number
/// after which the log starts, `?6`: bytes, `?7`: the text between the number of the event and the seq of the message.
const APPEND_EVENT: &str = concat!(
    "
INSERT INTO events (namespace, last, floor, events, bytes, body)
SELECT ?2, number, floor, 1, ?6, number || ?7 || seq || char(10)
FROM (SELECT max(?5, coalesce(max(last), 0)) AS floor,
      max(CAST(?4 AS INTEGER), 1 + coalesce(max(last), 0)) AS number
    FROM events WHERE namespace = ?2),
  (SELECT id, seq FROM messages WHERE session_id = ",
    history_of!("?1", "?2"),
    " ORDER BY seq DESC LIMIT 1)
WHERE id = ?3 AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.namespace = ?2
  AND e.last = (SELECT max(last) FROM events WHERE namespace = ?2) AND e.body = e.last || ?7 || seq || char(10))"
);

/// The numbers of the last row of the log. `?1`: namespace.
const SELECT_LAST_ROW: &str = "SELECT last, floor FROM events WHERE namespace = ?1 ORDER BY last DESC LIMIT 1";

/// The result of a cold append.
#[derive(Debug)]
pub struct Appended {
    /// The session, with the message; an error if its row cannot be read.
    pub session: Result<Found<Session>, DbError>,
    /// The message, or an earlier one with its local id.
    pub message: Option<MessageRef>,
    /// The last row of the log, if events are logged: the event of the message, if the message is new.
    pub last_row: Option<LastRow>,
}

/// The numbers of a row of the log.
#[derive(Debug, Clone, Copy)]
pub struct LastRow {
    /// The number of its last event.
    pub number: u64,
    /// The number of the event before its first one.
    pub previous_number: u64,
}

/// Returns the statements that store a message, whose `seq` is ignored, and read its session. The content must fit into a row.
pub fn append(namespace: &Namespace, session: &str, message: &Message) -> Vec<Statement> {
    let with = |params: Vec<Value>| [vec![session.into(), namespace.as_ref().into()], params].concat();
    let (id, content) = (message.id.as_str(), message.content.text());
    let local_id = message.local_id.as_deref().map_or(Value::Null, Value::from);
    let bytes = content.len() as u64;
    let columns = vec![id.into(), local_id.clone(), message.created_at.into(), bytes.into(), content.into()];
    vec![
        Statement::new(APPEND, with(columns)),
        Statement::new(SELECT_BY_ID, with(Vec::new())),
        Statement::new(SELECT_OWNED, with(Vec::new())),
        Statement::new(SELECT_MESSAGE, with(vec![local_id])),
    ]
}

/// Returns the statements that log the event of the message, which has `bytes`. They follow those of [`append`]. `number` is the
/// smallest number that the event may get. Events up to `log_start` are not in the log.
pub fn append_event(
    namespace: &Namespace,
    session: &str,
    message: &Message,
    bytes: usize,
    number: u64,
    log_start: u64,
) -> [Statement; 2] {
    let event = event_lines::encode_reference("", session, "");
    let (id, bytes) = (message.id.as_str(), bytes as u64);
    let params: [Value; 7] = [
        session.into(),
        namespace.as_ref().into(),
        id.into(),
        number.into(),
        log_start.into(),
        bytes.into(),
        Value::Text(event),
    ];
    [Statement::new(APPEND_EVENT, params), Statement::new(SELECT_LAST_ROW, [namespace.as_ref().into()])]
}

/// Reads the results of [`append`] and [`append_event`].
pub fn read(namespace: &Namespace, results: &mut [Vec<Row>]) -> Result<Appended, DbError> {
    let mut rows = results.iter_mut().map(std::mem::take).skip(1);
    let session = read_found(namespace, &mut rows);
    let mut next = || rows.next().unwrap_or_default();
    let message = next().pop().map(|row| {
        let mut c = Columns::new("messages", row);
        Ok::<_, DbError>(MessageRef { id: c.text("id")?, seq: c.number("seq")?, created_at: c.number("created_at")? })
    });
    let (_, last_row) = (next(), next().pop());
    let last_row = last_row.map(|row| {
        let mut c = Columns::new("events", row);
        Ok::<_, DbError>(LastRow { number: c.number("last")?, previous_number: c.number("floor")? })
    });
    Ok(Appended { session, message: message.transpose()?, last_row: last_row.transpose()? })
}
