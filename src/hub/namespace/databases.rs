//! Whether a namespace is stored and open, its databases if the deployment has several, and its move to another database, which the hub
//! copies first while the namespace is open, then while it is closed (docs/design/databases.md).

use futures::lock::MutexGuard;

use crate::hub::core::error::Error;
use crate::hub::core::namespace::ClosedFor;
use crate::hub::core::ports::Runtime;
use crate::hub::core::storage_keys::{
    CLOSED_FOR, CONFIRMED_DEVICES, GENERATION, MOVE, NAMESPACE, PLACE, SWEEP, USED_DATABASES,
};
use crate::hub::{Hub, Places};
use crate::model::namespace::Namespace;
use crate::store::fence::FencedDb;
use crate::store::places::{self, DatabaseNumber};
use crate::store::relocation::Copy;
use crate::store::{DbError, removals};

/// A request copies or deletes for about this long, in milliseconds.
pub const STEP_MS: u64 = 5_000;

/// The memory for a page of rows of a move or an export, in bytes.
pub const PAGE_MEMORY_BYTES: usize = 12_000_000;
/// A request sends about this many batches. The free plan limits the queries of an invocation to 50.
const STEP_BATCHES: u64 = 30;
/// While the namespace is open, all rows are compared at most this many times. Each pass finds fewer differences.
const MAX_OPEN_PASSES: u32 = 3;
/// While the namespace is closed, its rows do not change, so the second pass should find no difference.
const MAX_CLOSED_PASSES: u32 = 5;

/// What a move does next, and how many sessions it has to copy or delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveStep {
    Copying(u64),
    /// Copying while the namespace is closed.
    Closed(u64),
    /// Deleting the rows in the earlier database.
    Deleting(u64),
    Done,
}

/// Where a move continues.
#[derive(Default)]
struct MoveCursor {
    to: DatabaseNumber,
    /// How many times everything was compared.
    pass: u32,
    /// Whether rows differed in this pass.
    has_changed: bool,
    /// The id of the last session that was compared in this pass.
    after: String,
}

impl MoveCursor {
    fn parse(stored: &str) -> Option<Self> {
        let mut fields = stored.splitn(4, ' ');
        let mut next = || fields.next();
        let (to, pass) = (next()?.parse().ok()?, next()?.parse().ok()?);
        Some(Self { to, pass, has_changed: next()? == "1", after: next()?.to_owned() })
    }

    fn encode(&self) -> String {
        format!("{} {} {} {}", self.to, self.pass, u8::from(self.has_changed), self.after)
    }

    fn is_at_start(&self) -> bool {
        self.after.is_empty() && !self.has_changed
    }

    fn begin_pass(&mut self, pass: u32) {
        *self = Self { to: self.to, pass, ..Self::default() };
    }
}

/// Whether a list of numbers, separated by spaces, contains a number.
fn contains_number(list: &str, number: DatabaseNumber) -> bool {
    list.split(' ').any(|used| used.parse() == Ok(number))
}

impl Places {
    async fn numbered(&self, number: DatabaseNumber) -> Result<&FencedDb, DbError> {
        if self.placed.number().await? == number {
            return Ok(&self.own);
        }
        let index = usize::try_from(number.wrapping_sub(1)).unwrap_or(usize::MAX);
        Ok(self.fenced_by_number.get(index).unwrap_or(&self.own))
    }

    /// Returns the numbers of the databases that may have rows of the namespace: the recorded databases, or all if there is no record.
    fn used(&self) -> Vec<DatabaseNumber> {
        let used = self.rt.kv_get(USED_DATABASES);
        let is_used = |number: &DatabaseNumber| used.as_ref().is_none_or(|used| contains_number(used, *number));
        self.databases.numbers().filter(is_used).collect()
    }

    /// Returns the databases that may have rows of the namespace.
    async fn all_used(&self) -> Result<Vec<&FencedDb>, DbError> {
        // Fails if the database of the namespace is not bound, because its rows would remain.
        self.databases.get(self.placed.number().await?)?;
        let mut all = Vec::new();
        for number in self.used() {
            all.push(self.numbered(number).await?);
        }
        Ok(all)
    }

    /// Records that the rows of the namespace are in the database `number`.
    async fn set_current(&self, number: DatabaseNumber) -> Result<(), DbError> {
        places::mark_moved(self.numbered(number).await?, &self.config.namespace, false).await?;
        for other in self.used().into_iter().filter(|other| *other != number) {
            places::mark_moved(self.numbered(other).await?, &self.config.namespace, true).await?;
        }
        self.rt.kv_put(PLACE, &number.to_string());
        // The copy may have sessions that were deleted meanwhile.
        self.rt.kv_put(SWEEP, "due");
        Ok(())
    }

    /// Deletes a part of the rows in all databases except the database `number`, which has the namespace.
    async fn delete_copies(&self, number: DatabaseNumber) -> Result<MoveStep, Error> {
        // A deletion needs no cursor: it deletes whatever rows remain.
        self.rt.kv_delete(MOVE);
        places::mark_moved(self.numbered(number).await?, &self.config.namespace, false).await?;
        let ends_at = self.rt.now() + STEP_MS;
        for other in self.used().into_iter().filter(|other| *other != number) {
            let db = self.numbered(other).await?;
            if let Some(sessions) = delete_rows(db, &self.config.namespace, &*self.rt, ends_at).await? {
                return Ok(MoveStep::Deleting(sessions));
            }
        }
        Ok(MoveStep::Done)
    }
}

/// Deletes the rows in a database, except those of access, until `ends_at`. Returns how many sessions remain; `None` without rows.
pub(in crate::hub) async fn delete_rows(
    db: &FencedDb,
    namespace: &Namespace,
    rt: &dyn Runtime,
    ends_at: u64,
) -> Result<Option<u64>, DbError> {
    while removals::delete_part(db, namespace).await? {
        if rt.now() >= ends_at {
            return removals::count_sessions(db, namespace).await.map(Some);
        }
    }
    Ok(None)
}

impl Hub {
    /// Stores the namespace's name for alarms and frames, which lack it. Only after a valid token: other clients must use no storage.
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

    /// Begins a change of all rows, until the guard is dropped. Fails during another change, whose end could undo writes of this one.
    pub(in crate::hub) fn begin_change(&self) -> Result<MutexGuard<'_, ()>, Error> {
        self.row_changes.try_lock().ok_or(Error::Overloaded)
    }

    pub(in crate::hub) async fn all_used_databases(&self) -> Result<Vec<&FencedDb>, DbError> {
        match &self.places {
            Some(places) => places.all_used().await,
            None => Ok(vec![&self.db]),
        }
    }

    /// `POST /api/namespaces/move`: does a part of the move to the database with the binding `to`. Must be repeated until it is done.
    /// For the database that has the namespace, ends an unfinished move to another one.
    pub async fn move_part(&self, to: &str) -> Result<MoveStep, Error> {
        let closed_for = self.turn().closed_for;
        let Some(places) = &self.places else {
            return match to == places::binding(places::DIRECTORY) {
                // The other database was removed during a move to it.
                true if closed_for == Some(ClosedFor::Move) => Ok(self.open()),
                true => Ok(MoveStep::Done),
                false => Err(Error::field("to", "Field `to` must be `DB`, the only database of this hub.")),
            };
        };
        let number = places.databases.number(to).ok_or_else(|| {
            let names: Vec<String> = places.databases.numbers().map(places::binding).collect();
            Error::field("to", format!("Field `to` must be one of `{}`.", names.join("`, `")))
        })?;
        let _change = self.begin_change()?;
        if closed_for.is_some_and(|reason| reason != ClosedFor::Move) {
            return Err(Error::Unavailable("The namespace is being imported or deleted. Complete this first.".into()));
        }
        let known = places.placed.number().await?;
        let is_closed = closed_for.is_some();
        match places::find(&self.access.db, &self.config.namespace).await? {
            // The switch was interrupted after the row had changed. The row decides, even if this request names another database.
            Some(current) if is_closed && (current != known || current == number) => {
                places.set_current(current).await?;
                Ok(self.open())
            }
            Some(current) if current == known && current == number => places.delete_copies(number).await,
            Some(current) if current == known => self.copy_for_a_while(places, number).await,
            // A copy or a deletion could damage the only rows of the namespace.
            current => {
                let current = current.map_or_else(|| "no database".to_owned(), places::binding);
                let message = format!(
                    "The table `namespace_places` in `DB` has {current} for this namespace, which is in {}. Correct the table: see \
                    docs/design/databases.md.",
                    places::binding(known)
                );
                Err(Error::field("to", message))
            }
        }
    }

    async fn copy_for_a_while(&self, places: &Places, number: DatabaseNumber) -> Result<MoveStep, Error> {
        let is_closed = self.is_closed();
        let _reservation = self.memory.try_reserve(PAGE_MEMORY_BYTES)?;
        let (namespace, ends_at) = (&self.config.namespace, self.rt.now() + STEP_MS);
        let last_batch = self.rt.database_usage().batches + STEP_BATCHES;
        let is_step_over = || self.rt.now() >= ends_at || self.rt.database_usage().batches >= last_batch;
        let to = places.numbered(number).await?;
        let copy = Copy { from: &self.db, to, namespace, is_closed, must_stop: &is_step_over };
        let stored = self.rt.kv_get(MOVE).and_then(|stored| MoveCursor::parse(&stored));
        let mut cursor = match stored.filter(|cursor| cursor.to == number) {
            Some(cursor) => cursor,
            None => {
                if let Some(used) = self.rt.kv_get(USED_DATABASES).filter(|used| !contains_number(used, number)) {
                    self.rt.kv_put(USED_DATABASES, &format!("{used} {number}"));
                }
                // From now on, a worker that remembers the database from an earlier time finds nothing in it.
                places::mark_moved(to, namespace, true).await?;
                refuse_foreign_machine(&copy).await?;
                copy.hide_earlier_copy().await?;
                MoveCursor { to: number, ..MoveCursor::default() }
            }
        };
        let mut began_in_this_step = cursor.is_at_start();
        while !is_step_over() {
            if cursor.is_at_start() {
                if !copy.copy_value_parts().await? {
                    break;
                }
                if is_closed && cursor.pass == 0 {
                    copy.copy_tables().await?;
                }
            }
            match copy.copy_sessions(&cursor.after).await? {
                Some(page) => {
                    page.foreign.map_or(Ok(()), |session| Err(foreign_id("session", &session)))?;
                    cursor.has_changed |= page.has_changed;
                    cursor.after = page.last;
                }
                None if is_closed && !cursor.has_changed && copy.has_same_counts().await? => {
                    places::mark_moved(to, namespace, false).await?;
                    places::set(&self.access.db, namespace, number).await?;
                    places.set_current(number).await?;
                    return Ok(self.open());
                }
                None if is_closed && cursor.pass >= MAX_CLOSED_PASSES => {
                    let message =
                        "The copy differs from the rows. End the move: move the namespace to its own database.";
                    return Err(Error::Unavailable(message.into()));
                }
                // Little is left to copy if a pass took less than a step.
                None if !is_closed && (began_in_this_step || cursor.pass + 1 >= MAX_OPEN_PASSES) => {
                    refuse_foreign_machine(&copy).await?;
                    cursor.begin_pass(0);
                    self.rt.kv_put(MOVE, &cursor.encode());
                    self.close_for(ClosedFor::Move);
                    return Ok(MoveStep::Closed(copy.sessions_after("").await?));
                }
                None => {
                    cursor.begin_pass(cursor.pass + 1);
                    began_in_this_step = true;
                }
            }
            self.rt.kv_put(MOVE, &cursor.encode());
        }
        self.rt.kv_put(MOVE, &cursor.encode());
        let remaining = copy.sessions_after(&cursor.after).await?;
        Ok(if is_closed { MoveStep::Closed(remaining) } else { MoveStep::Copying(remaining) })
    }

    /// Opens the namespace. Its earlier rows are deleted next.
    fn open(&self) -> MoveStep {
        let mut turn = self.turn();
        self.rt.kv_delete(MOVE);
        self.rt.kv_delete(CLOSED_FOR);
        turn.must_restart = true;
        MoveStep::Deleting(0)
    }
}

/// Fails if another namespace has the id of one of this namespace's machines in the target database, where it must be unique.
async fn refuse_foreign_machine(copy: &Copy<'_>) -> Result<(), Error> {
    copy.find_foreign_machine().await?.map_or(Ok(()), |machine| Err(foreign_id("machine", &machine)))
}

/// Returns the error for an id of another namespace in the target database: both may come from one export.
fn foreign_id(kind: &str, id: &str) -> Error {
    Error::field("to", format!("Another namespace has a {kind} with the id `{id}` in this database."))
}
