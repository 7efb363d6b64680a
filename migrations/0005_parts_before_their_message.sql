-- A message larger than a row is larger than a transaction should be, too: its parts are written first, some at a time, and
-- the message that makes them count comes last. So they stand under the message's id and belong to its session. Parts of a
-- message that never came are swept away with the session's next large one.
CREATE TABLE parts (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  message_id TEXT NOT NULL,
  part INTEGER NOT NULL,
  content TEXT NOT NULL,
  PRIMARY KEY (session_id, message_id, part)
);
INSERT INTO parts (session_id, message_id, part, content)
SELECT session_id, messages.id, part, message_parts.content FROM message_parts JOIN messages USING (session_id, seq);
DROP TABLE message_parts;
ALTER TABLE parts RENAME TO message_parts;

-- Which messages have parts; nearly none has, and those cost nothing here.
CREATE INDEX messages_in_parts ON messages (session_id, id) WHERE parts > 0;
