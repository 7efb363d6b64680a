//! The routes that read and upload files through the CLI of a session, or ask the CLI for its commands.

use session_gateway_hub::hub::core::ports::UploadFault;

use super::{MAX_SAFE, READ_STATUSES};
use crate::support::field_faults::*;
use crate::support::route::Condition::*;
use crate::support::route::*;

const OFFSET: Param = Param { name: "offset", kind: ParamKind::Integer { min: 0, max: MAX_SAFE } };
const STAGED: Param = Param { name: "staged", kind: ParamKind::Flag };
const PATH: Param = Param { name: "path", kind: ParamKind::Path { required: true } };

pub const ROUTES: &[Route] = &[
    Route::session("GET", "/api/sessions/{id}/git-status")
        .query(&[Param { name: "path", kind: ParamKind::Path { required: false } }, OFFSET])
        .statuses(READ_STATUSES),
    Route::session("GET", "/api/sessions/{id}/git-diff-numstat").query(&[STAGED]).statuses(READ_STATUSES),
    Route::session("GET", "/api/sessions/{id}/git-diff-file").query(&[PATH, STAGED]).statuses(READ_STATUSES),
    Route::session("GET", "/api/sessions/{id}/file").query(&[PATH]).statuses(&[400, 403, 404, 503]),
    Route::session("GET", "/api/sessions/{id}/files")
        .query(&[
            Param { name: "query", kind: ParamKind::Pattern },
            Param { name: "limit", kind: ParamKind::Integer { min: 1, max: 500 } },
        ])
        .statuses(&[400, 403, 404, 503]),
    Route::session("GET", "/api/sessions/{id}/directory")
        .query(&[Param { name: "path", kind: ParamKind::Path { required: false } }, OFFSET])
        .statuses(READ_STATUSES),
    Route::session("GET", "/api/sessions/{id}/slash-commands").statuses(READ_STATUSES),
    Route::session("GET", "/api/sessions/{id}/skills").statuses(READ_STATUSES),
    Route::session("POST", "/api/sessions/{id}/upload")
        .active()
        .body(&[
            Field::text("filename", 1, Length::CodePoints(255)),
            Field::base64("content"),
            Field::text("mimeType", 0, Length::CodePoints(255)),
        ])
        .call("uploadFile", r#"{"success":true,"path":"/x"}"#)
        .statuses(&[400, 403, 404, 409, 413, 500])
        .fails(&[
            INACTIVE,
            invalid_field("content", &[UploadFails(UploadFault::BadBase64)]),
            error(400, "invalid_body", &[UPLOAD_BREAKS, UploadFails(UploadFault::NotUtf8)]),
            error(408, "upload_stalled", &[UploadFails(UploadFault::Stalled)]),
            error(413, "too_large", &[FILE_TOO_LARGE, UploadFails(UploadFault::FieldsTooLarge)]),
            UPLOAD_FAILED,
            error(503, "overloaded", &[TooManyUploads]),
        ]),
    Route::session("POST", "/api/sessions/{id}/upload/delete")
        .active()
        .body(&[Field::text("path", 1, Length::CodePoints(4_096))])
        .call("deleteUploadFile", r#"{"success":true}"#)
        .fails(&[INACTIVE, UPLOAD_FAILED]),
];
