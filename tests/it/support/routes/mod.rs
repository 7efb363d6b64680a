//! The table of the object's routes with all their error responses, in one file for each subject. [`super::edge_routes`] has the
//! routes of the worker. A row has the errors that are specific to its route. [`Route::errors`] derives the errors of the columns
//! (token, id, method, database, body). [`super::field_faults`] derives the errors of the fields.
//!
//! A new route needs a row, or the test `the_table_has_exactly_the_routes_of_the_hub` fails.

mod cli;
pub mod devices;
mod files;
mod machines;
mod messages;
mod permissions;
mod push;
mod sessions;

use crate::support::field_faults::{Field, Length, Param, ParamKind};
use crate::support::route::{Condition, ExpectedError, Route, error, invalid_field};

const REASON: Field = Field::text("reason", 0, Length::CodePoints(1_000)).optional();
/// The modes of flavor alpha.
const MODES: &[&str] = &["default", "acceptEdits", "bypassPermissions", "plan"];
const MAX_SAFE: u64 = (1 << 53) - 1;
const SEQ: ParamKind = ParamKind::Integer { min: 0, max: MAX_SAFE };
const PAGE_LIMIT: Param = Param { name: "limit", kind: ParamKind::Integer { min: 1, max: 200 } };
const BEFORE_SEQ: Param = Param { name: "beforeSeq", kind: SEQ };
const AFTER_SEQ: Param = Param { name: "afterSeq", kind: SEQ };
const AFTER_AND_BEFORE: ExpectedError = invalid_field("afterSeq", &[Condition::Query("afterSeq=1&beforeSeq=2")]);
const FULL_STORAGE: ExpectedError = error(409, "storage_full", &[Condition::FullStorage]);
/// The specified statuses of requests that read a session.
const READ_STATUSES: &[u16] = &[403, 404, 503];

/// The routes of the namespace's object.
pub fn object_routes() -> impl Iterator<Item = &'static Route> {
    [
        devices::ROUTES,
        sessions::ROUTES,
        messages::ROUTES,
        permissions::ROUTES,
        files::ROUTES,
        machines::ROUTES,
        push::ROUTES,
        cli::ROUTES,
    ]
    .into_iter()
    .flatten()
}
