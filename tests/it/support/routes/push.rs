//! The routes of push subscriptions and of the visibility of a page.

use crate::support::field_faults::{Field, Length};
use crate::support::route::{Condition, NO_WRITES, Route, Scope, error, invalid_field};

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

pub const ROUTES: &[Route] = &[
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
            Field::keyword("notify", &["requests", "all"], r#""requests""#).optional(),
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
    Route { ..Route::new("GET", "/api/status", Scope::Namespace) },
];
