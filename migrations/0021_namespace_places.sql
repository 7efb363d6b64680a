-- The database of each namespace: 1 for `DB`, 2 for `DB_2`. Written in `DB` only, and only if there are several databases.
CREATE TABLE namespace_places (
  namespace TEXT PRIMARY KEY,
  database INTEGER NOT NULL
) WITHOUT ROWID;
-- The namespaces that another database has. Their rows in this database are copies, or wait for their deletion.
CREATE TABLE moved_namespaces (
  namespace TEXT PRIMARY KEY
) WITHOUT ROWID;
