-- The id of the access secret (`CLI_API_TOKEN`) of the token that made the push subscription. NULL for the token of a device.
ALTER TABLE push_subscriptions ADD COLUMN secret TEXT;
