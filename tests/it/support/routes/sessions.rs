//! The routes of the session list, the inbox and one session.

use super::{MAX_SAFE, MODES, PAGE_LIMIT, READ_STATUSES, REASON};
use crate::support::field_faults::*;
use crate::support::route::Condition::*;
use crate::support::route::*;

/// The errors of a route that calls an active session's CLI and stores the result.
const CALL_ERRORS: &[ExpectedError] = &[INACTIVE, CLI_UNREACHABLE, CLI_REFUSED, RPC_TIMEOUT, NO_WRITES];

/// The refusal of a machine whose user does not trust the directory.
const UNTRUSTED: Condition = CliResponds(r#"{"success":false,"error":"Trust /code.","code":"untrusted_directory"}"#);

pub const ROUTES: &[Route] = &[
    Route::namespace("GET", "/api/config"),
    Route::namespace("GET", "/api/sessions")
        .query(&[
            Param { name: "archived", kind: ParamKind::Keyword(&["include", "only"]) },
            Param { name: "limit", kind: ParamKind::Integer { min: 1, max: 1_000 } },
            Param { name: "cursor", kind: ParamKind::Text("1.x") },
        ])
        .fails(&[invalid_field(
            "cursor",
            &[
                Query("cursor=x"),
                Query("cursor=x.1"),
                Query("cursor=-1.s"),
                Query("cursor=1"),
                Query("cursor=18446744073709551616.s"),
                Query("cursor=%00"),
            ],
        )]),
    Route::namespace("GET", "/api/inbox")
        .query(&[PAGE_LIMIT, Param { name: "cursor", kind: ParamKind::Text("1.x.y") }])
        .fails(&[invalid_field("cursor", &[Query("cursor=x"), Query("cursor=x.y.z"), Query("cursor=1.x")])]),
    Route::session("GET", "/api/sessions/{id}").statuses(READ_STATUSES),
    Route::session("PATCH", "/api/sessions/{id}")
        .body(&[
            Field::text("name", 1, Length::CodePoints(255)),
            Field::flag("pinned").optional(),
            Field::flag("muted").optional(),
            Field::text("color", 0, Length::CodePoints(32)).optional(),
            // An unknown version is a conflict, not an invalid field.
            Field::integer("expectedVersion", u64::MAX).optional(),
        ])
        .statuses(&[400, 409, 500])
        .fails(&[
            invalid_field("name", &[Body(r#"{"name":" \t\n "}"#)]),
            error(409, "version_conflict", &[Body(r#"{"name":"n","expectedVersion":9007199254740993}"#)]),
            error(413, "too_large", &[FullMetadata]),
            error(500, "rename_failed", &[FailingWrites]),
        ]),
    Route::session("DELETE", "/api/sessions/{id}")
        .inactive()
        .statuses(&[409])
        .fails(&[error(409, "session_active", &[WrongState]), NO_WRITES]),
    Route::session("POST", "/api/sessions/{id}/abort")
        .active()
        .body(&[REASON])
        .call("abort", "{}")
        .statuses(&[403, 404, 409])
        .fails(CALL_ERRORS),
    Route::session("POST", "/api/sessions/{id}/switch")
        .active()
        .call("switch", "{}")
        .statuses(&[403, 404, 409])
        .fails(CALL_ERRORS),
    Route::session("POST", "/api/sessions/{id}/resume")
        .inactive()
        .body(&[Field::flag("trust").optional()])
        .call("spawnSession", r#"{"success":true}"#)
        .statuses(READ_STATUSES)
        .fails(&[
            error(503, "no_machine_online", &[MethodNotRegistered]),
            error(503, "cli_unreachable", &[CliDisconnects]),
            CLI_REFUSED,
            RPC_TIMEOUT,
            error(409, "resume_unavailable", &[NoAgentId]),
            error(409, "untrusted_directory", &[UNTRUSTED]),
            error(504, "resume_failed", &[NeverActive]),
        ]),
    Route::session("POST", "/api/sessions/{id}/archive").body(&[REASON]).fails(&[NO_WRITES]),
    Route::session("POST", "/api/sessions/{id}/permission-mode")
        .active()
        .body(&[Field::keyword("mode", MODES, r#""plan""#)])
        .call("set-session-config", r#"{"applied":{"permissionMode":"plan"}}"#)
        .statuses(&[400, 409])
        .fails(&[
            invalid_field("mode", &[Body(r#"{"mode":"yolo"}"#), Body(r#"{"mode":"model_fast"}"#)]),
            INACTIVE,
            NOT_APPLIED,
            NO_WRITES,
        ]),
    Route::session("POST", "/api/sessions/{id}/model")
        .active()
        .body(&[Field::keyword("model", &["default", "model_fast", "model_strong"], r#""model_fast""#)])
        .call("set-session-config", r#"{"applied":{"modelMode":"model_fast"}}"#)
        .statuses(&[400, 409])
        .fails(&[invalid_field("model", &[OtherFlavor]), INACTIVE, NOT_APPLIED, NO_WRITES]),
    Route::session("POST", "/api/sessions/{id}/options")
        .active()
        .body(&[Field::text("id", 0, Length::Unlimited).valid(r#""effort""#), Field::scalar("value")])
        .call("set-session-option", r#"{"success":true}"#)
        .fails(&[INACTIVE, OPTION_NOT_APPLIED]),
    Route::session("POST", "/api/sessions/{id}/fork")
        .body(&[
            Field::integer("seq", MAX_SAFE),
            Field::keyword("sessionType", &["simple", "worktree"], r#""simple""#).optional(),
            Field::text("worktreeName", 0, Length::Unlimited).optional(),
            Field::flag("trust").optional(),
        ])
        .call("forkSession", r#"{"success":false,"error":"no"}"#)
        .fails(&[
            invalid_field("worktreeName", &[Body(r#"{"seq":1,"sessionType":"worktree"}"#)]),
            error(409, "resume_unavailable", &[NoAgentId]),
            error(503, "no_machine_online", &[MethodNotRegistered]),
            error(503, "cli_unreachable", &[CliDisconnects]),
            RPC_TIMEOUT,
        ]),
];
