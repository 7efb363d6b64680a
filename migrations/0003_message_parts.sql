-- A message can be larger than a row (2 MB). Its content begins in `messages`; what does not fit stands in parts, in
-- their order. `parts` counts those, `bytes` is the length of the whole content.
ALTER TABLE messages ADD COLUMN parts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

CREATE TABLE message_parts (
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  part INTEGER NOT NULL,
  content TEXT NOT NULL,
  PRIMARY KEY (session_id, seq, part),
  FOREIGN KEY (session_id, seq) REFERENCES messages (session_id, seq) ON DELETE CASCADE ON UPDATE CASCADE
);
