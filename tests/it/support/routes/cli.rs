//! The routes of CLIs.

use super::{AFTER_AND_BEFORE, AFTER_SEQ, BEFORE_SEQ, FULL_STORAGE, PAGE_LIMIT};
use crate::support::field_faults::*;
use crate::support::route::Condition::*;
use crate::support::route::*;

const METADATA: Field = Field::opaque("metadata", Opaque::Object, None).valid(r#"{"path":"/t","host":"h"}"#);
const PAGE: &[Param] = &[PAGE_LIMIT, BEFORE_SEQ, AFTER_SEQ];

pub const ROUTES: &[Route] = &[
    Route::namespace("POST", "/cli/sessions")
        .body(&[
            Field::text("tag", 1, Length::Bytes(4_096)).valid(r#""/t""#),
            METADATA,
            Field::text("metadata.path", 0, Length::Unlimited),
            Field::text("metadata.host", 0, Length::Unlimited),
            Field::opaque("agentState", Opaque::ObjectOrNull, None).optional(),
            Field::text("model", 0, Length::Bytes(255)).optional(),
        ])
        .fails(&[error(409, "too_many_sessions", &[TooManySessions]), FULL_STORAGE, NO_WRITES]),
    Route::session("GET", "/cli/sessions/{id}"),
    Route::session("GET", "/cli/sessions/{id}/messages").query(PAGE).fails(&[AFTER_AND_BEFORE]),
    Route::namespace("POST", "/cli/machines")
        .body(&[
            Field::text("id", 1, Length::Bytes(255)).valid(r#""m2""#),
            Field::opaque("metadata", Opaque::Object, None),
            Field::opaque("runnerState", Opaque::Anything, None).optional(),
        ])
        .fails(&[
            error(403, "forbidden", &[Body(r#"{"id":"$foreign_machine","metadata":{"host":"mine"}}"#)]),
            NO_WRITES,
        ]),
    Route::machine("GET", "/cli/machines/{id}"),
];
