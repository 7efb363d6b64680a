-- What web clients that come back may have missed. A row holds the events of one batch (many, when they are large) and is
-- written with the changes that it tells of: `last` is the number of its last event, `floor` that of the event before
-- its first. `events` and `bytes` count what `body` holds; an empty one stands for events that are not held.
CREATE TABLE events (
  namespace TEXT NOT NULL,
  last INTEGER NOT NULL,
  floor INTEGER NOT NULL,
  events INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (namespace, last)
) WITHOUT ROWID;
