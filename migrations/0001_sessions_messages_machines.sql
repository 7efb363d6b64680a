-- The durable record: sessions with their messages, machines, and the hub's own secrets.
-- Times are Unix milliseconds; metadata, agent_state, todos, runner_state and content are JSON texts kept as written.

CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  namespace TEXT NOT NULL,
  tag TEXT NOT NULL,
  seq INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  active_at INTEGER NOT NULL,
  thinking_at INTEGER NOT NULL,
  active INTEGER NOT NULL,
  thinking INTEGER NOT NULL,
  mode TEXT,
  metadata TEXT,
  metadata_version INTEGER NOT NULL,
  agent_state TEXT,
  agent_state_version INTEGER NOT NULL,
  todos TEXT,
  permission_mode TEXT,
  model_mode TEXT,
  UNIQUE (namespace, tag)
);

CREATE TABLE messages (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  local_id TEXT,
  created_at INTEGER NOT NULL,
  content TEXT NOT NULL,
  PRIMARY KEY (session_id, seq)
);
CREATE UNIQUE INDEX messages_by_local_id ON messages (session_id, local_id) WHERE local_id IS NOT NULL;

CREATE TABLE machines (
  id TEXT PRIMARY KEY,
  namespace TEXT NOT NULL,
  seq INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  active INTEGER NOT NULL,
  active_at INTEGER NOT NULL,
  metadata TEXT,
  metadata_version INTEGER NOT NULL,
  runner_state TEXT,
  runner_state_version INTEGER NOT NULL
);
CREATE INDEX machines_by_namespace ON machines (namespace);

-- Made once, by whoever comes first (JWT_SECRET when it is not configured).
CREATE TABLE secrets (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
