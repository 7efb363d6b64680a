-- Finds the sessions whose messages are stored under an id. Only sessions of a merge have a `history`.
CREATE INDEX sessions_by_history ON sessions (history) WHERE history IS NOT NULL;
