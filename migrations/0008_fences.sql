-- A batch whose answer never came may still be on its way to the database. Every batch that writes names the epoch of the
-- hub that sent it, and fails as a whole once a later epoch of its namespace stands here.
CREATE TABLE fences (
  namespace TEXT PRIMARY KEY,
  epoch INTEGER NOT NULL
) WITHOUT ROWID;
