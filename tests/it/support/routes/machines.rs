//! The routes of machines, which call their runners.

use crate::support::field_faults::{Field, Length, Opaque, Param, ParamKind};
use crate::support::route::{CLI_UNREACHABLE, Condition, NOT_CHECKED, RPC_TIMEOUT, Route, Scope, invalid_field};

pub const ROUTES: &[Route] = &[
    Route { specified_statuses: &[503], ..Route::new("GET", "/api/machines", Scope::Namespace) },
    Route { ..Route::new("GET", "/api/machines/{id}", Scope::Machine) },
    Route {
        body: &[
            Field::text("directory", 1, Length::Unlimited).valid(r#""/code""#),
            Field::keyword("agent", &["alpha", "beta", "gamma", "delta", "epsilon"], r#""beta""#).optional(),
            Field::text("model", 0, Length::Unlimited).optional(),
            Field::flag("yolo").optional(),
            Field::keyword("sessionType", &["simple", "worktree"], r#""simple""#).optional(),
            Field::text("worktreeName", 0, Length::Unlimited).optional(),
            Field::text("branch", 0, Length::Unlimited).optional(),
            Field::opaque("options", Opaque::ObjectOrNull, None).optional(),
            Field::flag("trust").optional(),
        ],
        // A failure of the machine is a result with status 200.
        call: Some(("spawnSession", r#"{"success":false,"error":"no"}"#)),
        specified_statuses: &[400, 403, 404, 503],
        extra_errors: &[
            invalid_field("directory", &[Condition::Body(r#"{"directory":"  "}"#)]),
            invalid_field(
                "worktreeName",
                &[
                    Condition::Body(r#"{"directory":"/code","sessionType":"worktree"}"#),
                    Condition::Body(r#"{"directory":"/code","sessionType":"worktree","worktreeName":" "}"#),
                ],
            ),
            CLI_UNREACHABLE,
            RPC_TIMEOUT,
        ],
        ..Route::new("POST", "/api/machines/{id}/spawn", Scope::Machine)
    },
    Route {
        body: &[Field::strings("paths", 1, 1_000).valid(r#"["/code"]"#)],
        call: Some(("checkPathExists", r#"{"/code":true}"#)),
        specified_statuses: &[400, 403, 404, 500, 503],
        extra_errors: &[NOT_CHECKED],
        ..Route::new("POST", "/api/machines/{id}/paths/exists", Scope::Machine)
    },
    // These routes return the result of the runner unchanged. If there is no result, they return an error result with status 200.
    Route {
        query: &[Param { name: "path", kind: ParamKind::Text("/code") }],
        ..Route::new("GET", "/api/machines/{id}/directory", Scope::Machine)
    },
    Route {
        query: &[Param { name: "path", kind: ParamKind::Text("/code") }],
        ..Route::new("GET", "/api/machines/{id}/branches", Scope::Machine)
    },
    Route {
        query: &[
            Param { name: "agent", kind: ParamKind::Text("claude") },
            Param { name: "directory", kind: ParamKind::Text("/code") },
            Param { name: "cursor", kind: ParamKind::Text("next") },
        ],
        ..Route::new("GET", "/api/machines/{id}/agent-sessions", Scope::Machine)
    },
    Route {
        body: &[
            Field::text("agent", 0, Length::Unlimited),
            Field::text("id", 0, Length::Unlimited),
            Field::text("directory", 0, Length::Unlimited).optional(),
            Field::flag("trust").optional(),
        ],
        ..Route::new("POST", "/api/machines/{id}/agent-sessions", Scope::Machine)
    },
];
