-- Where web pushes go: what a browser's push manager gave out. `hub` is the address of the hub that the subscriber used (an
-- https origin, or NULL), which names the hub to push services unless VAPID_SUBJECT does.
CREATE TABLE push_subscriptions (
  namespace TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  p256dh TEXT NOT NULL,
  auth TEXT NOT NULL,
  hub TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, endpoint)
) WITHOUT ROWID;
