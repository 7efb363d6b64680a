-- The device of a push subscription, as its client names it, or NULL. Pushes to a device that is in use are held back.
ALTER TABLE push_subscriptions ADD COLUMN device TEXT;
-- A device has one subscription: a new one replaces it (INSERT OR REPLACE).
CREATE UNIQUE INDEX push_devices ON push_subscriptions (namespace, device) WHERE device IS NOT NULL;
