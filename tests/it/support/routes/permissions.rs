//! The routes that answer permission requests.

use super::{MODES, REASON};
use crate::support::field_faults::*;
use crate::support::route::Condition::*;
use crate::support::route::*;

const REQUEST_ID: Field = Field::text("requestId", 0, Length::Unlimited).valid(r#""r1""#);
const MODE: Field = Field::keyword("mode", MODES, r#""plan""#).optional();
const ALLOW_TOOLS: Field = Field::strings("allowTools", 0, usize::MAX).optional();
const APPROVAL: Field =
    Field::keyword("decision", &["approved", "approved_for_session", "denied", "abort"], r#""approved""#).optional();
const DENIAL: Field = Field::keyword("decision", &["denied", "abort"], r#""abort""#).optional();
const ANSWERS: Field = Field::answers("answers").optional();
const UNKNOWN_REQUEST: ExpectedError = error(404, "request_not_found", &[UnknownPartId]);

pub const ROUTES: &[Route] = &[
    APPROVE,
    DENY,
    APPROVE.path("/api/sessions/{id}/permissions/approve").body(&[REQUEST_ID, MODE, ALLOW_TOOLS, APPROVAL, ANSWERS]),
    DENY.path("/api/sessions/{id}/permissions/deny").body(&[REQUEST_ID, DENIAL, REASON]),
    // These routes return the result of the CLI unchanged. If there is no result, they return an error result with status 200.
    Route::session("GET", "/api/sessions/{id}/permissions/{requestId}/content")
        .query(&[Param { name: "part", kind: ParamKind::Integer { min: 0, max: 4_294_967_295 } }]),
    Route::session("DELETE", "/api/sessions/{id}/permissions/rules/{ruleId}"),
];

/// The answers to a permission request, with its id in the path. The conditions have the id in the body as well.
const APPROVE: Route = Route::session("POST", "/api/sessions/{id}/permissions/{requestId}/approve")
    .active()
    .body(&[MODE, ALLOW_TOOLS, APPROVAL, ANSWERS])
    .call("permission", "{}")
    .statuses(&[400, 403, 404, 409, 503])
    .fails(&[
        invalid_field("mode", &[Body(r#"{"requestId":"r1","mode":"yolo"}"#)]),
        UNKNOWN_REQUEST,
        INACTIVE,
        CLI_UNREACHABLE,
        CLI_REFUSED,
        RPC_TIMEOUT,
        NO_WRITES,
    ]);
const DENY: Route = APPROVE.path("/api/sessions/{id}/permissions/{requestId}/deny").body(&[DENIAL, REASON]).fails(&[
    invalid_field("decision", &[Body(r#"{"requestId":"r1","decision":"approved"}"#)]),
    UNKNOWN_REQUEST,
    INACTIVE,
    CLI_UNREACHABLE,
    CLI_REFUSED,
    RPC_TIMEOUT,
    NO_WRITES,
]);
