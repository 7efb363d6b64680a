//! The table of the worker's routes with all their error responses. [`super::routes`] has the routes of the object.

use super::field_faults::*;
use super::route::Condition::*;
use super::route::*;
use super::routes::devices::{KIND, NAME};

/// The routes of the worker, in the order of its router.
pub const EDGE_ROUTES: &[Route] = &[
    Route::public("GET", "/health"),
    Route::public("POST", "/api/auth")
        .body(&[Field::text("accessToken", 0, Length::Unlimited).valid(r#""$token""#)])
        .fails(&[
            error(
                401,
                "invalid_access_token",
                &[
                    Body(r#"{"accessToken":"wrong"}"#),
                    Body(r#"{"accessToken":"wrong:team"}"#),
                    Body(r#"{"accessToken":"secret:no such namespace"}"#),
                ],
            ),
            NO_WRITES,
        ]),
    // Also a route of the object, which verifies the token again.
    Route::public("POST", "/api/answers")
        .active()
        .body(&[
            Field::text("token", 0, Length::Unlimited).valid(r#""$answer""#),
            Field::keyword("decision", &["approved", "denied"], r#""approved""#),
        ])
        .call("permission", "{}")
        .statuses(&[400, 401, 404, 409, 410, 503, 504])
        .fails(&[
            error(
                401,
                "invalid_answer_token",
                &[
                    Body(r#"{"token":"","decision":"approved"}"#),
                    Body(r#"{"token":"$token","decision":"approved"}"#),
                    Body(r#"{"token":"$answer.","decision":"approved"}"#),
                ],
            ),
            error(404, "request_not_found", &[NoRequest, WrongState]),
            error(409, "request_changed", &[ChangedRequest]),
            error(410, "answer_token_used", &[Repeated]),
            error(410, "answer_token_expired", &[TenMinutesLater]),
            error(410, "push_unsubscribed", &[Unsubscribed]),
            CLI_UNREACHABLE,
            CLI_REFUSED,
            RPC_TIMEOUT,
            NO_WRITES,
        ]),
    Route::public("POST", "/api/devices")
        .body(&[Field::text("code", 0, Length::Unlimited).valid(r#""$code""#), NAME, KIND])
        .fails(&[error(404, "unknown_code", &[Body(r#"{"code":"RBCD-EFGH","name":"a","kind":"cli"}"#)]), NO_WRITES]),
    Route::public("POST", "/api/devices/requests").body(&[NAME, KIND]).fails(&[NO_WRITES]),
    Route::public("POST", "/api/devices/requests/token")
        .body(&[Field::text("secret", 0, Length::Unlimited).valid(r#""$secret""#)])
        .fails(&[error(404, "unknown_code", &[Body(r#"{"secret":"x"}"#)]), NO_WRITES]),
    SOCKET,
    SOCKET.path("/socket.io/"),
    Route::namespace("GET", "/api/events")
        .query(&[
            Param { name: "sessionId", kind: ParamKind::Text("$session") },
            Param { name: "machineId", kind: ParamKind::Text("$machine") },
            Param { name: "all", kind: ParamKind::Flag },
            Param { name: "visibility", kind: ParamKind::Keyword(&["visible", "hidden"]) },
            Param { name: "device", kind: ParamKind::Text("desk") },
            Param { name: "lastEventId", kind: ParamKind::Text("x") },
        ])
        .fails(&[
            invalid_field(
                "device",
                &[Query("device=a2345678901234567890123456789012345678901234567890123456789012345")],
            ),
            error(403, "origin_not_allowed", &[ForeignOrigin]),
            error(404, "session_not_found", &[Query("sessionId=none")]),
            error(404, "machine_not_found", &[Query("machineId=none")]),
            error(403, "forbidden", &[Query("sessionId=$foreign_session"), Query("machineId=$foreign_machine")]),
        ]),
    Route::namespace("GET", "/api/namespaces/databases").fails(&[error(401, "unauthorized", &[WebToken])]),
];

/// The socket of a CLI. The upgrade requires no token, because the CONNECT packet may have it.
const SOCKET: Route = Route::public("GET", "/socket.io").query(&[]).fails(&[
    error(400, "transport_unsupported", &[Query(""), Query("EIO=4&transport=polling"), NoUpgrade]),
    error(400, "protocol_unsupported", &[Query("EIO=3&transport=websocket"), Query("transport=websocket")]),
    invalid_field("EIO", &[Query("EIO=4&EIO=4&transport=websocket")]),
    error(403, "origin_not_allowed", &[ForeignOrigin]),
]);
