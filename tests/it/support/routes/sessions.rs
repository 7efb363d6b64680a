//! The routes of the session list, the inbox and one session.

use super::{MAX_SAFE, MODES, PAGE_LIMIT, READ_STATUSES, REASON};
use crate::support::field_faults::{Field, Length, Param, ParamKind};
use crate::support::route::{
    CLI_REFUSED, CLI_UNREACHABLE, Condition, ExpectedError, INACTIVE, NO_WRITES, NOT_APPLIED, OPTION_NOT_APPLIED,
    RPC_TIMEOUT, Route, Scope, SessionState, error, invalid_field,
};

/// The errors of a route that calls an active session's CLI and stores the result.
const CALL_ERRORS: &[ExpectedError] = &[INACTIVE, CLI_UNREACHABLE, CLI_REFUSED, RPC_TIMEOUT, NO_WRITES];

/// The refusal of a machine whose user does not trust the directory.
const UNTRUSTED: Condition =
    Condition::CliResponds(r#"{"success":false,"error":"Trust /code.","code":"untrusted_directory"}"#);

pub const ROUTES: &[Route] = &[
    Route::new("GET", "/api/config", Scope::Namespace),
    Route {
        query: &[
            Param { name: "archived", kind: ParamKind::Keyword(&["include", "only"]) },
            Param { name: "limit", kind: ParamKind::Integer { min: 1, max: 1_000 } },
            Param { name: "cursor", kind: ParamKind::Text("1.x") },
        ],
        extra_errors: &[invalid_field(
            "cursor",
            &[
                Condition::Query("cursor=x"),
                Condition::Query("cursor=x.1"),
                Condition::Query("cursor=-1.s"),
                Condition::Query("cursor=1"),
                Condition::Query("cursor=18446744073709551616.s"),
                Condition::Query("cursor=%00"),
            ],
        )],
        ..Route::new("GET", "/api/sessions", Scope::Namespace)
    },
    Route {
        query: &[PAGE_LIMIT, Param { name: "cursor", kind: ParamKind::Text("1.x.y") }],
        extra_errors: &[invalid_field(
            "cursor",
            &[Condition::Query("cursor=x"), Condition::Query("cursor=x.y.z"), Condition::Query("cursor=1.x")],
        )],
        ..Route::new("GET", "/api/inbox", Scope::Namespace)
    },
    Route { specified_statuses: READ_STATUSES, ..Route::new("GET", "/api/sessions/{id}", Scope::Session) },
    Route {
        body: &[
            Field::text("name", 1, Length::CodePoints(255)),
            Field::flag("pinned").optional(),
            Field::flag("muted").optional(),
            Field::text("color", 0, Length::CodePoints(32)).optional(),
            // An unknown version is a conflict, not an invalid field.
            Field::integer("expectedVersion", u64::MAX).optional(),
        ],
        specified_statuses: &[400, 409, 500],
        extra_errors: &[
            invalid_field("name", &[Condition::Body(r#"{"name":" \t\n "}"#)]),
            error(409, "version_conflict", &[Condition::Body(r#"{"name":"n","expectedVersion":9007199254740993}"#)]),
            error(413, "too_large", &[Condition::FullMetadata]),
            error(500, "rename_failed", &[Condition::FailingWrites]),
        ],
        ..Route::new("PATCH", "/api/sessions/{id}", Scope::Session)
    },
    Route {
        session_state: SessionState::Inactive,
        specified_statuses: &[409],
        extra_errors: &[error(409, "session_active", &[Condition::WrongState]), NO_WRITES],
        ..Route::new("DELETE", "/api/sessions/{id}", Scope::Session)
    },
    Route {
        session_state: SessionState::Active,
        body: &[REASON],
        call: Some(("abort", "{}")),
        specified_statuses: &[403, 404, 409],
        extra_errors: CALL_ERRORS,
        ..Route::new("POST", "/api/sessions/{id}/abort", Scope::Session)
    },
    Route {
        session_state: SessionState::Active,
        call: Some(("switch", "{}")),
        specified_statuses: &[403, 404, 409],
        extra_errors: CALL_ERRORS,
        ..Route::new("POST", "/api/sessions/{id}/switch", Scope::Session)
    },
    Route {
        session_state: SessionState::Inactive,
        body: &[Field::flag("trust").optional()],
        call: Some(("spawnSession", r#"{"success":true}"#)),
        specified_statuses: READ_STATUSES,
        extra_errors: &[
            error(503, "no_machine_online", &[Condition::MethodNotRegistered]),
            error(503, "cli_unreachable", &[Condition::CliDisconnects]),
            CLI_REFUSED,
            RPC_TIMEOUT,
            error(409, "resume_unavailable", &[Condition::NoAgentId]),
            error(409, "untrusted_directory", &[UNTRUSTED]),
            error(504, "resume_failed", &[Condition::NeverActive]),
        ],
        ..Route::new("POST", "/api/sessions/{id}/resume", Scope::Session)
    },
    Route {
        body: &[REASON],
        extra_errors: &[NO_WRITES],
        ..Route::new("POST", "/api/sessions/{id}/archive", Scope::Session)
    },
    Route {
        session_state: SessionState::Active,
        body: &[Field::keyword("mode", MODES, r#""plan""#)],
        call: Some(("set-session-config", r#"{"applied":{"permissionMode":"plan"}}"#)),
        specified_statuses: &[400, 409],
        extra_errors: &[
            invalid_field(
                "mode",
                &[Condition::Body(r#"{"mode":"yolo"}"#), Condition::Body(r#"{"mode":"model_fast"}"#)],
            ),
            INACTIVE,
            NOT_APPLIED,
            NO_WRITES,
        ],
        ..Route::new("POST", "/api/sessions/{id}/permission-mode", Scope::Session)
    },
    Route {
        session_state: SessionState::Active,
        body: &[Field::keyword("model", &["default", "model_fast", "model_strong"], r#""model_fast""#)],
        call: Some(("set-session-config", r#"{"applied":{"modelMode":"model_fast"}}"#)),
        specified_statuses: &[400, 409],
        extra_errors: &[invalid_field("model", &[Condition::OtherFlavor]), INACTIVE, NOT_APPLIED, NO_WRITES],
        ..Route::new("POST", "/api/sessions/{id}/model", Scope::Session)
    },
    Route {
        session_state: SessionState::Active,
        body: &[Field::text("id", 0, Length::Unlimited).valid(r#""effort""#), Field::scalar("value")],
        call: Some(("set-session-option", r#"{"success":true}"#)),
        extra_errors: &[INACTIVE, OPTION_NOT_APPLIED],
        ..Route::new("POST", "/api/sessions/{id}/options", Scope::Session)
    },
    Route {
        body: &[
            Field::integer("seq", MAX_SAFE),
            Field::keyword("sessionType", &["simple", "worktree"], r#""simple""#).optional(),
            Field::text("worktreeName", 0, Length::Unlimited).optional(),
            Field::flag("trust").optional(),
        ],
        call: Some(("forkSession", r#"{"success":false,"error":"no"}"#)),
        extra_errors: &[
            invalid_field("worktreeName", &[Condition::Body(r#"{"seq":1,"sessionType":"worktree"}"#)]),
            error(409, "resume_unavailable", &[Condition::NoAgentId]),
            error(503, "no_machine_online", &[Condition::MethodNotRegistered]),
            error(503, "cli_unreachable", &[Condition::CliDisconnects]),
            RPC_TIMEOUT,
        ],
        ..Route::new("POST", "/api/sessions/{id}/fork", Scope::Session)
    },
];
