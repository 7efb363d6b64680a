-- Since when a session waits to be seen: its agent became ready, or failed. NULL if a person has seen the session since.
ALTER TABLE sessions ADD COLUMN unseen_since INTEGER;
-- When the session ended. NULL while it is active, and after a lost connection.
ALTER TABLE sessions ADD COLUMN ended_at INTEGER;
-- Whether notifications of the session are muted.
ALTER TABLE sessions ADD COLUMN muted INTEGER NOT NULL DEFAULT 0;
-- When the hub stored pending requests without a plausible time of their own: a JSON object of times, by the id of the request.
ALTER TABLE sessions ADD COLUMN request_times TEXT;
