//! The table of the worker's routes with all their error responses. [`super::routes`] has the routes of the object.

use super::field_faults::{Field, Length, Param, ParamKind};
use super::route::{
    CLI_REFUSED, CLI_UNREACHABLE, Condition, NO_WRITES, RPC_TIMEOUT, Route, Scope, SessionState, error, invalid_field,
};
use super::routes::devices::{KIND, NAME};

/// The routes of the worker, in the order of its router.
pub const EDGE_ROUTES: &[Route] = &[
    Route { ..Route::new("GET", "/health", Scope::Public) },
    Route {
        body: &[Field::text("accessToken", 0, Length::Unlimited).valid(r#""$token""#)],
        extra_errors: &[
            error(
                401,
                "invalid_access_token",
                &[
                    Condition::Body(r#"{"accessToken":"wrong"}"#),
                    Condition::Body(r#"{"accessToken":"wrong:team"}"#),
                    Condition::Body(r#"{"accessToken":"secret:no such namespace"}"#),
                ],
            ),
            NO_WRITES,
        ],
        ..Route::new("POST", "/api/auth", Scope::Public)
    },
    // Also a route of the object, which verifies the token again.
    Route {
        session_state: SessionState::Active,
        body: &[
            Field::text("token", 0, Length::Unlimited).valid(r#""$answer""#),
            Field::keyword("decision", &["approved", "denied"], r#""approved""#),
        ],
        call: Some(("permission", "{}")),
        specified_statuses: &[400, 401, 404, 409, 410, 503, 504],
        extra_errors: &[
            error(
                401,
                "invalid_answer_token",
                &[
                    Condition::Body(r#"{"token":"","decision":"approved"}"#),
                    Condition::Body(r#"{"token":"$token","decision":"approved"}"#),
                    Condition::Body(r#"{"token":"$answer.","decision":"approved"}"#),
                ],
            ),
            error(404, "request_not_found", &[Condition::NoRequest, Condition::WrongState]),
            error(409, "request_changed", &[Condition::ChangedRequest]),
            error(410, "answer_token_used", &[Condition::Repeated]),
            error(410, "answer_token_expired", &[Condition::TenMinutesLater]),
            error(410, "push_unsubscribed", &[Condition::Unsubscribed]),
            CLI_UNREACHABLE,
            CLI_REFUSED,
            RPC_TIMEOUT,
            NO_WRITES,
        ],
        ..Route::new("POST", "/api/answers", Scope::Public)
    },
    Route {
        body: &[Field::text("code", 0, Length::Unlimited).valid(r#""$code""#), NAME, KIND],
        extra_errors: &[
            error(404, "unknown_code", &[Condition::Body(r#"{"code":"RBCD-EFGH","name":"a","kind":"cli"}"#)]),
            NO_WRITES,
        ],
        ..Route::new("POST", "/api/devices", Scope::Public)
    },
    Route {
        body: &[NAME, KIND],
        extra_errors: &[NO_WRITES],
        ..Route::new("POST", "/api/devices/requests", Scope::Public)
    },
    Route {
        body: &[Field::text("secret", 0, Length::Unlimited).valid(r#""$secret""#)],
        extra_errors: &[error(404, "unknown_code", &[Condition::Body(r#"{"secret":"x"}"#)]), NO_WRITES],
        ..Route::new("POST", "/api/devices/requests/token", Scope::Public)
    },
    SOCKET,
    Route { path: "/socket.io/", ..SOCKET },
    Route {
        query: &[
            Param { name: "sessionId", kind: ParamKind::Text("$session") },
            Param { name: "machineId", kind: ParamKind::Text("$machine") },
            Param { name: "all", kind: ParamKind::Flag },
            Param { name: "visibility", kind: ParamKind::Keyword(&["visible", "hidden"]) },
            Param { name: "device", kind: ParamKind::Text("desk") },
            Param { name: "lastEventId", kind: ParamKind::Text("x") },
        ],
        extra_errors: &[
            invalid_field(
                "device",
                &[Condition::Query("device=a2345678901234567890123456789012345678901234567890123456789012345")],
            ),
            error(403, "origin_not_allowed", &[Condition::ForeignOrigin]),
            error(404, "session_not_found", &[Condition::Query("sessionId=none")]),
            error(404, "machine_not_found", &[Condition::Query("machineId=none")]),
            error(
                403,
                "forbidden",
                &[Condition::Query("sessionId=$foreign_session"), Condition::Query("machineId=$foreign_machine")],
            ),
        ],
        ..Route::new("GET", "/api/events", Scope::Namespace)
    },
    Route {
        extra_errors: &[error(401, "unauthorized", &[Condition::WebToken])],
        ..Route::new("GET", "/api/namespaces/databases", Scope::Namespace)
    },
];

/// The socket of a CLI. The upgrade requires no token, because the CONNECT packet may have it.
const SOCKET: Route = Route {
    query: &[],
    extra_errors: &[
        error(
            400,
            "transport_unsupported",
            &[Condition::Query(""), Condition::Query("EIO=4&transport=polling"), Condition::NoUpgrade],
        ),
        error(
            400,
            "protocol_unsupported",
            &[Condition::Query("EIO=3&transport=websocket"), Condition::Query("transport=websocket")],
        ),
        invalid_field("EIO", &[Condition::Query("EIO=4&EIO=4&transport=websocket")]),
        error(403, "origin_not_allowed", &[Condition::ForeignOrigin]),
    ],
    ..Route::new("GET", "/socket.io", Scope::Public)
};
