//! The routes that read and upload files through the CLI of a session, or ask the CLI for its commands.

use session_gateway_hub::hub::core::ports::UploadFault;

use super::{MAX_SAFE, READ_STATUSES};
use crate::support::field_faults::{Field, Length, Param, ParamKind};
use crate::support::route::{
    Condition, FILE_TOO_LARGE, INACTIVE, Route, Scope, SessionState, UPLOAD_BREAKS, UPLOAD_FAILED, error, invalid_field,
};

const OFFSET: Param = Param { name: "offset", kind: ParamKind::Integer { min: 0, max: MAX_SAFE } };
const STAGED: Param = Param { name: "staged", kind: ParamKind::Flag };
const PATH: Param = Param { name: "path", kind: ParamKind::Path { required: true } };

pub const ROUTES: &[Route] = &[
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
];
