//! HTTP: the routes, the guards in front of them, and the only map from errors to statuses.
//!
//! [`edge`] is what the stateless worker does: who asks, which namespace, what can be answered without the object.
//! [`router`] is what the namespace's object answers; every request that reaches it has been authenticated.

pub mod cli;
pub mod cors;
pub mod edge;
pub mod error;
pub mod events;
pub mod extract;
pub mod history;
pub mod lifecycle;
pub mod machines;
pub mod messages;
pub mod permissions;
pub mod push;
pub mod query;
pub mod sessions;
pub mod uploads;
pub mod workspace;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderValue, header};
use tower_service::Service;

use crate::hub::Hub;
use crate::hub::error::Error;
use crate::store::response_budget::{Reservation, ResponseText};
use error::Refusal;

/// The route table. `GET .../messages` stands here for the sake of the whole; the worker answers it before.
pub fn router(hub: Arc<Hub>) -> Router {
    Router::new()
        .route("/api/sessions", get(sessions::list))
        .route("/api/sessions/{id}", get(sessions::show).patch(sessions::rename).delete(sessions::delete))
        .route("/api/sessions/{id}/messages", get(history::web).post(messages::send))
        .route("/api/sessions/{id}/abort", post(lifecycle::abort))
        .route("/api/sessions/{id}/switch", post(lifecycle::switch))
        .route("/api/sessions/{id}/resume", post(lifecycle::resume))
        .route("/api/sessions/{id}/archive", post(lifecycle::archive))
        .route("/api/sessions/{id}/permission-mode", post(lifecycle::permission_mode))
        .route("/api/sessions/{id}/model", post(lifecycle::model))
        .route("/api/sessions/{id}/permissions/{requestId}/approve", post(permissions::approve))
        .route("/api/sessions/{id}/permissions/{requestId}/deny", post(permissions::deny))
        .route("/api/sessions/{id}/git-status", get(workspace::git_status))
        .route("/api/sessions/{id}/git-diff-numstat", get(workspace::git_diff_numstat))
        .route("/api/sessions/{id}/git-diff-file", get(workspace::git_diff_file))
        .route("/api/sessions/{id}/file", get(workspace::file))
        .route("/api/sessions/{id}/files", get(workspace::files))
        .route("/api/sessions/{id}/directory", get(workspace::directory))
        .route("/api/sessions/{id}/slash-commands", get(workspace::slash_commands))
        .route("/api/sessions/{id}/skills", get(workspace::skills))
        .route("/api/sessions/{id}/upload", post(uploads::upload))
        .route("/api/sessions/{id}/upload/delete", post(uploads::delete))
        .route("/api/machines", get(machines::list))
        .route("/api/machines/{id}", get(machines::show))
        .route("/api/machines/{id}/spawn", post(machines::spawn))
        .route("/api/machines/{id}/paths/exists", post(machines::paths_exist))
        .route("/api/visibility", post(events::visibility))
        .route("/api/push/vapid-public-key", get(push::public_key))
        .route("/api/push/subscribe", post(push::subscribe).delete(push::unsubscribe))
        .route("/api/push/log", get(push::log))
        .route("/cli/sessions", post(cli::put_session))
        .route("/cli/sessions/{id}", get(cli::session))
        .route("/cli/sessions/{id}/messages", get(history::cli))
        .route("/cli/machines", post(cli::put_machine))
        .route("/cli/machines/{id}", get(cli::machine))
        .method_not_allowed_fallback(|| async { Refusal::wrong_method() })
        .fallback(|| async { Refusal::no_route() })
        .with_state(hub)
}

/// The largest answer that leaves whole, in bytes: at once it is in the runtime's memory and not in the hub's. A larger one
/// leaves part by part, as its client takes it, and needs a reservation until then.
pub const LARGE_ANSWER: usize = 8 * 1024 * 1024;

/// Answers a request, as headers and a whole body.
pub async fn answer(hub: &Hub, mut router: Router, request: Request) -> http::Response<Bytes> {
    let response = match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let has_reservation = response.extensions().get::<Arc<Reservation>>().is_some();
    let answer = finish(response).await;
    if has_reservation || answer.body().len() <= LARGE_ANSWER {
        return answer;
    }
    match hub.reserve_response(answer.body().len()) {
        Ok(reservation) => answer.map(|body| Reserved::wrap(body, reservation)),
        Err(error) => finish(Refusal::from(error).into_response()).await,
    }
}

/// Every answer of the hub: nothing of it may be stored by anybody on the way, or be taken for what it does not say it is.
pub async fn finish(response: Response) -> http::Response<Bytes> {
    let (mut parts, body) = response.into_parts();
    parts.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    parts.headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let bytes = match parts.extensions.remove::<Arc<Reservation>>() {
        Some(reservation) => Reserved::wrap(bytes, reservation),
        None => bytes,
    };
    http::Response::from_parts(parts, bytes)
}

/// A body that releases its reservation on drop.
struct Reserved<S> {
    body: Bytes,
    _reservation: S,
}

impl<S: Send + 'static> Reserved<S> {
    fn wrap(body: Bytes, reservation: S) -> Bytes {
        Bytes::from_owner(Self { body, _reservation: reservation })
    }
}

impl<S> AsRef<[u8]> for Reserved<S> {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// A JSON text as the body of a 200, with the reservation of a large one.
pub struct JsonText(ResponseText);

impl From<ResponseText> for JsonText {
    fn from(response: ResponseText) -> Self {
        Self(response)
    }
}

impl IntoResponse for JsonText {
    fn into_response(self) -> Response {
        let ResponseText { text, reservation } = self.0;
        let mut response = ([(header::CONTENT_TYPE, "application/json")], text).into_response();
        if let Some(reservation) = reservation {
            response.extensions_mut().insert(Arc::new(reservation));
        }
        response
    }
}

impl JsonText {
    /// A text that is not large.
    pub fn of(text: impl Into<String>) -> Self {
        Self(ResponseText { text: text.into(), reservation: None })
    }

    /// `{"<name>": <the value>}`.
    pub fn wrapped<T: serde::Serialize>(name: &str, value: &T) -> Result<Self, Error> {
        let text = serde_json::to_string(value).map_err(|e| Error::Unavailable(e.to_string()))?;
        Ok(Self::of(format!(r#"{{"{name}":{text}}}"#)))
    }

    /// `{"<name>": <the value>}` around a JSON text, which stays where it is: it may have 60 MB.
    pub fn around(name: &str, mut response: ResponseText) -> Self {
        response.text.insert_str(0, &format!(r#"{{"{name}":"#));
        response.text.push('}');
        Self(response)
    }

    /// `{"ok": true}`.
    pub fn ok() -> Self {
        Self::of(r#"{"ok":true}"#)
    }
}
