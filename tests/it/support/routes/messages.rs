//! The routes of a session's messages, of its held messages (the hub keeps them until the CLI is back), and of its queued messages (the agent has
//! received them, and works on an earlier one).

use session_gateway_hub::limits::MAX_TEXT_BYTES;

use super::{AFTER_AND_BEFORE, AFTER_SEQ, BEFORE_SEQ, FULL_STORAGE, MAX_SAFE, PAGE_LIMIT, READ_STATUSES};
use crate::support::field_faults::*;
use crate::support::route::Condition::*;
use crate::support::route::*;

const ATTACHMENT: &str = r#"[{"id":"a","filename":"f","mimeType":"m","size":1,"path":"p"}]"#;

/// What the four routes of the agent's queue of messages have in common.
const QUEUE_ROUTE: Route = Route::session("POST", "/api/sessions/{id}/queue")
    .active()
    .call("queue", r#"{"success":true}"#)
    .fails(&[INACTIVE, CLI_UNREACHABLE, CLI_REFUSED, RPC_TIMEOUT, NOT_QUEUED]);

pub const ROUTES: &[Route] = &[
    Route::session("GET", "/api/sessions/{id}/messages")
        .query(&[PAGE_LIMIT, BEFORE_SEQ, AFTER_SEQ, Param { name: "excerpts", kind: ParamKind::Flag }])
        .statuses(READ_STATUSES)
        .fails(&[AFTER_AND_BEFORE]),
    Route::session("POST", "/api/sessions/{id}/messages")
        .active()
        .body(&[
            Field::free_text("text", 1, Length::Bytes(1024 * 1024)),
            Field::text("localId", 0, Length::Bytes(255)).optional(),
            Field::objects("attachments", ATTACHMENT).optional(),
            Field::text("attachments[0].id", 0, Length::Unlimited),
            Field::text("attachments[0].filename", 0, Length::Unlimited),
            Field::text("attachments[0].mimeType", 0, Length::Unlimited),
            Field::integer("attachments[0].size", MAX_SAFE),
            Field::text("attachments[0].path", 0, Length::Unlimited),
            Field::flag("hold").optional(),
        ])
        .statuses(&[400, 403, 404, 409, 503])
        .fails(&[
            invalid_field("text", &[Body("{}"), Body(r#"{"attachments":[]}"#)]),
            INACTIVE,
            FULL_STORAGE,
            error(429, "too_many_messages", &[TooManyMessages]),
            NO_WRITES,
            error(503, "overloaded", &[FullWriteQueue]),
        ]),
    Route::session("GET", "/api/sessions/{id}/held-messages"),
    Route::session("DELETE", "/api/sessions/{id}/held-messages/{localId}")
        .fails(&[error(404, "held_message_not_found", &[UnknownPartId]), NO_WRITES]),
    Route::session("POST", "/api/sessions/{id}/seen").body(&[Field::integer("at", u64::MAX).optional()]),
    QUEUE_ROUTE.body(&[Field::integers("seqs", 1, 1_000)]),
    QUEUE_ROUTE.method("PATCH").path("/api/sessions/{id}/queue/{seq}").body(&[Field::text(
        "text",
        1,
        Length::Bytes(MAX_TEXT_BYTES),
    )]),
    QUEUE_ROUTE.method("DELETE").path("/api/sessions/{id}/queue/{seq}"),
    QUEUE_ROUTE.path("/api/sessions/{id}/queue/{seq}/send"),
];
