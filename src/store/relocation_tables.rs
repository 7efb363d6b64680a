//! The tables whose rows a [`relocation`](super::relocation) copies, each with its columns in the order of the migrations.

/// A page of at most 200 rows, and 1 MB more than the largest row. `$scope` has the parameter `?1`. `?2`: the key before the first row.
#[rustfmt::skip]
macro_rules! page {
    ($table:literal, $scope:literal, $key:literal, $size:literal) => {
        concat!(
            "SELECT * FROM ", $table, " WHERE ", $scope, " AND ", $key, " > ?2 AND ", $key, " <= (SELECT max(", $key, ") FROM (
  SELECT ",$key, ", sum(size) OVER (ORDER BY ", $key, " ROWS UNBOUNDED PRECEDING) - size AS before FROM (
    SELECT ", $key, ", ", $size, " AS size FROM ", $table, " WHERE ", $scope, " AND ", $key, " > ?2 ORDER BY ", $key,
            " LIMIT 200))
  WHERE before < 1000000) ORDER BY ", $key
        )
    };
}

/// A page of the rows of sessions. `?1`: namespace, `?2`: the id before the first, `?3`: the last id.
#[rustfmt::skip]
pub(super) const SELECT_SESSION_ROWS: &str = page!("sessions", "namespace IN (?1, '//' || ?1) AND id <= ?3", "id",
    "coalesce(length(metadata), 0) + coalesce(length(agent_state), 0) + coalesce(length(todos), 0)");

/// A table whose rows are copied in the order of a key.
pub(super) struct Table {
    pub(super) page: &'static str,
    pub(super) insert: &'static str,
    /// The index of the key in the columns.
    pub(super) key: usize,
    /// Deletes all rows. `?1`: the session or the namespace. `None` for messages, which are deleted in batches.
    pub(super) delete: Option<&'static str>,
}

#[rustfmt::skip]
pub(super) const MESSAGES: Table = Table {
    page: page!("messages", "session_id = ?1", "seq", "min(bytes, 1500000)"),
    insert: "INSERT INTO messages VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
    key: 1,
    delete: None,
};
#[rustfmt::skip]
pub(super) const REQUESTS: Table = Table {
    page: page!("completed_requests", "session_id = ?1", "request_id", "length(value)"),
    insert: "INSERT INTO completed_requests VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    key: 1,
    delete: Some("DELETE FROM completed_requests WHERE session_id = ?1"),
};
#[rustfmt::skip]
pub(super) const HELD: Table = Table {
    page: page!("held_messages", "session_id = ?1", "local_id", "length(content)"),
    insert: "INSERT INTO held_messages VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    key: 1,
    delete: Some("DELETE FROM held_messages WHERE session_id = ?1"),
};
pub(super) const SIZES: Table = Table {
    page: "SELECT * FROM history_sizes WHERE session_id = ?1 AND session_id > ?2",
    insert: "INSERT INTO history_sizes VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    key: 0,
    delete: Some("DELETE FROM history_sizes WHERE session_id = ?1"),
};
#[rustfmt::skip]
pub(super) const MACHINES: Table = Table {
    page: page!("machines", "namespace = ?1", "id", "coalesce(length(metadata), 0) + coalesce(length(runner_state), 0)"),
    insert: "INSERT INTO machines VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT (id) DO UPDATE SET
  namespace = iif(namespace = excluded.namespace, namespace, NULL)",
    key: 0,
    delete: Some("DELETE FROM machines WHERE namespace = ?1"),
};
#[rustfmt::skip]
pub(super) const EVENTS: Table = Table {
    page: page!("events", "namespace = ?1", "last", "bytes"),
    insert: "INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
    key: 1,
    delete: Some("DELETE FROM events WHERE namespace = ?1"),
};

/// A table of large rows that are copied one by one. `?1`: the session or the namespace, then the key.
pub(super) struct PartTable {
    pub(super) keys: &'static str,
    pub(super) select: &'static str,
    pub(super) insert: &'static str,
    pub(super) delete: &'static str,
}

pub(super) const MESSAGE_PARTS: PartTable = PartTable {
    keys: "SELECT message_id, part FROM message_parts WHERE session_id = ?1",
    select: "SELECT * FROM message_parts WHERE session_id = ?1 AND message_id = ?2 AND part = ?3",
    insert: "INSERT INTO message_parts VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
    delete: "DELETE FROM message_parts WHERE session_id = ?1 AND message_id = ?2 AND part = ?3",
};
pub(super) const VALUE_PARTS: PartTable = PartTable {
    keys: "SELECT owner, whole, part FROM value_parts WHERE namespace = ?1",
    select: "SELECT * FROM value_parts WHERE namespace = ?1 AND owner = ?2 AND whole = ?3 AND part = ?4",
    insert: "INSERT INTO value_parts VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    delete: "DELETE FROM value_parts WHERE namespace = ?1 AND owner = ?2 AND whole = ?3 AND part = ?4",
};
