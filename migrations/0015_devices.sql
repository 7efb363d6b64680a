-- Browsers, phones and CLIs with a token of their own. A revoked device remains for 30 days, so that its client learns why its
-- token is not valid.
CREATE TABLE devices (
  id TEXT PRIMARY KEY,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  revoked_at INTEGER
) WITHOUT ROWID;
CREATE UNIQUE INDEX device_tokens ON devices (token_hash);
CREATE INDEX devices_of_namespace ON devices (namespace, created_at);
CREATE INDEX revoked_devices ON devices (revoked_at) WHERE revoked_at IS NOT NULL;
-- Codes that become devices. A person creates a code for a device; or a device requests a code, which a person approves.
-- `claim_hash` is of what the device must present: the code, or the secret of its request.
CREATE TABLE pairings (
  selector TEXT PRIMARY KEY,
  code_hash TEXT NOT NULL,
  claim_hash TEXT NOT NULL,
  device_id TEXT NOT NULL,
  namespace TEXT,
  name TEXT,
  kind TEXT,
  is_approved INTEGER,
  claims_left INTEGER NOT NULL,
  wrong_guesses INTEGER NOT NULL DEFAULT 0,
  token_hash TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX pairing_claims ON pairings (claim_hash);
CREATE INDEX pairing_tokens ON pairings (token_hash);
CREATE INDEX pairings_of_namespace ON pairings (namespace);
CREATE INDEX pairings_by_expiry ON pairings (expires_at);
-- The generation of a namespace's tokens; 0 without a row. A revocation of all tokens begins the next one.
CREATE TABLE namespaces (
  namespace TEXT PRIMARY KEY,
  generation INTEGER NOT NULL
) WITHOUT ROWID;
-- The device whose token made the push subscription, or NULL.
ALTER TABLE push_subscriptions ADD COLUMN token_device TEXT;
