//! Whether a namespace is stored and open, changes of all its rows, and its databases if the deployment has several.

use futures::lock::MutexGuard;

use crate::hub::core::error::Error;
use crate::hub::core::namespace::ClosedFor;
use crate::hub::core::storage_keys::{CLOSED_FOR, CONFIRMED_DEVICES, GENERATION, NAMESPACE, USED_DATABASES};
use crate::hub::{FencedDb, Hub, Places};
use crate::store::places::DatabaseNumber;
use crate::store::{DbError, removals};

/// A request copies or deletes for about this long, in milliseconds.
pub const STEP_MS: u64 = 5_000;

/// Whether a list of numbers, separated by spaces, contains a number.
fn contains_number(list: &str, number: DatabaseNumber) -> bool {
    list.split(' ').any(|used| used.parse() == Ok(number))
}

impl Hub {
    /// Stores the namespace's name for later alarms and frames, which do not contain it. Must be called only after a valid
    /// token, so that unauthenticated clients use no storage.
    pub fn store_namespace(&self) {
        if !std::mem::replace(&mut self.turn().is_namespace_stored, true) {
            self.rt.kv_put(NAMESPACE, self.config.namespace.as_str());
        }
    }

    /// Whether the object stores nothing: no client has sent a valid token, and no socket is open.
    pub fn is_unused(&self) -> bool {
        let turn = self.turn();
        !turn.is_namespace_stored && turn.connections.is_empty()
    }

    /// Whether the namespace accepts only imports, moves and its deletion.
    pub fn is_closed(&self) -> bool {
        self.turn().closed_for.is_some()
    }

    pub(in crate::hub) fn close_for(&self, reason: ClosedFor) {
        let mut turn = self.turn();
        self.rt.kv_put(CLOSED_FOR, reason.into());
        // The import may bring another generation.
        self.rt.kv_delete(GENERATION);
        self.rt.kv_list(CONFIRMED_DEVICES).iter().for_each(|(key, _)| self.rt.kv_delete(key));
        turn.closed_for = Some(reason);
        turn.must_restart = true;
    }

    /// Begins a change of all rows, which ends when the guard is dropped. Fails while another such change is in progress, because the end
    /// of the other change could undo writes that follow this change.
    pub(in crate::hub) fn begin_change(&self) -> Result<MutexGuard<'_, ()>, Error> {
        self.row_changes.try_lock().ok_or(Error::Overloaded)
    }

    pub(in crate::hub) async fn numbered_database(&self, number: DatabaseNumber) -> Result<&FencedDb, DbError> {
        let Some(places) = &self.places else { return Ok(&self.db) };
        if places.placed.number().await? == number {
            return Ok(&self.db);
        }
        let index = usize::try_from(number.wrapping_sub(1)).unwrap_or(usize::MAX);
        Ok(places.fenced_by_number.get(index).unwrap_or(&self.db))
    }

    /// Records that a database gets rows of the namespace.
    pub(in crate::hub) fn record_database(&self, number: DatabaseNumber) {
        if let Some(used) = self.rt.kv_get(USED_DATABASES).filter(|used| !contains_number(used, number)) {
            self.rt.kv_put(USED_DATABASES, &format!("{used} {number}"));
        }
    }

    /// Returns the numbers of the databases that may have rows of the namespace: the recorded databases, or all if there is no record.
    pub(in crate::hub) fn used_databases(&self, places: &Places) -> Vec<DatabaseNumber> {
        let used = self.rt.kv_get(USED_DATABASES);
        let is_used = |number: &DatabaseNumber| used.as_ref().is_none_or(|used| contains_number(used, *number));
        places.databases.numbers().filter(is_used).collect()
    }

    pub(in crate::hub) async fn all_used_databases(&self) -> Result<Vec<&FencedDb>, DbError> {
        let Some(places) = &self.places else { return Ok(vec![&self.db]) };
        // Fails if the database of the namespace is not bound, because its rows would remain.
        places.databases.get(places.placed.number().await?)?;
        let mut all = Vec::new();
        for number in self.used_databases(places) {
            all.push(self.numbered_database(number).await?);
        }
        Ok(all)
    }

    /// Deletes the rows in a database, except those of access, until the time `ends_at`. Returns the number of sessions that remain; `None`
    /// when no row remains.
    pub(in crate::hub) async fn delete_rows(&self, db: &FencedDb, ends_at: u64) -> Result<Option<u64>, DbError> {
        while removals::delete_part(db, &self.config.namespace).await? {
            if self.rt.now() >= ends_at {
                return removals::count_sessions(db, &self.config.namespace).await.map(Some);
            }
        }
        Ok(None)
    }
}
