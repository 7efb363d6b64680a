-- A message costs a row for each b-tree that it is in. Without a rowid, the table is the index of its primary key, so that a
-- message costs one row, or two with a local id, instead of two or three. The columns stay as they were: the hub and the
-- release before it run with either table.
CREATE TABLE messages_by_seq (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  local_id TEXT,
  created_at INTEGER NOT NULL,
  parts INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0,
  content TEXT NOT NULL,
  PRIMARY KEY (session_id, seq)
) WITHOUT ROWID;
INSERT INTO messages_by_seq (session_id, seq, id, local_id, created_at, parts, bytes, content)
SELECT session_id, seq, id, local_id, created_at, parts, bytes, content FROM messages;
DROP TABLE messages;
ALTER TABLE messages_by_seq RENAME TO messages;
CREATE UNIQUE INDEX messages_by_local_id ON messages (session_id, local_id) WHERE local_id IS NOT NULL;
CREATE INDEX messages_in_parts ON messages (session_id, id) WHERE parts > 0;
