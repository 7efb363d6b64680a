-- For a rollback to a version before 0009. That version takes a session's seq from its row, which messages no longer write,
-- and the messages of a merged session from under its own id. When it begins an epoch, because its object has started, the
-- trigger makes the rows of the namespace what it expects. Versions since 0010 also set `history_epoch`.
ALTER TABLE fences ADD COLUMN history_epoch INTEGER;
CREATE TRIGGER restore_rows_for_earlier_versions AFTER UPDATE OF epoch ON fences
WHEN new.history_epoch IS NOT new.epoch
BEGIN
  UPDATE messages SET session_id = s.id FROM sessions AS s
  WHERE s.namespace = new.namespace AND s.history <> s.id AND messages.session_id = s.history;
  UPDATE message_parts SET session_id = s.id FROM sessions AS s
  WHERE s.namespace = new.namespace AND s.history <> s.id AND message_parts.session_id = s.history;
  UPDATE sessions SET history = NULL,
    seq = max(seq, coalesce((SELECT max(m.seq) FROM messages AS m WHERE m.session_id = sessions.id), 0)),
    updated_at = max(updated_at, coalesce((SELECT m.created_at FROM messages AS m WHERE m.session_id = sessions.id
      ORDER BY m.seq DESC LIMIT 1), 0))
  WHERE namespace = new.namespace AND (history IS NOT NULL
    OR seq < (SELECT max(m.seq) FROM messages AS m WHERE m.session_id = sessions.id));
  DELETE FROM sessions WHERE namespace = '//' || new.namespace
    AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.session_id = sessions.id);
END;
