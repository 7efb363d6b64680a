//! The table of the object's routes with all their error responses. [`super::edge_routes`] has the routes of the worker. A row
//! has the errors that are specific to its route. [`Route::errors`] derives the errors of the columns (token, id, method,
//! database, body). [`super::field_faults`] derives the errors of the fields.
//!
//! A new route needs a row, or the test `the_table_has_exactly_the_routes_of_the_hub` fails.

use session_gateway_hub::hub::base::ports::UploadFault;

use super::field_faults::{Field, Length, Opaque, Param, ParamKind};
use super::route::{
    CLI_REFUSED, CLI_UNREACHABLE, Condition, ExpectedError, FILE_TOO_LARGE, INACTIVE, NO_WRITES, NOT_APPLIED,
    NOT_CHECKED, RPC_TIMEOUT, Route, Scope, SessionState, UPLOAD_BREAKS, UPLOAD_FAILED, error, invalid_field,
};

const REQUEST_ID: Field = Field::text("requestId", 0, Length::Unlimited).valid(r#""r1""#);
const MODE: Field = Field::keyword("mode", MODES, r#""plan""#).optional();
const ALLOW_TOOLS: Field = Field::strings("allowTools", 0, usize::MAX).optional();
const APPROVAL: Field =
    Field::keyword("decision", &["approved", "approved_for_session", "denied", "abort"], r#""approved""#).optional();
const DENIAL: Field = Field::keyword("decision", &["denied", "abort"], r#""abort""#).optional();
const ANSWERS: Field = Field::answers("answers").optional();
const REASON: Field = Field::text("reason", 0, Length::CodePoints(1_000)).optional();
/// The modes of flavor alpha.
const MODES: &[&str] = &["default", "acceptEdits", "bypassPermissions", "plan"];
const ATTACHMENT: &str = r#"[{"id":"a","filename":"f","mimeType":"m","size":1,"path":"p"}]"#;
const METADATA: Field = Field::opaque("metadata", Opaque::Object, None).valid(r#"{"path":"/t","host":"h"}"#);
const MAX_SAFE: u64 = (1 << 53) - 1;
const SEQ: ParamKind = ParamKind::Integer { min: 0, max: MAX_SAFE };
const PAGE: &[Param] = &[PAGE_LIMIT, BEFORE_SEQ, AFTER_SEQ];
const PAGE_LIMIT: Param = Param { name: "limit", kind: ParamKind::Integer { min: 1, max: 200 } };
const BEFORE_SEQ: Param = Param { name: "beforeSeq", kind: SEQ };
const AFTER_SEQ: Param = Param { name: "afterSeq", kind: SEQ };
const OFFSET: Param = Param { name: "offset", kind: ParamKind::Integer { min: 0, max: MAX_SAFE } };
const BOTH_ENDS: ExpectedError = invalid_field("afterSeq", &[Condition::Query("afterSeq=1&beforeSeq=2")]);
const UNKNOWN_REQUEST: ExpectedError = error(404, "request_not_found", &[Condition::UnknownRequest]);
/// The errors of a route that calls an active session's CLI and stores the result.
const CALL_ERRORS: &[ExpectedError] = &[INACTIVE, CLI_UNREACHABLE, CLI_REFUSED, RPC_TIMEOUT, NO_WRITES];
const STAGED: Param = Param { name: "staged", kind: ParamKind::Flag };
const PATH: Param = Param { name: "path", kind: ParamKind::Path { required: true } };
/// The specified statuses of requests that read a session.
const READ_STATUSES: &[u16] = &[403, 404, 503];

/// The keys of RFC 8291, appendix A.
macro_rules! keys {
    () => {
        r#"{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}"#
    };
}
macro_rules! subscription {
    ($endpoint:literal) => {
        concat!(r#"{"endpoint":""#, $endpoint, r#"","keys":"#, keys!(), "}")
    };
}
const KEYS: &str = keys!();
const ENDPOINT: Field = Field::text("endpoint", 1, Length::Bytes(2_048)).valid(r#""https://push.service.com/x""#);
const P256DH: Field = Field::text("keys.p256dh", 1, Length::Bytes(88))
    .valid(r#""BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4""#);
const AUTH: Field = Field::text("keys.auth", 1, Length::Bytes(24)).valid(r#""BTBZMqHH6r4Tts7J_aSIgg""#);

pub const NAME: Field = Field::text("name", 1, Length::CodePoints(64)).valid(r#""Phone""#);
pub const KIND: Field = Field::keyword("kind", &["browser", "phone", "cli"], r#""phone""#);
const UNKNOWN_CODE: ExpectedError = error(404, "unknown_code", &[Condition::UnknownId]);
const NOT_OPERATOR: ExpectedError = error(401, "unauthorized", &[Condition::WebToken]);

/// The routes of the namespace's object, in the order of its router.
pub const ROUTES: &[Route] = &[
    Route::new("GET", "/api/devices", Scope::Namespace),
    Route {
        body: &[NAME.optional(), KIND.optional()],
        extra_errors: &[NO_WRITES, error(409, "too_many_codes", &[Condition::TooManyCodes])],
        ..Route::new("POST", "/api/devices/codes", Scope::Namespace)
    },
    Route {
        extra_errors: &[UNKNOWN_CODE, NO_WRITES],
        ..Route::new("GET", "/api/devices/requests/{code}", Scope::Namespace)
    },
    Route {
        body: &[Field::keyword("decision", &["approve", "deny"], r#""approve""#)],
        extra_errors: &[UNKNOWN_CODE, NO_WRITES],
        ..Route::new("POST", "/api/devices/requests/{code}", Scope::Namespace)
    },
    Route { body: &[NAME], extra_errors: &[NO_WRITES], ..Route::new("PATCH", "/api/devices/{id}", Scope::Device) },
    Route { extra_errors: &[NO_WRITES], ..Route::new("DELETE", "/api/devices/{id}", Scope::Device) },
    Route { extra_errors: &[NOT_OPERATOR], ..Route::new("GET", "/api/namespaces/generation", Scope::Namespace) },
    Route {
        extra_errors: &[NOT_OPERATOR, NO_WRITES],
        ..Route::new("POST", "/api/namespaces/revoke", Scope::Namespace)
    },
    Route::new("GET", "/api/config", Scope::Namespace),
    Route {
        query: &[
            Param { name: "archived", kind: ParamKind::Keyword(&["include", "only"]) },
            Param { name: "limit", kind: ParamKind::Integer { min: 1, max: 1_000 } },
            Param { name: "cursor", kind: ParamKind::Text("1.x") },
        ],
        extra_errors: &[invalid_field("cursor", &[Condition::Query("cursor=x"), Condition::Query("cursor=x.1")])],
        ..Route::new("GET", "/api/sessions", Scope::Namespace)
    },
    Route { specified_statuses: READ_STATUSES, ..Route::new("GET", "/api/sessions/{id}", Scope::Session) },
    Route {
        body: &[
            Field::text("name", 1, Length::CodePoints(255)),
            Field::flag("pinned").optional(),
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
        query: &[PAGE_LIMIT, BEFORE_SEQ, AFTER_SEQ, Param { name: "excerpts", kind: ParamKind::Flag }],
        specified_statuses: READ_STATUSES,
        extra_errors: &[BOTH_ENDS],
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
        ],
        specified_statuses: &[400, 403, 404, 409, 503],
        extra_errors: &[
            invalid_field("text", &[Condition::Body("{}"), Condition::Body(r#"{"attachments":[]}"#)]),
            INACTIVE,
            NO_WRITES,
            error(503, "overloaded", &[Condition::FullWriteQueue]),
        ],
        ..Route::new("POST", "/api/sessions/{id}/messages", Scope::Session)
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
        call: Some(("spawnSession", r#"{"success":true}"#)),
        specified_statuses: READ_STATUSES,
        extra_errors: &[
            error(503, "no_machine_online", &[Condition::MethodNotRegistered]),
            error(503, "cli_unreachable", &[Condition::CliDisconnects]),
            CLI_REFUSED,
            RPC_TIMEOUT,
            error(409, "resume_unavailable", &[Condition::NoAgentId]),
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
    APPROVE,
    DENY,
    Route {
        path: "/api/sessions/{id}/permissions/approve",
        body: &[REQUEST_ID, MODE, ALLOW_TOOLS, APPROVAL, ANSWERS],
        ..APPROVE
    },
    Route { path: "/api/sessions/{id}/permissions/deny", body: &[REQUEST_ID, DENIAL, REASON], ..DENY },
    // These routes return the result of the CLI unchanged. If there is no result, they return an error result with status 200.
    Route {
        query: &[Param { name: "part", kind: ParamKind::Integer { min: 0, max: 4_294_967_295 } }],
        ..Route::new("GET", "/api/sessions/{id}/permissions/{requestId}/content", Scope::Session)
    },
    Route::new("DELETE", "/api/sessions/{id}/permissions/rules/{ruleId}", Scope::Session),
    Route {
        query: &[Param { name: "path", kind: ParamKind::Path { required: false } }, OFFSET],
        specified_statuses: READ_STATUSES,
        ..Route::new("GET", "/api/sessions/{id}/git-status", Scope::Session)
    },
    Route {
        query: &[STAGED],
        specified_statuses: READ_STATUSES,
        ..Route::new("GET", "/api/sessions/{id}/git-diff-numstat", Scope::Session)
    },
    Route {
        query: &[PATH, STAGED],
        specified_statuses: READ_STATUSES,
        ..Route::new("GET", "/api/sessions/{id}/git-diff-file", Scope::Session)
    },
    Route {
        query: &[PATH],
        specified_statuses: &[400, 403, 404, 503],
        ..Route::new("GET", "/api/sessions/{id}/file", Scope::Session)
    },
    Route {
        query: &[
            Param { name: "query", kind: ParamKind::Pattern },
            Param { name: "limit", kind: ParamKind::Integer { min: 1, max: 500 } },
        ],
        specified_statuses: &[400, 403, 404, 503],
        ..Route::new("GET", "/api/sessions/{id}/files", Scope::Session)
    },
    Route {
        query: &[Param { name: "path", kind: ParamKind::Path { required: false } }, OFFSET],
        specified_statuses: READ_STATUSES,
        ..Route::new("GET", "/api/sessions/{id}/directory", Scope::Session)
    },
    Route {
        specified_statuses: READ_STATUSES,
        ..Route::new("GET", "/api/sessions/{id}/slash-commands", Scope::Session)
    },
    Route { specified_statuses: READ_STATUSES, ..Route::new("GET", "/api/sessions/{id}/skills", Scope::Session) },
    Route {
        session_state: SessionState::Active,
        body: &[
            Field::text("filename", 1, Length::CodePoints(255)),
            Field::base64("content"),
            Field::text("mimeType", 0, Length::CodePoints(255)),
        ],
        call: Some(("uploadFile", r#"{"success":true,"path":"/x"}"#)),
        specified_statuses: &[400, 403, 404, 409, 413, 500],
        extra_errors: &[
            INACTIVE,
            invalid_field("content", &[Condition::UploadFails(UploadFault::BadBase64)]),
            error(400, "invalid_body", &[UPLOAD_BREAKS, Condition::UploadFails(UploadFault::NotUtf8)]),
            error(408, "upload_stalled", &[Condition::UploadFails(UploadFault::Stalled)]),
            error(413, "too_large", &[FILE_TOO_LARGE, Condition::UploadFails(UploadFault::FieldsTooLarge)]),
            UPLOAD_FAILED,
            error(503, "overloaded", &[Condition::TooManyUploads]),
        ],
        ..Route::new("POST", "/api/sessions/{id}/upload", Scope::Session)
    },
    Route {
        session_state: SessionState::Active,
        body: &[Field::text("path", 1, Length::CodePoints(4_096))],
        call: Some(("deleteUploadFile", r#"{"success":true}"#)),
        extra_errors: &[INACTIVE, UPLOAD_FAILED],
        ..Route::new("POST", "/api/sessions/{id}/upload/delete", Scope::Session)
    },
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
    Route {
        body: &[
            Field::text("subscriptionId", 0, Length::Unlimited).valid(r#""$subscription""#),
            Field::keyword("visibility", &["visible", "hidden"], r#""visible""#),
        ],
        extra_errors: &[error(
            404,
            "subscription_not_found",
            &[
                Condition::Body(r#"{"subscriptionId":"none","visibility":"hidden"}"#),
                Condition::Body(r#"{"subscriptionId":"__proto__","visibility":"hidden"}"#),
                Condition::Body(r#"{"subscriptionId":"$foreign_subscription","visibility":"hidden"}"#),
            ],
        )],
        ..Route::new("POST", "/api/visibility", Scope::Namespace)
    },
    Route { extra_errors: &[NO_WRITES], ..Route::new("GET", "/api/push/vapid-public-key", Scope::Namespace) },
    Route {
        body: &[
            ENDPOINT,
            Field::object("keys", KEYS),
            P256DH,
            AUTH,
            Field::text("device", 0, Length::Bytes(64)).optional(),
        ],
        specified_statuses: &[400],
        extra_errors: &[
            invalid_field(
                "endpoint",
                &[
                    Condition::Body(subscription!("http://push.service.com/x")),
                    Condition::Body(subscription!("https://user@push.service.com/x")),
                    Condition::Body(subscription!("https://127.0.0.1/x")),
                    Condition::Body(subscription!("https://printer.local/x")),
                    Condition::Body(subscription!("http://localhost:9/x")),
                ],
            ),
            NO_WRITES,
        ],
        ..Route::new("POST", "/api/push/subscribe", Scope::Namespace)
    },
    Route {
        body: &[Field::text("endpoint", 0, Length::Unlimited).valid(r#""https://push.service.com/x""#)],
        specified_statuses: &[400],
        ..Route::new("DELETE", "/api/push/subscribe", Scope::Namespace)
    },
    Route { ..Route::new("GET", "/api/push/log", Scope::Namespace) },
    Route {
        body: &[
            Field::text("tag", 1, Length::Bytes(4_096)).valid(r#""/t""#),
            METADATA,
            Field::text("metadata.path", 0, Length::Unlimited),
            Field::text("metadata.host", 0, Length::Unlimited),
            Field::opaque("agentState", Opaque::ObjectOrNull, None).optional(),
            Field::text("model", 0, Length::Bytes(255)).optional(),
        ],
        extra_errors: &[error(409, "too_many_sessions", &[Condition::TooManySessions]), NO_WRITES],
        ..Route::new("POST", "/cli/sessions", Scope::Namespace)
    },
    Route { ..Route::new("GET", "/cli/sessions/{id}", Scope::Session) },
    Route {
        query: PAGE,
        extra_errors: &[BOTH_ENDS],
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

/// The answers to a permission request, with its id in the path. The conditions have the id in the body as well.
const APPROVE: Route = Route {
    session_state: SessionState::Active,
    body: &[MODE, ALLOW_TOOLS, APPROVAL, ANSWERS],
    call: Some(("permission", "{}")),
    specified_statuses: &[400, 403, 404, 409, 503],
    extra_errors: &[
        invalid_field("mode", &[Condition::Body(r#"{"requestId":"r1","mode":"yolo"}"#)]),
        UNKNOWN_REQUEST,
        INACTIVE,
        CLI_UNREACHABLE,
        CLI_REFUSED,
        RPC_TIMEOUT,
        NO_WRITES,
    ],
    ..Route::new("POST", "/api/sessions/{id}/permissions/{requestId}/approve", Scope::Session)
};
const DENY: Route = Route {
    path: "/api/sessions/{id}/permissions/{requestId}/deny",
    body: &[DENIAL, REASON],
    extra_errors: &[
        invalid_field("decision", &[Condition::Body(r#"{"requestId":"r1","decision":"approved"}"#)]),
        UNKNOWN_REQUEST,
        INACTIVE,
        CLI_UNREACHABLE,
        CLI_REFUSED,
        RPC_TIMEOUT,
        NO_WRITES,
    ],
    ..APPROVE
};
