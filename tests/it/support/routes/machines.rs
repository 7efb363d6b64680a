//! The routes of machines, which call their runners.

use crate::support::field_faults::*;
use crate::support::route::Condition::*;
use crate::support::route::*;

pub const ROUTES: &[Route] = &[
    Route::namespace("GET", "/api/machines").statuses(&[503]),
    Route::machine("GET", "/api/machines/{id}"),
    Route::machine("POST", "/api/machines/{id}/spawn")
        .body(&[
            Field::text("directory", 1, Length::Unlimited).valid(r#""/code""#),
            Field::keyword("agent", &["alpha", "beta", "gamma", "delta", "epsilon"], r#""beta""#).optional(),
            Field::text("model", 0, Length::Unlimited).optional(),
            Field::flag("yolo").optional(),
            Field::keyword("sessionType", &["simple", "worktree"], r#""simple""#).optional(),
            Field::text("worktreeName", 0, Length::Unlimited).optional(),
            Field::text("branch", 0, Length::Unlimited).optional(),
            Field::opaque("options", Opaque::ObjectOrNull, None).optional(),
            Field::flag("trust").optional(),
        ])
        // A failure of the machine is a result with status 200.
        .call("spawnSession", r#"{"success":false,"error":"no"}"#)
        .statuses(&[400, 403, 404, 503])
        .fails(&[
            invalid_field("directory", &[Body(r#"{"directory":"  "}"#)]),
            invalid_field(
                "worktreeName",
                &[
                    Body(r#"{"directory":"/code","sessionType":"worktree"}"#),
                    Body(r#"{"directory":"/code","sessionType":"worktree","worktreeName":" "}"#),
                ],
            ),
            CLI_UNREACHABLE,
            RPC_TIMEOUT,
        ]),
    Route::machine("POST", "/api/machines/{id}/paths/exists")
        .body(&[Field::strings("paths", 1, 1_000).valid(r#"["/code"]"#)])
        .call("checkPathExists", r#"{"/code":true}"#)
        .statuses(&[400, 403, 404, 500, 503])
        .fails(&[NOT_CHECKED]),
    // These routes return the result of the runner unchanged. If there is no result, they return an error result with status 200.
    Route::machine("GET", "/api/machines/{id}/directory")
        .query(&[Param { name: "path", kind: ParamKind::Text("/code") }]),
    Route::machine("GET", "/api/machines/{id}/branches")
        .query(&[Param { name: "path", kind: ParamKind::Text("/code") }]),
    Route::machine("GET", "/api/machines/{id}/agent-sessions").query(&[
        Param { name: "agent", kind: ParamKind::Text("claude") },
        Param { name: "directory", kind: ParamKind::Text("/code") },
        Param { name: "cursor", kind: ParamKind::Text("next") },
    ]),
    Route::machine("POST", "/api/machines/{id}/agent-sessions").body(&[
        Field::text("agent", 0, Length::Unlimited),
        Field::text("id", 0, Length::Unlimited),
        Field::text("directory", 0, Length::Unlimited).optional(),
        Field::flag("trust").optional(),
    ]),
];
