//! Machines: reading, writing and deleting them.

use super::bulk::BulkStatements;
use super::columns::{METADATA, RUNNER_STATE, read_rows};
use super::values::{all_parts_exist, to_row};
use super::{DbError, Row, Statement};
use crate::model::machine::Machine;
use crate::model::namespace::Namespace;

/// Writes whole machines. Two NOT NULL constraints are checks: `namespace` becomes NULL if the machine belongs to another
/// namespace, and `seq` becomes NULL if parts of a large value are missing.
/// `?1`: JSON array of machines, `?2`: namespace, `?3`, `?4`: the metadata and the runner state of a single
/// machine that is too large for the array; otherwise NULL.
#[rustfmt::skip]
const UPSERT: &str = concat!("
INSERT INTO machines (id, namespace, seq, created_at, updated_at, active, active_at, metadata, metadata_version,
  runner_state, runner_state_version, metadata_parts, runner_state_parts)
SELECT value ->> 'id', ?2, CASE WHEN ", all_parts_exist!("metadata_parts", "runner_state_parts"),
    " THEN value ->> 'seq' END, value ->> 'created_at', value ->> 'updated_at', value ->> 'active',
  value ->> 'active_at', coalesce(?3, value ->> 'metadata'), value ->> 'metadata_version',
  coalesce(?4, value ->> 'runner_state'), value ->> 'runner_state_version', value ->> 'metadata_parts',
  value ->> 'runner_state_parts'
FROM json_each(?1) WHERE true
ON CONFLICT (id) DO UPDATE SET
  namespace = CASE WHEN machines.namespace = excluded.namespace THEN excluded.namespace END,
  seq = excluded.seq, updated_at = excluded.updated_at, active = excluded.active, active_at = excluded.active_at,
  metadata = excluded.metadata, metadata_version = excluded.metadata_version, runner_state = excluded.runner_state,
  runner_state_version = excluded.runner_state_version, metadata_parts = excluded.metadata_parts,
  runner_state_parts = excluded.runner_state_parts");

/// `?1`: JSON array of ids, `?2`: namespace.
pub(super) const DELETE: &str =
    "DELETE FROM machines WHERE +namespace = ?2 AND id IN (SELECT value FROM json_each(?1))";

const SELECT_ALL: &str = "
SELECT id, seq, created_at, updated_at, active, active_at, metadata, metadata_version, metadata_parts,
  runner_state, runner_state_version, runner_state_parts
FROM machines WHERE namespace = ?1";

pub(super) fn upsert<'a>(bulk: &mut BulkStatements, machines: impl Iterator<Item = &'a Machine>) {
    let row = |m: &'a Machine| {
        let values =
            [(METADATA, &m.metadata, m.metadata_version), (RUNNER_STATE, &m.runner_state, m.runner_state_version)];
        let mut row = to_row(values);
        row.columns.extend([
            ("id", m.id.as_str().into()),
            ("seq", m.seq.into()),
            ("created_at", m.created_at.into()),
            ("updated_at", m.updated_at.into()),
            ("active", m.active.into()),
            ("active_at", m.active_at.into()),
        ]);
        row
    };
    bulk.add_rows(UPSERT, machines.map(row));
}

pub fn select_all(namespace: &Namespace) -> Statement {
    Statement::new(SELECT_ALL, [namespace.into()])
}

pub fn read_all(namespace: &Namespace, rows: Vec<Row>) -> Result<Vec<Machine>, DbError> {
    read_rows("machines", rows, |c| {
        let mut m = Machine::new(c.text("id")?, namespace.clone(), 0);
        (m.seq, m.created_at, m.updated_at) = (c.number("seq")?, c.number("created_at")?, c.number("updated_at")?);
        (m.active, m.active_at) = (c.flag("active")?, c.number("active_at")?);
        (m.metadata, m.metadata_version) = c.versioned(METADATA)?;
        (m.runner_state, m.runner_state_version) = c.versioned(RUNNER_STATE)?;
        Ok(m)
    })
}

/// Selects whether a machine exists and belongs to the namespace, for [`read_owned`](super::columns::read_owned).
pub fn select_owner(namespace: &Namespace, id: &str) -> Statement {
    Statement::new("SELECT namespace = ?2 AS owned FROM machines WHERE id = ?1", [id.into(), namespace.into()])
}
