-- The last epoch whose object knows `sessions.history`. Migration 0011 compares it with `epoch`.
ALTER TABLE fences ADD COLUMN history_epoch INTEGER;
