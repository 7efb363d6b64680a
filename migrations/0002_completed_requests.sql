-- Answered permission requests grow without bound: they live in rows of their own instead of the session's agent_state,
-- which keeps only what waits for an answer. `value` is the entry of agentState.completedRequests as JSON text.
CREATE TABLE completed_requests (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  request_id TEXT NOT NULL,
  completed_at INTEGER NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (session_id, request_id)
);
