-- What the device of a push subscription is notified about: `requests` for permission requests only. NULL for everything.
ALTER TABLE push_subscriptions ADD COLUMN notify TEXT;
