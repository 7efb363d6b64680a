-- The size of each history, in bytes of content, counted up to the message `seq`. Written only for a quota of storage, and for the
-- status of a namespace. Messages do not change, so the size is counted on from `seq`, also after an earlier version has written
-- messages without counting them.
CREATE TABLE history_sizes (
  session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) WITHOUT ROWID;
