-- A versioned value (metadata, agent state, runner state) can be larger than a row (2 MB). Its column then has what the hub
-- itself reads of it, as a value of its own, and a second column names the parts in which the whole is kept: it is NULL for
-- nearly every value. The parts are written first, some at a time, and the row that makes them count comes last. They may
-- come before their owner, a session or a machine, which is why they refer to none.
ALTER TABLE sessions ADD COLUMN metadata_parts TEXT;
ALTER TABLE sessions ADD COLUMN agent_state_parts TEXT;
ALTER TABLE machines ADD COLUMN metadata_parts TEXT;
ALTER TABLE machines ADD COLUMN runner_state_parts TEXT;

CREATE TABLE value_parts (
  namespace TEXT NOT NULL,
  owner TEXT NOT NULL,
  whole TEXT NOT NULL,
  part INTEGER NOT NULL,
  content TEXT NOT NULL,
  PRIMARY KEY (namespace, owner, whole, part)
);
