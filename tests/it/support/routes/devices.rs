//! The routes of the devices, and of the tokens of a namespace.

use crate::support::field_faults::*;
use crate::support::route::Condition::*;
use crate::support::route::*;

pub const NAME: Field = Field::text("name", 1, Length::CodePoints(64)).valid(r#""Phone""#);
pub const KIND: Field = Field::keyword("kind", &["browser", "phone", "cli"], r#""phone""#);
const UNKNOWN_CODE: ExpectedError = error(404, "unknown_code", &[UnknownId]);
const NOT_OPERATOR: ExpectedError = error(401, "unauthorized", &[WebToken]);

pub const ROUTES: &[Route] = &[
    Route::namespace("GET", "/api/devices"),
    Route::namespace("POST", "/api/devices/codes")
        .body(&[NAME.optional(), KIND.optional()])
        .fails(&[NO_WRITES, error(409, "too_many_codes", &[TooManyCodes])]),
    Route::namespace("GET", "/api/devices/codes/{deviceId}").fails(&[UNKNOWN_CODE]),
    Route::namespace("GET", "/api/devices/requests/{code}").fails(&[UNKNOWN_CODE, NO_WRITES]),
    Route::namespace("POST", "/api/devices/requests/{code}")
        .body(&[Field::keyword("decision", &["approve", "deny"], r#""approve""#)])
        .fails(&[UNKNOWN_CODE, NO_WRITES]),
    Route::device("PATCH", "/api/devices/{id}").body(&[NAME]).fails(&[NO_WRITES]),
    Route::device("DELETE", "/api/devices/{id}").fails(&[NO_WRITES]),
    Route::namespace("GET", "/api/namespaces/generation").fails(&[NOT_OPERATOR]),
    Route::namespace("POST", "/api/namespaces/revoke").fails(&[NOT_OPERATOR, NO_WRITES]),
    Route::namespace("GET", "/api/namespaces/export")
        .fails(&[NOT_OPERATOR, invalid_field("cursor", &[Query("cursor=x"), Query("cursor=a&cursor=b")])]),
    Route::namespace("POST", "/api/namespaces/import")
        .body(&[
            Field::keyword("step", &["begin", "continue", "rows", "end"], r#""end""#),
            Field::opaque("rows", Opaque::Anything, None).optional(),
        ])
        .fails(&[
            NOT_OPERATOR,
            error(409, "namespace_not_empty", &[Body(r#"{"step":"begin"}"#), Body(r#"{"step":"continue"}"#)]),
            invalid_field("step", &[Body(r#"{"step":"rows","rows":[]}"#), Body(r#"{"step":"rows"}"#)]),
        ]),
    Route::namespace("POST", "/api/namespaces/delete").fails(&[NOT_OPERATOR]),
    Route::namespace("POST", "/api/namespaces/move")
        .body(&[Field::keyword("to", &["DB"], r#""DB""#)])
        .fails(&[NOT_OPERATOR]),
];
