//! The routes of push subscriptions and of the visibility of a page.

use crate::support::field_faults::*;
use crate::support::route::Condition::*;
use crate::support::route::*;

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
    Route::namespace("POST", "/api/visibility")
        .body(&[
            Field::text("subscriptionId", 0, Length::Unlimited).valid(r#""$subscription""#),
            Field::keyword("visibility", &["visible", "hidden"], r#""visible""#),
        ])
        .fails(&[error(
            404,
            "subscription_not_found",
            &[
                Body(r#"{"subscriptionId":"none","visibility":"hidden"}"#),
                Body(r#"{"subscriptionId":"__proto__","visibility":"hidden"}"#),
                Body(r#"{"subscriptionId":"$foreign_subscription","visibility":"hidden"}"#),
            ],
        )]),
    Route::namespace("GET", "/api/push/vapid-public-key").fails(&[NO_WRITES]),
    Route::namespace("POST", "/api/push/subscribe")
        .body(&[
            ENDPOINT,
            Field::object("keys", KEYS),
            P256DH,
            AUTH,
            Field::text("device", 0, Length::Bytes(64)).optional(),
            Field::keyword("notify", &["requests", "all"], r#""requests""#).optional(),
        ])
        .statuses(&[400])
        .fails(&[
            invalid_field(
                "endpoint",
                &[
                    Body(subscription!("http://push.service.com/x")),
                    Body(subscription!("https://user@push.service.com/x")),
                    Body(subscription!("https://127.0.0.1/x")),
                    Body(subscription!("https://printer.local/x")),
                    Body(subscription!("http://localhost:9/x")),
                ],
            ),
            NO_WRITES,
        ]),
    Route::namespace("DELETE", "/api/push/subscribe")
        .body(&[Field::text("endpoint", 0, Length::Unlimited).valid(r#""https://push.service.com/x""#)])
        .statuses(&[400]),
    Route::namespace("GET", "/api/push/log"),
    Route::namespace("GET", "/api/status"),
];
