//! Machines: reading, writing and deleting them.

use serde::Serialize;

use super::bulk::BulkStatements;
use super::columns::{Columns, read_owned};
use super::values::{all_parts_exist, count_parts};
use super::{DbError, Found, Row, Statement};
use crate::model::json::Json;
use crate::model::large::{InlineOrLarge, LargeRef};
use crate::model::machine::Machine;
use crate::model::namespace::Namespace;

/// Writes whole machines. Two NOT NULL constraints are checks: `namespace` becomes NULL if the machine belongs to another
/// namespace, and `seq` becomes NULL if parts of a large value are missing.
/// `?1`: JSON array of [`MachineRow`], `?2`: namespace, `?3`, `?4`: the metadata and the runner state of a single
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
const DELETE: &str = "
DELETE FROM machines WHERE +namespace = ?2 AND id IN (SELECT value FROM json_each(?1))";

const SELECT_ALL: &str = "
SELECT id, seq, created_at, updated_at, active, active_at, metadata, metadata_version, runner_state, runner_state_version,
  metadata_parts, runner_state_parts
FROM machines WHERE namespace = ?1";

/// Whether a machine belongs to the namespace. Returns no row if the machine does not exist. `?1`: id, `?2`: namespace.
const SELECT_OWNED: &str = "SELECT namespace = ?2 AS owned FROM machines WHERE id = ?1";

#[derive(Serialize)]
struct MachineRow<'a> {
    id: &'a str,
    seq: u64,
    created_at: u64,
    updated_at: u64,
    active: bool,
    active_at: u64,
    metadata: Option<&'a str>,
    metadata_version: u64,
    runner_state: Option<&'a str>,
    runner_state_version: u64,
    /// How many parts of large values must be stored. `all_parts_exist` checks this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_parts: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runner_state_parts: Option<String>,
}

impl<'a> From<&'a Machine> for MachineRow<'a> {
    fn from(m: &'a Machine) -> Self {
        Self {
            id: &m.id,
            seq: m.seq,
            created_at: m.created_at,
            updated_at: m.updated_at,
            active: m.active,
            active_at: m.active_at,
            metadata: m.metadata.json().map(Json::text),
            metadata_version: m.metadata_version,
            runner_state: m.runner_state.json().map(Json::text),
            runner_state_version: m.runner_state_version,
            parts: count_parts([&m.metadata, &m.runner_state]),
            metadata_parts: m.metadata.large().map(LargeRef::to_string),
            runner_state_parts: m.runner_state.large().map(LargeRef::to_string),
        }
    }
}

pub(super) fn upsert<'a>(bulk: &mut BulkStatements, machines: impl Iterator<Item = &'a Machine>) {
    bulk.add_rows(UPSERT, machines.map(MachineRow::from), |row| vec![&mut row.metadata, &mut row.runner_state]);
}

pub(super) fn delete<'a>(bulk: &mut BulkStatements, ids: impl Iterator<Item = &'a str>) {
    bulk.add_ids(DELETE, ids);
}

pub fn select_all(namespace: &Namespace) -> Statement {
    Statement::new(SELECT_ALL, [namespace.as_ref().into()])
}

pub fn read_all(namespace: &Namespace, rows: Vec<Row>) -> Result<Vec<Machine>, DbError> {
    rows.into_iter().map(|row| from_row(namespace, row)).collect()
}

/// Selects whether a machine with this id exists, and whether it belongs to the namespace.
pub fn select_owner(namespace: &Namespace, id: &str) -> Statement {
    Statement::new(SELECT_OWNED, [id.into(), namespace.as_ref().into()])
}

/// Reads the row of [`select_owner`].
pub fn read_owner(rows: Vec<Row>) -> Result<Found<()>, DbError> {
    read_owned("machines", rows)
}

fn from_row(namespace: &Namespace, row: Row) -> Result<Machine, DbError> {
    let mut c = Columns::new("machines", row);
    let (id, seq) = (c.text("id")?, c.number("seq")?);
    let (created_at, updated_at) = (c.number("created_at")?, c.number("updated_at")?);
    let (active, active_at) = (c.flag("active")?, c.number("active_at")?);
    let metadata = c.optional("metadata", Columns::json)?;
    let metadata_version = c.number("metadata_version")?;
    let runner_state = c.optional("runner_state", Columns::json)?;
    let runner_state_version = c.number("runner_state_version")?;
    Ok(Machine {
        id,
        namespace: namespace.clone(),
        seq,
        created_at,
        updated_at,
        active,
        active_at,
        metadata: InlineOrLarge::new(metadata, c.large("metadata_parts", metadata_version)?),
        metadata_version,
        runner_state: InlineOrLarge::new(runner_state, c.large("runner_state_parts", runner_state_version)?),
        runner_state_version,
    })
}
