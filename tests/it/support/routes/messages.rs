//! The routes of a session's messages, of its held messages (the hub keeps them until the CLI is back), and of its queued messages (the agent has
//! received them, and works on an earlier one).

use session_gateway_hub::limits::MAX_TEXT_BYTES;

use super::{AFTER_AND_BEFORE, AFTER_SEQ, BEFORE_SEQ, FULL_STORAGE, MAX_SAFE, PAGE_LIMIT, READ_STATUSES};
use crate::support::field_faults::{Field, Length, Param, ParamKind};
use crate::support::route::{
    CLI_REFUSED, CLI_UNREACHABLE, Condition, INACTIVE, NO_WRITES, NOT_QUEUED, RPC_TIMEOUT, Route, Scope, SessionState,
    error, invalid_field,
};

const ATTACHMENT: &str = r#"[{"id":"a","filename":"f","mimeType":"m","size":1,"path":"p"}]"#;

/// What the four routes of the agent's queue of messages have in common.
const QUEUE_ROUTE: Route = Route {
    session_state: SessionState::Active,
    call: Some(("queue", r#"{"success":true}"#)),
    extra_errors: &[INACTIVE, CLI_UNREACHABLE, CLI_REFUSED, RPC_TIMEOUT, NOT_QUEUED],
    ..Route::new("POST", "/api/sessions/{id}/queue", Scope::Session)
};

pub const ROUTES: &[Route] = &[
    Route {
        query: &[PAGE_LIMIT, BEFORE_SEQ, AFTER_SEQ, Param { name: "excerpts", kind: ParamKind::Flag }],
        specified_statuses: READ_STATUSES,
        extra_errors: &[AFTER_AND_BEFORE],
        ..Route::new("GET", "/api/sessions/{id}/messages", Scope::Session)
    },
    Route {
        session_state: SessionState::Active,
        body: &[
            Field::free_text("text", 1, Length::Bytes(1024 * 1024)),
            Field::text("localId", 0, Length::Bytes(255)).optional(),
            Field::objects("attachments", ATTACHMENT).optional(),
            Field::text("attachments[0].id", 0, Length::Unlimited),
            Field::text("attachments[0].filename", 0, Length::Unlimited),
            Field::text("attachments[0].mimeType", 0, Length::Unlimited),
            Field::integer("attachments[0].size", MAX_SAFE),
            Field::text("attachments[0].path", 0, Length::Unlimited),
            Field::flag("hold").optional(),
        ],
        specified_statuses: &[400, 403, 404, 409, 503],
        extra_errors: &[
            invalid_field("text", &[Condition::Body("{}"), Condition::Body(r#"{"attachments":[]}"#)]),
            INACTIVE,
            FULL_STORAGE,
            error(429, "too_many_messages", &[Condition::TooManyMessages]),
            NO_WRITES,
            error(503, "overloaded", &[Condition::FullWriteQueue]),
        ],
        ..Route::new("POST", "/api/sessions/{id}/messages", Scope::Session)
    },
    Route::new("GET", "/api/sessions/{id}/held-messages", Scope::Session),
    Route {
        extra_errors: &[error(404, "held_message_not_found", &[Condition::UnknownPartId]), NO_WRITES],
        ..Route::new("DELETE", "/api/sessions/{id}/held-messages/{localId}", Scope::Session)
    },
    Route {
        body: &[Field::integer("at", u64::MAX).optional()],
        ..Route::new("POST", "/api/sessions/{id}/seen", Scope::Session)
    },
    Route { body: &[Field::integers("seqs", 1, 1_000)], ..QUEUE_ROUTE },
    Route {
        method: "PATCH",
        path: "/api/sessions/{id}/queue/{seq}",
        body: &[Field::text("text", 1, Length::Bytes(MAX_TEXT_BYTES))],
        ..QUEUE_ROUTE
    },
    Route { method: "DELETE", path: "/api/sessions/{id}/queue/{seq}", ..QUEUE_ROUTE },
    Route { path: "/api/sessions/{id}/queue/{seq}/send", ..QUEUE_ROUTE },
];
