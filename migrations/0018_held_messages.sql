-- Messages of web clients that wait until the CLI of their session is back. `content` is the JSON of the message. The messages of a
-- session have different times, which are their order.
CREATE TABLE held_messages (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  local_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  content TEXT NOT NULL,
  PRIMARY KEY (session_id, local_id)
) WITHOUT ROWID;
