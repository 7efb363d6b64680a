-- The device of a push subscription, as its client names it, or NULL. Pushes to a device that is in use are held back.
ALTER TABLE push_subscriptions ADD COLUMN device TEXT;
