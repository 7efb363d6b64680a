//! The routes of the devices, and of the tokens of a namespace.

use crate::support::field_faults::{Field, Length, Opaque};
use crate::support::route::{Condition, ExpectedError, NO_WRITES, Route, Scope, error, invalid_field};

pub const NAME: Field = Field::text("name", 1, Length::CodePoints(64)).valid(r#""Phone""#);
pub const KIND: Field = Field::keyword("kind", &["browser", "phone", "cli"], r#""phone""#);
const UNKNOWN_CODE: ExpectedError = error(404, "unknown_code", &[Condition::UnknownId]);
const NOT_OPERATOR: ExpectedError = error(401, "unauthorized", &[Condition::WebToken]);

pub const ROUTES: &[Route] = &[
    Route::new("GET", "/api/devices", Scope::Namespace),
    Route {
        body: &[NAME.optional(), KIND.optional()],
        extra_errors: &[NO_WRITES, error(409, "too_many_codes", &[Condition::TooManyCodes])],
        ..Route::new("POST", "/api/devices/codes", Scope::Namespace)
    },
    Route { extra_errors: &[UNKNOWN_CODE], ..Route::new("GET", "/api/devices/codes/{deviceId}", Scope::Namespace) },
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
    Route {
        extra_errors: &[
            NOT_OPERATOR,
            invalid_field("cursor", &[Condition::Query("cursor=x"), Condition::Query("cursor=a&cursor=b")]),
        ],
        ..Route::new("GET", "/api/namespaces/export", Scope::Namespace)
    },
    Route {
        body: &[
            Field::keyword("step", &["begin", "continue", "rows", "end"], r#""end""#),
            Field::opaque("rows", Opaque::Anything, None).optional(),
        ],
        extra_errors: &[
            NOT_OPERATOR,
            error(
                409,
                "namespace_not_empty",
                &[Condition::Body(r#"{"step":"begin"}"#), Condition::Body(r#"{"step":"continue"}"#)],
            ),
            invalid_field(
                "step",
                &[Condition::Body(r#"{"step":"rows","rows":[]}"#), Condition::Body(r#"{"step":"rows"}"#)],
            ),
        ],
        ..Route::new("POST", "/api/namespaces/import", Scope::Namespace)
    },
    Route { extra_errors: &[NOT_OPERATOR], ..Route::new("POST", "/api/namespaces/delete", Scope::Namespace) },
    Route {
        body: &[Field::keyword("to", &["DB"], r#""DB""#)],
        extra_errors: &[NOT_OPERATOR],
        ..Route::new("POST", "/api/namespaces/move", Scope::Namespace)
    },
];
