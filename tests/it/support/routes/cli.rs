//! The routes of CLIs.

use super::{AFTER_AND_BEFORE, AFTER_SEQ, BEFORE_SEQ, FULL_STORAGE, PAGE_LIMIT};
use crate::support::field_faults::{Field, Length, Opaque, Param};
use crate::support::route::{Condition, NO_WRITES, Route, Scope, error};

const METADATA: Field = Field::opaque("metadata", Opaque::Object, None).valid(r#"{"path":"/t","host":"h"}"#);
const PAGE: &[Param] = &[PAGE_LIMIT, BEFORE_SEQ, AFTER_SEQ];

pub const ROUTES: &[Route] = &[
    Route {
        body: &[
            Field::text("tag", 1, Length::Bytes(4_096)).valid(r#""/t""#),
            METADATA,
            Field::text("metadata.path", 0, Length::Unlimited),
            Field::text("metadata.host", 0, Length::Unlimited),
            Field::opaque("agentState", Opaque::ObjectOrNull, None).optional(),
            Field::text("model", 0, Length::Bytes(255)).optional(),
        ],
        extra_errors: &[error(409, "too_many_sessions", &[Condition::TooManySessions]), FULL_STORAGE, NO_WRITES],
        ..Route::new("POST", "/cli/sessions", Scope::Namespace)
    },
    Route { ..Route::new("GET", "/cli/sessions/{id}", Scope::Session) },
    Route {
        query: PAGE,
        extra_errors: &[AFTER_AND_BEFORE],
        ..Route::new("GET", "/cli/sessions/{id}/messages", Scope::Session)
    },
    Route {
        body: &[
            Field::text("id", 1, Length::Bytes(255)).valid(r#""m2""#),
            Field::opaque("metadata", Opaque::Object, None),
            Field::opaque("runnerState", Opaque::Anything, None).optional(),
        ],
        extra_errors: &[
            error(403, "forbidden", &[Condition::Body(r#"{"id":"$foreign_machine","metadata":{"host":"mine"}}"#)]),
            NO_WRITES,
        ],
        ..Route::new("POST", "/cli/machines", Scope::Namespace)
    },
    Route { ..Route::new("GET", "/cli/machines/{id}", Scope::Machine) },
];
