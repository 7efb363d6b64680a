//! The table of routes: all that each of them refuses. A row says what is particular to its route; what follows from its
//! columns (the token, the id in the path, the method, the database, the size of the body) is derived from them by
//! [`Route::refusals`], and the faults of its fields by [`super::faults`].
//!
//! To add a route, add a row. Without one the test
//! `every_route_of_the_hub_has_its_row_and_every_row_is_a_route_of_the_hub` fails.

use session_gateway_hub::hub::ports::UploadFault;

use super::faults::{Field, Length, Opaque, Param, ParamKind};
use super::route::{ErrorResponse, Given, Of, Route, When, invalid, refusal};

const REFUSED: Given = Given::CliSays(r#"{"success":false,"error":"not now"}"#);
const GONE: &[Given] = &[Given::NoHandler, Given::CliLeaves];
const CLI_UNREACHABLE: ErrorResponse = refusal(503, "cli_unreachable", GONE);
const CLI_REFUSED: ErrorResponse = refusal(503, "cli_refused", &[REFUSED]);
const RPC_TIMEOUT: ErrorResponse = refusal(504, "rpc_timeout", &[Given::CliIsSilent]);
const INACTIVE: ErrorResponse = refusal(409, "session_inactive", &[Given::WrongState]);
const NO_WRITES: ErrorResponse = refusal(503, "hub_unavailable", &[Given::NoWrites]);
/// However it comes that a mode was not applied, the refusal is the same (PROTOCOL.md "Life cycle and modes").
const NOT_APPLIED: ErrorResponse = refusal(
    409,
    "mode_not_applied",
    &[
        Given::NoHandler,
        Given::CliLeaves,
        Given::CliIsSilent,
        REFUSED,
        Given::CliSays("{}"),
        Given::CliSays("7"),
        Given::CliSays(r#"{"applied":{}}"#),
    ],
);
/// And that an upload, or what is to become of one, does not reach its end (PROTOCOL.md "Uploads").
const UPLOAD_FAILED: ErrorResponse =
    refusal(500, "upload_failed", &[Given::NoHandler, Given::CliLeaves, Given::CliIsSilent, Given::CliSays("7")]);
const UPLOAD_BREAKS: Given = Given::UploadFails(UploadFault::Broken);
const FILE_TOO_LARGE: Given = Given::UploadFails(UploadFault::TooLarge);
/// And that paths were not checked (PROTOCOL.md "Machines").
const NOT_CHECKED: ErrorResponse = refusal(
    500,
    "check_failed",
    &[
        Given::NoHandler,
        Given::CliLeaves,
        Given::CliIsSilent,
        REFUSED,
        Given::CliSays("7"),
        Given::CliSays(r#"{"/code":"yes"}"#),
    ],
);

const REASON: Field = Field::text("reason", 0, Length::CodePoints(1_000)).optional();
/// Of a session of flavor alpha, as that of the tests is.
const MODES: &[&str] = &["default", "acceptEdits", "bypassPermissions", "plan"];
const ATTACHMENT: &str = r#"[{"id":"a","filename":"f","mimeType":"m","size":1,"path":"p"}]"#;
const METADATA: Field = Field::opaque("metadata", Opaque::Object, None).good(r#"{"path":"/t","host":"h"}"#);
const MAX_SAFE: u64 = (1 << 53) - 1;
const SEQ: ParamKind = ParamKind::Whole { at_least: 0, at_most: MAX_SAFE };
const PAGE: &[Param] = &[
    Param { name: "limit", kind: ParamKind::Whole { at_least: 1, at_most: 200 } },
    Param { name: "beforeSeq", kind: SEQ },
    Param { name: "afterSeq", kind: SEQ },
];
const BOTH_ENDS: ErrorResponse = invalid("afterSeq", &[Given::Query("afterSeq=1&beforeSeq=2")]);
const STAGED: Param = Param { name: "staged", kind: ParamKind::Flag };
const PATH: Param = Param { name: "path", kind: ParamKind::Path { required: true } };
/// What the specification names for everything that is read of a session.
const READ: &[u16] = &[403, 404, 503];

/// What a browser gives out: the keys of RFC 8291, appendix A.
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
const ENDPOINT: Field = Field::text("endpoint", 1, Length::Bytes(2_048)).good(r#""https://push.service.com/x""#);
const P256DH: Field = Field::text("keys.p256dh", 1, Length::Bytes(88))
    .good(r#""BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4""#);
const AUTH: Field = Field::text("keys.auth", 1, Length::Bytes(24)).good(r#""BTBZMqHH6r4Tts7J_aSIgg""#);

/// The routes of the namespace's object, in the order of its router.
pub const ROUTES: &[Route] = &[
    Route {
        query: &[Param { name: "archived", kind: ParamKind::Word(&["include", "only"]) }],
        ..Route::new("GET", "/api/sessions", Of::Namespace)
    },
    Route { specified: READ, ..Route::new("GET", "/api/sessions/{id}", Of::Session) },
    Route {
        body: &[
            Field::text("name", 1, Length::CodePoints(255)),
            // One that is no version of anything is a conflict.
            Field::whole("expectedVersion", u64::MAX).optional(),
        ],
        specified: &[400, 409, 500],
        particular: &[
            invalid("name", &[Given::Body(r#"{"name":" \t\n "}"#)]),
            refusal(409, "version_conflict", &[Given::Body(r#"{"name":"n","expectedVersion":9007199254740993}"#)]),
            refusal(413, "too_large", &[Given::FullMetadata]),
            refusal(500, "rename_failed", &[Given::NoWrites]),
        ],
        ..Route::new("PATCH", "/api/sessions/{id}", Of::Session)
    },
    Route {
        when: When::Inactive,
        specified: &[409],
        particular: &[refusal(409, "session_active", &[Given::WrongState]), NO_WRITES],
        ..Route::new("DELETE", "/api/sessions/{id}", Of::Session)
    },
    Route {
        query: PAGE,
        specified: READ,
        particular: &[BOTH_ENDS],
        ..Route::new("GET", "/api/sessions/{id}/messages", Of::Session)
    },
    Route {
        when: When::Active,
        body: &[
            Field::text("text", 1, Length::Bytes(1024 * 1024)),
            Field::text("localId", 1, Length::Bytes(255)).optional(),
            Field::objects("attachments", ATTACHMENT).optional(),
            Field::text("attachments[0].id", 0, Length::Free),
            Field::text("attachments[0].filename", 0, Length::Free),
            Field::text("attachments[0].mimeType", 0, Length::Free),
            Field::whole("attachments[0].size", MAX_SAFE),
            Field::text("attachments[0].path", 0, Length::Free),
        ],
        specified: &[400, 403, 404, 409, 503],
        particular: &[
            invalid("text", &[Given::Body("{}"), Given::Body(r#"{"attachments":[]}"#)]),
            INACTIVE,
            NO_WRITES,
            refusal(503, "overloaded", &[Given::FullJournal]),
        ],
        ..Route::new("POST", "/api/sessions/{id}/messages", Of::Session)
    },
    Route {
        when: When::Active,
        body: &[REASON],
        call: Some(("abort", "{}")),
        specified: &[403, 404, 409],
        particular: &[INACTIVE, CLI_UNREACHABLE, CLI_REFUSED, RPC_TIMEOUT, NO_WRITES],
        ..Route::new("POST", "/api/sessions/{id}/abort", Of::Session)
    },
    Route {
        when: When::Active,
        call: Some(("switch", "{}")),
        specified: &[403, 404, 409],
        particular: &[INACTIVE, CLI_UNREACHABLE, CLI_REFUSED, RPC_TIMEOUT, NO_WRITES],
        ..Route::new("POST", "/api/sessions/{id}/switch", Of::Session)
    },
    Route {
        when: When::Inactive,
        call: Some(("spawnSession", r#"{"success":true}"#)),
        specified: READ,
        particular: &[
            refusal(503, "no_machine_online", &[Given::NoHandler]),
            refusal(503, "cli_unreachable", &[Given::CliLeaves]),
            CLI_REFUSED,
            RPC_TIMEOUT,
            refusal(409, "resume_unavailable", &[Given::NoAgentId]),
            refusal(504, "resume_failed", &[Given::NeverActive]),
        ],
        ..Route::new("POST", "/api/sessions/{id}/resume", Of::Session)
    },
    Route {
        // An active session's CLI may end itself first; whether it does or not.
        body: &[REASON],
        particular: &[NO_WRITES],
        ..Route::new("POST", "/api/sessions/{id}/archive", Of::Session)
    },
    Route {
        when: When::Active,
        body: &[Field::word("mode", MODES, r#""plan""#)],
        call: Some(("set-session-config", r#"{"applied":{"permissionMode":"plan"}}"#)),
        specified: &[400, 409],
        particular: &[
            invalid("mode", &[Given::Body(r#"{"mode":"yolo"}"#), Given::Body(r#"{"mode":"model_fast"}"#)]),
            INACTIVE,
            NOT_APPLIED,
            NO_WRITES,
        ],
        ..Route::new("POST", "/api/sessions/{id}/permission-mode", Of::Session)
    },
    Route {
        when: When::Active,
        body: &[Field::word("model", &["default", "model_fast", "model_strong"], r#""model_fast""#)],
        call: Some(("set-session-config", r#"{"applied":{"modelMode":"model_fast"}}"#)),
        specified: &[400, 409],
        particular: &[invalid("model", &[Given::OtherFlavor]), INACTIVE, NOT_APPLIED, NO_WRITES],
        ..Route::new("POST", "/api/sessions/{id}/model", Of::Session)
    },
    Route {
        when: When::Active,
        body: &[
            Field::word("mode", MODES, r#""plan""#).optional(),
            Field::texts("allowTools", 0, usize::MAX).optional(),
            Field::word("decision", &["approved", "approved_for_session", "denied", "abort"], r#""approved""#)
                .optional(),
            Field::answers("answers").optional(),
        ],
        call: Some(("permission", "{}")),
        specified: &[400, 403, 404, 409, 503],
        particular: &[
            invalid("mode", &[Given::Body(r#"{"mode":"yolo"}"#)]),
            refusal(404, "request_not_found", &[Given::UnknownRequest]),
            INACTIVE,
            refusal(413, "too_large", &[Given::HugeAnswers]),
            CLI_UNREACHABLE,
            CLI_REFUSED,
            RPC_TIMEOUT,
            NO_WRITES,
        ],
        ..Route::new("POST", "/api/sessions/{id}/permissions/{requestId}/approve", Of::Session)
    },
    Route {
        when: When::Active,
        body: &[Field::word("decision", &["denied", "abort"], r#""abort""#).optional(), REASON],
        call: Some(("permission", "{}")),
        specified: &[400, 403, 404, 409, 503],
        particular: &[
            invalid("decision", &[Given::Body(r#"{"decision":"approved"}"#)]),
            refusal(404, "request_not_found", &[Given::UnknownRequest]),
            INACTIVE,
            CLI_UNREACHABLE,
            CLI_REFUSED,
            RPC_TIMEOUT,
            NO_WRITES,
        ],
        ..Route::new("POST", "/api/sessions/{id}/permissions/{requestId}/deny", Of::Session)
    },
    // What is read of a directory is the CLI's own answer; that there is none is a result too, not a status.
    Route { specified: READ, ..Route::new("GET", "/api/sessions/{id}/git-status", Of::Session) },
    Route {
        query: &[STAGED],
        specified: READ,
        ..Route::new("GET", "/api/sessions/{id}/git-diff-numstat", Of::Session)
    },
    Route {
        query: &[PATH, STAGED],
        specified: READ,
        ..Route::new("GET", "/api/sessions/{id}/git-diff-file", Of::Session)
    },
    Route {
        query: &[PATH],
        specified: &[400, 403, 404, 503],
        ..Route::new("GET", "/api/sessions/{id}/file", Of::Session)
    },
    Route {
        query: &[
            Param { name: "query", kind: ParamKind::Pattern },
            Param { name: "limit", kind: ParamKind::Whole { at_least: 1, at_most: 500 } },
        ],
        specified: &[400, 403, 404, 503],
        ..Route::new("GET", "/api/sessions/{id}/files", Of::Session)
    },
    Route {
        query: &[Param { name: "path", kind: ParamKind::Path { required: false } }],
        specified: READ,
        ..Route::new("GET", "/api/sessions/{id}/directory", Of::Session)
    },
    Route { specified: READ, ..Route::new("GET", "/api/sessions/{id}/slash-commands", Of::Session) },
    Route { specified: READ, ..Route::new("GET", "/api/sessions/{id}/skills", Of::Session) },
    Route {
        when: When::Active,
        body: &[
            Field::text("filename", 1, Length::CodePoints(255)),
            Field::base64("content"),
            Field::text("mimeType", 1, Length::CodePoints(255)),
        ],
        call: Some(("uploadFile", r#"{"success":true,"path":"/x"}"#)),
        specified: &[400, 403, 404, 409, 413, 500],
        particular: &[
            INACTIVE,
            invalid("content", &[Given::UploadFails(UploadFault::BadBase64)]),
            refusal(400, "invalid_body", &[UPLOAD_BREAKS, Given::UploadFails(UploadFault::NotUtf8)]),
            refusal(408, "upload_stalled", &[Given::UploadFails(UploadFault::Stalled)]),
            refusal(413, "too_large", &[FILE_TOO_LARGE, Given::UploadFails(UploadFault::FieldsTooLarge)]),
            UPLOAD_FAILED,
            refusal(503, "overloaded", &[Given::ManyUploads]),
        ],
        ..Route::new("POST", "/api/sessions/{id}/upload", Of::Session)
    },
    Route {
        when: When::Active,
        body: &[Field::text("path", 1, Length::CodePoints(4_096))],
        call: Some(("deleteUploadFile", r#"{"success":true}"#)),
        particular: &[INACTIVE, UPLOAD_FAILED],
        ..Route::new("POST", "/api/sessions/{id}/upload/delete", Of::Session)
    },
    Route { specified: &[503], ..Route::new("GET", "/api/machines", Of::Namespace) },
    Route { ..Route::new("GET", "/api/machines/{id}", Of::Machine) },
    Route {
        body: &[
            Field::text("directory", 1, Length::Free).good(r#""/code""#),
            Field::word("agent", &["alpha", "beta", "gamma", "delta", "epsilon"], r#""beta""#).optional(),
            Field::text("model", 0, Length::Free).optional(),
            Field::flag("yolo").optional(),
            Field::word("sessionType", &["simple", "worktree"], r#""simple""#).optional(),
            Field::text("worktreeName", 0, Length::Free).optional(),
        ],
        // That the machine failed is its result, with a 200.
        call: Some(("spawnSession", r#"{"success":false,"error":"no"}"#)),
        specified: &[400, 403, 404, 503],
        particular: &[
            invalid("directory", &[Given::Body(r#"{"directory":"  "}"#)]),
            invalid(
                "worktreeName",
                &[
                    Given::Body(r#"{"directory":"/code","sessionType":"worktree"}"#),
                    Given::Body(r#"{"directory":"/code","sessionType":"worktree","worktreeName":" "}"#),
                ],
            ),
            CLI_UNREACHABLE,
            RPC_TIMEOUT,
        ],
        ..Route::new("POST", "/api/machines/{id}/spawn", Of::Machine)
    },
    Route {
        body: &[Field::texts("paths", 1, 1_000).good(r#"["/code"]"#)],
        call: Some(("checkPathExists", r#"{"/code":true}"#)),
        specified: &[400, 403, 404, 500, 503],
        particular: &[NOT_CHECKED],
        ..Route::new("POST", "/api/machines/{id}/paths/exists", Of::Machine)
    },
    Route {
        body: &[
            Field::text("subscriptionId", 0, Length::Free).good(r#""$subscription""#),
            Field::word("visibility", &["visible", "hidden"], r#""visible""#),
        ],
        particular: &[refusal(
            404,
            "subscription_not_found",
            &[
                Given::Body(r#"{"subscriptionId":"none","visibility":"hidden"}"#),
                Given::Body(r#"{"subscriptionId":"__proto__","visibility":"hidden"}"#),
                Given::Body(r#"{"subscriptionId":"$foreign_subscription","visibility":"hidden"}"#),
            ],
        )],
        ..Route::new("POST", "/api/visibility", Of::Namespace)
    },
    Route { particular: &[NO_WRITES], ..Route::new("GET", "/api/push/vapid-public-key", Of::Namespace) },
    Route {
        body: &[ENDPOINT, Field::object("keys", KEYS), P256DH, AUTH],
        specified: &[400],
        particular: &[
            invalid(
                "endpoint",
                &[
                    Given::Body(subscription!("http://push.service.com/x")),
                    Given::Body(subscription!("https://user@push.service.com/x")),
                    Given::Body(subscription!("https://127.0.0.1/x")),
                    Given::Body(subscription!("https://printer.local/x")),
                    Given::Body(subscription!("http://localhost:9/x")),
                ],
            ),
            NO_WRITES,
        ],
        ..Route::new("POST", "/api/push/subscribe", Of::Namespace)
    },
    Route {
        body: &[Field::text("endpoint", 0, Length::Free).good(r#""https://push.service.com/x""#)],
        specified: &[400],
        ..Route::new("DELETE", "/api/push/subscribe", Of::Namespace)
    },
    Route { ..Route::new("GET", "/api/push/log", Of::Namespace) },
    Route {
        body: &[
            Field::text("tag", 1, Length::Bytes(4_096)).good(r#""/t""#),
            METADATA,
            Field::text("metadata.path", 0, Length::Free),
            Field::text("metadata.host", 0, Length::Free),
            Field::opaque("agentState", Opaque::ObjectOrNull, None).optional(),
            Field::text("model", 0, Length::Bytes(64)).optional(),
        ],
        particular: &[NO_WRITES],
        ..Route::new("POST", "/cli/sessions", Of::Namespace)
    },
    Route { ..Route::new("GET", "/cli/sessions/{id}", Of::Session) },
    Route { query: PAGE, particular: &[BOTH_ENDS], ..Route::new("GET", "/cli/sessions/{id}/messages", Of::Session) },
    Route {
        body: &[
            Field::text("id", 1, Length::Bytes(255)).good(r#""m2""#),
            Field::opaque("metadata", Opaque::Object, None),
            Field::opaque("runnerState", Opaque::Anything, None).optional(),
        ],
        particular: &[
            refusal(403, "forbidden", &[Given::Body(r#"{"id":"$foreign_machine","metadata":{"host":"mine"}}"#)]),
            NO_WRITES,
        ],
        ..Route::new("POST", "/cli/machines", Of::Namespace)
    },
    Route { ..Route::new("GET", "/cli/machines/{id}", Of::Machine) },
];

/// The paths that the worker answers by itself, in the order of its sorting.
pub const EDGE_ROUTES: &[Route] = &[
    Route { ..Route::new("GET", "/health", Of::Anyone) },
    Route {
        body: &[Field::text("accessToken", 0, Length::Free).good(r#""$token""#)],
        particular: &[
            refusal(
                401,
                "invalid_access_token",
                &[
                    Given::Body(r#"{"accessToken":"wrong"}"#),
                    Given::Body(r#"{"accessToken":"wrong:team"}"#),
                    Given::Body(r#"{"accessToken":"secret:no such namespace"}"#),
                ],
            ),
            NO_WRITES,
        ],
        ..Route::new("POST", "/api/auth", Of::Anyone)
    },
    SOCKET,
    Route { path: "/socket.io/", ..SOCKET },
    Route {
        query: &[
            Param { name: "sessionId", kind: ParamKind::Text("$session") },
            Param { name: "machineId", kind: ParamKind::Text("$machine") },
            Param { name: "all", kind: ParamKind::Flag },
            Param { name: "visibility", kind: ParamKind::Word(&["visible", "hidden"]) },
            Param { name: "lastEventId", kind: ParamKind::Text("x") },
        ],
        particular: &[
            refusal(403, "origin_not_allowed", &[Given::ForeignOrigin]),
            refusal(404, "session_not_found", &[Given::Query("sessionId=none"), Given::Query("sessionId=")]),
            refusal(404, "machine_not_found", &[Given::Query("machineId=none"), Given::Query("machineId=")]),
            refusal(
                403,
                "forbidden",
                &[Given::Query("sessionId=$foreign_session"), Given::Query("machineId=$foreign_machine")],
            ),
        ],
        ..Route::new("GET", "/api/events", Of::Namespace)
    },
];

/// A CLI's socket. Its token may come later, in CONNECT.
const SOCKET: Route = Route {
    query: &[],
    particular: &[
        refusal(
            400,
            "transport_unsupported",
            &[Given::Query(""), Given::Query("EIO=4&transport=polling"), Given::NoUpgrade],
        ),
        refusal(
            400,
            "protocol_unsupported",
            &[Given::Query("EIO=3&transport=websocket"), Given::Query("transport=websocket")],
        ),
        invalid("EIO", &[Given::Query("EIO=4&EIO=4&transport=websocket")]),
        refusal(403, "origin_not_allowed", &[Given::ForeignOrigin]),
    ],
    ..Route::new("GET", "/socket.io", Of::Anyone)
};
