-- The colour with which people mark a session.
ALTER TABLE sessions ADD COLUMN color TEXT;
