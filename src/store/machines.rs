//! Reading machines.

use super::{Columns, Database, DbError, Found, Row, Statement, query, sql};
use crate::model::machine::Machine;
use crate::model::namespace::Namespace;

/// All machines of the namespace.
pub async fn all(db: &dyn Database, namespace: &Namespace) -> Result<Vec<Machine>, DbError> {
    let rows = query(db, Statement::new(sql::MACHINES_OF_NAMESPACE, [namespace.as_ref().into()])).await?;
    Ok(rows.into_iter().map(|row| from_row(namespace, row)).collect())
}

/// Whether the id is taken, and by whom.
pub async fn owner(db: &dyn Database, namespace: &Namespace, id: &str) -> Result<Found<()>, DbError> {
    let row = query(db, Statement::new(sql::MACHINE_OWNED, [id.into(), namespace.as_ref().into()])).await?.pop();
    Ok(match row.map(|row| Columns::of(row).flag()) {
        Some(true) => Found::Owned(()),
        Some(false) => Found::Foreign,
        None => Found::Missing,
    })
}

fn from_row(namespace: &Namespace, row: Row) -> Machine {
    let mut c = Columns::of(row);
    let mut machine = Machine {
        id: c.text(),
        namespace: namespace.clone(),
        seq: c.number(),
        created_at: c.number(),
        updated_at: c.number(),
        active: c.flag(),
        active_at: c.number(),
        metadata: c.json(),
        metadata_large: None,
        metadata_version: c.number(),
        runner_state: c.json(),
        runner_state_large: None,
        runner_state_version: c.number(),
    };
    machine.metadata_large = c.large(machine.metadata_version);
    machine.runner_state_large = c.large(machine.runner_state_version);
    machine
}
