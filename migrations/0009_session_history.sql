-- The id under which the messages of a session are stored. NULL, except after a merge: the session has taken the history of
-- another one, under whose id the messages remain.
ALTER TABLE sessions ADD COLUMN history TEXT;
